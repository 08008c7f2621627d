//! `depth` and `timeline` of recordings that are made up, as text and as JSON, at one and at several threads.
//!
//! `INSTA_UPDATE=always cargo test -p icecore-tests --test golden_time` rewrites `tests/golden/`.

use std::path::Path;

use icecore_format::records::{EventV1, SessionV1, WalkEnd};
use icecore_report::{Streams, run};
use icecore_tests::synthetic::{Builder, session, story};
use serde_json::Value;

/// Runs a command line inside `dir`, without warnings; returns stdout.
fn report(dir: &Path, args: &[&str]) -> String {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut streams = Streams { out: &mut out, err: &mut err, color: false, progress: false, cache: None };
    let path = dir.display().to_string();
    let args = args.iter().map(|arg| arg.replace("DIR", &path));
    let code = run(["icecore-report".to_owned(), "--quiet".to_owned()].into_iter().chain(args), &mut streams);
    assert_eq!((code, String::from_utf8_lossy(&err).as_ref()), (0, ""));
    // The file stands in a directory of a random name.
    String::from_utf8(out).expect("UTF-8").replace(&format!("{path}/"), "")
}

/// Compares a view with its snapshot, at 1 and at 4 threads.
fn golden(dir: &Path, name: &str, args: &[&str]) {
    let output = report(dir, &[args, &["--threads", "1"]].concat());
    assert_eq!(
        output,
        report(dir, &[args, &["--threads", "4"]].concat()),
        "{args:?}: depends on the threads"
    );
    insta::with_settings!({ snapshot_path => "../golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!(name, output);
    });
}

fn told(builder: Builder) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    builder.write(&dir.path().join("story.icecore"), true).expect("written");
    dir
}

/// The story, with every third sample of another event, and with stacks of `make` that were cut at 6 frames.
fn two_events() -> Builder {
    let mut builder = story();
    let event = |name: &str, unit: &str, period| EventV1 {
        name: name.into(),
        unit: unit.into(),
        frequency_hz: 0,
        period,
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
    assert!(lines(&["--event", "cycles"]).is_empty());
}
