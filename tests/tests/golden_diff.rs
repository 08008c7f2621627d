//! `diff` and `trend` of recordings that are made up, as text, Markdown and JSON, at one and at several threads.
//!
//! `INSTA_UPDATE=always cargo test -p icecore-tests --test golden_diff` rewrites `tests/golden/`.

use std::path::Path;

use icecore_format::records::{Change, EventV1, ImageKind, LabelV1, Origin, ReceiptV1, SessionV1, Symbol};
use icecore_tests::inside::{golden, report, run_in};
use icecore_tests::synthetic::{Builder, START_NS, session};
use serde_json::Value;

fn json(dir: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&report(dir, &[args, &["--json"]].concat())).expect("JSON")
}

/// A service: its image, how it is sampled, and its functions with the time that each takes.
#[derive(Clone, Copy)]
struct Service<'a> {
    image: &'a str,
    hz: u64,
    seconds: u64,
    seed: u32,
    functions: &'a [(&'a str, u32)],
}

const USUAL: Service<'_> = Service {
    image: "/srv/1.2/bin/service",
    hz: 1000,
    seconds: 8,
    seed: 1,
    functions: &[("compress", 400), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)],
};

impl Service<'_> {
    /// Records it: at every sample another function runs, at random.
    fn recorded(&self) -> Builder {
        let mut b = Builder::default();
        b.block_len = 500;
        let image = b.image(ImageKind::FILE, self.image);
        b.change(1_000, Change::FOUND, 100, 1, "service");
        b.map(2_000, 100, 0x1_0000, image, Origin::SCAN);
        let names = ["main"].into_iter().chain(self.functions.iter().map(|(name, _)| *name));
        for (position, name) in (0u64..).zip(names) {
            let start = 0x1000 + position * 0x100;
            b.symbols.push(Symbol { image, start, end: start + 0x100, name: name.as_bytes().to_vec() });
        }
        self.goes_on(&mut b, 0);
        b
    }

    /// Goes on with other times for the same functions.
    fn goes_on(&self, b: &mut Builder, from_s: u64) {
        let task = b.task(100, 100, "service");
        let whole: u32 = self.functions.iter().map(|(_, weight)| weight).sum();
        let mut random = self.seed;
        let period_ns = 1_000_000_000 / self.hz;
        for tick in 0..self.hz * self.seconds {
            random = random.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            let mut at = (random >> 8) % whole;
            let function = self.functions.iter().position(|(_, weight)| {
                let is_here = at < *weight;
                at = at.wrapping_sub(*weight);
                is_here
            });
            let function = function.expect("weights add up") as u64 + 1;
            let stack = [0x1_0000 + function * 0x100 + 0x10, 0x1_0050];
            b.sample(from_s * 1_000_000_000 + tick * period_ns, 0, task, &stack, &[]).weight = period_ns;
        }
        b.receipt = Some(ReceiptV1 {
            end_ns: START_NS + (from_s + self.seconds) * 1_000_000_000,
            ended_by: vec!["duration".into()],
            exit_code: -1,
            samples: b.samples.len() as u64,
            ..ReceiptV1::default()
        });
    }

    fn write(&self, dir: &Path, name: &str) {
        self.recorded().write(&dir.join(name), true).expect("written");
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

/// Names of the rows with a status.
fn with_status<'a>(diff: &'a Value, status: &str) -> Vec<&'a str> {
    let rows = diff["rows"].as_array().expect("rows");
    rows.iter().filter(|row| row["status"] == status).filter_map(|row| row["name"].as_str()).collect()
}

fn row<'a>(diff: &'a Value, name: &str) -> &'a Value {
    diff["rows"].as_array().expect("rows").iter().find(|row| row["name"] == name).expect("a row of that name")
}

#[test]
fn the_same_service_at_another_rate_and_for_another_time_shows_no_change() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    Service { hz: 100, seconds: 31, seed: 9, ..USUAL }.write(dir.path(), "after");
    golden(dir.path(), "diff_same", &["diff", "DIR/before", "DIR/after"]);
    for options in [
        &["--unit", "cpu"][..],
        &["--sort", "total"],
        &["--by", "image"],
        &["--by", "stack"],
        &["--by", "thread"],
    ] {
        let diff = json(dir.path(), &[&["diff", "DIR/before", "DIR/after"], options].concat());
        assert_eq!(
            (&diff["changed"], diff["rows"].as_array().map(Vec::is_empty)),
            (&0.into(), Some(false)),
            "{options:?}"
        );
    }
    let itself = json(dir.path(), &["diff", "DIR/before", "DIR/before"]);
    assert!(
        itself["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .all(|row| row["delta"] == 0.0 && row["status"] == "same")
    );
}

#[test]
fn where_the_whole_changed_and_no_share_did_it_is_told_where_to_look() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    let mut twice = USUAL.recorded();
    Service { seed: 5, ..USUAL }.goes_on(&mut twice, 0);
    twice.write(&dir.path().join("after"), true).expect("written");
    let sides = ["diff", "DIR/before", "DIR/after"];
    let told = report(dir.path(), &sides);
    let hint = "the whole changed, though: --unit cpu compares CPU time, not shares; --by image and --by process have larger rows";
    assert!(
        told.contains("No significant change in 5 functions, but in the whole: +100.0%.")
            && told.contains(hint),
        "{told}"
    );
    let told = report(dir.path(), &[&sides[..], &["--unit", "cpu"]].concat());
    assert!(told.contains(" of 5 functions changed") && !told.contains("the whole changed"), "{told}");
}

#[test]
fn a_run_that_takes_more_fails_the_build_though_no_share_changed() {
    let dir = folder();
    let run = |name: &str, seconds: u64, seed: u32, ended_by: &str| {
        let mut recorded = Service { seconds, seed, ..USUAL }.recorded();
        recorded.session = Some(SessionV1 { target: "command".into(), ..session() });
        recorded.receipt.iter_mut().for_each(|receipt| receipt.ended_by = vec![ended_by.into()]);
        recorded.uuid = Some([seed as u8; 16]);
        recorded.write(&dir.path().join(name), true).expect("written");
    };
    run("before", 7, 1, "command");
    run("after", 9, 5, "targets gone");
    run("long", 28, 3, "command");
    let code = |after: &str, condition: &str| {
        run_in(dir.path(), &["diff", "DIR/before", &format!("DIR/{after}"), "--fail-on", condition]).0
    };
    for (after, condition, expected) in [
        ("after", "whole>5%", 1),
        ("after", "cpu>5%", 1),
        ("after", "cpu>40%", 0),
        ("after", "cpu<-5%", 0),
        ("after", "self>2%", 0),
        // That a run took longer by so little may be others' doing.
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
    // A recording of two runs has the mean of them.
    report(dir.path(), &["merge", "DIR/before", "DIR/after", "-o", "DIR/both"]);
    let both = json(dir.path(), &["diff", "DIR/both", "DIR/long"]);
    let near = |key: &str, value: f64| (both[key]["before"].as_f64().expect("a number") - value).abs() < 0.02;
    assert!(near("cpu_time", 8.0) && near("wall_time", 8.0), "{both:#}");
    // A piece is no run.
    let (code, _, err) = run_in(dir.path(), &[&sides[..], &["--from", "1", "--fail-on", "cpu>5%"]].concat());
    assert!(code == 2 && err.contains("use no --from and --to"), "{err}");
}

#[test]
fn what_takes_more_is_told_from_what_only_has_a_smaller_share_of_more() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    let functions = &[("compress", 800), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    Service { functions, seed: 5, hz: 499, ..USUAL }.write(dir.path(), "after");
    let sides = ["diff", "DIR/before", "DIR/after"];
    golden(dir.path(), "diff_grew", &sides);
    golden(dir.path(), "diff_grew_all", &[&sides[..], &["--all"]].concat());
    golden(dir.path(), "diff_grew.md", &[&sides[..], &["--markdown", "-n", "1"]].concat());
    golden(dir.path(), "diff_grew.json", &[&sides[..], &["--json"]].concat());
    golden(
        dir.path(),
        "diff_grew_work",
        &[&sides[..], &["--work-before", "400", "--work-after", "200"]].concat(),
    );
    let diff = json(dir.path(), &sides);
    assert_eq!(with_status(&diff, "grew"), ["compress"]);
    assert_eq!(with_status(&diff, "diluted"), ["parse", "hash", "send", "log"]);
    let found = row(&diff, "compress");
    let number = |key: &str| found[key].as_f64().expect("a number");
    let truth = 800.0 / 1400.0 - 0.4;
    assert!(number("low") < truth && truth < number("high") && number("detectable") < truth, "{found}");
    // Turned around, everything is.
    let back = json(dir.path(), &["diff", "DIR/after", "DIR/before"]);
    assert_eq!(with_status(&back, "shrank"), ["compress"]);
    assert!((row(&back, "compress")["delta"].as_f64().expect("a number") + number("delta")).abs() < 1e-12);
}

#[test]
fn a_condition_that_holds_is_exit_code_1_and_what_others_cause_never_counts() {
    let dir = folder();
    USUAL.write(dir.path(), "before");
    let functions = &[("compress", 800), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    Service { functions, seed: 5, ..USUAL }.write(dir.path(), "after");
    let code = |conditions: &[&str]| {
        let conditions: Vec<&str> =
            conditions.iter().flat_map(|condition| ["--fail-on", condition]).collect();
        run_in(dir.path(), &[&["diff", "DIR/before", "DIR/after"], &conditions[..]].concat()).0
    };
    // The share of `parse` fell by 8 points, but only because that of `compress` rose by 17.
    for (condition, expected) in [
        ("self>2%", 1),
        ("self>16%", 1),
        ("self>19%", 0),
        ("self<-2%", 0),
        ("total>2%", 1),
        ("self_ratio>1.3", 1),
        ("self_ratio>1.5", 0),
        ("whole>1%", 0),
    ] {
        assert_eq!(code(&[condition]), expected, "{condition}");
    }
    assert_eq!(code(&["self<-2%", "self>2%"]), 1, "any of several");
    let (_, out, _) = run_in(dir.path(), &["diff", "DIR/before", "DIR/after", "--fail-on", "self>2%"]);
    assert!(out.ends_with("failed: self>2% holds for compress\n"), "{out}");
}

#[test]
fn functions_are_the_same_in_another_build_whatever_compilers_add_to_their_names() {
    let dir = folder();
    let before = &[
        ("_ZN7service8compress17h0123456789abcdefE", 300),
        ("parse.isra.0", 250),
        ("hash.llvm.1234567890", 200),
        ("was_called_so", 150),
        ("is_gone", 30),
    ];
    let after = &[
        ("_ZN7service8compress17hfedcba9876543210E", 300),
        ("parse", 150),
        ("parse.part.0", 100),
        ("hash.llvm.99", 200),
        ("is_called_so", 150),
        ("is_new", 700),
    ];
    Service { functions: before, ..USUAL }.write(dir.path(), "before");
    Service { functions: after, image: "/srv/1.3/bin/service", seed: 7, ..USUAL }.write(dir.path(), "after");
    golden(dir.path(), "diff_builds", &["diff", "DIR/before", "DIR/after", "--all"]);
    let diff = json(dir.path(), &["diff", "DIR/before", "DIR/after", "--all", "--unit", "cpu"]);
    assert_eq!(with_status(&diff, "renamed"), ["is_called_so"]);
    assert_eq!(row(&diff, "is_called_so")["before_name"], "was_called_so");
    assert_eq!(
        (with_status(&diff, "added"), with_status(&diff, "removed")),
        (vec!["is_new"], vec!["is_gone"])
    );
    // Both parts of `parse` are one row.
    assert_eq!(row(&diff, "parse")["before_name"], "parse.isra.0");
}

#[test]
fn an_image_that_has_names_on_one_side_only_is_compared_as_a_whole() {
    let dir = folder();
    USUAL.write(dir.path(), "named");
    let mut nameless = Service { seed: 3, ..USUAL }.recorded();
    nameless.symbols.clear();
    nameless.write(&dir.path().join("nameless"), true).expect("written");
    for (before, after) in [("DIR/named", "DIR/nameless"), ("DIR/nameless", "DIR/named")] {
        for by in ["function", "line", "stack"] {
            let diff = json(dir.path(), &["diff", before, after, "--by", by]);
            assert_eq!(
                (&diff["changed"], diff["rows"].as_array().map(Vec::len)),
                (&0.into(), Some(1)),
                "{by}: {diff:#}"
            );
        }
        let diff = json(dir.path(), &["diff", before, after]);
        assert_eq!(row(&diff, "[all of service]")["before"], 1.0);
    }
}

#[test]
fn a_spike_is_compared_with_the_calm_of_the_same_recording() {
    let dir = folder();
    let mut calm = Service { seconds: 6, ..USUAL }.recorded();
    let functions = &[("compress", 400), ("parse", 300), ("hash", 900), ("send", 90), ("log", 10)];
    Service { seconds: 2, functions, ..USUAL }.goes_on(&mut calm, 6);
    calm.write(&dir.path().join("both"), true).expect("written");
    golden(dir.path(), "diff_spike", &["diff", "DIR/both", "--slice", "6..", "--against", "..6"]);
    let none = json(dir.path(), &["diff", "DIR/both", "--slice", "3..6", "--against", "..3"]);
    assert_eq!(none["changed"], 0);
}

#[test]
fn what_differs_between_runs_of_one_side_is_no_change() {
    let dir = folder();
    let weights =
        |compress| vec![("compress", compress), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    // Each run is as it is for all of its time: nothing inside it shows that the next one is another.
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

#[test]
fn where_nearly_all_changed_it_is_told_that_shares_do_not_tell_why() {
    let dir = folder();
    let ambiguous = "shares do not tell which of them changed";
    for (name, own) in [("a", 600), ("b", 300)] {
        let functions = &[("own", own), ("copies", 400)];
        Service { functions, seed: own, ..USUAL }.write(dir.path(), name);
    }
    let shares = report(dir.path(), &["diff", "DIR/a", "DIR/b"]);
    assert!(shares.contains("2 of 2 functions changed") && shares.contains(ambiguous), "{shares}");
    // It does 600 jobs at first, and 600 · 10/7 when each takes 7/10 of the time.
    let work = ["diff", "DIR/a", "DIR/b", "--work-before", "600", "--work-after", "857"];
    let work = report(dir.path(), &work);
    assert!(work.contains("1 of 2 functions changed") && !work.contains(ambiguous), "{work}");
    USUAL.write(dir.path(), "c");
    let grown = &[("compress", 520), ("parse", 300), ("hash", 200), ("send", 90), ("log", 10)];
    Service { functions: grown, seed: 2, ..USUAL }.write(dir.path(), "d");
    let clear = report(dir.path(), &["diff", "DIR/c", "DIR/d"]);
    assert!(clear.contains("compress") && !clear.contains(ambiguous), "{clear}");
}

#[test]
fn what_cannot_be_compared_is_refused_with_the_remedy() {
    let dir = folder();
    USUAL.write(dir.path(), "a");
    let faults = EventV1 { name: "page-faults".into(), unit: "faults".into(), frequency_hz: 0, period: 1 };
    let mut other = USUAL.recorded();
    other.session = Some(SessionV1 { events: vec![faults], ..session() });
    other.write(&dir.path().join("faults"), true).expect("written");
    let refused = |args: &[&str]| {
        let (code, out, err) = run_in(dir.path(), args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        err
    };
    for (args, text) in [
        (
            &["diff", "DIR/a"][..],
            "cannot compare one recording with nothing: name a second one, or stretches of it with --slice",
        ),
        (&["diff"], "cannot compare nothing: name two recordings, BEFORE and AFTER"),
        (
            &["diff", "DIR/a", "DIR/a", "--slice", "1..2", "--against", "2..3"],
            "cannot compare stretches of two recordings",
        ),
        (&["diff", "DIR/a", "--slice", "2..1", "--against", "2..3"], "it ends before it begins"),
        (
            &["diff", "DIR/a", "DIR/faults"],
            "cannot compare ns with faults: the recordings sample different events",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--unit", "work"],
            "cannot tell how much work was done: say it with --work-before",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--fail-on", "wall>5%"],
            "cannot check `wall>5%`: not all recordings are whole runs of a command; check `whole`, or record",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--comm", "nobody"],
            "cannot compare `a`: it has no samples: the filters leave none",
        ),
        (
            &["diff", "DIR/a", "DIR/a", "--fail-on", "selfish"],
            "use self>2%, total<-5%, self_ratio>1.2, whole>5%, cpu>5% or wall>5%",
        ),
        (&["diff", "DIR/a", "DIR/a", "-o", "DIR/x.png"], "unsupported file extension; use .svg or .md"),
        (&["diff", "DIR/a", "DIR/none"], "cannot open recording `none`"),
        (&["diff", "-", "-"], "cannot read two recordings from stdin"),
        (&["trend", "DIR/none"], "cannot open recording `none`"),
        (
            &["trend", "DIR/a", "--order", "label:version"],
            "no recording has it (icecore-record --label version=VALUE)",
        ),
    ] {
        let err = refused(args);
        assert!(err.contains(text), "{args:?}: {err}");
    }
    // Nothing of it is left behind, and no recording is written over.
    let err = refused(&["diff", "DIR/a", "DIR/faults", "-o", "DIR/a"]);
    assert!(err.contains("cannot compare"), "{err}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("a directory").count(), 2);
}

#[test]
fn files_are_written_as_their_names_ask() {
    let dir = folder();
    USUAL.write(dir.path(), "before.icecore");
    let functions = &[("compress", 800), ("parse", 300), ("hash", 200), ("send", 90), ("more", 10)];
    Service { functions, seed: 5, ..USUAL }.write(dir.path(), "after.icecore");
    let sides = ["diff", "DIR/before.icecore", "DIR/after.icecore", "-o"];
    for name in ["x.md", "x.svg"] {
        let (code, _, err) = run_in(dir.path(), &[&sides[..], &[&format!("DIR/{name}")]].concat());
        assert!(code == 0 && err.starts_with(&format!("wrote {name} (")), "{code} {err}");
    }
    let path = format!("{}/", dir.path().display());
    let text =
        |name: &str| std::fs::read_to_string(dir.path().join(name)).expect("written").replace(&path, "");
    assert_eq!(text("x.md"), report(dir.path(), &[&sides[..3], &["--markdown"]].concat()));
    // `log` has another name now.
    let svg = text("x.svg");
    assert!(svg.contains("compress (") && svg.contains("more (") && !svg.contains("log ("), "{svg}");
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
