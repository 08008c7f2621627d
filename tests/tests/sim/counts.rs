//! Samples that are missing, so that only the count in the receipt shows them.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{
    Cause, Change, EndReason, ImageKind, Loss, LossesV1, Origin, ReceiptV1, Symbol,
};
use icecore_format::write::Writer;
use icecore_tests::inside::run_in;
use icecore_tests::synthetic::{Builder, START_NS, story, waiting};
use serde_json::Value;

/// Writes a closed recording, and a copy that lacks some blocks of samples but is otherwise whole; returns how many samples each
/// has.
fn write(dir: &Path) -> (u64, u64) {
    let mut story = story();
    let all = story.samples.len() as u64;
    story.receipt = Some(ReceiptV1 {
        end_ns: START_NS + 2_000_000_000,
        end_reason: EndReason::DURATION,
        samples: all,
        ..ReceiptV1::default()
    });
    story.losses.clear();
    story.write(&dir.join("whole"), true).expect("written");
    let whole = Recording::open(&dir.join("whole")).expect("whole");
    let file = std::fs::File::create(dir.join("fewer")).expect("room");
    let mut writer = Writer::create(file, whole.header().uuid).expect("room");
    let mut kept = 0;
    for (number, entry) in whole.entries().iter().enumerate() {
        if entry.header.kind == Kind::SAMPLES && number % 2 == 0 {
            continue;
        }
        kept += if entry.header.kind == Kind::SAMPLES { u64::from(entry.header.items) } else { 0 };
        writer.append_stored(&entry.header, whole.stored(entry).expect("whole")).expect("room");
    }
    writer.finish().expect("room");
    assert!(kept > 0 && kept < all);
    (all, kept)
}

fn json(dir: &Path, line: &[&str]) -> (u8, Value) {
    let (code, out, err) = run_in(dir, &[line, &["--json"]].concat());
    (code, serde_json::from_str(&out).unwrap_or_else(|_| panic!("{line:?}: {err}")))
}

#[test]
fn samples_that_only_the_receipt_knows_of_are_told() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (all, kept) = write(dir.path());
    let (code, said) = json(dir.path(), &["verify", "DIR/whole"]);
    assert_eq!((code, &said["samples_expected"]), (0, &Value::from(all)));
    let (code, said) = json(dir.path(), &["verify", "DIR/fewer"]);
    assert_eq!((code, &said["samples"], &said["samples_expected"]), (1, &kept.into(), &all.into()));
    let causes: Vec<&str> =
        said["problems"].as_array().expect("a list").iter().filter_map(|p| p["cause"].as_str()).collect();
    let expected =
        format!("{kept} of {all} samples are in the file: the others are lost, and nothing else says so");
    assert!(causes.contains(&&*expected), "{causes:?}");
    for view in ["health", "summary"] {
        let (_, said) = json(dir.path(), &[view, "DIR/fewer"]);
        assert_eq!(said["samples_missing"], all - kept, "{view}");
        assert_eq!(said["verdict"], "misleading", "{view}");
        let problems = said["problems"].as_array().expect("a list");
        let is_told = |text: &Value| text.as_str().is_some_and(|text| text.contains("samples were lost"));
        assert!(problems.iter().any(is_told), "{view}: {problems:?}");
        assert_eq!(json(dir.path(), &[view, "DIR/whole"]).1["samples_missing"], 0);
    }
}

#[test]
fn a_repaired_file_says_what_it_lacks() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (all, kept) = write(dir.path());
    let (code, said) = json(dir.path(), &["repair", "DIR/fewer", "-o", "DIR/repaired"]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(json(dir.path(), &["verify", "DIR/repaired"]).0, 0);
    let (_, said) = json(dir.path(), &["health", "DIR/repaired"]);
    assert_eq!((&said["lost"]["damaged"], &said["samples_missing"]), (&(all - kept).into(), &0.into()));
    // A second repair changes nothing.
    assert_eq!(json(dir.path(), &["merge", "DIR/repaired", "-o", "DIR/merged"]).0, 0);
    assert_eq!(json(dir.path(), &["verify", "DIR/merged"]).0, 0);
}

#[test]
fn a_lost_block_that_the_index_still_knows_is_counted_once() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (all, _) = write(dir.path());
    let mut bytes = std::fs::read(dir.path().join("whole")).expect("written");
    let whole = Recording::from_bytes(&bytes).expect("whole");
    let entry = *whole.entries().iter().find(|entry| entry.header.kind == Kind::SAMPLES).expect("samples");
    drop(whole);
    // This damages the header of a block, so that no scan finds the block.
    bytes[entry.off as usize..][..64].fill(0);
    std::fs::write(dir.path().join("torn"), &bytes).expect("room");
    assert_eq!(json(dir.path(), &["verify", "DIR/torn"]).0, 1);
    assert_eq!(json(dir.path(), &["health", "DIR/torn"]).1["samples_missing"], entry.header.items);
    assert_eq!(json(dir.path(), &["repair", "DIR/torn", "-o", "DIR/repaired"]).0, 0);
    assert_eq!(json(dir.path(), &["verify", "DIR/repaired"]).0, 0);
    let repaired = Recording::open(&dir.path().join("repaired")).expect("whole");
    let lost =
        repaired.entries().iter().filter(|entry| entry.header.kind == Kind::LOSSES).flat_map(|entry| {
            let payload = repaired.payload(entry).expect("whole");
            payload.view::<LossesV1>().expect("losses").rows().collect::<Vec<_>>()
        });
    let damaged: u64 = lost.filter(|loss| loss.cause == Cause::DAMAGED).map(|loss| loss.count).sum();
    assert_eq!(damaged, u64::from(entry.header.items), "of {all}");
}

#[test]
fn cut_and_compact_files_count_what_they_keep() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (all, kept) = write(dir.path());
    for (from, there) in [("DIR/whole", all), ("DIR/fewer", kept)] {
        let lines: [&[&str]; 4] = [
            &["cut", from, "--comm", "make"],
            &["cut", from, "--from", "0.5", "--to", "1.5"],
            &["compact", from],
            &["merge", from],
        ];
        for line in lines {
            let (code, _) = json(dir.path(), &[line, &["-o", "DIR/out", "--force"]].concat());
            assert_eq!(code, 0, "{line:?}");
            let (code, said) = json(dir.path(), &["verify", "DIR/out"]);
            let is_whole = line[0] != "merge" || there == all;
            assert_eq!(code, u8::from(!is_whole), "{line:?}: {said}");
            if line[0] == "cut" {
                assert!(
                    said["samples"].as_u64().is_some_and(|samples| samples > 0 && samples < there),
                    "{line:?}"
                );
            }
            if is_whole {
                assert_eq!(said["samples"], said["samples_expected"], "{line:?}");
            }
        }
    }
}

#[test]
fn weights_whose_sum_has_more_than_64_bits_keep_their_shares() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut b = Builder::default();
    let image = b.image(ImageKind::FILE, "/bin/heavy");
    b.change(1_000, Change::FOUND, 100, 1, "heavy");
    b.map(2_000, 100, 0x1_0000, image, Origin::SCAN);
    for (name, start) in [("often", 0x1000), ("seldom", 0x1100)] {
        b.symbols.push(Symbol::new(image, start..start + 0x100, name));
    }
    let task = b.task(100, 100, "heavy");
    // Three and one of the largest weights that there are, and others that do not matter.
    for at in 0..40 {
        let (function, weight) =
            if at % 10 == 9 { (0x1_0110, u64::MAX - at) } else { (0x1_0010, u64::MAX / 3) };
        b.sample(at * 1_000_000, 0, task, &[function], &[]).weight = weight;
    }
    b.write(&dir.path().join("heavy"), true).expect("written");
    let (_, top) = json(dir.path(), &["top", "DIR/heavy"]);
    let share = |name: &str| {
        let rows = top["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["name"] == name).expect("a row");
        row["self"].as_f64().expect("a number") / top["total_weight"].as_f64().expect("a number")
    };
    assert!((share("often") - 0.75).abs() < 1e-9 && (share("seldom") - 0.25).abs() < 1e-9, "{top:#}");
    let whole = top["total_weight"].as_f64().expect("a number");
    let unit = top["unit"].as_str().expect("text");
    let (_, exponent) = unit.split_once('^').expect("a power of two");
    let power: i32 = exponent.split(' ').next().and_then(|text| text.parse().ok()).expect("a number");
    assert!((whole * 2f64.powi(power) / (16.0 * u64::MAX as f64) - 1.0).abs() < 1e-9, "{unit} {whole}");
}

/// Returns a sum of weights, in the unit of its event.
fn whole(row: &Value) -> f64 {
    let (unit, weight) = (row["unit"].as_str().expect("text"), row["weight"].as_f64().expect("a number"));
    let power = unit.split_once('^').and_then(|(_, rest)| rest.split(' ').next()?.parse().ok());
    weight * 2f64.powi(power.unwrap_or_default())
}

#[test]
fn sums_of_more_than_64_bits_are_told_of_events_that_are_not_shown_and_of_losses() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut b = waiting(&["cpu-clock", "off-cpu"]);
    let waits = b.samples.iter_mut().filter(|sample| sample.event == 1);
    waits.for_each(|sample| sample.weight = u64::MAX);
    let lost = Loss { event: 0, weight: u64::MAX, ..Loss::of(Cause::RING_FULL_SAMPLE, 3) };
    b.losses = vec![lost, lost];
    b.write(&dir.path().join("heavy"), true).expect("written");
    let is = |found: f64, times: f64| (found / (times * u64::MAX as f64) - 1.0).abs() < 1e-9;
    let (_, summary) = json(dir.path(), &["summary", "DIR/heavy"]);
    let row = |list: &str| summary[list].as_array().and_then(|rows| rows.first()).expect("a row").clone();
    assert!(is(whole(&row("events_left_out")), 3.0), "{summary:#}");
    assert!(is(whole(&row("lost_by_event")), 2.0), "{summary:#}");
    // What was sampled weighs 300 ms.
    assert!(row("lost_by_event")["share"].as_f64().is_some_and(|share| share > 0.999), "{summary:#}");
    assert!(is(whole(&row("events_shown")) / 0.3e9 * u64::MAX as f64, 1.0), "{summary:#}");
    // Wall time has no unit but ns.
    assert!(summary["wall_time"].is_null() && summary["achieved_hz"].as_f64().is_some(), "{summary:#}");
    let (code, out, err) = run_in(dir.path(), &["top", "DIR/heavy", "--event", "off-cpu"]);
    assert!(code == 0 && out.contains("2^3 ns"), "{out} {err}");
}
