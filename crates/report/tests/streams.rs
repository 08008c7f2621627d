//! The program itself, where the library cannot tell: what it does with its streams.

use std::fs::{File, OpenOptions};
use std::process::{Command, Stdio};

use icecore_format::write::Writer;

#[test]
fn an_error_of_the_output_is_told_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("empty.icecore");
    let writer = Writer::create(File::create(&path).expect("created"), [7; 16]).expect("begun");
    writer.finish().expect("closed");
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut report = Command::new(env!("CARGO_BIN_EXE_icecore-report"));
    let out = report
        .args(["top", "--json"])
        .arg(&path)
        .stdout(full)
        .stderr(Stdio::piped())
        .output()
        .expect("it runs");
    let text = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), text.matches("error:").count()), (Some(2), 1), "{text}");
}
