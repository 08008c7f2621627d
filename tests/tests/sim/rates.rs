//! Recordings whose rate changed and whose recorder paused. When it sampled, and at which rate, is known; one thread runs all the time.

use std::path::Path;

use icecore_format::read::growing::Growing;
use icecore_format::records::{
    Change, CpuTime, EndReason, ImageKind, Origin, RateCause, RateChange, ReceiptV1, SessionV1, Symbol,
};
use icecore_profile::live::Follower;
use icecore_profile::recording::filter::Filter;
use icecore_symbolize::image::{Finder, Search};
use icecore_tests::inside::{json, report, text, typed};
use icecore_tests::synthetic::{Builder, START_NS, session};
use serde_json::{Value, json};

const S: u64 = 1_000_000_000;
const WHOLE: u32 = RateChange::WHOLE;
/// The requested rate.
const HZ: u64 = 100;

/// A session from one second to another: from when on at which share, and how it ended.
struct Sampled<'a> {
    seconds: (u64, u64),
    rates: &'a [(u64, u32, RateCause)],
    end: EndReason,
}

impl Sampled<'_> {
    /// Makes the session: its one thread is hit every period of the rate in force, and the kernel's account agrees.
    fn builder(&self) -> Builder {
        let (begin, end) = self.seconds;
        let mut b = Builder::default();
        let (start_ns, end_ns) = (START_NS + begin * S, START_NS + end * S);
        let mut own = SessionV1 { start_ns, start_unix_ns: session().start_unix_ns + begin * S, ..session() };
        own.events[0].frequency_hz = HZ;
        b.session = Some(own);
        let task = b.task(100, 100, "worker");
        let image = b.image(ImageKind::FILE, "/usr/bin/worker");
        b.symbols.push(Symbol::new(image, 0x1000..0x1100, "work"));
        b.change(begin * S, Change::FOUND, 100, 1, "worker");
        b.map(begin * S, 100, 0x40_0000, image, Origin::SCAN);
        let (mut at_ns, mut samples) = (begin * S, 0);
        let next =
            |at_ns: u64| self.rates.iter().find(|row| row.0 * S > at_ns).map_or(end * S, |row| row.0 * S);
        let mut ran = Vec::new();
        while at_ns < end * S {
            let row = self.rates.iter().rev().find(|row| row.0 * S <= at_ns);
            let share = row.map_or(WHOLE, |row| row.1);
            if share == 0 {
                at_ns = next(at_ns);
                continue;
            }
            if ran.last().is_none_or(|last: &(u64, u64)| last.1 != next(at_ns)) {
                ran.push((at_ns, next(at_ns)));
            }
            let period_ns = S / HZ * u64::from(WHOLE) / u64::from(share);
            b.sample(at_ns + period_ns / 2, 0, task, &[0x40_0010], &[]).weight = period_ns;
            (at_ns, samples) = (at_ns + period_ns, samples + 1);
        }
        let change = |(at, share, cause): &(u64, u32, RateCause)| {
            let (measured, limit) = if *cause == RateCause::CPU { (24_000, 10_000) } else { (0, 0) };
            RateChange { time_ns: START_NS + at * S, share: *share, cause: *cause, measured, limit }
        };
        b.rates = self.rates.iter().map(change).collect();
        for (from_ns, to_ns) in ran {
            let (ran_ns, user_ns, kernel_ns) = (to_ns - from_ns, to_ns - from_ns, 0);
            let (time_ns, since_ns, tgid, tid) = (START_NS + to_ns, START_NS + from_ns, 100, 100);
            b.cpu_times.push(CpuTime { time_ns, since_ns, tgid, tid, ran_ns, user_ns, kernel_ns });
        }
        let (end_reason, exit_code) = (self.end, -1);
        b.receipt = Some(ReceiptV1 { end_ns, end_reason, samples, exit_code, ..ReceiptV1::default() });
        b
    }
}

/// | seconds | share |
/// |---|---|
/// | 0 to 4, 4 to 8, 8 to 10 | 1, 1/4, 1/2 |
/// | 10 to 30 | paused |
/// | 30 to 40 | 1/2 |
/// | 40 to 60 | paused until the end |
fn recording() -> Builder {
    let (cpu, duty) = (RateCause::CPU, RateCause::DUTY);
    let rates =
        [(4, WHOLE / 4, cpu), (8, WHOLE / 2, cpu), (10, 0, duty), (30, WHOLE / 2, cpu), (40, 0, duty)];
    Sampled { seconds: (0, 60), rates: &rates, end: EndReason::DURATION }.builder()
}

fn written(dir: &Path) {
    recording().write(&dir.join("r.icecore"), true).expect("room");
}

fn is_near(found: &Value, wanted: &[Option<f64>]) -> bool {
    let found = found.as_array().expect("a list");
    let near = |(found, wanted): (&Value, &Option<f64>)| match wanted {
        None => found.is_null(),
        Some(wanted) => found.as_f64().is_some_and(|found| (found - wanted).abs() < 0.02),
    };
    found.len() == wanted.len() && found.iter().zip(wanted).all(near)
}

#[test]
fn the_summary_says_how_often_the_rate_was_lowered_and_how_long_nobody_sampled() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let summary = json(dir.path(), "summary DIR/r.icecore");
    assert_eq!(
        (&summary["duration_s"], &summary["samples"], &summary["total_weight"], &summary["rate_hz"]),
        (&json!(20.0), &json!(1_100), &json!(20 * S), &json!(55.0))
    );
    let rate = &summary["rate"];
    assert_eq!(
        (&rate["lowest_share"], &rate["lowered"], &rate["pauses"]),
        (&json!(0.25), &json!(1), &json!(2))
    );
    assert_eq!((&rate["paused_s"], &rate["mean_share"]), (&json!(40.0), &json!(0.55)));
    assert_eq!(summary["rates"].as_array().expect("rows").len(), 5);
    let gaps = summary["gaps"].as_array().expect("two");
    assert!(
        gaps.len() == 2 && gaps.iter().all(|gap| gap["s"] == 20.0 && gap["paused"] == "duty"),
        "{gaps:?}"
    );
    assert_eq!(summary["end_unix_ns"], session().start_unix_ns + 60 * S);
    assert_eq!((&summary["cpu_time_agreement"], &summary["processes"][0]["pids"]), (&json!(1.0), &json!(1)));
    // Stacks of one frame reach no root.
    assert_eq!(summary["problems"].as_array().map(Vec::len), Some(1), "{}", summary["problems"]);
    let page = text(dir.path(), "summary DIR/r.icecore");
    let line = "lowered once, to 25.0% of 100 Hz (CPU budget); paused for 40.00 s in 2 stretches (duty)";
    assert!(page.contains(line), "{page}");
    assert!(
        page.contains("20.00 s sampled, until 1 min 00 s after the start")
            && !page.contains("nobody recorded"),
        "{page}"
    );
    assert!(!page.contains("achieved"), "it is within the rates that were in force: {page}");
    assert!(text(dir.path(), "health DIR/r.icecore").contains(line));
}

#[test]
fn filters_of_time_hold_for_rates_and_pauses() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let rate = |options: &str| json(dir.path(), &format!("summary DIR/r.icecore {options}"))["rate"].take();
    assert_eq!(rate("--to 3"), Value::Null);
    let late = rate("--from 8 --to 15");
    assert_eq!(
        (&late["lowest_share"], &late["lowered"], &late["paused_s"]),
        (&json!(0.5), &json!(1), &json!(5.0))
    );
}

#[test]
fn who_asks_for_a_pause_alone_is_told_that_nobody_sampled() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    for view in ["top", "tree", "depth", "missing", "flame", "diff DIR/r.icecore"] {
        for (options, why) in [
            ("--from 12 --to 20", Some("no samples: the recorder paused all that time (duty)")),
            ("--comm other", Some("no samples: the filters leave none")),
            ("--from 8 --to 20", None),
        ] {
            let (_, out, err) = typed(dir.path(), &format!("{view} DIR/r.icecore {options}"));
            let shown = out + &err;
            match why {
                Some(why) => assert!(shown.contains(why), "{view} {options}: {shown}"),
                None => assert!(!shown.contains("no samples"), "{view} {options}: {shown}"),
            }
        }
    }
}

#[test]
fn a_timeline_divides_by_the_sampled_time_and_has_no_value_in_a_pause() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let timeline = json(dir.path(), "timeline DIR/r.icecore --buckets 12");
    assert_eq!((&timeline["begin_s"], &timeline["end_s"]), (&json!(0.0), &json!(60.0)));
    let (one, none) = (Some(1.0), None);
    let wanted = [one, one, none, none, none, none, one, one, none, none, none, none];
    assert!(is_near(&timeline["values"], &wanted), "{timeline}");
    assert!(is_near(&timeline["rows"][0]["values"], &wanted), "{timeline}");
    let mut rates = [none; 12];
    (rates[0], rates[1], rates[6], rates[7]) = (Some(0.85), Some(0.35), Some(0.5), Some(0.5));
    assert!(is_near(&timeline["rates"], &rates), "{timeline}");
    // 7.5 s each: the second and the sixth were sampled for a third of their time.
    let timeline = json(dir.path(), "timeline DIR/r.icecore --buckets 8");
    assert!(is_near(&timeline["values"], &[one, one, none, none, one, one, none, none]), "{timeline}");
    let third = Some(1.0 / 3.0);
    let zero = Some(0.0);
    assert!(is_near(&timeline["sampled"], &[one, third, zero, zero, one, third, zero, zero]), "{timeline}");
    let page = text(dir.path(), "timeline DIR/r.icecore");
    assert!(
        page.contains("· nobody sampled then, or hardly ever")
            && page.contains("sampling rate: lowered once"),
        "{page}"
    );
    let csv = report(dir.path(), &["timeline", "DIR/r.icecore", "--buckets", "12", "--csv"]);
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].ends_with(",cpus,rate_share") && lines[3].ends_with(",,"), "{csv}");
    assert!(lines[2].contains(",0.350"), "{csv}");
    let heat = json(dir.path(), "timeline DIR/r.icecore --heatmap");
    assert_eq!(heat["heatmap"]["seconds"][15]["values"][0], Value::Null);
    assert_eq!(heat["changes"], json!([]));
}

#[test]
fn rows_of_rates_change_no_weight() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let mut without = recording();
    without.rates.clear();
    without.write(&dir.path().join("w.icecore"), true).expect("room");
    for view in ["top", "tree", "top --by process", "folded"] {
        let [with, without] = ["r", "w"].map(|name| text(dir.path(), &format!("{view} DIR/{name}.icecore")));
        assert_eq!(with.replace("r.icecore", "w.icecore"), without, "{view}");
    }
    assert_eq!(json(dir.path(), "summary DIR/w.icecore")["rate"], Value::Null);
}

#[test]
fn info_lists_changes_of_the_rate() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let info = json(dir.path(), "info DIR/r.icecore");
    let first = &info["rates"][0];
    assert_eq!(
        (&first["share"], &first["hz"], &first["cause"]),
        (&json!(0.25), &json!(25.0), &json!("CPU budget"))
    );
    assert_eq!(
        (&first["measured"], &first["limit"], &first["unit"]),
        (&json!(0.024), &json!(0.01), &json!("cpus"))
    );
    assert_eq!(first["unix_ns"], session().start_unix_ns + 4 * S);
    let page = text(dir.path(), "info DIR/r.icecore");
    let line = "25.0% of the requested rate, 25 Hz, from 2026-01-01 00:00:04 UTC on (CPU budget: 2.4% of one CPU measured, 1.0% of one CPU allowed)";
    assert!(page.contains(line), "{page}");
    assert!(page.contains("paused, from 2026-01-01 00:00:10 UTC on (duty)"), "{page}");
}

#[test]
fn what_is_made_of_a_recording_keeps_its_rates_and_pauses() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let mut other = Sampled { seconds: (70, 72), rates: &[], end: EndReason::DURATION }.builder();
    other.uuid = Some([7; 16]);
    other.write(&dir.path().join("o.icecore"), true).expect("room");
    let rows = |name: &str| json(dir.path(), &format!("info DIR/{name}.icecore"))["rates"].take();
    for (line, name) in [
        ("merge DIR/r.icecore DIR/o.icecore -o DIR/m.icecore", "m"),
        ("compact DIR/r.icecore -o DIR/c.icecore", "c"),
        ("compact DIR/r.icecore --redact paths -o DIR/d.icecore", "d"),
    ] {
        let (code, _, err) = typed(dir.path(), line);
        assert_eq!(code, 0, "{line}: {err}");
        assert_eq!(rows(name), rows("r"), "{line}");
        assert_eq!(
            json(dir.path(), &format!("summary DIR/{name}.icecore"))["rate"]["paused_s"],
            40.0,
            "{line}"
        );
    }
    // The time between the two recordings is no pause.
    let gaps = json(dir.path(), "summary DIR/m.icecore")["gaps"].take();
    assert_eq!(
        (&gaps[1]["paused"], &gaps[2]["paused"], &gaps[2]["s"]),
        (&json!("duty"), &Value::Null, &json!(10.0))
    );
    let (code, _, err) = typed(dir.path(), "cut DIR/r.icecore --from 32 --to 38 -o DIR/k.icecore");
    assert_eq!(code, 0, "{err}");
    let kept = json(dir.path(), "timeline DIR/k.icecore --buckets 6");
    assert_eq!((&kept["begin_s"], &kept["end_s"], &kept["gaps"]), (&json!(32.0), &json!(38.0), &Value::Null));
    assert!(is_near(&kept["values"], &[Some(1.0); 6]), "{kept}");
    let summary = json(dir.path(), "summary DIR/k.icecore");
    assert_eq!((&summary["duration_s"], &summary["rate"]["lowest_share"]), (&json!(6.0), &json!(0.5)));
}

#[test]
fn few_samples_of_a_lowered_rate_are_no_fault_of_the_requested_one() {
    let dir = tempfile::tempdir().expect("a folder");
    let rates = [(0, WHOLE / 50, RateCause::CPU)];
    Sampled { seconds: (0, 10), rates: &rates, end: EndReason::DURATION }
        .builder()
        .write(&dir.path().join("r.icecore"), true)
        .expect("room");
    let page = text(dir.path(), "health DIR/r.icecore");
    assert!(page.contains("with a larger --budget") && !page.contains("-F"), "{page}");
}

/// Follows a finished file; returns the last line.
fn followed(dir: &Path) -> Value {
    let line = "tui --follow DIR/r.icecore --json --last all --interval 100ms";
    let (code, out, err) = typed(dir, line);
    assert_eq!((code, &*err), (0, ""), "{line}");
    serde_json::from_str(out.lines().last().expect("a line")).expect("JSON")
}

#[test]
fn sessions_of_one_file_are_followed_to_the_last() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let last = followed(dir.path());
    assert_eq!(
        (&last["total_samples"], &last["ended"]),
        (&json!(1_100), &json!("the recording has ended: duration"))
    );
    // As `--flight` writes it.
    let end = |at: u64| if at < 3 { EndReason::ROTATED } else { EndReason::TRIGGERED };
    let parts = (0..4).map(|at| Sampled { seconds: (at, at + 1), rates: &[], end: end(at) }.builder());
    Builder::write_all(parts.collect(), &dir.path().join("r.icecore"), true).expect("room");
    let last = followed(dir.path());
    assert_eq!(
        (&last["total_samples"], &last["ended"]),
        (&json!(400), &json!("the recording has ended: triggered"))
    );
    let page = text(dir.path(), "summary DIR/r.icecore");
    assert!(page.contains("one recording in 4 parts"), "{page}");
}

#[test]
fn who_follows_waits_through_a_pause() {
    let dir = tempfile::tempdir().expect("a folder");
    written(dir.path());
    let bytes = std::fs::read(dir.path().join("r.icecore")).expect("just written");
    let path = dir.path().join("grows.icecore");
    std::fs::write(&path, &bytes[..64]).expect("room");
    let search = Search::nowhere();
    let finder = Finder { search: &search, embedded: None };
    let growing = Growing::open(&path).expect("a header");
    let mut follower = Follower::new(growing, Filter::default(), 10 * S);
    let mut seen = Vec::new();
    for len in (64..bytes.len()).step_by(16).chain([bytes.len()]) {
        let mut file = std::fs::File::options().append(true).open(&path).expect("ours");
        let known = file.metadata().expect("ours").len() as usize;
        std::io::Write::write_all(&mut file, &bytes[known..len]).expect("room");
        let end = follower.read(&finder).expect("it grows").map(|end| end.reason);
        let state = (end, follower.is_paused(), follower.now(true, 9, &finder).whole.samples);
        if seen.last() != Some(&state) {
            seen.push(state);
        }
    }
    let ended = Some(EndReason::DURATION);
    let wanted = [(None, false, 0), (None, false, 1_100), (None, true, 1_100), (ended, false, 1_100)];
    assert_eq!(seen, wanted);
}

/// Copies a recording to where a variable of the environment says, to measure it.
fn keep(dir: &Path, variable: &str) {
    if let Some(to) = std::env::var_os(variable) {
        std::fs::copy(dir.join("r.icecore"), to).expect("room");
    }
}

#[test]
fn a_thousand_sessions_are_one_recording() {
    let dir = tempfile::tempdir().expect("a folder");
    let end = |at: u64| if at < 999 { EndReason::ROTATED } else { EndReason::SIGNAL };
    let one = |at: u64| Sampled { seconds: (at, at + 1), rates: &[], end: end(at) }.builder();
    Builder::write_all((0..1_000).map(one).collect(), &dir.path().join("r.icecore"), true).expect("room");
    keep(dir.path(), "ICECORE_KEEP_SESSIONS");
    let summary = json(dir.path(), "summary DIR/r.icecore");
    assert_eq!((&summary["samples"], &summary["duration_s"]), (&json!(100_000), &json!(1_000.0)));
    assert_eq!((&summary["processes"][0]["pids"], &summary["recordings"]), (&json!(1), &json!(1)));
    let page = text(dir.path(), "info DIR/r.icecore");
    assert!(page.lines().count() < 80 && page.contains("2 of 1000 · goes on"), "{page}");
}

#[test]
fn five_thousand_pauses_are_summed_up() {
    let dir = tempfile::tempdir().expect("a folder");
    let change = |at: u64| (at + 1, if at.is_multiple_of(2) { 0 } else { WHOLE / 10 }, RateCause::DUTY);
    let rates: Vec<(u64, u32, RateCause)> = (0..10_000).map(change).collect();
    let session = Sampled { seconds: (0, 10_000), rates: &rates[..9_999], end: EndReason::SIGNAL };
    session.builder().write(&dir.path().join("r.icecore"), true).expect("room");
    keep(dir.path(), "ICECORE_KEEP_PAUSES");
    let summary = json(dir.path(), "summary DIR/r.icecore");
    let rate = &summary["rate"];
    assert_eq!((&summary["duration_s"], &summary["samples"]), (&json!(5_000.0), &json!(100 + 4_999 * 10)));
    assert_eq!(
        (&rate["pauses"], &rate["paused_s"], &rate["lowered"]),
        (&json!(5_000), &json!(5_000.0), &json!(1))
    );
    let timeline = json(dir.path(), "timeline DIR/r.icecore --buckets 50");
    assert!(is_near(&timeline["values"], &[Some(1.0); 50]), "{timeline}");
    assert!(is_near(&timeline["sampled"], &[Some(0.5); 50]), "{timeline}");
    assert!(text(dir.path(), "info DIR/r.icecore").contains("and 9,989 more changes: --json has all"));
}
