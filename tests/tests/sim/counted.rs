//! Counters of recordings whose figures are known: drawn, added up, cut, merged, redacted.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{
    Change, Counter, CounterValue, CountersV1, EndReason, ImageKind, Origin, Owner, ReceiptV1, SessionV1,
};
use icecore_tests::inside::{self, golden, text};
use icecore_tests::synthetic::{Builder, START_NS, session};
use serde_json::{Value, json};

const MS: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// Ten seconds of a machine with a server that grows for five seconds, and a child of it that lives for two. The machine reads 10 MiB
/// of disks each second, and the server half of that.
fn counted(host: &str) -> Builder {
    let mut b = Builder::default();
    b.session = Some(SessionV1 { host: host.into(), ..session() });
    b.uuid = Some([host.len() as u8; 16]);
    let bin = b.image(ImageKind::FILE, "/no/such/bin/server");
    b.change(1_000, Change::FOUND, 100, 1, "server");
    b.map(2_000, 100, 0x1_0000, bin, Origin::SCAN);
    b.change(4_000 * MS, Change::FORK, 200, 100, "child");
    b.change(6_000 * MS, Change::EXIT, 200, 0, "child");
    b.cgroup(1_500, 100, "/web.slice");
    let server = b.task(100, 100, "server");
    for n in 0..1_000 {
        b.sample(n * 10 * MS, (n % 2) as u16, server, &[0x1_0040], &[]);
    }
    let path = b.string("/web.slice");
    for second in 0..=10 {
        let grown = second.min(5);
        let mut add = |owner, counter, value| {
            b.counters.push(CounterValue { time_ns: START_NS + second * 1_000 * MS, owner, counter, value });
        };
        add(Owner::Machine, Counter::CPU, 900_000 * MS + second * 1_500 * MS);
        add(Owner::Machine, Counter::MEMORY, (1_000 + 10 * grown) * MIB);
        add(Owner::Machine, Counter::MINOR_FAULTS, 77);
        add(Owner::Machine, Counter::SWITCHES, 5_000_000 + 300 * second);
        add(Owner::Machine, Counter::DISK_READ, 10 * MIB * second);
        add(Owner::Machine, Counter::RUNNABLE, 1 + second % 3);
        add(Owner::Machine, Counter::IO_PRESSURE, 250 * MS * second);
        add(Owner::Machine, Counter::PROCESSES_LEFT_OUT, 7 * (second / 10));
        add(Owner::Process(100), Counter::CPU, 70_000 * MS + 1_000 * MS * second);
        add(Owner::Process(100), Counter::MEMORY, (100 + 10 * grown) * MIB);
        add(Owner::Process(100), Counter::MINOR_FAULTS, 2_560 * grown);
        add(Owner::Process(100), Counter::DISK_READ, 5 * MIB * second);
        add(Owner::Process(100), Counter::THREADS, 4);
        add(Owner::Cgroup(path), Counter::CPU, 1_000 * MS * second);
        if second == 5 {
            add(Owner::Process(200), Counter::MEMORY, 300 * MIB);
            add(Owner::Process(200), Counter::CPU, 500 * MS);
        }
    }
    let end = |counter, value| CounterValue {
        time_ns: START_NS + 6_000 * MS,
        owner: Owner::Process(200),
        counter,
        value,
    };
    b.counters.push(end(Counter::CPU, 1_000 * MS));
    b.counters.push(end(Counter::MEMORY_PEAK, 400 * MIB));
    b.receipt = Some(ReceiptV1 {
        end_ns: START_NS + 10_000 * MS,
        end_reason: EndReason::DURATION,
        exit_code: -1,
        samples: 1_000,
        ..ReceiptV1::default()
    });
    b
}

fn made() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    counted("station").write(&dir.path().join("x.icecore"), true).expect("room");
    dir
}

/// Returns the rows of a file.
fn rows(path: &Path) -> Vec<CounterValue> {
    let recording = Recording::open(path).expect("it opens");
    let blocks = recording.entries().iter().filter(|entry| entry.header.kind == Kind::COUNTERS);
    let of_block = |entry| {
        let payload = recording.payload(entry).expect("whole");
        payload.view::<CountersV1>().expect("an archive").rows().collect::<Vec<_>>()
    };
    blocks.flat_map(of_block).collect()
}

/// Returns a counter of an owner in a timeline.
fn series<'v>(timeline: &'v Value, owner: &str, tgid: Option<u64>, counter: &str) -> Option<&'v Value> {
    let owners = timeline["counters"].as_array()?.iter();
    let mut found =
        owners.filter(|row| row["owner"] == owner && row.get("tgid").and_then(Value::as_u64) == tgid);
    found.next()?["counters"].as_array()?.iter().find(|row| row["counter"] == counter)
}

#[test]
fn counters_are_drawn_beside_the_samples() {
    let dir = made();
    golden(dir.path(), "counters_timeline", &["timeline", "DIR/x.icecore"]);
    golden(dir.path(), "counters_summary", &["summary", "DIR/x.icecore"]);
    let csv = text(dir.path(), "timeline DIR/x.icecore --buckets 2 --csv");
    for (bucket, cells, expected) in [
        (0, "machine:cpu,,,,,", 1.5),
        (1, "process:minor_faults,server,,,100,", 0.0),
        (0, "cgroup:cpu,/web.slice,,,,", 1.0),
        (0, "process:cpu,child,,,200,", 0.1),
    ] {
        let values =
            csv.lines().filter_map(|line| line.split_once(',')?.1.strip_prefix(cells)?.strip_prefix(','));
        let values: Vec<f64> = values.map(|value| value.parse().expect("a number")).collect();
        assert_eq!(values.len(), 2, "{cells} is not in\n{csv}");
        near(values[bucket], expected, cells);
    }
}

/// Slices of time are whole nanoseconds, so that buckets are a little longer than they should be.
fn near(value: f64, expected: f64, what: &str) {
    assert!((value - expected).abs() <= expected.abs() * 1e-6 + 1e-3, "{what}: {value}, and not {expected}");
}

/// Compares the values of a series; NaN stands for unknown, or for a few nanoseconds that the next bucket lost.
fn are_near(series: &Value, expected: &[f64]) {
    let values = series["values"].as_array().expect("a list");
    assert_eq!(values.len(), expected.len());
    for (value, expected) in values.iter().zip(expected) {
        match value.as_f64() {
            Some(value) => near(value, if expected.is_nan() { 0.0 } else { *expected }, &series.to_string()),
            None => assert!(expected.is_nan(), "{series}"),
        }
    }
}

#[test]
fn rates_and_levels_are_those_of_the_readings() {
    let dir = made();
    let timeline = inside::json(dir.path(), "timeline DIR/x.icecore --buckets 5");
    let of = |owner, tgid, counter| series(&timeline, owner, tgid, counter).expect("it is listed");
    let machine = |counter| of("machine", None, counter);
    are_near(machine("cpu"), &[1.5; 5]);
    assert_eq!(machine("cpu")["unit"], "cpus");
    near(machine("cpu")["total"].as_f64().expect("a sum"), 15e9, "CPU time");
    are_near(machine("io_pressure"), &[0.25; 5]);
    are_near(machine("switches"), &[300.0; 5]);
    assert_eq!([&machine("io_pressure")["unit"], &machine("switches")["unit"]], ["share", "count/s"]);
    let memory = of("process", Some(100), "memory");
    are_near(memory, &[105.0, 125.0, 145.0, 150.0, 150.0].map(|mib| mib * MIB as f64));
    assert_eq!((&memory["peak"], &memory["total"]), (&((150 * MIB) as f64).into(), &Value::Null));
    // The child began at 0, and was there from 4 s to 6 s: one reading at 5 s, and its end.
    let child = of("process", Some(200), "cpu");
    let unknown = f64::NAN;
    are_near(child, &[unknown, unknown, 0.5, unknown, unknown]);
    assert_eq!(child["total"], 1_000_000_000);
    are_near(of("process", Some(200), "memory"), &[unknown, unknown, 300.0 * MIB as f64, unknown, unknown]);
    let peaks = inside::json(dir.path(), "summary DIR/x.icecore")["peak_memory"].take();
    let expected = json!([
        {"tgid": 200, "comm": "child", "bytes": 400 * MIB, "source": "mark"},
        {"tgid": 100, "comm": "server", "bytes": 150 * MIB, "source": "reading"},
    ]);
    assert_eq!(peaks, expected);
}

#[test]
fn a_recording_without_samples_shows_its_counters() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut idle = counted("station");
    idle.samples.clear();
    idle.receipt = idle.receipt.map(|receipt| ReceiptV1 { samples: 0, ..receipt });
    idle.write(&dir.path().join("idle"), true).expect("room");
    let page = text(dir.path(), "timeline DIR/idle");
    for part in ["no samples", "context switches per second", "150.0 MiB", "server"] {
        assert!(page.contains(part), "{part}: {page}");
    }
}

#[test]
fn filters_choose_processes_and_keep_the_machine() {
    let dir = made();
    let timeline = inside::json(dir.path(), "timeline DIR/x.icecore --comm server");
    assert!(series(&timeline, "machine", None, "cpu").is_some());
    assert!(series(&timeline, "process", Some(100), "cpu").is_some());
    assert!(series(&timeline, "process", Some(200), "cpu").is_none());
    let part = inside::json(dir.path(), "timeline DIR/x.icecore --from 2 --to 3 --buckets 1");
    let cpu = series(&part, "process", Some(100), "cpu").expect("it is listed");
    are_near(cpu, &[1.0]);
    near(cpu["total"].as_f64().expect("a sum"), 1e9, "CPU time");
    assert!(series(&part, "process", Some(200), "cpu").is_none(), "it began later");
}

#[test]
fn recordings_made_of_others_keep_the_counters_of_what_they_keep() {
    let dir = made();
    let all = rows(&dir.path().join("x.icecore"));
    let owners = |file: &str| {
        let mut owners: Vec<Owner> = rows(&dir.path().join(file)).iter().map(|row| row.owner).collect();
        owners.sort();
        owners.dedup();
        owners.len()
    };
    text(dir.path(), "compact DIR/x.icecore -o DIR/compact");
    assert_eq!(rows(&dir.path().join("compact")).len(), all.len());
    text(dir.path(), "cut DIR/x.icecore --pid 100 -o DIR/server");
    assert_eq!(owners("server"), 2, "the machine and the process");
    text(dir.path(), "cut DIR/x.icecore --from 2 --to 4 -o DIR/early");
    let early = rows(&dir.path().join("early"));
    let inside = |row: &&CounterValue| (START_NS + 2_000 * MS..START_NS + 4_000 * MS).contains(&row.time_ns);
    assert_eq!(early.len(), all.iter().filter(inside).count());
    text(dir.path(), "cut DIR/x.icecore --from 4 --to 7 -o DIR/middle");
    let peaks = inside::json(dir.path(), "summary DIR/middle")["peak_memory"].take();
    assert_eq!((&peaks[0]["comm"], &peaks[0]["tgid"]), (&"child".into(), &200.into()), "no sample is of it");
    for file in ["compact", "server", "early", "middle"] {
        text(dir.path(), &format!("verify DIR/{file}"));
    }

    counted("web").write(&dir.path().join("web"), true).expect("room");
    text(dir.path(), "merge DIR/x.icecore DIR/web -o DIR/both");
    assert_eq!(inside::json(dir.path(), "info DIR/both")["counters"], 2 * all.len());
    let both = inside::json(dir.path(), "timeline DIR/both --buckets 1");
    let machines =
        both["counters"].as_array().expect("a list").iter().filter(|row| row["owner"] == "machine");
    let hosts: Vec<&str> = machines.filter_map(|row| row["host"].as_str()).collect();
    assert_eq!(hosts, ["station", "web"]);
    let web = inside::json(dir.path(), "summary DIR/both --host web")["peak_memory"].take();
    assert_eq!((&web[0]["host"], &web[0]["bytes"]), (&"web".into(), &(400 * MIB).into()));

    text(dir.path(), "compact DIR/x.icecore --redact paths -o DIR/redacted");
    let redacted = text(dir.path(), "timeline DIR/redacted --csv");
    assert!(redacted.contains("cgroup:cpu,") && !redacted.contains("web.slice"), "{redacted}");
    let bytes = std::fs::read(dir.path().join("redacted")).expect("it is there");
    assert!(!bytes.windows(9).any(|window| window == b"web.slice"));
}
