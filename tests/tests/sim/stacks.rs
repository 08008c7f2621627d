//! Recordings with registers and stacks: which stacks are repaired, and how cut, merge, repair and verify treat them.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::SessionV1;
use icecore_tests::inside;
use icecore_tests::synthetic::{broken_walks, session};
use serde_json::Value;

/// Runs a command line inside `dir`; returns exit code and stdout.
fn report(dir: &Path, line: &str) -> (u8, String) {
    let (code, out, err) = inside::run_in(dir, &line.split(' ').collect::<Vec<_>>());
    assert!(code < 2, "{line}: {err}");
    (code, out)
}

fn samples(dir: &Path, line: &str) -> Vec<Value> {
    let (_, text) = report(dir, &format!("samples {line} --json"));
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn told() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    broken_walks().write(&dir.path().join("whole"), true).expect("written");
    dir
}

/// Returns how a user stack ended, and its callers as offsets in their image, the innermost first.
fn callers(sample: &Value) -> (&str, Vec<u64>) {
    let frames = sample["frames"].as_array().expect("a list");
    let offsets = frames[1..].iter().filter_map(|frame| frame["offset"].as_u64());
    (sample["ended"].as_str().expect("text"), offsets.collect())
}

#[test]
fn stacks_are_mended_as_far_as_they_were_copied() {
    let dir = told();
    let samples = samples(dir.path(), "DIR/whole");
    assert_eq!(samples.len(), 400);
    // Every other stack of the first thread was not copied whole, and no other sample completes it.
    let cut = samples.iter().filter(|sample| sample["tid"] == 100 && sample["ended"] == "not_copied").count();
    assert!(cut > 0 && samples.iter().any(|sample| sample["tid"] == 100 && sample["ended"] == "unwound"));
    for sample in &samples {
        let expected: (&str, &[u64]) = match sample["tid"].as_u64() {
            Some(100) if sample["ended"] == "unwound" => ("unwound", &[0x1100, 0x1080, 0x1040]),
            Some(100) => ("not_copied", &[0x1100]),
            Some(101) => ("not_copied", &[0x1100]),
            Some(200) => ("unwound", &[0x1100, 0x1040]),
            _ => ("root", &[0x1040]),
        };
        assert_eq!(callers(sample), (expected.0, expected.1.to_vec()), "{sample}");
    }
}

#[test]
fn any_number_of_threads_says_the_same() {
    let dir = told();
    let with = |threads: u8| {
        let views = ["samples", "folded", "top -n 0", "summary"];
        views.map(|view| report(dir.path(), &format!("{view} DIR/whole --threads {threads}")))
    };
    let one = with(1);
    for threads in [2, 3, 8] {
        assert_eq!(with(threads), one, "{threads} threads");
    }
}

#[test]
fn a_cut_recording_has_the_stacks_of_the_whole() {
    let dir = told();
    for filter in ["--pid 100", "--pid 200", "--tid 101", "--cpu 1", "--from 0.03 --to 0.09", "--pid 300"] {
        report(dir.path(), &format!("cut DIR/whole -o DIR/piece {filter} --force"));
        let (piece, whole) =
            (samples(dir.path(), "DIR/piece"), samples(dir.path(), &format!("DIR/whole {filter}")));
        assert!(!piece.is_empty(), "{filter}");
        assert_eq!(piece, whole, "{filter}");
        assert_eq!(report(dir.path(), "verify DIR/piece").0, 0, "{filter}");
        let recording = Recording::open(&dir.path().join("piece")).expect("it opens");
        let items = |kind| {
            let entries = recording.entries().iter().filter(|entry| entry.header.kind == kind);
            entries.map(|entry| u64::from(entry.header.items)).sum::<u64>()
        };
        let with_stacks = if filter == "--pid 300" {
            0
        } else {
            piece.iter().filter(|row| row["tgid"] != 300).count() as u64
        };
        assert_eq!(items(Kind::SNAPSHOTS), with_stacks, "{filter}: those of its samples and no others");
    }
}

#[test]
fn what_other_processes_held_is_cut_away() {
    let dir = told();
    report(dir.path(), "cut DIR/whole -o DIR/piece --pid 200");
    let recording = Recording::open(&dir.path().join("piece")).expect("it opens");
    let items = |kind| {
        let entries = recording.entries().iter().filter(move |entry| entry.header.kind == kind);
        entries.map(|entry| entry.header.items).sum::<u32>()
    };
    // There are two return addresses; three innermost frames, which lie at three depths; and two outer ones.
    assert_eq!(items(Kind::STACK_CODE), 2);
    assert!(items(Kind::STACK_PIECES) <= 5 && items(Kind::STACK_NODES) <= 5);
}

#[test]
fn a_merged_recording_has_the_stacks_of_both() {
    let dir = told();
    let mut other = broken_walks();
    other.uuid = Some([2; 16]);
    other.session = Some(SessionV1 { host: "other".into(), ..session() });
    // Its contents have other numbers.
    other.held.code.reverse();
    let turned = other.held.code.len() as u32 - 1;
    for word in other.held.pieces.iter_mut().flat_map(|piece| &mut piece.words) {
        if let icecore_format::records::Word::Code(id) = word {
            *id = turned - *id;
        }
    }
    other.write(&dir.path().join("other"), true).expect("written");
    report(dir.path(), "merge DIR/whole DIR/other -o DIR/both");
    assert_eq!(report(dir.path(), "verify DIR/both").0, 0);
    let strip = |mut rows: Vec<Value>| {
        rows.iter_mut().for_each(|row| row["host"] = Value::Null);
        rows
    };
    let one = strip(samples(dir.path(), "DIR/whole"));
    for host in ["station", "other"] {
        assert_eq!(strip(samples(dir.path(), &format!("DIR/both --host {host}"))), one, "{host}");
    }
    report(dir.path(), "cut DIR/both -o DIR/piece --host other");
    assert_eq!(strip(samples(dir.path(), "DIR/piece")), one, "cut out again");
}

#[test]
fn where_blocks_of_stacks_are_damaged_walks_stay() {
    let dir = told();
    let path = dir.path().join("whole");
    let bytes = std::fs::read(&path).expect("just written");
    let recording = Recording::from_bytes(&bytes).expect("own file");
    for kind in [Kind::STACK_CODE, Kind::STACK_PIECES, Kind::STACK_NODES, Kind::SNAPSHOTS] {
        let entry = recording.entries().iter().find(|entry| entry.header.kind == kind).expect("it has one");
        let mut damaged = bytes.clone();
        damaged[entry.off as usize + 70] ^= 1;
        std::fs::write(dir.path().join("damaged"), damaged).expect("room");
        let rows = samples(dir.path(), "DIR/damaged");
        assert_eq!(rows.len(), 400, "{kind:?}");
        for row in rows.iter().filter(|row| row["tid"] == 100) {
            // Without the addresses of code nothing leads on: only the walk remains.
            assert_eq!(callers(row), ("root", vec![0x1040]), "{kind:?}: {row}");
        }
        assert_eq!(report(dir.path(), "verify DIR/damaged").0, 1, "{kind:?}");
        report(dir.path(), "repair DIR/damaged -o DIR/repaired --force");
        assert_eq!(samples(dir.path(), "DIR/repaired"), rows, "{kind:?}");
        assert_eq!(report(dir.path(), "verify DIR/repaired").0, 0, "{kind:?}");
    }
}
