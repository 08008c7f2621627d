//! The cache of names: the second report equals the first, also when files are gone, and a damaged or foreign cache is not trusted.

use std::path::Path;
use std::process::{Command, Output};

use icecore_tests::machine::{Recorded, has_ebpf, inlining, program, text};
use serde_json::Value;

/// Runs the report with a cache in a folder.
fn report(cache: &Path, args: &[&dyn AsRef<std::ffi::OsStr>]) -> Output {
    let mut report = Command::new(program("icecore-report"));
    report.env("XDG_CACHE_HOME", cache).args(args.iter().map(|arg| arg.as_ref()));
    let out = report.output().expect("the report runs");
    assert!(out.status.success(), "{}", text(&out.stderr));
    out
}

#[test]
fn root_what_a_report_finds_out_is_there_for_the_next() {
    if !has_ebpf() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = inlining(dir.path());
    let recorded = Recorded::new(&["-F", "997", "-q"], &[program.as_os_str()]);
    let (path, cache) = (recorded.path(), dir.path().join("cache"));
    let lines = |more: &[&dyn AsRef<std::ffi::OsStr>]| {
        let args: [&dyn AsRef<std::ffi::OsStr>; 4] = [&"top", &path, &"--by", &"line"];
        text(&report(&cache, &[&args, more].concat()).stdout)
    };
    let stats = |options: &[&str]| -> Value {
        let mut args: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"cache", &"--json"];
        args.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
        serde_json::from_slice(&report(&cache, &args).stdout).expect("JSON")
    };
    let bare = lines(&[&"--no-cache"]);
    assert!(bare.contains("inlined.c:3"), "{bare}");
    assert_eq!(stats(&[])["images"], 0, "--no-cache keeps nothing");
    assert_eq!(lines(&[]), bare);
    let kept = stats(&[]);
    assert!(kept["images"].as_u64() > Some(0) && kept["bytes"].as_u64() > Some(200), "{kept}");
    assert_eq!(lines(&[]), bare);

    // The cache file is torn: the report finds the names again, and writes it whole.
    let files = || {
        let entries = std::fs::read_dir(cache.join("icecore")).expect("it is there");
        entries.map(|entry| entry.expect("ours").path()).collect::<Vec<_>>()
    };
    for file in files() {
        let bytes = std::fs::read(&file).expect("ours");
        std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("room");
    }
    assert_eq!(lines(&[]), bare);

    // The program is gone, but the cache still answers, unless the report must not use it.
    std::fs::remove_file(&program).expect("it was there");
    assert_eq!(lines(&[]), bare);
    assert!(!lines(&[&"--no-cache"]).contains("inlined.c:3"));
    assert_eq!(stats(&["--clear"])["cleared"], true);
    assert_eq!(files().len(), 0);
    assert!(!lines(&[]).contains("inlined.c:3"));
}
