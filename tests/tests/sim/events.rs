//! Recordings with several events, made of known samples: which of them views show, and what their weights add up to.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{Field, FieldKind, Wait, WaitsV1};
use icecore_tests::inside::{answer, golden, json, text};
use icecore_tests::synthetic::{EVENTS, waiting};
use serde_json::Value;

const FILE: &str = "DIR/x.icecore";
const WALL: &str = "cpu-clock,off-cpu,run-delay";
const CLOCK_AND_WAITS: [&str; 4] = ["cpu-clock", "off-cpu", "run-delay", "waker"];
const HINT: &str = "8 waits are not shown (--event cpu-clock,off-cpu,run-delay for wall time)";

/// Writes a recording with these events.
fn made(names: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    waiting(names).write(&dir.path().join("x.icecore"), true).expect("written");
    dir
}

fn weight(names: &[&str]) -> u64 {
    EVENTS.iter().filter(|(name, ..)| names.contains(name)).map(|(.., weight)| weight).sum()
}

fn samples(names: &[&str]) -> u64 {
    EVENTS.iter().filter(|(name, ..)| names.contains(name)).map(|(.., samples, _)| samples).sum()
}

/// The views that add up weights, and the keys of their sums.
const SUMS: [(&str, &str); 5] = [
    ("top", "total_weight"),
    ("tree", "total_weight"),
    ("folded", "total_weight"),
    ("timeline", "total_weight"),
    ("summary", "total_weight"),
];

#[test]
fn waits_are_left_out_beside_other_events_and_every_page_says_so() {
    let dir = made(&CLOCK_AND_WAITS);
    for (view, key) in SUMS {
        let shown = json(dir.path(), &format!("{view} {FILE}"));
        assert_eq!((&shown[key], &shown["unit"]), (&300_000_000.into(), &"ns".into()), "{view}");
    }
    for view in ["top", "tree", "timeline", "depth", "summary", "health", "missing"] {
        let page = text(dir.path(), &format!("{view} {FILE}"));
        assert_eq!(page.matches(HINT).count(), 1, "{view}: {page}");
    }
    for line in ["flame DIR/x.icecore -o DIR/x.svg", "folded DIR/x.icecore", "samples DIR/x.icecore"] {
        assert!(answer(dir.path(), line).1.contains(HINT), "{line}");
    }
    assert_eq!(answer(dir.path(), &format!("top {FILE} --json")).1.matches(HINT).count(), 1);
    assert_eq!(text(dir.path(), &format!("samples {FILE} --json")).lines().count(), 300);
    let summary = json(dir.path(), &format!("summary {FILE}"));
    assert_eq!(summary["samples_in_file"], samples(&CLOCK_AND_WAITS));
    assert_eq!(summary["events_left_out"][0]["event"], "off-cpu");
    assert_eq!(summary["events_left_out"][0]["weight"], weight(&["off-cpu"]));
    // Whoever names events knows which ones.
    assert!(!text(dir.path(), &format!("top {FILE} --event cpu-clock")).contains("not shown"));
}

#[test]
fn events_of_one_unit_add_up_to_wall_time() {
    let dir = made(&CLOCK_AND_WAITS);
    let whole = weight(&["cpu-clock", "off-cpu", "run-delay"]);
    for events in [WALL, "cpu-clock --event off-cpu,run-delay", "*-clock,*-*"] {
        for (view, key) in SUMS {
            let shown = json(dir.path(), &format!("{view} {FILE} --event {events}"));
            assert_eq!((&shown[key], &shown["unit"]), (&whole.into(), &"ns".into()), "{view} {events}");
        }
    }
    let top = json(dir.path(), &format!("top {FILE} --by thread --event {WALL}"));
    let rows: Vec<(&str, u64)> = top["rows"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| (row["name"].as_str().expect("a name"), row["total"].as_u64().expect("a number")))
        .collect();
    assert_eq!(rows, [("app", 510_000_000), ("app-idle", 50_000_000)]);
    // Waits weigh differently, so a stack counts by its weight.
    let folded = text(dir.path(), &format!("folded {FILE} --event {WALL} --root none"));
    let sum: u64 = folded.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    assert_eq!(sum, whole);
    let clock = text(dir.path(), &format!("folded {FILE} --root none"));
    let sum: u64 = clock.lines().filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
    assert_eq!(sum, 300);
}

#[test]
fn waits_alone_are_shown_without_wakers() {
    let dir = made(&["off-cpu", "run-delay", "waker"]);
    let top = json(dir.path(), &format!("top {FILE}"));
    assert_eq!((&top["total_weight"], &top["total_samples"]), (&260_000_000.into(), &8.into()));
    let page = text(dir.path(), &format!("top {FILE}"));
    assert!(page.contains("3 wakers are not shown: --event waker"), "{page}");
    let wakers = json(dir.path(), &format!("top {FILE} --event waker --by process"));
    assert_eq!(
        (&wakers["total_weight"], &wakers["rows"][0]["name"]),
        (&250_000_000.into(), &"server".into())
    );
}

#[test]
fn events_of_several_units_count_as_samples_and_the_page_names_them() {
    let dir = made(&["cpu-clock", "uprobe:/bin/app:work", "kmem"]);
    let top = json(dir.path(), &format!("top {FILE}"));
    assert_eq!((&top["unit"], &top["total_weight"]), (&"samples".into(), &345.into()));
    let page = text(dir.path(), &format!("top {FILE}"));
    let hint = "every sample counts as one: --event NAME shows one of cpu-clock (ns), uprobe:/bin/app:work (events), kmem (bytes)";
    assert!(page.contains(hint), "{page}");
    let probes = json(dir.path(), &format!("top {FILE} --event uprobe:*"));
    assert_eq!((&probes["unit"], &probes["total_weight"]), (&"events".into(), &40.into()));
    let every = text(dir.path(), &format!("samples {FILE} --json"));
    let of = |event: &str| {
        let rows = every.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        rows.filter(|row| row["event"] == event).map(|row| row["weight"].as_u64().unwrap_or(0)).sum::<u64>()
    };
    for event in ["cpu-clock", "uprobe:/bin/app:work", "kmem"] {
        assert_eq!(of(event), weight(&[event]), "{event}");
    }
    let depth = json(dir.path(), &format!("depth {FILE}"));
    let groups = depth["groups"].as_array().expect("a list");
    assert!(groups.iter().any(|group| group["event"] == "kmem" && group["count"] == 5), "{depth}");
}

#[test]
fn weights_that_are_no_times_are_not_called_time() {
    let dir = made(&["kmem", "uprobe:/bin/app:work"]);
    for (event, sum, unit) in [("kmem", "16.0 KiB", "bytes"), ("uprobe:*", "40 events", "events")] {
        let page = text(dir.path(), &format!("summary {FILE} --event {event}"));
        assert!(page.contains(&format!("weight      {sum}:")), "{page}");
        assert!(!page.contains("TIME") && !page.contains("CPU time"), "{page}");
        let page = text(dir.path(), &format!("top {FILE} --event {event}"));
        assert!(page.contains(&format!("100% is {sum} in")) && page.contains("self weight"), "{page}");
        let timeline = json(dir.path(), &format!("timeline {FILE} --event {event}"));
        assert_eq!(timeline["value_unit"], format!("{unit}/s"));
    }
    let wall = made(&CLOCK_AND_WAITS);
    let unit = |events: &str| {
        json(wall.path(), &format!("timeline {FILE} --event {events}"))["value_unit"]
            .as_str()
            .map(str::to_owned)
    };
    assert_eq!([unit("cpu-clock"), unit(WALL)], [Some("cpus".into()), Some("threads".into())]);
}

#[test]
fn only_samples_of_the_clock_are_compared_with_the_account() {
    let dir = made(&["kmem", "cpu-clock", "off-cpu", "run-delay", "waker", "uprobe:/bin/app:work"]);
    for events in ["", " --event *"] {
        let health = json(dir.path(), &format!("health {FILE}{events}"));
        assert_eq!(health["cpu_time_agreement"], 1.0, "{health:#}");
        assert_eq!(health["cpu_time"]["sampled_ns"], 300_000_000);
        assert_eq!(health["achieved_hz"], 1000.0);
        assert!(!health["problems"].to_string().contains("in step"), "{health:#}");
    }
    for events in ["off-cpu", "uprobe:*", "waker,kmem"] {
        let health = json(dir.path(), &format!("health {FILE} --event {events}"));
        assert_eq!([&health["cpu_time"], &health["achieved_hz"], &health["share_error"]], [&Value::Null; 3]);
        assert!(!health["problems"].to_string().contains("there are only"), "{health:#}");
    }
    let probes = made(&["uprobe:/bin/app:work", "kmem"]);
    let health = json(probes.path(), &format!("health {FILE}"));
    assert_eq!(health["cpu_time_unknown"], "no event samples CPU time");
    assert_eq!(json(probes.path(), &format!("summary {FILE}"))["achieved_hz"], Value::Null);
}

#[test]
fn an_event_that_no_session_has_is_an_error_that_lists_all() {
    let dir = made(&["cpu-clock", "kmem"]);
    let error = "error: cannot find samples of the event `cpu`: `x.icecore` has cpu-clock (ns), kmem (bytes); did you mean `cpu-clock`?\n";
    for line in [
        "top DIR/x.icecore --event cpu",
        "folded DIR/x.icecore --event cpu-clock,cpu",
        "cut DIR/x.icecore -o DIR/y --event cpu",
        "diff DIR/x.icecore DIR/x.icecore --event cpu",
        "trend DIR/x.icecore --event cpu",
    ] {
        assert_eq!(answer(dir.path(), line), (2, error.to_owned()), "{line}");
    }
}

#[test]
fn recordings_made_of_others_keep_all_events() {
    let dir = made(&CLOCK_AND_WAITS);
    let count =
        |file: &str| text(dir.path(), &format!("samples DIR/{file} --event * --json")).lines().count();
    assert_eq!(count("x.icecore"), 311);
    for line in ["cut DIR/x.icecore -o DIR/cut", "compact DIR/x.icecore -o DIR/compact"] {
        text(dir.path(), line);
    }
    assert_eq!([count("cut"), count("compact")], [311; 2]);
    text(dir.path(), "cut DIR/x.icecore -o DIR/waits --event off-cpu,run-delay");
    assert_eq!(count("waits"), 8);
    let top = json(dir.path(), "top DIR/waits --event *");
    assert_eq!(top["total_weight"], 260_000_000);
}

/// Returns the rows of waits of a file.
fn rows(path: &Path) -> Vec<Wait> {
    let recording = Recording::open(path).expect("it opens");
    let blocks = recording.entries().iter().filter(|entry| entry.header.kind == Kind::WAITS);
    let of_block = |entry| {
        let payload = recording.payload(entry).expect("whole");
        payload.view::<WaitsV1>().expect("an archive").rows().collect::<Vec<_>>()
    };
    blocks.flat_map(of_block).collect()
}

#[test]
fn what_is_known_of_waits_goes_with_their_samples() {
    let dir = made(&CLOCK_AND_WAITS);
    let path = |file: &str| dir.path().join(file);
    let all = rows(&path("x.icecore"));
    assert_eq!(all, waiting(&CLOCK_AND_WAITS).waits);
    for (file, line, expected) in [
        ("compact", "compact DIR/x.icecore", 8_u64),
        ("sleeper", "cut DIR/x.icecore --tid 8", 1),
        ("delays", "cut DIR/x.icecore --event run-delay", 5),
        ("clock", "cut DIR/x.icecore --event cpu-clock", 0),
        ("both", "merge DIR/x.icecore DIR/sleeper", 9),
    ] {
        text(dir.path(), &format!("{line} -o DIR/{file}"));
        text(dir.path(), &format!("verify DIR/{file}"));
        assert_eq!(rows(&path(file)).len() as u64, expected, "{file}");
        assert_eq!(json(dir.path(), &format!("info DIR/{file}"))["waits"], expected, "{file}");
    }
    // Ids may be others; all else stays.
    let plain = |wait: &Wait| Wait { task: 0, waker_task: None, ..*wait };
    let compact = rows(&path("compact"));
    assert_eq!(compact.iter().map(plain).collect::<Vec<_>>(), all.iter().map(plain).collect::<Vec<_>>());
    assert_eq!(compact[0].waker_task.is_some(), all[0].waker_task.is_some());
    assert_eq!(rows(&path("sleeper")).iter().map(plain).collect::<Vec<_>>(), [plain(&all[2])]);
}

/// Returns the samples of each field of a file.
fn by_field(dir: &Path, file: &str) -> Vec<(String, u64)> {
    let top = json(dir, &format!("top DIR/{file} --by field --event cpu-clock"));
    let row = |row: &Value| Some((row["name"].as_str()?.to_owned(), row["self_samples"].as_u64()?));
    let mut rows: Vec<_> = top["rows"].as_array().expect("rows").iter().filter_map(row).collect();
    rows.sort();
    rows
}

#[test]
fn fields_go_with_their_samples() {
    let dir = made(&CLOCK_AND_WAITS);
    let whole = samples(&["cpu-clock"]);
    // The fields of every second sample of the clock, of two values.
    let mut with = waiting(&CLOCK_AND_WAITS);
    with.uuid = Some([7; 16]);
    let (name, secret_id) = (with.string("path"), with.string("/secret"));
    let clock = with.samples.iter().filter(|sample| sample.event == 0);
    with.fields = clock
        .step_by(2)
        .enumerate()
        .map(|(n, sample)| {
            let (time_ns, task, event) = (sample.time_ns, sample.task, 0);
            let kind = if n % 2 == 0 { FieldKind::UNSIGNED } else { FieldKind::TEXT };
            let (number, text) = if n % 2 == 0 { (7, 0) } else { (0, secret_id) };
            Field { time_ns, task, event, name, kind, number, text }
        })
        .collect();
    let fields = with.fields.len() as u64;
    let texts = fields / 2;
    with.write(&dir.path().join("with"), true).expect("written");
    let expected = |times: u64, without: u64, secret: &str| {
        let rows = [("(no field)", without), (secret, texts * times), ("path=7", (fields - texts) * times)];
        rows.map(|(name, samples)| (name.to_owned(), samples)).to_vec()
    };
    let secret = "path=/secret";
    for (file, line, rows) in [
        ("with", "", expected(1, whole - fields, secret)),
        ("compact", "compact DIR/with", expected(1, whole - fields, secret)),
        ("clock", "cut DIR/with --event cpu-clock", expected(1, whole - fields, secret)),
        ("pack", "pack DIR/with", expected(1, whole - fields, secret)),
        ("both", "merge DIR/with DIR/compact", expected(2, 2 * (whole - fields), secret)),
        ("other", "merge DIR/with DIR/x.icecore", expected(1, 2 * whole - fields, secret)),
        ("none", "cut DIR/x.icecore --event cpu-clock", vec![("(no field)".to_owned(), whole)]),
        ("waits", "cut DIR/with --event off-cpu", vec![]),
    ] {
        if !line.is_empty() {
            text(dir.path(), &format!("{line} -o DIR/{file}"));
        }
        text(dir.path(), &format!("verify DIR/{file}"));
        assert_eq!(by_field(dir.path(), file), rows, "{file}");
    }
    let size = |file: &str| std::fs::metadata(dir.path().join(file)).expect("it is there").len();
    assert_eq!(json(dir.path(), "info DIR/waits")["fields"], 0);
    assert!(size("none") < size("clock"), "what has no fields has no block of them");
    text(dir.path(), "compact DIR/with --redact paths -o DIR/redacted");
    let redacted = by_field(dir.path(), "redacted");
    assert!(redacted.iter().any(|(name, _)| name.starts_with("path=field-")), "{redacted:?}");
    let line = "diff DIR/with DIR/x.icecore --event cpu-clock";
    assert!(!text(dir.path(), line).is_empty());
}

#[test]
fn waits_are_compared_with_waits_only() {
    let dir = made(&CLOCK_AND_WAITS);
    waiting(&["off-cpu", "run-delay"]).write(&dir.path().join("waits"), true).expect("written");
    waiting(&CLOCK_AND_WAITS).write(&dir.path().join("y"), true).expect("written");
    let (code, err) = answer(dir.path(), "diff DIR/x.icecore DIR/waits");
    assert!(
        code == 2 && err.contains("cannot compare cpu-clock (ns) with off-cpu (ns), run-delay (ns)"),
        "{err}"
    );
    let (code, err) = answer(dir.path(), "trend DIR/x.icecore DIR/waits");
    assert!(code == 2 && err.contains("time of waits is no CPU time"), "{err}");
    text(dir.path(), "trend DIR/x.icecore DIR/waits --event off-cpu");
    let diff = json(dir.path(), &format!("diff DIR/x.icecore DIR/y --unit cpu --event {WALL}"));
    assert_eq!((&diff["unit"], &diff["cpu_time"]["unit"]), (&"time_s_per_s".into(), &"time_s_per_s".into()));
    let page = text(dir.path(), &format!("diff DIR/x.icecore DIR/y --event {WALL}"));
    assert!(!page.contains("CPU") && page.contains("threads that ran or waited"), "{page}");
    let diff = json(dir.path(), "diff DIR/x.icecore DIR/y --unit cpu");
    assert_eq!(diff["unit"], "cpu_s_per_s");
    let rate = |diff: &Value| diff["whole"]["before"].as_f64().expect("a number");
    assert!((rate(&diff) - 0.3).abs() < 1e-3, "{diff:#}");
}

#[test]
fn rates_of_weights_are_per_second() {
    let dir = made(&["kmem"]);
    waiting(&["kmem"]).write(&dir.path().join("y"), true).expect("written");
    let diff = json(dir.path(), "diff DIR/x.icecore DIR/y --unit cpu");
    assert_eq!((&diff["unit"], &diff["whole_unit"]), (&"weight_per_s".into(), &"weight_per_s".into()));
    // The recording lasts a second.
    assert!(diff["whole"]["before"].as_f64().is_some_and(|rate| (rate - 16_385.0).abs() < 1.0), "{diff:#}");
    let page = text(dir.path(), "diff DIR/x.icecore DIR/y");
    assert!(page.contains("in all      16.0 KiB → 16.0 KiB per second"), "{page}");
    assert!(page.contains("5 samples · 16.0 KiB ·") && !page.contains("CPU"), "{page}");
}

#[test]
fn pages_of_several_events() {
    let all: Vec<&str> = EVENTS.iter().map(|(name, ..)| *name).collect();
    let dir = made(&all);
    golden(dir.path(), "events_summary", &["summary", FILE]);
    golden(dir.path(), "events_summary.json", &["summary", FILE, "--json", "--event", WALL]);
    golden(dir.path(), "events_summary_wall", &["summary", FILE, "--event", WALL]);
    golden(dir.path(), "events_health", &["health", FILE]);
    golden(dir.path(), "events_info", &["info", FILE]);
    golden(dir.path(), "events_top_bytes", &["top", FILE, "--event", "kmem"]);
    golden(dir.path(), "events_timeline_wall", &["timeline", FILE, "--event", WALL]);
    golden(dir.path(), "events_timeline_bytes", &["timeline", FILE, "--event", "kmem"]);
    golden(dir.path(), "events_samples", &["samples", FILE, "--event", "off-cpu"]);
}
