//! Several recordings in one file: hosts stay apart, and nothing is lost.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::TargetKind;
use icecore_tests::inside::{json, text, typed as report};
use icecore_tests::synthetic::{Builder, START_NS, session, story};
use serde_json::Value;

/// Runs a command line inside `dir`, without warnings about the data; returns exit code, stdout and stderr.
fn samples(dir: &Path, line: &str) -> Vec<Value> {
    let out = text(dir, &format!("samples {line} --json"));
    out.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns the story on another host, whose clock is ahead by `up_ns`; it begins `late_ns` later.
fn elsewhere(host: &str, up_ns: u64, late_ns: u64) -> Builder {
    let mut b = story();
    b.uuid = Some(std::array::from_fn(|i| host.as_bytes()[i % host.len()]));
    b.lifecycle.iter_mut().for_each(|row| row.time_ns += up_ns);
    b.mappings.iter_mut().for_each(|row| row.time_ns += up_ns);
    b.samples.iter_mut().for_each(|row| row.time_ns += up_ns);
    b.losses.iter_mut().for_each(|row| row.time_ns += up_ns);
    b.receipt.iter_mut().for_each(|receipt| receipt.end_ns += up_ns);
    // Another kernel has other code at the same address.
    let name = b.string("vfs_write");
    b.kernel_symbols[1].name = name;
    let here = session();
    b.session = Some(icecore_format::records::SessionV1 {
        host: host.into(),
        kernel_release: "6.1.0".into(),
        start_ns: START_NS + up_ns,
        start_unix_ns: here.start_unix_ns + late_ns,
        ..here
    });
    b
}

const SECOND: u64 = 1_000_000_000;

/// `a` is the story on `station`; `b` the same on `web`, a second later; `ab` both.
fn two() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    story().write(&dir.path().join("a"), true).expect("written");
    elsewhere("web", 7_777 * SECOND, SECOND).write(&dir.path().join("b"), true).expect("written");
    text(dir.path(), "merge DIR/a DIR/b -o DIR/ab");
    dir
}

#[test]
fn every_view_of_one_host_of_several_is_the_view_of_its_own_recording() {
    let dir = two();
    for (host, alone) in [("station", "a"), ("web", "b")] {
        for view in ["--by function", "--by line", "--by image", "--sort total"] {
            let merged = json(dir.path(), &format!("top DIR/ab -n 0 {view} --host {host}"));
            let alone = json(dir.path(), &format!("top DIR/{alone} -n 0 {view}"));
            assert_eq!(merged["rows"], alone["rows"], "{host} {view}");
        }
        for view in ["folded", "tree --min-percent 0", "tree --callers"] {
            let without_filter = |mut document: Value| {
                document.as_object_mut().expect("an object").remove("filter");
                document
            };
            let merged = without_filter(json(dir.path(), &format!("{view} DIR/ab --host {host}")));
            let alone = without_filter(json(dir.path(), &format!("{view} DIR/{alone}")));
            assert_eq!(merged, alone, "{host} {view}");
        }
        let mut merged = samples(dir.path(), &format!("DIR/ab --host {host}"));
        if host == "web" {
            let back = |sample: &mut Value| {
                let ns = sample["time_ns"].as_i64().expect("a number") - SECOND as i64;
                sample["time_ns"] = ns.into();
            };
            merged.iter_mut().for_each(back);
        }
        assert_eq!(merged, samples(dir.path(), &format!("DIR/{alone}")), "{host}");
    }
}

#[test]
fn equal_numbers_of_two_hosts_are_two_processes() {
    let dir = two();
    let rows = json(dir.path(), "top DIR/ab --by process -n 0");
    let of_make: Vec<(&str, u64)> = rows["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .filter(|row| row["tgid"] == 100)
        .map(|row| (row["host"].as_str().expect("a host"), row["total_samples"].as_u64().expect("a number")))
        .collect();
    assert_eq!(of_make, [("station", 300), ("web", 300)]);
    assert_eq!(samples(dir.path(), "DIR/ab --pid 100").len(), 600, "--pid is the number on every host");
    let by_host = json(dir.path(), "top DIR/ab --by host");
    let hosts: Vec<_> = by_host["rows"].as_array().expect("rows").iter().map(|row| &row["host"]).collect();
    assert_eq!(hosts, ["station", "web"]);
    assert_eq!(by_host["rows"][0]["total_samples"], 530);
    // The same address is another function in another kernel.
    let top = text(dir.path(), "top DIR/ab -n 0 --kernel --sort total");
    assert!(top.contains("vfs_read") && top.contains("vfs_write"), "{top}");
    let web = text(dir.path(), "top DIR/ab -n 0 --kernel --sort total --host web");
    assert!(!web.contains("vfs_read") && web.contains("vfs_write"), "{web}");
}

#[test]
fn times_count_from_the_earliest_start() {
    let dir = two();
    let all = samples(dir.path(), "DIR/ab");
    assert_eq!(all.len(), 1060);
    let first = |host: &str| {
        all.iter().find(|sample| sample["host"] == host).expect("it has some")["time_ns"].clone()
    };
    assert_eq!((first("station"), first("web")), (Value::from(0), Value::from(SECOND)));
    assert!(all.is_sorted_by_key(|sample| sample["time_ns"].as_i64()));
    assert!(samples(dir.path(), "DIR/ab --to 1s").iter().all(|sample| sample["host"] == "station"));
    // The recordings have two seconds each, and one second in common.
    let summary = json(dir.path(), "DIR/ab");
    assert_eq!(summary["duration_s"], 3.0);
    assert_eq!(json(dir.path(), "DIR/ab --host web")["duration_s"], 2.0);
    assert_eq!(json(dir.path(), "DIR/ab --from 0.5 --to 1.5")["duration_s"], 1.0);
    let rates: Vec<_> =
        summary["sessions"].as_array().expect("rows").iter().map(|row| &row["rate_hz"]).collect();
    assert_eq!(rates, [265.0, 265.0]);
}

#[test]
fn the_first_screen_names_all_hosts() {
    let dir = two();
    insta::with_settings!({ snapshot_path => "../../golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("merged_summary", text(dir.path(), "DIR/ab"));
        insta::assert_snapshot!("merged_process", text(dir.path(), "top DIR/ab --by process"));
        insta::assert_snapshot!("merged_host", text(dir.path(), "top DIR/ab --by host"));
        insta::assert_snapshot!("merged_samples", text(dir.path(), "samples DIR/ab --from 1s --to 1010ms"));
    });
}

#[test]
fn blocks_are_copied_as_they_are_and_merged_files_can_be_merged() {
    let dir = two();
    elsewhere("db", 5, 0).write(&dir.path().join("c"), true).expect("written");
    let merged = json(dir.path(), "merge DIR/ab DIR/c -o DIR/abc");
    assert_eq!((&merged["sessions"], &merged["samples"]), (&3.into(), &1590.into()));
    let open = |name: &str| Recording::open(&dir.path().join(name)).expect("opens");
    let payloads = |recording: &Recording| -> Vec<(Kind, Vec<u8>)> {
        let stored = |entry| recording.stored(entry).expect("whole").to_vec();
        recording.entries().iter().map(|entry| (entry.header.kind, stored(entry))).collect()
    };
    let apart: Vec<_> = ["a", "b", "c"].iter().flat_map(|name| payloads(&open(name))).collect();
    let abc = open("abc");
    assert!(abc.is_closed() && abc.damage().is_empty());
    assert!(text(dir.path(), "verify DIR/abc").contains("all is well"));
    assert_eq!(payloads(&abc), apart);
    assert!(abc.entries().iter().map(|entry| entry.header.sequence).eq(0..apart.len() as u64));
    assert_eq!(json(dir.path(), "DIR/abc")["hosts"], serde_json::json!(["station", "web", "db"]));
}

#[test]
fn a_merged_file_that_is_torn_or_damaged_still_keeps_its_hosts_apart() {
    let dir = two();
    let bytes = std::fs::read(dir.path().join("ab")).expect("written");
    let recording = Recording::from_bytes(&bytes).expect("opens");
    let write = |bytes: &[u8]| std::fs::write(dir.path().join("x"), bytes).expect("written");
    // Without its tail the reader scans the file.
    write(&bytes[..bytes.len() - 8]);
    assert_eq!(
        json(dir.path(), "top DIR/x --by host")["rows"],
        json(dir.path(), "top DIR/ab --by host")["rows"]
    );
    // Wherever the file is torn, every remaining sample has its host.
    for cut in (64..bytes.len()).step_by(211) {
        write(&bytes[..cut]);
        for sample in samples(dir.path(), "DIR/x") {
            assert!(["station", "web"].contains(&sample["host"].as_str().expect("text")), "cut at {cut}");
        }
    }
    // The second session block is lost: the samples after it do not belong to the first host.
    let second = recording.entries().iter().filter(|entry| entry.header.kind == Kind::SESSION).nth(1);
    let mut damaged = bytes.clone();
    damaged[second.expect("two").off as usize + 70] ^= 1;
    for tail in [0, 8] {
        write(&damaged[..damaged.len() - tail]);
        let rows = json(dir.path(), "top DIR/x --by host");
        let rows = rows["rows"].as_array().expect("rows");
        assert_eq!(rows.len(), 2, "{rows:?}");
        assert!(rows.iter().all(|row| row["total_samples"] == 530), "{rows:?}");
    }
}

#[test]
fn of_damaged_and_open_recordings_the_rest_is_merged_and_the_loss_is_noted() {
    let dir = two();
    let mut bytes = std::fs::read(dir.path().join("b")).expect("written");
    let recording = Recording::from_bytes(&bytes).expect("opens");
    let entry = recording.entries().iter().find(|entry| entry.header.kind == Kind::SAMPLES).expect("samples");
    bytes[entry.off as usize + 70] ^= 1;
    std::fs::write(dir.path().join("b"), &bytes).expect("written");
    elsewhere("db", 5, 0).write(&dir.path().join("c"), false).expect("written");
    for tail in [0, 8] {
        std::fs::write(dir.path().join("b"), &bytes[..bytes.len() - tail]).expect("written");
        let merged = json(dir.path(), "merge DIR/a DIR/b DIR/c -o DIR/abc --force");
        assert_eq!(merged["samples"], 530 + 430 + 530);
        assert_eq!(
            (&merged["inputs"][1]["lost"], &merged["inputs"][2]["closed"]),
            (&100.into(), &false.into())
        );
        let summary = json(dir.path(), "DIR/abc");
        assert_eq!(summary["lost_by_cause"]["damaged"], 100);
        assert_eq!(summary["damage"], serde_json::json!([]));
        assert_eq!(json(dir.path(), "top DIR/abc --by host")["row_count"], 3);
        let out = text(dir.path(), "merge DIR/a DIR/b DIR/c -o DIR/abc --force");
        assert!(out.contains("c was not closed") && out.contains("b is damaged"), "{out}");
    }
}

#[test]
fn a_session_block_that_is_gone_is_replaced_by_one_that_says_so() {
    let dir = two();
    let mut bytes = std::fs::read(dir.path().join("b")).expect("written");
    bytes[64 + 70] ^= 1;
    std::fs::write(dir.path().join("b"), &bytes).expect("written");
    let merged = json(dir.path(), "merge DIR/a DIR/b -o DIR/x");
    assert_eq!((&merged["sessions"], &merged["samples"]), (&2.into(), &1060.into()));
    let rows = json(dir.path(), "top DIR/x --by host");
    assert_eq!((&rows["rows"][0]["host"], &rows["rows"][1]["host"]), (&"".into(), &"station".into()));
    assert!(text(dir.path(), "info DIR/x").contains("is lost"));
}

#[test]
fn what_would_lose_a_recording_or_count_it_twice_is_refused() {
    let dir = two();
    for (line, why) in [
        ("merge DIR/a DIR/b -o DIR/ab", "File exists; overwrite it with --force"),
        ("merge DIR/a DIR/ab -o DIR/ab --force", "this is the recording itself"),
        ("merge DIR/a DIR/b DIR/a -o DIR/x", "they are the same recording"),
        ("merge DIR/a DIR/nothing -o DIR/x", "cannot open recording `nothing`"),
        ("merge -o DIR/x", "required"),
    ] {
        let before = std::fs::read(dir.path().join("ab")).expect("there");
        let (code, out, err) = report(dir.path(), line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(err.contains(why), "{line}: {err}");
        assert!(!dir.path().join("x").exists());
        assert_eq!(std::fs::read(dir.path().join("ab")).expect("there"), before);
    }
}

#[test]
fn what_sessions_have_not_in_common_stands_with_each() {
    let dir = two();
    let mut other = elsewhere("lab", 3_000 * SECOND, 60 * SECOND);
    let session = other.session.as_mut().expect("it has one");
    session.command_line = ["icecore-record", "--", "make"].map(String::from).into();
    session.target = TargetKind::COMMAND;
    session.events[0].frequency_hz = 99;
    other.write(&dir.path().join("c"), true).expect("written");
    text(dir.path(), "merge DIR/ab DIR/c -o DIR/abc");
    let summary = json(dir.path(), "summary DIR/abc");
    assert_eq!(summary["sessions"].as_array().map(Vec::len), Some(3));
    for key in ["command_line", "events"] {
        assert_eq!(summary[key], Value::Array(vec![]), "{key}");
        assert_ne!(summary["sessions"][2][key], summary["sessions"][0][key], "{key}");
    }
    assert_eq!((&summary["target"], &summary["receipt"]), (&"".into(), &Value::Null));
    let number = |key: &str| summary[key].as_f64().expect("a number");
    assert!(
        (number("sessions_s") - 6.0).abs() < 0.01 && (number("duration_s") - 5.0).abs() < 0.01,
        "{summary:#}"
    );
    let lasted = summary["end_unix_ns"].as_u64().expect("a number")
        - summary["start_unix_ns"].as_u64().expect("a number");
    assert_eq!(lasted.div_ceil(SECOND), 62);
    let page = text(dir.path(), "summary DIR/abc");
    let made = "made        3 sessions · 2026-01-01 00:00:00 UTC to 2026-01-01 00:01:02 UTC · 6.00 s in all, 5.00 s in which any ran";
    assert!(page.contains(made) && page.contains("            icecore-record -- make\n"), "{page}");
    assert!(!page.contains("at 1000 Hz") && !page.contains("\ncommand "), "{page}");
    let info = json(dir.path(), "info DIR/abc");
    let sessions = info["sessions"].as_array().expect("a list");
    assert_eq!((sessions.len(), &sessions[2]["target"]), (3, &"command".into()));
    assert!(sessions.iter().all(|session| session["receipt"].is_object()), "{info:#}");
    assert!(text(dir.path(), "info DIR/abc").contains("session     3 of 3\n"));
    assert!(json(dir.path(), "info DIR/a")["sessions"].is_null());
}
