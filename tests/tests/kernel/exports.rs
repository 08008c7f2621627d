//! Recordings of this machine in the formats of other tools, read by programs of these: totals and functions are ours.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::exports::assert_all_equal;
use icecore_tests::machine::{record, target, text};

/// Records a command.
fn recorded(dir: &Path, options: &[&str], command: &[&str]) -> PathBuf {
    let path = dir.join("r.icecore");
    let mut recorder: Command = record();
    recorder.args(options).arg("-o").arg(&path).arg("--").args(command);
    let out = recorder.output().expect("it runs");
    assert!(out.status.success(), "{}", text(&out.stderr));
    path
}

#[test]
fn root_exports_of_a_compiler_have_our_totals_and_functions() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/programs/stacks.c");
    let object = dir.path().join("o.o");
    let command = ["cc", "-O2", "-c", source, "-o", object.to_str().expect("UTF-8")];
    let path =
        recorded(dir.path(), &["-F", "2000", "--off-cpu", "-e", "page-faults", "-e", "cpu-clock"], &command);
    assert_all_equal(&path, &[]);
}
