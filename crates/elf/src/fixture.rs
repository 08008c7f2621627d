//! Programs for tests.

use std::process::Command;

/// A program that was assembled; its code begins at 0x10000.
pub(crate) fn assembled(source: &str) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("x.s"), format!("{source}\n")).expect("written");
    let args = [
        "-nostdlib",
        "-static",
        "-Wl,-Ttext=0x10000",
        "-Wl,--build-id=none",
        "-Wl,--eh-frame-hdr",
        "x.s",
        "-o",
        "x",
    ];
    let status = Command::new("cc").args(args).current_dir(dir.path()).status().expect("a compiler");
    assert!(status.success());
    std::fs::read(dir.path().join("x")).expect("just made")
}
