//! `make install` and `make uninstall`, with the programs that are built already.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use icecore_tests::machine::{program, text};

/// Runs a target of the Makefile with a prefix below a folder; nothing is compiled.
fn make(target: &str, folder: &Path) {
    let programs = program("icecore-report").parent().expect("a folder").to_owned();
    let out = Command::new("make")
        .args([target, "CARGO=true", "PREFIX=/opt/icecore"])
        .arg(format!("BIN={}", programs.display()))
        .arg(format!("DESTDIR={}", folder.display()))
        .env_remove("MAKEFLAGS")
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .output()
        .expect("make runs");
    assert!(out.status.success(), "{}{}", text(&out.stdout), text(&out.stderr));
}

#[test]
fn installed_programs_run_are_stripped_and_can_be_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let bin = folder.path().join("opt/icecore/bin");
    make("install", folder.path());
    for name in ["icecore-record", "icecore-report"] {
        let (built, installed) = (program(name), bin.join(name));
        let said = Command::new(&installed).arg("--version").output().expect("it runs");
        assert!(text(&said.stdout).starts_with(name), "{said:?}");
        let [before, after] = [&built, &installed].map(|path| std::fs::metadata(path).expect("it is there"));
        assert_eq!(after.permissions().mode() & 0o777, 0o755);
        assert!(after.len() < before.len() / 2, "{name}: {} of {} bytes", after.len(), before.len());
        let sections = Command::new("readelf").arg("-SW").arg(&installed).output().expect("readelf runs");
        let sections = text(&sections.stdout);
        assert!(sections.contains(".text"), "{sections}");
        assert!(!sections.contains(".debug_info") && !sections.contains(".symtab"), "{sections}");
    }
    std::fs::write(bin.join("other"), "").expect("writable");
    make("uninstall", folder.path());
    let left =
        std::fs::read_dir(&bin).expect("it is there").map(|entry| entry.expect("readable").file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["other"]);
}
