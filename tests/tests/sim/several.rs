//! Recordings that follow each other, as `--rotate` writes them, shown as one; and the newest of a folder.

use std::path::Path;

use icecore_format::records::{
    Basis, Cause, Change, Counter, CounterValue, CpuTime, ImageKind, Loss, Origin, Owner, ReceiptV1,
    SessionV1, Symbol,
};
use icecore_tests::inside::{json, text, typed as report};
use icecore_tests::machine::program;
use icecore_tests::synthetic::{Builder, PERIOD_NS, START_NS, session, story};
use serde_json::Value;

const SECOND: u64 = 1_000_000_000;
const FIRST_UNIX_NS: u64 = 1_767_225_600_000_000_000;
/// How long each recording lasts.
const EACH_S: u64 = 2;
/// Samples of each second of a recording.
const HZ: u64 = 100;

/// One recording of a series.
struct Piece {
    name: &'static str,
    /// When it begins, ns after the series.
    at_ns: u64,
    /// By how much the clock on the wall was set in the meantime.
    set_ns: i64,
    boot_id: &'static str,
    /// Of this process, whose function is `work`.
    tgid: u32,
    closed: bool,
}

impl Default for Piece {
    fn default() -> Self {
        Self { name: "a", at_ns: 0, set_ns: 0, boot_id: "b007", tgid: 100, closed: true }
    }
}

impl Piece {
    /// Makes a recording of two seconds in which one thread is sampled a hundred times a second on CPU 0, with the kernel's account and
    /// a counter that grows by 1,000 a second. One sample is lost.
    fn builder(&self) -> Builder {
        let mut b = Builder::default();
        b.uuid = Some([self.name.as_bytes()[0]; 16]);
        let start_ns = START_NS + self.at_ns;
        let end_ns = start_ns + EACH_S * SECOND;
        let task = b.task(self.tgid, self.tgid, "worker");
        let image = b.image(ImageKind::FILE, "/usr/bin/worker");
        b.symbols.push(Symbol::new(image, 0x1000..0x1100, "work"));
        b.change(self.at_ns, Change::FOUND, self.tgid, 1, "worker");
        b.map(self.at_ns, self.tgid, 0x40_0000, image, Origin::SCAN);
        let period_ns = SECOND / HZ;
        for number in 0..EACH_S * HZ {
            b.sample(self.at_ns + number * period_ns, 0, task, &[0x40_0010], &[]).weight = period_ns;
        }
        b.cpu_times.push(CpuTime {
            time_ns: end_ns,
            since_ns: start_ns,
            tgid: self.tgid,
            tid: self.tgid,
            ran_ns: EACH_S * SECOND,
            user_ns: EACH_S * SECOND,
            kernel_ns: 0,
        });
        for second in 0..=EACH_S {
            let time_ns = start_ns + second * SECOND;
            let since_boot = (self.at_ns / SECOND + second) * 1_000;
            let value = |owner, counter, value| CounterValue { time_ns, owner, counter, value };
            b.counters.push(value(Owner::Machine, Counter::SWITCHES, since_boot));
            b.counters.push(value(Owner::Process(self.tgid), Counter::MEMORY, (4 + second) << 20));
        }
        b.losses.push(Loss { time_ns: end_ns, ..Loss::of(Cause::RING_FULL_SAMPLE, 1) });
        b.basis = Basis { unit_ns: 1_000, period_ns: PERIOD_NS, ..Basis::default() };
        let start_unix_ns = (FIRST_UNIX_NS + self.at_ns).saturating_add_signed(self.set_ns);
        let boot_id = self.boot_id.to_owned();
        let mut here = SessionV1 { start_ns, start_unix_ns, boot_id, ..session() };
        here.events[0].frequency_hz = HZ;
        b.session = Some(here);
        b.receipt = self.closed.then(|| ReceiptV1 {
            end_ns,
            samples: EACH_S * HZ,
            lost: 1,
            ..story().receipt.expect("the story has one")
        });
        b
    }

    fn write(&self, dir: &Path) {
        let path = dir.join(format!("{}.icecore", self.name));
        self.builder().write(&path, self.closed).expect("written");
    }
}

/// Three recordings without a gap, named against the order of time, between which the clock on the wall was set.
fn series() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    let each = EACH_S * SECOND;
    Piece { name: "c", ..Piece::default() }.write(dir.path());
    Piece { name: "a", at_ns: each, set_ns: -30 * SECOND as i64, ..Piece::default() }.write(dir.path());
    Piece { name: "b", at_ns: 2 * each, set_ns: 5 * SECOND as i64, ..Piece::default() }.write(dir.path());
    dir
}

const ALL: &str = "DIR/a.icecore DIR/b.icecore DIR/c.icecore";

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn recordings_that_follow_each_other_are_one_stretch_of_time() {
    let dir = series();
    let summary = json(dir.path(), &format!("summary {ALL}"));
    assert_eq!((&summary["duration_s"], &summary["sessions_s"]), (&6.0.into(), &6.0.into()));
    assert_eq!((&summary["samples"], &summary["rate_hz"]), (&600.into(), &100.0.into()));
    assert_eq!(summary["lost"], 3);
    assert_eq!(summary["file"], "c.icecore and 2 more");
    assert_eq!(summary["files"], serde_json::json!(["c.icecore", "a.icecore", "b.icecore"]));
    assert!(summary["gaps"].is_null() && summary["closed"] == true);
    assert!((number(&summary["cpu_time_agreement"]) - 1.0).abs() < 1e-9, "{summary:#}");
    let memory =
        serde_json::json!([{ "tgid": 100, "comm": "worker", "bytes": 6 << 20, "source": "reading" }]);
    assert_eq!(summary["peak_memory"], memory);
    let page = text(dir.path(), &format!("summary {ALL}"));
    assert!(page.contains("3 sessions · ") && page.contains("6.00 s in all"), "{page}");
    assert!(page.contains("machine     station") && !page.contains("\nsession "), "{page}");
    assert!(!page.contains("nobody recorded"), "{page}");
    let health = json(dir.path(), &format!("health {ALL}"));
    assert_eq!(health["lost"]["ring_full_sample"], 3);
    assert_eq!(health["cpu_time"]["kernel_ns"], 6 * SECOND);
    assert_eq!(health["cpu_time"]["sampled_ns"], 6 * SECOND);
}

#[test]
fn a_timeline_of_several_is_one_axis_in_the_order_of_time() {
    let dir = series();
    let timeline = json(dir.path(), &format!("timeline {ALL} --buckets 6"));
    assert_eq!((&timeline["begin_s"], &timeline["end_s"]), (&0.0.into(), &6.0.into()));
    let values: Vec<f64> = timeline["values"].as_array().expect("a list").iter().map(number).collect();
    assert!(values.iter().all(|value| (value - 1.0).abs() < 0.02), "{values:?}");
    assert_eq!(timeline["changes"], serde_json::json!([]));
    let rows = timeline["rows"].as_array().expect("a list");
    let processes: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "process").collect();
    assert_eq!((processes.len(), &processes[0]["host"]), (1, &Value::Null));
    // The counters of the machine and of the process go on from file to file.
    let counters = timeline["counters"].as_array().expect("a list");
    let owners: Vec<_> = counters.iter().map(|owner| &owner["owner"]).collect();
    assert_eq!(owners, ["machine", "process"]);
    let switches = &counters[0]["counters"][0];
    assert_eq!((&switches["counter"], &switches["total"]), (&"switches".into(), &6_000.into()));
    assert!(switches["values"].as_array().expect("a list").iter().all(|value| number(value) == 1_000.0));
}

#[test]
fn samples_of_several_count_from_the_first_and_time_filters_mean_that_time() {
    let dir = series();
    let times = |line: &str| -> Vec<u64> {
        let out = text(dir.path(), &format!("samples {ALL}{line} --json"));
        let time = |line: &str| serde_json::from_str::<Value>(line).expect("JSON")["time_ns"].as_u64();
        out.lines().map(|line| time(line).expect("a time")).collect()
    };
    let all = times("");
    assert_eq!((all.len(), all[0], all[599]), (600, 0, 6 * SECOND - SECOND / HZ));
    assert!(all.windows(2).all(|pair| pair[1] - pair[0] == SECOND / HZ), "one series, without a jump");
    let some = times(" --from 1.5 --to 2.5");
    assert_eq!((some.len(), some[0]), (100, 1_500_000_000));
    let summary = json(dir.path(), &format!("{ALL} --from 1 --to 5"));
    assert_eq!((&summary["duration_s"], &summary["samples"]), (&4.0.into(), &400.into()));
    // All in the first file: those of the others do not count.
    assert_eq!(json(dir.path(), &format!("top {ALL} --to 2"))["total_samples"], 200);
    let table = text(dir.path(), &format!("samples {ALL} --to 20ms"));
    assert!(!table.contains("station"), "one host needs no column: {table}");
}

#[test]
fn other_views_add_up_and_name_no_host_if_there_is_one() {
    let dir = series();
    let top = json(dir.path(), &format!("top {ALL} --by process"));
    assert_eq!((&top["row_count"], &top["rows"][0]["total_samples"]), (&1.into(), &600.into()));
    assert!(top["rows"][0]["host"].is_null(), "{top:#}");
    let functions = json(dir.path(), &format!("top {ALL}"));
    assert_eq!(
        (&functions["rows"][0]["name"], &functions["rows"][0]["total_samples"]),
        (&"work".into(), &600.into())
    );
    assert_eq!(text(dir.path(), &format!("folded {ALL}")), "worker;work 600\n");
    assert_eq!(json(dir.path(), &format!("depth {ALL}"))["groups"].as_array().map(Vec::len), Some(1));
    let info = json(dir.path(), &format!("info {ALL}"));
    assert_eq!((&info["samples"], info["sessions"].as_array().map(Vec::len)), (&600.into(), Some(3)));
    let flame = report(dir.path(), &format!("flame {ALL} -o DIR/x.svg"));
    assert_eq!(flame.0, 0, "{flame:?}");
    let refused = report(dir.path(), &format!("flame {ALL} -o DIR/b.icecore --force"));
    assert!(refused.0 == 2 && refused.2.contains("this is the recording itself"), "{refused:?}");
    // The function comes last, wherever options stand.
    let annotate = format!("annotate {ALL} --only asm work --json");
    assert!(text(dir.path(), &annotate).contains("\"total_samples\": 600"));
    let (code, _, err) = report(dir.path(), &format!("annotate {ALL}"));
    assert!(code == 2 && err.contains("cannot annotate without a function"), "{err}");
}

#[test]
fn time_that_nobody_recorded_is_told() {
    let dir = series();
    let late = 4 * EACH_S * SECOND + 500_000_000;
    Piece { name: "d", at_ns: late, set_ns: 5 * SECOND as i64, ..Piece::default() }.write(dir.path());
    let summary = json(dir.path(), &format!("{ALL} DIR/d.icecore"));
    // The clock on the wall was set by 5 s at some time before: nobody knows whether the machine slept, or when.
    let from = FIRST_UNIX_NS + 6 * SECOND;
    let (to, s) = (FIRST_UNIX_NS + late + 5 * SECOND, 7.5);
    assert_eq!(summary["gaps"], serde_json::json!([{ "from_unix_ns": from, "to_unix_ns": to, "s": s }]));
    assert_eq!(summary["duration_s"], 8.0);
    let page = text(dir.path(), &format!("{ALL} DIR/d.icecore"));
    assert!(
        page.contains("1 gap, 7.50 s in all, in which nobody recorded: 2026-01-01 00:00:06 UTC for"),
        "{page}"
    );
    let timeline = json(dir.path(), &format!("timeline {ALL} DIR/d.icecore"));
    assert_eq!((&timeline["gaps"], &timeline["end_s"]), (&summary["gaps"], &15.5.into()));
    assert_eq!(timeline["changes"], serde_json::json!([]), "that nobody recorded is no change");
    insta::with_settings!({ snapshot_path => "../../golden", prepend_module_to_snapshot => false, omit_expression => true }, {
        insta::assert_snapshot!("several_summary", page);
        insta::assert_snapshot!("several_timeline", text(dir.path(), &format!("timeline {ALL} DIR/d.icecore")));
    });
    // Only as much of it as was asked for.
    let part = json(dir.path(), &format!("{ALL} DIR/d.icecore --to 7"));
    assert_eq!(part["gaps"][0]["s"], 1.0);
    assert!(json(dir.path(), &format!("{ALL} DIR/d.icecore --to 6"))["gaps"].is_null());
    // A process of another boot has nothing to do with one of this number here.
    Piece { name: "e", at_ns: 60 * SECOND, boot_id: "b008", ..Piece::default() }.write(dir.path());
    let boots = json(dir.path(), "timeline DIR/c.icecore DIR/e.icecore");
    assert_eq!(boots["counters"].as_array().map(Vec::len), Some(4), "{boots:#}");
    assert_eq!(json(dir.path(), "DIR/c.icecore DIR/e.icecore")["gaps"][0]["s"], 58.0);
}

#[test]
fn the_newest_recording_of_a_folder_is_shown() {
    let dir = series();
    std::fs::write(dir.path().join("junk.icecore"), "no recording").expect("written");
    std::fs::create_dir(dir.path().join("sub.icecore")).expect("made");
    let (code, out, err) = report(dir.path(), "top DIR --json");
    let top: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, &top["total_samples"]), (0, &200.into()));
    assert!(
        err.contains("is a folder: this is b.icecore, the newest recording in it; there are 2 others"),
        "{err}"
    );
    assert!(
        err.contains("warning: skipped: cannot open recording `junk.icecore`: not an icecore recording"),
        "{err}"
    );
    // The recorder still writes the newest.
    let at_ns = 3 * EACH_S * SECOND;
    Piece { name: "0", at_ns, closed: false, ..Piece::default() }.write(dir.path());
    let (_, out, err) = report(dir.path(), "DIR");
    assert!(err.contains("this is 0.icecore") && out.contains("not closed"), "{err}{out}");
    let open = json(dir.path(), &format!("{ALL} DIR/0.icecore"));
    assert_eq!((&open["closed"], &open["samples"]), (&false.into(), &800.into()));
    assert_eq!(json(dir.path(), &format!("{ALL} DIR/0.icecore"))["gaps"], Value::Null);
    let (code, out, err) = report(dir.path(), "diff DIR/c.icecore DIR --json");
    assert!(code == 0 && out.contains("0.icecore") && err.contains("this is 0.icecore"), "{err}");
    assert!(report(dir.path(), "-q info DIR").2.starts_with("warning: skipped"), "notes are hidden");
}

#[test]
fn what_cannot_be_shown_as_one_is_refused_with_a_remedy() {
    let dir = series();
    std::fs::create_dir(dir.path().join("empty")).expect("made");
    std::fs::copy(dir.path().join("a.icecore"), dir.path().join("copy.icecore")).expect("copied");
    let many = "DIR/a.icecore ".repeat(1_025);
    for (line, why) in [
        ("top DIR/empty", "it has no *.icecore; name a recording, or make one with `icecore-record -o"),
        (
            "top DIR/a.icecore DIR/b.icecore DIR/copy.icecore",
            "they are the same recording, by their UUID; name it once",
        ),
        ("top DIR/a.icecore DIR/nothing", "cannot open recording `nothing`"),
        ("top - DIR/a.icecore -", "cannot read two recordings from stdin"),
        (
            &format!("top {}", many.trim_end()),
            "cannot read 1,025 recordings as one: a view takes at most 1,024; name fewer",
        ),
        ("topp DIR/a.icecore DIR/b.icecore", "there is no command `topp`: did you mean `top`?"),
        ("DIR/a.icecore DIR/b.icecore health", "write the command before its files"),
    ] {
        let (code, out, err) = report(dir.path(), line);
        assert_eq!((code, out.as_str()), (2, ""), "{line}");
        assert!(err.contains(why), "{line}: {err}");
    }
    let mut full = std::process::Command::new(program("icecore-report"));
    full.env("TMPDIR", "/no/such").current_dir(dir.path()).args(["top", "a.icecore", "b.icecore"]);
    let err = String::from_utf8(full.output().expect("it was built").stderr).expect("UTF-8");
    assert!(
        err.contains("cannot read 2 recordings as one: cannot keep it in the folder for temporary files"),
        "{err}"
    );
    assert!(err.contains("`/no/such`") && err.contains("set TMPDIR to a folder with more room"), "{err}");
    text(dir.path(), "archive DIR/archive add DIR/a.icecore");
    let (code, _, err) = report(dir.path(), "top DIR/archive");
    assert!(code == 2 && err.contains("it is an archive; write `icecore-report archive"), "{err}");
}
