//! The program itself, where the library cannot tell: what it does with its streams.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::process::{Command, Stdio};

use icecore_format::write::Writer;

#[test]
fn an_error_of_the_output_is_told_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("empty.icecore");
    let writer = Writer::create(File::create(&path).expect("created"), [7; 16]).expect("begun");
    writer.finish().expect("closed");
    for options in [&["top", "--json"][..], &["top"], &["info"]] {
        let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let mut report = Command::new(env!("CARGO_BIN_EXE_icecore-report"));
        report.args(options).arg(&path).stdout(full).stderr(Stdio::piped());
        let out = report.output().expect("it runs");
        let text = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), text.matches("error:").count()), (Some(2), 1), "{text}");
        assert!(text.ends_with("; free space there, or write elsewhere\n"), "{options:?}: {text}");
    }
}

/// Runs a view on what comes through a pipe; returns exit code, stdout and stderr.
fn piped(args: &[&str], sent: &[u8]) -> (Option<i32>, Vec<u8>, String) {
    let mut report = Command::new(env!("CARGO_BIN_EXE_icecore-report"));
    report.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = report.spawn().expect("it runs");
    // It may end without reading everything.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(sent));
    let out = child.wait_with_output().expect("ours");
    (out.status.code(), out.stdout, String::from_utf8_lossy(&out.stderr).into_owned())
}

/// The bytes of a recording without blocks.
fn empty() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("empty.icecore");
    let writer = Writer::create(File::create(&path).expect("created"), [7; 16]).expect("begun");
    writer.finish().expect("closed");
    std::fs::read(&path).expect("just written")
}

#[test]
fn every_view_reads_a_recording_from_stdin() {
    let bytes = empty();
    for view in ["summary", "top", "tree", "folded", "samples", "info"] {
        let (code, _, said) = piped(&[view, "-", "--json"], &bytes);
        assert_eq!((code, said.as_str()), (Some(0), ""), "{view}");
    }
    let (code, _, said) = piped(&["flame", "-", "-o", "-"], &bytes);
    assert!(code == Some(2) && said.contains("cannot draw a graph of no samples"), "{said}");
    let (code, out, _) = piped(&["info", "-", "--json"], &bytes[..bytes.len() - 10]);
    let out = String::from_utf8(out).expect("UTF-8");
    assert!(code == Some(0) && out.contains("\"closed\": false"), "{out}");
}

#[test]
fn what_comes_through_a_pipe_and_is_no_recording_is_called_by_its_name() {
    for (sent, cause) in [
        (&b""[..], "the recorder was stopped before it wrote anything"),
        (b"ICECOR\r\n", "shorter than the header"),
        (b"PERFILE2 and more", "this is a perf.data file"),
        (b"hello", "not an icecore recording"),
    ] {
        let (code, _, said) = piped(&["-"], sent);
        assert_eq!(code, Some(2));
        assert!(
            said.starts_with("error: cannot open the recording on stdin: ") && said.contains(cause),
            "{said}"
        );
    }
}

#[test]
fn a_missing_folder_for_temporary_files_is_named() {
    let mut report = Command::new(env!("CARGO_BIN_EXE_icecore-report"));
    report.arg("-").env("TMPDIR", "/no/such/folder").stdin(Stdio::piped()).stderr(Stdio::piped());
    let out = report.spawn().and_then(std::process::Child::wait_with_output).expect("it runs");
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("`/no/such/folder`") && said.contains("set TMPDIR"), "{said}");
}

#[test]
fn without_a_file_the_newest_recording_of_the_folder_is_shown() {
    let dir = tempfile::tempdir().expect("a directory");
    let run = |args: &[&str]| {
        let mut report = Command::new(env!("CARGO_BIN_EXE_icecore-report"));
        let out = report.args(args).current_dir(&dir).stdin(Stdio::null()).output().expect("it runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let none =
        "there is no *.icecore in this folder; name a recording, or make one with `icecore-record -- CMD`";
    for args in [&[][..], &["top"], &["info"], &["--comm", "x"]] {
        let (code, _, said) = run(args);
        assert!(code == Some(2) && said.contains(none), "{args:?}: {said}");
    }
    for name in ["old.icecore", "new.icecore"] {
        std::fs::write(dir.path().join(name), empty()).expect("written");
    }
    let old = File::options().write(true).open(dir.path().join("old.icecore")).expect("just written");
    old.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(60)).expect("ours");
    let note = "no file was named: this is new.icecore, the newest recording here\n";
    for args in [&[][..], &["top"], &["info"], &["depth", "--json"]] {
        let (code, _, said) = run(args);
        assert_eq!((code, said.as_str()), (Some(0), note), "{args:?}");
    }
    assert_eq!(run(&["top", "--quiet"]).2, "");
    let (_, page, _) = run(&["--comm", "x"]);
    assert!(page.contains("new.icecore") && page.contains("comm x"), "{page}");
    // What writes or checks a recording is not guessed.
    for args in [&["verify"][..], &["cut", "-o", "x"], &["pack", "-o", "x"], &["repair", "-o", "x"]] {
        let (code, _, said) = run(args);
        assert!(code == Some(2) && said.contains("<FILE>"), "{args:?}: {said}");
    }
}
