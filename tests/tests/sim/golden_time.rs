//! Compares `depth` and `timeline` of synthetic recordings with their snapshots, as text and as JSON, at one and at several
//! threads.
//!
//! `INSTA_UPDATE=always cargo test -p icecore-tests --test sim -- golden_time::` rewrites `tests/golden/`.

use std::collections::BTreeMap;
use std::path::Path;

use icecore_format::records::{Change, EndReason, EventV1, ImageKind, Origin, ReceiptV1, SessionV1, WalkEnd};
use icecore_tests::inside::{golden, report};
use icecore_tests::synthetic::{Builder, START_NS, meaning, session, story};
use serde_json::Value;

fn told(builder: Builder) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    builder.write(&dir.path().join("story.icecore"), true).expect("written");
    dir
}

/// Returns the story, with every third sample of another event, and with stacks of `make` that were cut at 6 frames.
fn two_events() -> Builder {
    let mut builder = story();
    let event = |name: &str, unit: &str, period| EventV1 {
        name: name.into(),
        unit: unit.into(),
        frequency_hz: 0,
        period,
        meaning: meaning(name),
    };
    let events = vec![event("cpu-clock", "ns", 1_000_000), event("page-faults", "faults", 1)];
    builder.session = Some(SessionV1 { events, ..session() });
    for sample in builder.samples.iter_mut().step_by(3) {
        (sample.event, sample.weight) = (1, 1);
    }
    let deep = builder.stack(&[0x1_0200, 0x1_0108, 0x1_0108, 0x1_0108, 0x1_0108, 0x1_0050]);
    for sample in builder.samples.iter_mut().filter(|sample| sample.user_stack == deep).take(4) {
        sample.user_end = WalkEnd::DEPTH;
    }
    builder
}

#[test]
fn depths_of_a_story() {
    let dir = told(story());
    let file = "DIR/story.icecore";
    golden(dir.path(), "depth", &["depth", file]);
    golden(dir.path(), "depth.json", &["depth", file, "--json"]);
    golden(dir.path(), "depth_thread", &["depth", file, "--by", "thread", "--kernel", "-n", "2"]);
    golden(
        dir.path(),
        "depth_filtered.json",
        &["depth", file, "--comm", "make", "--to", "1s", "--user", "--json"],
    );
    let empty = told(Builder::default());
    golden(empty.path(), "depth_empty", &["depth", file]);
}

#[test]
fn depths_of_two_events() {
    let dir = told(two_events());
    golden(dir.path(), "depth_events", &["depth", "DIR/story.icecore"]);
    golden(dir.path(), "depth_events.json", &["depth", "DIR/story.icecore", "--json", "-n", "3"]);
}

#[test]
fn samples_of_an_event_are_those_that_have_it() {
    let dir = told(two_events());
    let lines = |options: &[&str]| -> Vec<Value> {
        let args = [&["samples", "DIR/story.icecore", "--json"], options].concat();
        report(dir.path(), &args).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    };
    let all = lines(&[]);
    for event in ["cpu-clock", "page-faults"] {
        let expected: Vec<&Value> = all.iter().filter(|sample| sample["event"] == event).collect();
        assert!(!expected.is_empty() && expected.len() < all.len());
        assert_eq!(lines(&["--event", event]).iter().collect::<Vec<_>>(), expected);
        let top = report(dir.path(), &["top", "DIR/story.icecore", "--json", "--event", event]);
        let top: Value = serde_json::from_str(&top).expect("JSON");
        assert_eq!(
            (&top["unit"], &top["filter"]),
            (
                &Value::from(if event == "cpu-clock" { "ns" } else { "faults" }),
                &Value::from(format!("event {event}")),
            )
        );
        let weight: u64 = expected.iter().filter_map(|sample| sample["weight"].as_u64()).sum();
        assert_eq!(top["total_weight"], weight);
    }
    let both = lines(&["--event", "cpu-clock", "--event", "page-faults"]);
    assert_eq!(both, all);
    assert_eq!(lines(&["--event", "cpu-clock,page-*"]), all);
}

/// Makes twenty seconds of two functions at 100 Hz; the second has a tenth of the time, and half of it from 8 to 12 s.
fn spike() -> Builder {
    let mut builder = Builder::default();
    builder.block_len = 500;
    let task = builder.task(7, 7, "app");
    let image = builder.image(ImageKind::FILE, "/no/such/bin/app");
    builder.change(0, Change::FOUND, 7, 1, "app");
    builder.map(1, 7, 0x1_0000, image, Origin::SCAN);
    for n in 0..2000u64 {
        // These numbers look random, and are the same every time.
        let chance = n.wrapping_mul(2_654_435_761).rotate_left(17) % 1000;
        let limit = if (800..1200).contains(&n) { 500 } else { 100 };
        let leaf = if chance < limit { 0x1_0200 } else { 0x1_0100 };
        builder.sample(1_000 + n * 10_000_000, 0, task, &[leaf, 0x1_0050], &[]).weight = 10_000_000;
    }
    let end_ns = START_NS + 20_000_000_000;
    builder.receipt = Some(ReceiptV1 { end_ns, end_reason: EndReason::DURATION, ..Default::default() });
    builder
}

#[test]
fn timelines_of_a_story() {
    let dir = told(story());
    let file = "DIR/story.icecore";
    golden(dir.path(), "timeline", &["timeline", file]);
    golden(dir.path(), "timeline.json", &["timeline", file, "--json", "--buckets", "4", "-n", "3"]);
    golden(
        dir.path(),
        "timeline_thread",
        &["timeline", file, "--by", "thread", "--from", "0.5", "--to", "1.5"],
    );
    golden(
        dir.path(),
        "timeline_image",
        &["timeline", file, "--by", "image", "--sort", "total", "--comm", "make"],
    );
    golden(dir.path(), "timeline_csv", &["timeline", file, "--csv", "--resolution", "500ms", "-n", "2"]);
    golden(dir.path(), "timeline_heat", &["timeline", file, "--heatmap"]);
    golden(dir.path(), "timeline_heat.json", &["timeline", file, "--heatmap", "--json", "--from", "1.9"]);
    golden(dir.path(), "timeline_heat_csv", &["timeline", file, "--heatmap", "--csv", "--to", "200ms"]);
    let empty = told(Builder::default());
    golden(empty.path(), "timeline_empty", &["timeline", file]);
    golden(empty.path(), "timeline_empty_heat", &["timeline", file, "--heatmap"]);
    golden(told(two_events()).path(), "timeline_events", &["timeline", file, "--by", "function", "-n", "2"]);
}

#[test]
fn a_spike_is_told_with_the_command_that_explains_it() {
    let dir = told(spike());
    golden(dir.path(), "timeline_spike", &["timeline", "DIR/story.icecore"]);
    let text = report(dir.path(), &["timeline", "DIR/story.icecore", "--json"]);
    let timeline: Value = serde_json::from_str(&text).expect("JSON");
    let changes = timeline["changes"].as_array().expect("a list");
    let of = |name: &str| changes.iter().filter(|row| row["name"] == name).collect::<Vec<_>>();
    let (up, down) = (&of("app+0x1200")[0], &of("app+0x1200")[1]);
    for (row, time, before, after) in [(up, 8.0, 0.1, 0.5), (down, 12.0, 0.5, 0.1)] {
        let near = |key: &str, value: f64, by: f64| {
            assert!(row[key].as_f64().is_some_and(|found| (found - value).abs() < by), "{key}: {row:#}");
        };
        near("time_s", time, 0.2);
        near("before", before, 0.03);
        near("after", after, 0.05);
        assert_eq!(row["slice"]["from_s"], row["time_s"]);
        assert_eq!(row["against"]["to_s"], row["time_s"]);
    }
    assert_eq!((of("app+0x1200").len(), of("app+0x1100").len(), changes.len()), (2, 2, 4), "{changes:#?}");
    // The number of shown rows does not change what is found.
    let one = report(dir.path(), &["timeline", "DIR/story.icecore", "--json", "-n", "1"]);
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!((one["rows"].as_array().map(Vec::len), &one["changes"]), (Some(2), &timeline["changes"]));
    let narrowed =
        ["timeline", "DIR/story.icecore", "--comm", "app", "--focus", "^app|x$", "--sort", "total"];
    let text = report(dir.path(), &narrowed);
    assert!(text.contains(" --sort total --comm=app '--focus=^app|x$'\n"), "{text}");
}

#[test]
fn buckets_hold_the_samples_of_their_time_one_by_one() {
    let dir = told(story());
    let json = |args: &[&str]| -> Value { serde_json::from_str(&report(dir.path(), args)).expect("JSON") };
    let file = "DIR/story.icecore";
    let timeline = json(&["timeline", file, "--json", "--resolution", "150ms", "-n", "0", "--by", "thread"]);
    let mut counted: BTreeMap<(String, usize), f64> = BTreeMap::new();
    for line in report(dir.path(), &["samples", file, "--json"]).lines() {
        let sample: Value = serde_json::from_str(line).expect("JSON");
        let time_ns = sample["time_ns"].as_u64().expect("a number");
        let weight = sample["weight"].as_f64().expect("a number");
        let bucket = (time_ns / 150_000_000) as usize;
        for thread in ["all".to_owned(), format!("{} {}", sample["tid"], sample["comm"])] {
            *counted.entry((thread, bucket)).or_default() += weight;
        }
    }
    let check = |thread: &str, values: &Value| {
        for (bucket, value) in values.as_array().expect("a list").iter().enumerate() {
            // The last bucket is shorter: two seconds are 13 times 150 ms, and 50.
            let len_ns = if bucket == 13 { 50e6 } else { 150e6 };
            let expected = counted.get(&(thread.to_owned(), bucket)).copied().unwrap_or_default() / len_ns;
            assert!(value.as_f64().is_some_and(|value| (value - expected).abs() < 1e-9), "{thread} {bucket}");
        }
    };
    assert_eq!(timeline["bucket_count"], 14);
    check("all", &timeline["values"]);
    for row in timeline["rows"].as_array().expect("a list") {
        check(&format!("{} {}", row["tid"], row["comm"]), &row["values"]);
    }
    // However the time is divided, the buckets contain everything.
    for buckets in ["1", "7", "1000"] {
        let timeline = json(&["timeline", file, "--json", "--buckets", buckets]);
        let bucket_s = timeline["bucket_s"].as_f64().expect("a number");
        let values = timeline["values"].as_array().expect("a list");
        let end_s = timeline["end_s"].as_f64().expect("a number");
        let sum: f64 = (0..)
            .zip(values)
            .map(|(n, value)| {
                value.as_f64().expect("a number") * bucket_s.min(end_s - f64::from(n) * bucket_s)
            })
            .sum();
        let total = timeline["total_weight"].as_f64().expect("a number") / 1e9;
        assert!((sum - total).abs() < 1e-6, "{buckets}: {sum} {total}");
    }
}

#[test]
fn a_heat_map_needs_no_stacks_and_counts_the_same_with_them() {
    let dir = told(story());
    for filter in ["--user", "--kernel", "--comm=make", "--cpu=0"] {
        let line = ["timeline", "DIR/story.icecore", "--heatmap", "--csv", filter];
        let with_stacks = [&line[..], &["--focus", "."]].concat();
        let without = report(dir.path(), &line);
        assert_eq!(report(dir.path(), &with_stacks), without, "{filter}");
        assert!(without.lines().count() == 41, "{filter}: two seconds of twenty cells");
    }
}

#[test]
fn help_has_examples() {
    for command in ["depth", "timeline"] {
        let help = report(Path::new("/"), &[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--json"), "{command}");
    }
}
