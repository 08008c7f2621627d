//! Tests several recordings: whole runs of a command, sides of several recordings, and a trend.

use std::path::Path;

use icecore_format::records::{EndReason, LabelV1, SessionV1, TargetKind};
use icecore_tests::inside::{golden, report, run_in};
use icecore_tests::synthetic::session;
use serde_json::Value;

use super::{Service, USUAL, folder, json, row, with_status};

#[test]
fn a_run_that_takes_more_fails_the_build_though_no_share_changed() {
    let dir = folder();
    let run = |name: &str, seconds: u64, seed: u32, end_reason: EndReason| {
        let mut recorded = Service { seconds, seed, ..USUAL }.recorded();
        recorded.session = Some(SessionV1 { target: TargetKind::COMMAND, ..session() });
        recorded.receipt.iter_mut().for_each(|receipt| receipt.end_reason = end_reason);
        recorded.uuid = Some([seed as u8; 16]);
        recorded.write(&dir.path().join(name), true).expect("written");
    };
    run("before", 7, 1, EndReason::COMMAND);
    run("after", 9, 5, EndReason::TARGETS_GONE);
    run("long", 28, 3, EndReason::COMMAND);
    let code = |after: &str, condition: &str| {
        run_in(dir.path(), &["diff", "DIR/before", &format!("DIR/{after}"), "--fail-on", condition]).0
    };
    for (after, condition, expected) in [
        ("after", "whole>5%", 1),
        ("after", "cpu>5%", 1),
        ("after", "cpu>40%", 0),
        ("after", "cpu<-5%", 0),
        ("after", "self>2%", 0),
        // Other programs may cause such a small increase of a run's duration.
        ("after", "wall>5%", 0),
        ("long", "wall>5%", 1),
    ] {
        assert_eq!(code(after, condition), expected, "{after} {condition}");
    }
    let sides = ["diff", "DIR/before", "DIR/after"];
    golden(dir.path(), "diff_runs", &sides);
    golden(dir.path(), "diff_runs_work", &[&sides[..], &["--unit", "work"]].concat());
    let diff = json(dir.path(), &sides);
    assert_eq!(
        (&diff["whole_unit"], &diff["cpu_time"]["noise"]),
        (&"cpu_s_per_run".into(), &"assumed".into())
    );
    // A recording of two runs has their mean.
    report(dir.path(), &["merge", "DIR/before", "DIR/after", "-o", "DIR/both"]);
    let both = json(dir.path(), &["diff", "DIR/both", "DIR/long"]);
    let near = |key: &str, value: f64| (both[key]["before"].as_f64().expect("a number") - value).abs() < 0.02;
    assert!(near("cpu_time", 8.0) && near("wall_time", 8.0), "{both:#}");
    // A piece is not a run.
    let (code, _, err) = run_in(dir.path(), &[&sides[..], &["--from", "1", "--fail-on", "cpu>5%"]].concat());
    assert!(code == 2 && err.contains("use no --from and --to"), "{err}");
}

#[test]
fn what_differs_between_runs_of_one_side_is_no_change() {
    let dir = folder();
    let weights =
        |compress| vec![("compress", compress), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    // Each run stays the same for all of its time: nothing inside of it shows that the next one differs.
    for (name, compress, seed) in
        [("a1", 360, 1), ("a2", 440, 2), ("a3", 400, 3), ("b1", 450, 4), ("b2", 380, 5), ("b3", 430, 6)]
    {
        Service { functions: &weights(compress), seed, ..USUAL }.write(dir.path(), name);
    }
    let one = json(dir.path(), &["diff", "DIR/a1", "DIR/b1"]);
    assert_eq!(with_status(&one, "grew"), ["compress"]);
    let several = ["diff", "--before", "DIR/a1", "DIR/a2", "DIR/a3", "--after", "DIR/b1", "DIR/b2", "DIR/b3"];
    golden(dir.path(), "diff_several", &several);
    assert_eq!(json(dir.path(), &several)["changed"], 0);
    Service { seconds: 1, hz: 100, ..USUAL }.write(dir.path(), "tiny");
    let text = report(dir.path(), &["diff", "--before", "DIR/a1", "DIR/tiny", "--after", "DIR/b1", "DIR/b2"]);
    assert!(text.contains("tiny has 100 samples and counts as much as each recording of its side"), "{text}");
}

/// Writes recordings of 200 samples a second of this many seconds each; `hash` takes its part of 1,000 in each.
fn series(dir: &Path, runs: &[(u64, u32)]) -> Vec<String> {
    let of = |(number, (seconds, hash)): (usize, &(u64, u32))| {
        let rest: u32 = 1_000 - hash;
        let weights = [40, 25, 15, 10, 6, 4].map(|percent| rest * percent / 100);
        let names = ["compress", "parse", "send", "log", "read", "write"];
        let functions: Vec<(&str, u32)> = names.into_iter().zip(weights).chain([("hash", *hash)]).collect();
        let seed = 7_919 * (number as u32 + 1);
        let service = Service { functions: &functions, seed, hz: 25, seconds: *seconds, ..USUAL };
        let mut recorded = service.recorded();
        let start_unix_ns = session().start_unix_ns + number as u64 * 86_400_000_000_000;
        recorded.session = Some(SessionV1 { start_unix_ns, ..session() });
        let name = format!("s{number}");
        recorded.write(&dir.join(&name), true).expect("written");
        format!("DIR/{name}")
    };
    runs.iter().enumerate().map(of).collect()
}

fn trend_of(dir: &Path, runs: &[(u64, u32)]) -> (Value, String) {
    let files = series(dir, runs);
    let args: Vec<&str> = ["trend"].into_iter().chain(files.iter().map(String::as_str)).collect();
    (json(dir, &args), report(dir, &args))
}

#[test]
fn a_trend_of_few_recordings_finds_a_clear_step_and_invents_none() {
    // 200 samples each; 54 and 194 of 1,000.
    let runs = [[(8, 54); 6].as_slice(), &[(8, 194); 4]].concat();
    let dir = folder();
    let (found, _) = trend_of(dir.path(), &runs);
    let hash = row(&found, "hash");
    assert_eq!((&hash["changes"][0]["at"], &hash["changes"][1]), (&6.into(), &Value::Null), "{hash}");
    // 25 and 310 samples, mixed.
    let dir = folder();
    let mixed: Vec<(u64, u32)> = (0..12).map(|at| (if at % 3 == 1 { 1 } else { 12 }, 100)).collect();
    let (found, text) = trend_of(dir.path(), &mixed);
    let rows = found["rows"].as_array().expect("rows");
    assert!(rows.iter().all(|row| row["changes"][0].is_null()), "{text}");
    let stated = found["detectable"][2]["middle"].as_f64().expect("a number");
    assert!((0.01..0.3).contains(&stated), "{stated}");
    assert!(
        text.contains("That does not prove that none changed:\na step is found in 8 of 10 cases if"),
        "{text}"
    );
    let (found, text) = trend_of(dir.path(), &mixed[..5]);
    assert!(text.contains("No change can be found: a level needs 3 recordings, so two take 6."), "{text}");
    assert_eq!(
        (&found["detectable"][2]["middle"], &row(&found, "hash")["detectable"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn a_trend_tells_the_first_recording_that_shows_a_change() {
    let dir = folder();
    for number in 1..=12u32 {
        let compress = if number < 8 { 400 } else { 520 };
        let functions = &[("compress", compress), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
        let mut recorded = Service { functions, seed: number, seconds: 3, ..USUAL }.recorded();
        let label = |key: &str, value: String| LabelV1 { key: key.into(), value };
        let labels = vec![label("version", format!("1.{number}"))];
        let start_unix_ns = session().start_unix_ns + u64::from(number) * 86_400_000_000_000;
        recorded.session = Some(SessionV1 { labels, start_unix_ns, ..session() });
        recorded.write(&dir.path().join(format!("r{number}")), true).expect("written");
    }
    let files: Vec<String> = (1..=12).rev().map(|number| format!("DIR/r{number}")).collect();
    let trend: Vec<&str> = ["trend"].into_iter().chain(files.iter().map(String::as_str)).collect();
    golden(dir.path(), "trend", &trend);
    golden(
        dir.path(),
        "trend_label",
        &[&trend[..], &["--order", "label:version", "--function", "^(log|send)$"]].concat(),
    );
    golden(dir.path(), "trend.csv", &[&trend[..3], &["--csv", "--function", "parse"]].concat());
    golden(dir.path(), "trend.json", &[&trend[..4], &["--json", "-n", "1", "--sort", "total"]].concat());
    let found = json(dir.path(), &trend);
    let changes = &row(&found, "compress")["changes"];
    assert_eq!(
        (&changes[0]["file"], &changes[0]["at"], changes[1].is_null()),
        (&"r8".into(), &7.into(), true)
    );
    let all =
        report(dir.path(), &[&trend[..], &["-n", "1", "--sort", "total", "--comm", "service"]].concat());
    assert!(all.contains("compress") && all.contains(" --sort total --comm=service\n"), "{all}");
    USUAL.write(dir.path(), "r0");
    let some = report(dir.path(), &[&trend[..], &["DIR/r0", "--order", "label:version"]].concat());
    assert!(some.contains("1 recording without the label, in front of all others"), "{some}");
    let as_typed = json(dir.path(), &[&trend[..], &["--order", "given"]].concat());
    assert_eq!(row(&as_typed, "compress")["changes"][0]["file"], "r7");
    std::fs::write(dir.path().join("torn"), "no recording").expect("written");
    let (code, _, err) = run_in(dir.path(), &[&trend[..], &["DIR/torn"]].concat());
    assert!(code == 0 && err.starts_with("warning: left out: cannot open recording `torn`"), "{code} {err}");
}
