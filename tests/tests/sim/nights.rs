//! The guide of docs/FLEET.md: ninety nights of a service on ten hosts, with a regression on the 61st night and one sick host; and hosts on
//! which stacks become worse.

use std::fs;
use std::path::Path;

use icecore_format::records::{LabelV1, WalkEnd};
use icecore_tests::inside::{answer, json, run_in, text, typed};
use icecore_tests::synthetic::{Fleet, REGRESSION_DAY, SICK_HOST};
use serde_json::Value;

/// The night of the regression, day 60, is 2026-10-31.
const SINCE_US: u64 = 1_793_415_600_000_000;

fn rows(document: &Value) -> &Vec<Value> {
    document["rows"].as_array().expect("rows")
}

/// Makes an archive in `archive` of these nights and hosts; `changes` may change a night of a host.
fn archived(path: &Path, fleet: Fleet, changes: impl Fn(&mut icecore_tests::synthetic::Builder, u32, u32)) {
    fs::create_dir(path.join("nights")).expect("made");
    for day in fleet.first..fleet.days {
        for host in 0..fleet.hosts {
            let mut night = fleet.night("web", host, day);
            changes(&mut night, host, day);
            night.write(&path.join(format!("nights/{host}-{day}.icecore")), true).expect("written");
        }
    }
    text(path, "archive DIR/archive add DIR/nights");
    text(path, "archive DIR/archive compact");
}

/// Runs a command on the archive that the report has printed; returns its document.
fn printed_command(path: &Path, command: &Value) -> Value {
    let command = command.as_str().expect("a command");
    let (start, selections) = command.split_once(" '").expect("selections");
    assert_eq!(start, "icecore-report archive archive diff");
    let (before, after) = selections.trim_end_matches('\'').split_once("' '").expect("two selections");
    let (code, out, err) = run_in(path, &["archive", "DIR/archive", "diff", before, after, "--json"]);
    assert_eq!(code, 0, "{err}");
    serde_json::from_str(&out).expect("JSON")
}

/// The functions of a difference that grew.
fn grew(diff: &Value) -> Vec<&str> {
    let grew = rows(diff).iter().filter(|row| row["status"] == "grew" && row["significant"] == true);
    grew.map(|row| row["name"].as_str().expect("a name")).collect()
}

#[test]
fn a_host_without_the_label_by_which_others_are_told_apart_is_a_member_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    archived(path, Fleet { first: 0, days: 6, hosts: 8, samples: 200 }, |night, host, _| {
        // The host 7 is sick.
        if host != 7 {
            let (key, value) = ("zone".into(), format!("z{host}"));
            night.session.as_mut().expect("it has one").labels.push(LabelV1 { key, value });
        }
    });
    let outliers = json(path, "archive DIR/archive outliers service=web --by zone");
    let first = &rows(&outliers)[0];
    assert_eq!((&first["member"], &first["function"]), (&"".into(), &"crc32".into()), "{outliers:#}");
    assert!(grew(&printed_command(path, &first["command"])).contains(&"crc32"));
    let hosts = |key: &str| {
        let selection = first[key].as_str().expect("a selection");
        let (_, out, _) = run_in(path, &["archive", "DIR/archive", "list", selection, "--json"]);
        let list: Value = serde_json::from_str(&out).expect("JSON");
        rows(&list).iter().filter(|row| row["host"] == SICK_HOST).count()
    };
    assert_eq!([hosts("before_selection"), hosts("after_selection")], [0, 6]);
    let shown = text(path, "archive DIR/archive outliers service=web --by zone");
    assert!(shown.contains("(without)"), "{shown}");
}

#[test]
fn ninety_nights_show_the_regression_and_the_sick_host_by_one_command_each() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    archived(path, Fleet { first: 0, days: 90, hosts: 10, samples: 60 }, |_, _, _| ());
    let outliers = json(path, "archive DIR/archive outliers service=web");
    let first = &rows(&outliers)[0];
    assert_eq!((&first["member"], &first["function"]), (&SICK_HOST.into(), &"crc32".into()), "{outliers:#}");
    // Of 1,010 samples with its weight of 120 instead of 40, 930: 12 and 4 percent, with the new release somewhat less.
    let near = |value: &Value, expected: f64| (value.as_f64().expect("a number") - expected).abs() < 0.01;
    assert!(near(&first["share"], 0.12) && near(&first["others"], 0.043), "{first:#}");
    let (low, high) = (first["low"].as_f64().expect("low"), first["high"].as_f64().expect("high"));
    assert!(low > 0.05 && high < 0.10, "{first:#}");
    // Nobody else is named, by any function.
    assert!(rows(&outliers).iter().all(|row| row["member"] == SICK_HOST), "{outliers:#}");
    assert_eq!(outliers["groups"][0]["members"], 10);
    // Without the sick host, nobody is.
    let others = format!("host!={SICK_HOST}");
    let healthy = json(path, &format!("archive DIR/archive outliers {others}"));
    assert_eq!((rows(&healthy).len(), &healthy["groups"][0]["members"]), (0, &9.into()), "{healthy:#}");
    let (code, out, _) = typed(path, &format!("archive DIR/archive outliers {others} --strict"));
    assert!(code == 0 && out.contains("Nobody differs from the others more than chance explains."), "{out}");
    assert_eq!(typed(path, "archive DIR/archive outliers --strict").0, 1);
    let shown = first["command"].as_str().expect("a command");
    let sides = format!("'service=web host!={SICK_HOST}' 'service=web host={SICK_HOST}'");
    assert!(shown.ends_with(&sides), "{shown}");

    let regressions = json(path, "archive DIR/archive regressions --since 1.5.0");
    assert_eq!(rows(&regressions).len(), 1, "{regressions:#}");
    let row = &rows(&regressions)[0];
    assert_eq!((&row["function"], &row["release"]), (&"parse".into(), &"1.5.0".into()));
    assert_eq!((&row["release_before"], &row["since_unix_us"]), (&"1.4.2".into(), &SINCE_US.into()));
    assert!(near(&row["before"], 0.33) && near(&row["after"], 0.40), "{row:#}");
    let shown = printed_command(path, &row["command"]);
    assert_eq!(grew(&shown), ["parse"], "{shown:#}");
    assert_eq!(typed(path, "archive DIR/archive regressions --since 1.5.0 --strict").0, 1);
    // Nothing happened before, and nothing after.
    let before = json(path, "archive DIR/archive regressions --until 2026-10-31");
    assert_eq!((rows(&before).len(), &before["services"][0]["nights"]), (0, &60.into()), "{before:#}");
    let after = json(path, "archive DIR/archive regressions --since 2026-11-01");
    assert_eq!((rows(&after).len(), &after["services"][0]["nights_since"]), (0, &29.into()), "{after:#}");
    let (code, err) = answer(path, "archive DIR/archive regressions --since 1.6.0");
    assert!(
        code == 2 && err.contains("no selected recording is of the release `1.6.0`") && err.contains("1.5.0"),
        "{err}"
    );

    // When the recordings go, the regression is seen by their daily sums.
    let pruned = json(path, "archive DIR/archive prune --until 2026-11-10");
    assert_eq!(rows(&pruned).len(), 700);
    let again = json(path, "archive DIR/archive regressions --since 1.5.0");
    let of_day = &rows(&again)[0];
    assert_eq!(
        (rows(&again).len(), &of_day["function"], &of_day["release"]),
        (1, &"parse".into(), &"1.5.0".into())
    );
    for key in ["before", "after", "p"] {
        assert_eq!(of_day[key], row[key], "{key}");
    }
    assert_eq!((&of_day["command"], &again["services"][0]["nights"]), (&Value::Null, &90.into()));
    assert_eq!(REGRESSION_DAY, 60);
}

#[test]
fn worse_stacks_are_dated_and_told_from_a_baseline() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    // From day 12 on, walks end in libz on all hosts but every third one, where they always do.
    archived(path, Fleet { first: 0, days: 20, hosts: 4, samples: 200 }, |night, _, day| {
        let is_hit =
            |sample: &icecore_format::records::Sample| sample.user_end == WalkEnd::BY_TABLES && day >= 12;
        for sample in night.samples.iter_mut().filter(|sample| is_hit(sample)).step_by(3) {
            sample.user_end = WalkEnd::NO_RULES;
        }
    });
    let quality = json(path, "archive DIR/archive trend --by quality");
    let service = &quality["services"][0];
    assert_eq!((&service["service"], service["nights"].as_array().map(Vec::len)), (&"web".into(), Some(20)));
    let row = |quality: &str, image: &str| {
        let rows = service["rows"].as_array().expect("rows");
        let is_it = |row: &&Value| {
            row["quality"] == quality && row["image"].as_str().unwrap_or_default().ends_with(image)
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{quality} {image}: {service:#}")).clone()
    };
    let changed = |row: &Value| {
        let changes = row["changes"].as_array().expect("changes").clone();
        changes.iter().map(|change| (change["at"].as_u64(), change["worse"].as_bool())).collect::<Vec<_>>()
    };
    assert_eq!(changed(&row("rooted", "")), [(Some(12), Some(true))], "{service:#}");
    assert_eq!(changed(&row("ends", "/web")), [(Some(12), Some(true))], "{service:#}");
    assert_eq!(changed(&row("named", "")), []);
    let summary = json(path, "summary DIR/nights/1-3.icecore");
    let of_first = json(path, "archive DIR/archive trend host=web-01 --until 2026-09-05 --by=quality");
    let shares = &of_first["services"][0]["rows"][0]["shares"];
    assert_eq!(shares[3], summary["rooted_share"], "{of_first:#}");
    assert_eq!(typed(path, "archive DIR/archive trend --by quality --strict").0, 1);
    assert_eq!(typed(path, "archive DIR/archive trend --by quality --strict --until 2026-09-13").0, 0);
    // One night of one host is enough.
    let worse = "archive DIR/archive health began>=2026-09-16 --baseline began<2026-09-10";
    let (code, out, _) = typed(path, worse);
    assert!(code == 1 && out.contains("worse than the baseline"), "{out}");
    let (code, out, err) = typed(path, &format!("{worse} --json"));
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let status = |quality: &str| {
        rows(&document).iter().find(|row| row["quality"] == quality).map(|row| row["status"].clone())
    };
    assert_eq!(
        (code, status("rooted"), status("named")),
        (1, Some("worse".into()), Some("same".into())),
        "{out}{err}"
    );
    assert_eq!((&document["sessions"], &document["baseline_sessions"]), (&20.into(), &36.into()));
    let same = "archive DIR/archive health began>=2026-09-08 --until 2026-09-12 --baseline began<2026-09-08";
    let (code, out, _) = typed(path, same);
    assert!(code == 0 && out.contains("not worse than the baseline"), "{out}");
    // Nobody differs from nobody.
    let (code, out, _) =
        typed(path, "archive DIR/archive health host=web-01 --baseline host=web-01 --strict");
    assert!(code == 1 && out.contains("too few to compare"), "{out}");
}
