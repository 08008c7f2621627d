//! Tests recordings that are torn, damaged, newer than this build, or wrong: the report reads them as far as it can.

use std::io::{self, Write};
use std::path::Path;

use icecore_format::block::{BlockHeader, Kind};
use icecore_format::header::FileHeader;
use icecore_format::read::Recording;
use icecore_report::{Streams, run};
use icecore_tests::synthetic::story;
use serde_json::Value;

/// Runs a view with `--json` on bytes; returns exit code, document and stderr.
fn view(bytes: &[u8], view: &str) -> (u8, Value, String) {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("x.icecore");
    std::fs::write(&path, bytes).expect("written");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    let file = path.display().to_string();
    let code = run(["icecore-report", view, &file, "--json", "--threads", "2"], &mut streams);
    let text = String::from_utf8(err).expect("UTF-8").replace(&dir.path().display().to_string(), "DIR");
    (code, serde_json::from_slice(&out).unwrap_or(Value::Null), text)
}

fn bytes() -> Vec<u8> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("story.icecore");
    story().write(&path, true).expect("written");
    std::fs::read(&path).expect("read back")
}

/// Returns offset and header of every block of a kind.
fn blocks(bytes: &[u8], kind: Kind) -> Vec<(usize, BlockHeader)> {
    let recording = Recording::from_bytes(bytes).expect("opens");
    let entries = recording.entries().iter().filter(|entry| entry.header.kind == kind);
    entries.map(|entry| (entry.off as usize, entry.header)).collect()
}

/// Writes a changed block header back, in a file without index.
fn rewrite(bytes: &mut Vec<u8>, off: usize, header: &BlockHeader) {
    let seed = FileHeader::decode(bytes).expect("a header").seed();
    bytes[off..off + 64].copy_from_slice(&header.encode(seed));
    bytes.truncate(bytes.len() - 32);
}

#[test]
fn torn_anywhere_every_view_still_reads_the_whole_blocks() {
    let bytes = bytes();
    let mut samples_before = 0;
    for cut in (64..bytes.len()).step_by(97) {
        let (code, summary, err) = view(&bytes[..cut], "summary");
        assert_eq!((code, err.as_str()), (0, ""), "cut at {cut}");
        assert_eq!(summary["closed"], false);
        let samples = summary["samples"].as_u64().expect("a number");
        assert!(samples >= samples_before, "cut at {cut}");
        samples_before = samples;
        for other in ["top", "tree", "folded", "info"] {
            assert_eq!(view(&bytes[..cut], other).0, 0, "{other} cut at {cut}");
        }
    }
    assert_eq!(samples_before, 530);
}

#[test]
fn a_damaged_block_is_left_out_and_its_place_is_told() {
    for (kind, name) in [(Kind::SAMPLES, "samples"), (Kind::STACKS, "stacks"), (Kind::TASKS, "tasks")] {
        let mut bytes = bytes();
        let (off, _) = blocks(&bytes, kind)[0];
        bytes[off + 70] ^= 1;
        let (code, summary, _) = view(&bytes, "summary");
        assert_eq!(code, 0);
        let damage = &summary["damage"][0];
        assert_eq!(damage["offset"], off as u64);
        let cause = damage["cause"].as_str().expect("text");
        assert!(cause.starts_with(&format!("{name} block: checksum of the block payload")), "{cause}");
        assert_ne!(summary["verdict"], "good");
        let (code, verified, _) = view(&bytes, "verify");
        assert_eq!((code, &verified["problems"][0]["offset"]), (1, &damage["offset"]));
    }
}

#[test]
fn samples_of_lost_stacks_and_lost_tasks_are_not_dropped() {
    let mut bytes = bytes();
    for kind in [Kind::STACKS, Kind::TASKS] {
        let (off, _) = blocks(&bytes, kind)[0];
        bytes[off + 70] ^= 1;
    }
    let (_, top, _) = view(&bytes, "top");
    assert_eq!(top["total_samples"], 530);
    assert_eq!(top["rows"][0]["name"], "[stack lost]");
    assert_eq!(top["rows"][0]["reason"], "stack_lost");
    assert_eq!(top["rows"][0]["self_samples"], 530);
    let (_, summary, _) = view(&bytes, "summary");
    assert_eq!(summary["processes"][0]["comm"], "?");
}

#[test]
fn unknown_kinds_and_newer_versions_are_skipped_and_counted() {
    let whole = bytes();
    for (kind, version) in [(Kind(900), 1), (Kind::SAMPLES, 2)] {
        let mut bytes = whole.clone();
        let (off, header) = blocks(&bytes, Kind::SAMPLES)[0];
        rewrite(&mut bytes, off, &BlockHeader { kind, version, ..header });
        let (code, info, _) = view(&bytes, "info");
        assert_eq!(code, 0);
        assert_eq!(info["unknown"][0]["kind"], kind.name());
        assert_eq!(info["unknown"][0]["version"], version);
        assert_eq!(info["unknown"][0]["blocks"], 1);
        assert_eq!(view(&bytes, "summary").1["samples"], 430);
    }
}

#[test]
fn what_is_no_recording_is_refused_with_exit_code_2() {
    for (bytes, cause) in [
        (&b"PERFILE2 and more"[..], "this is a perf.data file, not an icecore recording"),
        (&b"\x7fELF and more of it, which is no recording"[..], "not an icecore recording"),
        (&b""[..], "shorter than the header"),
        (&b"ICECOR\r\n"[..], "shorter than the header"),
    ] {
        let (code, document, err) = view(bytes, "summary");
        assert_eq!((code, document), (2, Value::Null));
        assert!(err.starts_with("error: cannot open recording `DIR/x.icecore`: "), "{err}");
        assert!(err.contains(cause), "{err}");
    }
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams::plain(&mut out, &mut err);
    assert_eq!(run(["icecore-report", "/no/such/file"], &mut streams), 2);
    let text = String::from_utf8(err).expect("UTF-8");
    assert_eq!(
        text,
        "error: cannot open recording `/no/such/file`: No such file or directory (os error 2)\n"
    );
}

/// A reader that has closed its end.
struct Gone;

impl Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

#[test]
fn a_broken_pipe_is_no_failure() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("story.icecore");
    story().write(&path, true).expect("written");
    for line in [
        &["summary"][..],
        &["top", "--json"],
        &["samples"],
        &["samples", "--json"],
        &["flame", "-o", "-"],
        &["folded"],
        &["info", "--json"],
    ] {
        let (mut out, mut err) = (Gone, Vec::new());
        let mut streams = Streams::plain(&mut out, &mut err);
        let file = path.display().to_string();
        let args = ["icecore-report", "--quiet"].iter().chain(line).copied().chain([file.as_str()]);
        assert_eq!(run(args, &mut streams), 0, "{line:?}");
        let err = String::from_utf8_lossy(&err);
        assert!(err.lines().all(|line| line.starts_with("warning: ")), "{err}");
    }
    assert!(Path::new(&path).exists());
}
