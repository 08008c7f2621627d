//! Processes whose paths and process ids differ from those of the recorder.

use std::os::unix::fs::symlink;
use std::path::Path;

use icecore_tests::machine::{Recorded, Sample, copy, jit, report};

use super::{FIRST, OPTIONS, SECOND, assert_named, names, until};

/// Returns a root folder with a folder for temporary files and the program.
fn root() -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::create_dir(root.path().join("tmp")).expect("room");
    copy(&jit(), &root.path().join("jit"));
    root
}

#[test]
fn root_a_process_in_a_root_and_with_a_number_of_its_own_is_named() {
    let commands: [&[&str]; 2] = [&[], &["unshare", "-pf", "--mount-proc"]];
    for outside in commands {
        let root = root();
        let inside = ["chroot", &root.path().display().to_string(), "/jit", "map", "900"].map(str::to_owned);
        let command: Vec<String> = outside.iter().map(|word| (*word).to_owned()).chain(inside).collect();
        let recorded = Recorded::new(&OPTIONS, &command);
        drop(root);
        assert_named(&names(&recorded.samples(&[])), &["alpha", "beta /x y.js:1:2"]);
    }
}

#[test]
fn root_a_link_out_of_the_root_of_a_process_is_not_followed() {
    let (root, outside) = (root(), tempfile::tempdir_in("/var/tmp").expect("a folder for temporary files"));
    std::fs::remove_dir(root.path().join("tmp")).expect("it is empty");
    // In the root this path leads to a folder of the same name, in which the program writes.
    symlink(outside.path(), root.path().join("tmp")).expect("room");
    let inner = root.path().join(outside.path().strip_prefix("/").expect("it begins so"));
    std::fs::create_dir_all(&inner).expect("room");
    let path = root.path().display().to_string();
    let mut recorder = icecore_tests::machine::record();
    let file = outside.path().join("r.icecore");
    recorder.args(OPTIONS).arg("-o").arg(&file).args(["--", "chroot", &path, "/jit", "map", "900"]);
    let mut recorder = recorder.spawn().expect("the recorder runs");
    // Outside, another process may have the same number: the test puts wrong names there.
    let inner_map = until(|| std::fs::read_dir(&inner).ok()?.flatten().find(|entry| is_map(&entry.path())));
    let wrong = outside.path().join(inner_map.file_name());
    std::fs::write(wrong, format!("{FIRST:x} 100 wrong\n{SECOND:x} 100 wrong\n")).expect("room");
    assert!(recorder.wait().expect("ours").success());
    let out = report(&["samples".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let samples: Vec<Sample> =
        out.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect();
    assert_named(&names(&samples), &["alpha", "beta /x y.js:1:2"]);
}

fn is_map(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "map")
}
