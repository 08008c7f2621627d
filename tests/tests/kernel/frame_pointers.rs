//! Programs whose code keeps frame pointers, through real eBPF: only the top of their stacks is copied, and no frame is missing.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::SnapshotsV1;
use icecore_tests::machine::{Recorded, Sample, alone, alone_with_a_gap, stacks_without_frames};

const OPTIONS: [&str; 3] = ["-F", "997", "-q"];
/// Stacks are copied unless a walk along frame pointers is trusted; without it, most are walked by tables.
const COPY: [&str; 2] = ["--unwind", "copy"];
/// More bytes than the top of a stack (`TOP_LEN` of bpf/wire.h) and the frame of a leaf's caller, and fewer than the whole stack.
const LITTLE: u32 = 1 << 10;
/// The bytes of the stack of a sample in the assembly of `alone.c`.
const CHAIN: [&str; 6] = ["leaf", "calls", "outer", "spend", "begin", "_start"];

fn recorded(options: &[&str], program: &Path, arguments: &[&str]) -> Recorded {
    let program = program.to_str().expect("a path of this test");
    Recorded::new(&[&OPTIONS[..], options].concat(), &[&[program], arguments].concat())
}

/// Returns how many bytes of each stack were copied, in the order of time.
fn copied(recorded: &Recorded) -> Vec<u32> {
    let recording = Recording::open(&recorded.path()).expect("it was just written");
    let blocks = recording.entries().iter().filter(|entry| entry.header.kind == Kind::SNAPSHOTS);
    let rows = blocks.flat_map(|entry| {
        let payload = recording.payload(entry).expect("it is whole");
        payload.view::<SnapshotsV1>().expect("it is valid").rows().expect("it is valid")
    });
    rows.map(|row| row.copied).collect()
}

/// Returns the samples in the leaf without a frame.
fn in_leaf(recorded: &Recorded) -> Vec<Sample> {
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.names("user").first() == Some(&"leaf"));
    samples
}

#[test]
fn root_only_the_top_is_copied_where_all_code_keeps_frame_pointers() {
    let auto = recorded(&COPY, &alone(), &["1500"]);
    let copied = copied(&auto);
    let small = copied.iter().filter(|len| **len <= LITTLE).count();
    let bytes = std::fs::metadata(auto.path()).expect("it was written").len();
    println!("{small} of {} stacks are tops; {} bytes per sample", copied.len(), bytes / copied.len() as u64);
    // The recorder trusts the program from the moment at which it has examined its images.
    let first = copied.iter().position(|len| *len <= LITTLE).expect("it is trusted");
    assert!(copied.len() > 500 && first * 10 < copied.len() * 8, "{first} of {} came before", copied.len());
    assert!(small * 100 >= (copied.len() - first) * 95, "{small} of {} are tops", copied.len() - first);
    let samples = in_leaf(&auto);
    assert!(samples.len() > 300, "{}", samples.len());
    for sample in &samples {
        assert_eq!(sample.names("user"), CHAIN, "{}", sample.text("ended"));
    }
    // Most of them end like the walk: its frames follow those that it has skipped.
    let walked = samples.iter().filter(|sample| sample.text("ended") == "root").count();
    assert!(walked * 10 > small * 7, "{walked} of {small}");
    // Without the top the caller is missing: this shows that the test can fail.
    let walked = in_leaf(&recorded(&["--unwind", "fp"], &alone(), &["300"]));
    assert!(walked.iter().all(|sample| !sample.has("calls")) && walked.len() > 50, "{}", walked.len());
}

#[test]
fn root_trust_ends_with_code_that_nobody_has_looked_at() {
    let library = stacks_without_frames();
    let library = library.to_str().expect("a path of this test");
    // The program loads the library after half of the time.
    let copied = copied(&recorded(&COPY, &alone(), &["800", "map", library]));
    let tops = |copied: &[u32]| copied.iter().filter(|len| **len <= LITTLE).count();
    let (before, after) = copied.split_at(copied.len() * 2 / 3);
    assert!(copied.len() > 500 && tops(before) > 0, "it was trusted at first");
    // Where the program ends, its stack is no longer than a top.
    assert!(tops(after) * 50 <= after.len(), "{} of {} are tops", tops(after), after.len());
}

#[test]
fn root_trust_ends_with_the_program() {
    let next = stacks_without_frames();
    let next = next.to_str().expect("a path of this test");
    let recorded = recorded(&COPY, &alone(), &["600", "exec", next, "chain", "600"]);
    let mut samples = in_leaf(&recorded);
    samples.retain(|sample| sample.text("comm") == "stacks");
    assert!(samples.len() > 150, "{}", samples.len());
    for sample in &samples {
        assert!(sample.names("user").starts_with(&["leaf", "b", "a", "chain", "main"]), "{}", sample.0);
    }
    let tops = copied(&recorded).iter().filter(|len| **len <= LITTLE).count();
    assert!(tops > 50, "the first program was trusted: {tops}");
}

#[test]
fn root_walks_through_code_without_frame_pointers_are_suspect() {
    let suspect = |recorded: &Recorded| recorded.json("health", &[])["suspect_share"].as_f64();
    let walked = recorded(&["--unwind", "fp"], &alone_with_a_gap(), &["400"]);
    assert!(in_leaf(&walked).iter().all(|sample| !sample.has("spend")), "the walk has skipped it");
    let share = suspect(&walked).expect("the program has rules");
    println!("{share} of the walks are suspect");
    assert!(share > 0.9, "{share}");
    let advice = walked.json("health", &[])["advice"].to_string();
    assert!(advice.contains("lack callers") && advice.contains("--unwind auto"), "{advice}");
    // A leaf without a frame has a caller that no walk shows.
    let leaves = suspect(&recorded(&["--unwind", "fp"], &alone(), &["300"])).expect("the program has rules");
    assert!(leaves > 0.5 && leaves < 1.0, "{leaves}");
    for program in [alone(), alone_with_a_gap()] {
        let share = suspect(&recorded(&["--unwind", "dwarf"], &program, &["300"]));
        assert!(share.is_none_or(|share| share < 0.01), "{share:?}");
    }
}
