//! Recordings of this machine in the formats of other tools, read by programs of these: totals and functions are ours.

use std::path::{Path, PathBuf};

use icecore_tests::exports::{assert_all_equal, assert_equal_without_marks};
use icecore_tests::machine::{record, text};

/// Records a command.
fn recorded(dir: &Path, options: &[&str], command: &[&str]) -> PathBuf {
    let path = dir.join("r.icecore");
    let mut recorder = record();
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
    let events = ["-F", "2000", "-e", "cpu-clock", "-e", "page-faults", "--off-cpu"];
    let path = recorded(dir.path(), &events, &command);
    assert_all_equal(&path, &[]);
}

#[test]
fn root_exports_of_python_have_our_totals_and_functions() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = "
def f(n):
    return f(n - 1) if n else sum(i * i for i in range(300))
import time
end = time.monotonic() + 1
while time.monotonic() < end:
    f(40)
";
    let path = recorded(dir.path(), &["-F", "499"], &["python3", "-c", program]);
    assert_all_equal(&path, &[]);
}

#[test]
fn root_exports_of_waits_and_wakers_have_our_totals_and_functions() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let pipes = "(for i in 1 2 3; do sleep 0.1; echo $i; done) | while read x; do expr $x + 1; done; perl -e 'for (1..2e6) { $x += $_ }'";
    let path = recorded(dir.path(), &["-F", "1000", "--off-cpu", "--wakers"], &["sh", "-c", pipes]);
    assert_all_equal(&path, &[]);
}

#[test]
fn root_exports_of_a_whole_machine_have_our_totals_and_functions() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let search = ["find", "/usr/share", "-name", "*.no"];
    let path = recorded(dir.path(), &["-a", "-F", "299", "--off-cpu"], &search);
    for format in ["pprof", "callgrind", "csv", "csv-samples", "folded", "otlp", "perf-script", "perfetto"] {
        assert_equal_without_marks(&path, format, &[]);
    }
    // Their readers take seconds for each thread.
    for format in ["firefox", "speedscope"] {
        assert_equal_without_marks(&path, format, &["--comm", "find"]);
    }
}
