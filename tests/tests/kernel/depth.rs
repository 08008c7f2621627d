//! How deep stacks are: programs of known depth and recursion, recorded through real eBPF.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use icecore_tests::machine::{Recorded, needs_perf, report, target, text};
use serde_json::Value;

/// Returns the row of a table that has a value at a key.
fn row<'a>(table: &'a Value, key: &str, value: &str) -> &'a Value {
    let rows = table.as_array().expect("a list");
    rows.iter().find(|row| row[key] == value).unwrap_or_else(|| panic!("no row has `{value}`: {table:#}"))
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("`{key}` is a number: {row:#}"))
}

#[test]
fn root_depths_are_those_of_the_samples_one_by_one() {
    let recorded = Recorded::target(&["-F", "997"], "syscalls", 500);
    let mut counted: BTreeMap<(String, String), BTreeMap<u64, u64>> = BTreeMap::new();
    for sample in recorded.samples(&[]) {
        let frames = sample.0["frames"].as_array().expect("a list");
        for side in ["user", "kernel"] {
            let depth = frames.iter().filter(|f| f["side"] == side && f["inlined"] == false).count() as u64;
            if depth > 0 {
                let of = counted.entry((side.to_owned(), sample.text("comm").to_owned())).or_default();
                *of.entry(depth).or_default() += 1;
            }
        }
    }
    let depth = recorded.json("depth", &["--by", "thread", "-n", "0"]);
    assert_eq!(depth["groups"].as_array().map(Vec::len), Some(counted.len()));
    for group in depth["groups"].as_array().expect("a list") {
        let text = |key: &str| group[key].as_str().expect("text").to_owned();
        let key = (text("side"), text("comm"));
        let depths = &counted[&key];
        let all: Vec<u64> =
            depths.iter().flat_map(|(depth, n)| std::iter::repeat_n(*depth, *n as usize)).collect();
        let nearest = |percent: usize| all[(all.len() * percent).div_ceil(100) - 1];
        assert_eq!(number(group, "count"), all.len() as u64, "{key:?}");
        let figures = ["min", "p50", "p90", "p99", "max"].map(|name| number(group, name));
        assert_eq!(figures, [all[0], nearest(50), nearest(90), nearest(99), nearest(100)], "{key:?}");
        let mean = all.iter().sum::<u64>() as f64 / all.len() as f64;
        assert!(group["mean"].as_f64().is_some_and(|found| (found - mean).abs() < 1e-9), "{key:?}");
        for bucket in group["histogram"].as_array().expect("a list") {
            let inside = depths.range(number(bucket, "from")..=number(bucket, "to")).map(|(_, n)| n);
            assert_eq!(number(bucket, "count"), inside.sum::<u64>(), "{key:?}");
        }
    }
}

#[test]
fn root_recursion_has_its_exact_depth_and_its_cycle() {
    for (name, first, kind, cycle, repeats) in [
        ("recursion", "goes_down", "direct", &["goes_down", "goes_down"][..], 500),
        ("mutual", "pings", "mutual", &["pings", "pongs", "pings"], 200),
    ] {
        let recorded = Recorded::target(&["-F", "997"], name, 500);
        let depth = recorded.json("depth", &["--focus", "^at_the_bottom$", "--user"]);
        let found = row(&depth["recursion"], "name", first);
        assert_eq!((&found["kind"], &found["cycle"]), (&kind.into(), &serde_json::json!(cycle)), "{name}");
        assert_eq!(number(found, "max_repeats"), repeats, "{name}");
        // In the first instructions of a function its caller's frame is not linked yet; those are few.
        assert_eq!(number(&found["repeats"], "p50"), repeats, "{name}");
        assert_eq!(number(found, "function_count"), cycle.len() as u64 - 1, "{name}");
        assert_eq!(found["samples_share"], 1.0, "{name}");
        assert_eq!(depth["recursion_count"], 1, "mutual recursion is told once: {depth:#}");
        let group = &depth["groups"][0];
        assert_eq!(
            (&group["cut_share"], &group["at_least"]),
            (&0.0.into(), &serde_json::json!([])),
            "{name}"
        );
        let links = group["deepest"]["stack"].as_array().expect("a list");
        let folded: Vec<(&Value, u64)> =
            links.iter().map(|l| (&l["functions"], number(l, "times"))).filter(|l| l.1 > 1).collect();
        let once = serde_json::json!(cycle[1..].iter().rev().collect::<Vec<_>>());
        assert_eq!(folded, [(&once, repeats)], "{name}");
    }
}

#[test]
fn root_a_maximum_that_is_the_limit_of_the_walk_says_so() {
    let recorded = Recorded::target(&["-F", "997", "--unwind", "fp", "--max-depth", "64"], "recursion", 300);
    let depth = recorded.json("depth", &["--focus", "^at_the_bottom$", "--user"]);
    let group = row(&depth["groups"], "comm", "target");
    assert_eq!((number(group, "max"), &group["cut_share"]), (64, &1.0.into()));
    assert!(group["at_least"].as_array().is_some_and(|all| all.contains(&"max".into())), "{group:#}");
    let found = row(&depth["recursion"], "name", "goes_down");
    assert!(
        found["repeats"]["at_least"].as_array().is_some_and(|all| all.contains(&"max".into())),
        "{found:#}"
    );
    let path = recorded.path();
    let shown = report(&["depth".as_ref(), path.as_os_str(), "--quiet".as_ref()]);
    assert!(shown.contains(" 64 (cut) ") && shown.contains("larger --max-depth"), "{shown}");
}

/// Enters the evaluator anew at every level, through sorting by the C library or by the interpreter.
const REENTERING: &str = "
import ctypes, sys, time
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
qsort = ctypes.CDLL(None).qsort
qsort.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, compare]
def spin():
    until = time.process_time() + 1.0
    while time.process_time() < until:
        pass
def by_sorted(left):
    if left == 0:
        return spin() or 0
    return sorted([0], key=lambda _: by_sorted(left - 1))[0]
def by_qsort(left):
    def compared(a, b):
        if not done[0]:
            by_qsort(left - 1)
        return 0
    if left == 0:
        spin()
        done[0] = True
        return
    qsort((ctypes.c_int * 2)(), 2, 4, compare(compared))
done = [False]
def plain(left):
    return plain(left - 1) if left else spin()
{'sorted': by_sorted, 'qsort': by_qsort, 'plain': plain}[sys.argv[1]](int(sys.argv[2]))
";

#[test]
fn root_entries_into_an_interpreter_are_counted_and_its_own_calls_are_not() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = dir.path().join("reenter.py");
    std::fs::write(&program, REENTERING).expect("room");
    for (way, levels, entries) in [("sorted", 6, 6), ("qsort", 4, 4), ("plain", 40, 0)] {
        let command = ["python3".as_ref(), program.as_os_str(), way.as_ref(), levels.to_string().as_ref()]
            .map(std::ffi::OsStr::to_owned);
        let recorded = Recorded::new(&["-F", "997"], &command);
        // Imports enter the evaluator as well, but hardly read the clock.
        let while_spinning = ["--focus", "^clock_gettime$"];
        let depth = recorded.json("depth", &while_spinning);
        let found = row(&depth["interpreters"], "language", "python");
        let figures = ["p50", "p99"].map(|name| number(&found["reentries"], name));
        assert_eq!(figures, [entries; 2], "{way}: {found:#}");
        let histogram = found["histogram"].as_array().expect("a list");
        let exact =
            histogram.iter().filter(|bin| number(bin, "from") == entries && number(bin, "to") == entries);
        let exact: u64 = exact.map(|bin| number(bin, "count")).sum();
        assert!(exact * 100 >= number(found, "samples") * 99, "{way}: {found:#}");
        let path = recorded.path();
        let shown =
            report(&["depth".as_ref(), path.as_os_str(), "--focus".as_ref(), "^clock_gettime$".as_ref()]);
        assert!(entries == 0 || shown.contains("\ninterpreters: "), "{way}: {shown}");
    }
}

#[test]
fn root_events_of_an_import_are_groups_apart() {
    needs_perf();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (data, recording) = (dir.path().join("perf.data"), dir.path().join("r.icecore"));
    let mut perf = Command::new("perf");
    perf.args(["record", "-q", "--buildid-mmap", "-e", "cpu-clock,page-faults", "-F", "997", "-g", "-o"]);
    perf.arg(&data).arg("--").arg(target()).args(["recursion", "300"]);
    let out = perf.output().expect("perf runs");
    assert!(out.status.success(), "perf record failed: {}", text(&out.stderr));
    report(&["import".as_ref(), data.as_os_str(), "-o".as_ref(), recording.as_os_str()]);
    let depth = |options: &[&str]| -> Value {
        let mut args =
            vec!["depth".as_ref(), recording.as_os_str(), "--json".as_ref(), "-n".as_ref(), "0".as_ref()];
        args.extend(options.iter().map(std::ffi::OsStr::new));
        serde_json::from_str(&report(&args)).expect("JSON")
    };
    let all = depth(&[]);
    let clock = row(&all["groups"], "event", "cpu-clock").clone();
    let faults = row(&all["groups"], "event", "page-faults").clone();
    // perf takes at most 127 frames and does not say whether there were more.
    assert!(number(&clock, "max") >= 120 && number(&faults, "p50") < number(&clock, "p50"), "{all:#}");
    assert_eq!(clock["incomplete_share"], Value::Null);
    for (event, expected) in [("cpu-clock", clock), ("page-faults", faults)] {
        let only = depth(&["--event", event]);
        let groups = only["groups"].as_array().expect("a list");
        assert!(groups.iter().all(|group| group["event"] == event), "{only:#}");
        assert!(groups.contains(&expected), "{event}: {expected:#}");
    }
    assert_is_empty(&recording);
}

/// Without samples of the event, the view shows none, and reports no error.
fn assert_is_empty(recording: &Path) {
    let line = ["depth".as_ref(), recording.as_os_str(), "--event".as_ref(), "cpu-clock".as_ref()];
    let shown = report(&[&line[..], &["--comm".as_ref(), "nobody".as_ref()]].concat());
    assert!(shown.contains("event cpu-clock") && shown.contains("no samples"), "{shown}");
}
