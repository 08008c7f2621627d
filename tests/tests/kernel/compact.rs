//! `compact`: every report on the new file equals that on the old one, and removed or redacted data is nowhere in the file.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_tests::inside;
use icecore_tests::machine::{Recorded, stacks_without_frames};
use icecore_tests::synthetic::{broken_walks, story};
use serde_json::Value;

/// Runs a command line inside `dir`; returns its output, in which the name of the recording is replaced.
fn report(dir: &Path, line: &str) -> String {
    let text = inside::text(dir, line);
    ["whole", "compact"].iter().fold(text, |text, name| text.replace(name, "RECORDING"))
}

/// Returns a folder with `whole`: walks that were wrong, sampled beside programs whose stacks were not copied.
fn told() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    broken_walks().write(&dir.path().join("walks"), true).expect("written");
    story().write(&dir.path().join("told"), true).expect("written");
    // A recording may be in a file only once: these are different ones.
    report(dir.path(), "cut DIR/told -o DIR/story");
    report(dir.path(), "cut DIR/walks -o DIR/again");
    report(dir.path(), "merge DIR/walks DIR/story DIR/again -o DIR/whole");
    dir
}

const VIEWS: [&str; 9] = [
    "top -n 0",
    "top -n 0 --by thread",
    "top -n 0 --by image --json",
    "top -n 0 --by address --json",
    "tree",
    "folded",
    "samples",
    "samples --json",
    "health --json",
];
const FILTERS: [&str; 9] = [
    "",
    " --pid 100",
    " --tid 101,200",
    " --comm main",
    " --from 0.03 --to 0.05",
    " --cpu 1",
    " --kernel",
    " --user",
    " --pid 100 --from 50ms",
];

/// Compares all views of `DIR/whole` and `DIR/compact`.
fn compare(dir: &Path, filters: &[&str]) {
    for filter in filters {
        for view in VIEWS {
            let [whole, compact] =
                ["whole", "compact"].map(|name| report(dir, &format!("{view} DIR/{name}{filter}")));
            assert!(whole == compact, "{view}{filter}:\n{whole}\n{compact}");
        }
    }
}

fn kinds(path: &Path) -> Vec<Kind> {
    let bytes = std::fs::read(path).expect("written");
    let recording = Recording::from_bytes(&bytes).expect("opens");
    recording.entries().iter().map(|entry| entry.header.kind).collect()
}

const LEFT_OUT: [Kind; 5] =
    [Kind::STACK_CODE, Kind::STACK_PIECES, Kind::STACK_NODES, Kind::SNAPSHOTS, Kind::UNWIND_RULES];

#[test]
fn every_report_on_the_compact_file_is_the_report_on_the_whole() {
    let dir = told();
    let out: Value =
        serde_json::from_str(&report(dir.path(), "compact DIR/whole -o DIR/compact --json")).expect("JSON");
    assert_eq!((&out["unwound"], &out["repaired"]), (&600.into(), &600.into()), "{out}");
    compare(dir.path(), &FILTERS);
    assert!(report(dir.path(), "verify DIR/compact").contains("all is well"));
    let (before, after) = (kinds(&dir.path().join("whole")), kinds(&dir.path().join("compact")));
    assert!(LEFT_OUT[..4].iter().all(|kind| before.contains(kind)));
    assert!(!LEFT_OUT.iter().any(|kind| after.contains(kind)), "{after:?}");
    let notes = report(dir.path(), "info DIR/compact --json");
    assert!(notes.contains("without registers and stack memory"), "{notes}");
}

#[test]
fn what_is_compact_can_be_compacted_cut_and_merged_again() {
    let dir = told();
    report(dir.path(), "compact DIR/whole -o DIR/first");
    report(dir.path(), "compact DIR/first -o DIR/compact");
    compare(dir.path(), &FILTERS[..1]);
    report(dir.path(), "cut DIR/first -o DIR/compact --force --pid 100");
    for view in ["folded", "samples --json"] {
        let cut = report(dir.path(), &format!("{view} DIR/compact"));
        assert_eq!(cut, report(dir.path(), &format!("{view} DIR/whole --pid 100")), "{view}");
    }
    report(dir.path(), "merge DIR/first DIR/told -o DIR/merged");
    assert!(report(dir.path(), "verify DIR/merged").contains("all is well"));
}

#[test]
fn root_real_stacks_are_the_same_and_take_a_fraction_of_the_room() {
    let recorded = Recorded::new(
        &["-F", "999"],
        &[stacks_without_frames().as_os_str(), "deep".as_ref(), "700".as_ref()],
    );
    let dir = tempfile::tempdir().expect("a directory");
    let [whole, compact] = ["whole", "compact"].map(|name| dir.path().join(name));
    std::fs::copy(recorded.path(), &whole).expect("copied");
    report(dir.path(), "compact DIR/whole -o DIR/compact");
    compare(dir.path(), &FILTERS[..1]);
    let [before, after] = [whole, compact].map(|path| path.metadata().expect("there").len());
    println!("{before} bytes, compact {after}");
    assert!(after < before);
}

/// Returns all contents of a file, unpacked, and the output of `info`.
fn content(dir: &Path, name: &str) -> Vec<u8> {
    let bytes = std::fs::read(dir.join(name)).expect("written");
    let recording = Recording::from_bytes(&bytes).expect("opens");
    let payload = |entry| recording.payload(entry).expect("sound").as_bytes().to_vec();
    let payloads = recording.entries().iter().flat_map(payload);
    payloads.chain(report(dir, &format!("info DIR/{name} --json")).into_bytes()).collect()
}

fn holds(content: &[u8], text: &str) -> bool {
    content.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn what_is_redacted_is_nowhere_and_what_is_not_stays() {
    let dir = told();
    let whole = content(dir.path(), "whole");
    let words =
        [("args", "-F"), ("paths", "bare"), ("comm", "kworker"), ("labels", "\"42\""), ("host", "station")];
    for (what, word) in words {
        assert!(holds(&whole, word), "{word}");
        report(dir.path(), &format!("compact DIR/whole -o DIR/compact --force --redact {what}"));
        let left = content(dir.path(), "compact");
        for (other, word) in words {
            assert_eq!(holds(&left, word), other != what, "{word} without {what}");
        }
        assert!(report(dir.path(), "verify DIR/compact").contains("all is well"));
    }
    report(dir.path(), "compact DIR/whole -o DIR/compact --force --redact args,paths,comm,labels,host");
    let left = content(dir.path(), "compact");
    assert!(words.iter().all(|(_, word)| !holds(&left, word)));
    assert!(holds(&left, "entry_SYSCALL_64"), "names of functions stay");
}

#[test]
fn pseudonyms_are_the_same_in_every_recording_and_other_ones_with_a_key() {
    let dir = told();
    std::fs::write(dir.path().join("key"), "nobody knows").expect("written");
    let images = |name: &str, options: &str| {
        report(dir.path(), &format!("compact DIR/{name} -o DIR/compact --force --redact paths{options}"));
        let top: Value = serde_json::from_str(&report(dir.path(), "top DIR/compact --by image -n 0 --json"))
            .expect("JSON");
        let rows = top["rows"].as_array().expect("a list").iter();
        rows.map(|row| row["image"].as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
    };
    let whole = images("whole", "");
    assert!(!whole.is_empty() && images("walks", "").iter().all(|path| whole.contains(path)));
    let keyed = images("whole", " --redact-key DIR/key");
    let secret = |path: &&String| path.starts_with("/");
    assert!(keyed.iter().filter(secret).all(|path| !whole.contains(path)), "{keyed:?}");
    assert!(keyed.iter().any(|path| secret(&path)), "{keyed:?}");
}
