//! `cut`: a report on a piece of a recording equals one on the whole with the same filters.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::SamplesV1;
use icecore_tests::inside::{json, text, typed as report};
use icecore_tests::synthetic::story;
use serde_json::Value;

fn told(close: bool) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    story().write(&dir.path().join("whole"), close).expect("written");
    dir
}

/// Compares all views of `DIR/piece` with those of `DIR/whole` under filters.
fn compare(dir: &Path, filter: &str) {
    for by in ["function", "line", "image", "process", "thread", "host"] {
        let piece = json(dir, &format!("top DIR/piece -n 0 --by {by}"));
        let whole = json(dir, &format!("top DIR/whole -n 0 --by {by}{filter}"));
        assert_eq!(piece["rows"], whole["rows"], "{by}{filter}");
        assert_eq!(piece["total_weight"], whole["total_weight"], "{by}{filter}");
    }
    let piece = text(dir, "samples DIR/piece --json");
    assert_eq!(piece, text(dir, &format!("samples DIR/whole --json{filter}")), "{filter}");
    let piece = text(dir, "folded DIR/piece");
    assert_eq!(piece, text(dir, &format!("folded DIR/whole{filter}")), "{filter}");
}

const FILTERS: [&str; 10] = [
    "",
    " --from 0.5",
    " --from 0.61 --to 1.4",
    " --pid 200",
    " --pid 300,2 --to 1500ms",
    " --tid 101",
    " --comm cc",
    " --comm jit --cpu 0",
    " --cpu 1 --from 1s",
    " --pid 4711",
];

/// Returns the numbers of a receipt that describe the whole recording, also after `cut`.
fn shortened(summary: &Value) -> Value {
    let mut receipt = summary["receipt"].clone();
    if let Some(receipt) = receipt.as_object_mut() {
        for of_cut in ["ended_by", "cut_from_ns", "cut_to_ns", "kept_samples"] {
            receipt.remove(of_cut);
        }
    }
    receipt
}

/// A piece is as long as the filters allow.
fn says_what_it_lacks(piece: &Value, whole: &Value, filter: &str) {
    let words: Vec<&str> = filter.split(' ').collect();
    let time = |end: &str| words.windows(2).find(|pair| pair[0] == end).map(|pair| pair[1]);
    let in_seconds = |time: &str| time.replace("1500ms", "1.5").replace('s', "");
    let lacks = ["--from", "--to"]
        .into_iter()
        .filter_map(|end| Some(format!("cut {end} {} s", in_seconds(time(end)?))));
    let expected: Vec<String> = ["duration".to_owned()].into_iter().chain(lacks).collect();
    let seconds = [piece, whole].map(|summary| summary["duration_s"].as_f64().expect("a number"));
    // Without a receipt only the last sample shows when the recording ended.
    if piece["receipt"] != Value::Null {
        assert_eq!(seconds[0], seconds[1], "{filter}");
        let said = piece["receipt"]["ended_by"].as_array().expect("a list");
        let (kept, said): (Vec<&Value>, Vec<&Value>) =
            said.iter().partition(|by| by.as_str().is_some_and(|by| by.starts_with("samples kept: ")));
        assert_eq!(serde_json::json!(said), serde_json::json!(expected), "{filter}");
        let samples = piece["samples_in_file"].as_u64().expect("a number");
        let all_kept = kept.is_empty() && samples == whole["samples_in_file"];
        assert!(
            all_kept || kept.last().is_some_and(|by| **by == *format!("samples kept: {samples}")),
            "{filter}"
        );
    }
}

#[test]
fn a_report_on_the_piece_is_the_report_on_the_whole_with_the_filters() {
    for close in [true, false] {
        let dir = told(close);
        for filter in FILTERS {
            let cut = json(dir.path(), &format!("cut DIR/whole -o DIR/piece --force{filter}"));
            compare(dir.path(), filter);
            assert!(text(dir.path(), "verify DIR/piece").contains("all is well"), "{filter}");
            let summary = json(dir.path(), "DIR/piece");
            assert_eq!(summary["samples_in_file"], cut["samples"]);
            assert_eq!(summary["lost_by_cause"], json(dir.path(), "DIR/whole")["lost_by_cause"]);
            let whole = json(dir.path(), &format!("DIR/whole{filter}"));
            assert_eq!(shortened(&summary), shortened(&whole), "{filter}");
            says_what_it_lacks(&summary, &whole, filter);
            assert_eq!(summary["damage"], serde_json::json!([]));
            assert_eq!(summary["closed"], true);
        }
    }
}

#[test]
fn a_piece_of_a_piece_is_a_piece_and_says_what_was_cut() {
    let dir = told(true);
    text(dir.path(), "cut DIR/whole -o DIR/half --from 1s");
    let out = text(dir.path(), "cut DIR/half -o DIR/piece --comm make");
    assert!(out.contains("(comm make)") && out.starts_with("wrote piece ("), "{out}");
    compare(dir.path(), " --from 1s --comm make");
    let notes = json(dir.path(), "DIR/piece")["notes"].clone();
    let notes: Vec<&str> =
        notes.as_array().expect("notes").iter().map(|note| note.as_str().expect("text")).collect();
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes[1].contains("keeping from 1 s: ") && notes[2].contains("keeping comm make: "), "{notes:?}");
}

#[test]
fn names_images_and_stacks_that_nobody_needs_are_gone() {
    let dir = told(true);
    text(dir.path(), "cut DIR/whole -o DIR/piece --comm jit");
    let bytes = std::fs::read(dir.path().join("piece")).expect("written");
    let whole = std::fs::read(dir.path().join("whole")).expect("written");
    let recording = Recording::from_bytes(&bytes).expect("opens");
    let items = |recording: &Recording, kind| -> u32 {
        let blocks = recording.entries().iter().filter(|entry| entry.header.kind == kind);
        blocks.map(|entry| entry.header.items).sum()
    };
    let before = Recording::from_bytes(&whole).expect("opens");
    for kind in [Kind::STRINGS, Kind::TASKS, Kind::IMAGES, Kind::LIFECYCLE, Kind::MAPPINGS, Kind::STACKS] {
        let (now, then) = (items(&recording, kind), items(&before, kind));
        assert!(0 < now && now < then, "{}: {now} of {then}", kind.name());
    }
    assert_eq!(items(&recording, Kind::KERNEL_SYMBOLS), 0);
    assert!(!bytes.windows(9).any(|window| window == b"/bin/make"), "no name of another program");
}

#[test]
fn small_blocks_become_large_ones_and_know_their_processes() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut b = story();
    b.block_len = 7;
    b.write(&dir.path().join("whole"), true).expect("written");
    text(dir.path(), "cut DIR/whole -o DIR/piece --pid 200");
    compare(dir.path(), " --pid 200");
    let recording = Recording::open(&dir.path().join("piece")).expect("opens");
    let blocks: Vec<_> =
        recording.entries().iter().filter(|entry| entry.header.kind == Kind::SAMPLES).collect();
    let [block] = &blocks[..] else { panic!("{} blocks", blocks.len()) };
    assert!(block.header.processes.may_hold(200) && !block.header.processes.may_hold(100));
    let payload = recording.payload(block).expect("whole");
    assert!(payload.view::<SamplesV1>().expect("samples").rows().expect("rows").len() > 100);
}

#[test]
fn damage_is_cut_away_and_noted_as_lost() {
    let dir = told(true);
    let bytes = std::fs::read(dir.path().join("whole")).expect("written");
    let recording = Recording::from_bytes(&bytes).expect("opens");
    for kind in [Kind::SAMPLES, Kind::STACKS, Kind::TASKS, Kind::STRINGS, Kind::SESSION, Kind::MAPPINGS] {
        let entry = recording.entries().iter().find(|entry| entry.header.kind == kind).expect("it has one");
        for tail in [0, 8] {
            let mut damaged = bytes[..bytes.len() - tail].to_vec();
            damaged[entry.off as usize + 70] ^= 1;
            std::fs::write(dir.path().join("whole"), &damaged).expect("written");
            let cut = json(dir.path(), "cut DIR/whole -o DIR/piece --force --cpu 1");
            assert_ne!(cut["damage"], serde_json::json!([]), "{}", kind.name());
            compare(dir.path(), " --cpu 1");
            let lost = json(dir.path(), "DIR/piece")["lost_by_cause"]["damaged"].clone();
            let expected = if kind == Kind::SAMPLES { Value::from(entry.header.items) } else { Value::Null };
            assert_eq!(lost, expected, "{}", kind.name());
        }
    }
}

#[test]
fn torn_anywhere_a_file_can_still_be_cut() {
    let dir = told(true);
    let bytes = std::fs::read(dir.path().join("whole")).expect("written");
    for len in (64..bytes.len()).step_by(307) {
        std::fs::write(dir.path().join("whole"), &bytes[..len]).expect("written");
        text(dir.path(), "cut DIR/whole -o DIR/piece --force --from 0.3");
        compare(dir.path(), " --from 0.3");
    }
}

#[test]
fn of_several_hosts_one_can_be_cut_out() {
    let dir = tempfile::tempdir().expect("a directory");
    story().write(&dir.path().join("a"), true).expect("written");
    let mut b = story();
    b.uuid = Some([9; 16]);
    let here = icecore_tests::synthetic::session();
    let (host, start_unix_ns) = ("web".to_owned(), here.start_unix_ns + 500_000_000);
    b.session = Some(icecore_format::records::SessionV1 { host, start_unix_ns, ..here });
    b.write(&dir.path().join("b"), true).expect("written");
    text(dir.path(), "merge DIR/a DIR/b -o DIR/whole");
    for filter in [" --host web", " --host station --comm make", " --from 1s --to 2s", " --host nobody", ""] {
        text(dir.path(), &format!("cut DIR/whole -o DIR/piece --force{filter}"));
        compare(dir.path(), filter);
    }
}

#[test]
fn a_session_that_nobody_dated_stays_where_it_stood() {
    let dir = told(true);
    let mut b = story();
    b.uuid = Some([9; 16]);
    // The first samples are half a second late, and the session is placed by them.
    b.samples.retain(|sample| sample.time_ns >= icecore_tests::synthetic::START_NS + 500_000_000);
    b.write(&dir.path().join("b"), true).expect("written");
    let mut bytes = std::fs::read(dir.path().join("b")).expect("written");
    bytes[64 + 70] ^= 1;
    std::fs::write(dir.path().join("b"), &bytes).expect("written");
    std::fs::rename(dir.path().join("whole"), dir.path().join("a")).expect("renamed");
    text(dir.path(), "merge DIR/a DIR/b -o DIR/whole");
    assert!(text(dir.path(), "verify DIR/whole").contains("all is well"));
    for filter in [" --from 1s", " --comm cc", " --to 100ms"] {
        text(dir.path(), &format!("cut DIR/whole -o DIR/piece --force{filter}"));
        compare(dir.path(), filter);
        assert!(text(dir.path(), "verify DIR/piece").contains("all is well"));
    }
}

#[test]
fn what_would_lose_a_recording_is_refused() {
    let dir = told(true);
    for (line, why) in [
        ("cut DIR/whole -o DIR/whole", "this is the recording itself"),
        ("cut DIR/whole -o DIR/whole --force", "this is the recording itself"),
        ("cut DIR/whole -o DIR/x --from 2 --to 1", "--from 2 s is not before --to 1 s"),
        ("cut DIR/whole", "--output"),
    ] {
        let before = std::fs::read(dir.path().join("whole")).expect("there");
        let (code, out, err) = report(dir.path(), line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(err.contains(why), "{line}: {err}");
        assert_eq!(std::fs::read(dir.path().join("whole")).expect("there"), before);
    }
}
