//! Tests the functions of JavaScript in stacks of Node.js: each has a caller that is known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use icecore_tests::machine::{Recorded, needs, report, unknown_v8};
use serde_json::Value;

const SECONDS: &str = "4";
/// What resumes a function that has waited.
const RESUMED: &str = "(anonymous)";

/// Returns the flags with which no function of a program is inlined.
fn not_inlined() -> Vec<&'static str> {
    needs("node", &["--version"]);
    let options = Command::new("node").arg("--v8-options").output().expect("it runs");
    let has_maglev = String::from_utf8_lossy(&options.stdout).contains("--maglev-inlining ");
    ["--no-turbo-inlining"].into_iter().chain(has_maglev.then_some("--no-maglev-inlining")).collect()
}

/// Who calls each function of the program.
const CALLERS: [(&str, &[&str]); 34] = [
    (
        "bottom",
        &[
            "rec",
            "keyed",
            "compared",
            "replaced",
            "produced",
            "Made",
            "get value",
            "toString",
            "stat",
            "revived",
            "arrow",
            "same",
            "awaited",
            "inner",
        ],
    ),
    ("rec", &["rec", "phase_rec"]),
    ("phase_rec", &["main"]),
    ("keyed", &["map", "again", "phase_again"]),
    ("map", &["again"]),
    ("again", &["keyed"]),
    ("phase_again", &["main"]),
    ("compared", &["sort", "phase_sort"]),
    ("sort", &["phase_sort"]),
    ("phase_sort", &["main"]),
    ("replaced", &["replace", "phase_sub"]),
    ("replace", &["phase_sub"]),
    ("phase_sub", &["main"]),
    ("produced", &["next", "phase_yield"]),
    ("next", &["phase_yield"]),
    ("phase_yield", &["main"]),
    ("Made", &["phase_class"]),
    ("get value", &["phase_class"]),
    ("toString", &["phase_class"]),
    ("stat", &["phase_class"]),
    ("phase_class", &["main"]),
    ("revived", &["parse", "phase_json"]),
    ("parse", &["phase_json"]),
    ("phase_json", &["main"]),
    ("arrow", &["phase_arrow"]),
    ("phase_arrow", &["main"]),
    ("same", &["phase_same"]),
    ("phase_same", &["main"]),
    ("awaited", &["phase_async", RESUMED]),
    ("phase_async", &["main", RESUMED]),
    ("inner", &["outer"]),
    ("outer", &["phase_made"]),
    ("phase_made", &["main"]),
    ("main", &["steady", RESUMED]),
];

fn callers(function: &str) -> Option<&'static [&'static str]> {
    CALLERS.iter().find(|it| it.0 == function).map(|it| it.1)
}

/// Whether a function may stand above another one if functions in between may be inlined.
fn is_below(function: &str, caller: &str) -> bool {
    let (mut known, mut all) = (vec![function], BTreeSet::new());
    while let Some(function) = known.pop() {
        let next = callers(function).unwrap_or_default();
        if next.contains(&caller) {
            return true;
        }
        known.extend(next.iter().filter(|it| all.insert(**it)));
    }
    false
}

/// Records `known.js` with some flags of Node.js, in so many threads.
fn recorded(flags: &[&str], threads: &[&str]) -> Recorded {
    needs("node", &["--version"]);
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/known.js");
    let program = [program.to_str().expect("UTF-8"), SECONDS];
    Recorded::new(&["-F", "997", "-q"], &[&["node"], flags, &program, threads].concat())
}

/// The functions of JavaScript in a stack, leaf first, without the place that tells those of one name apart; `None` of one whose code is gone.
fn functions(frames: &Value) -> Vec<Option<&str>> {
    let frames = frames.as_array().expect("a list").iter();
    let shown = frames.filter(|it| it["language"] == "javascript" || it["reason"] == "code_gone");
    shown.map(|it| it["name"].as_str().map(|name| name.split(" (").next().unwrap_or(name))).collect()
}

/// Splits the number off the name of a function that is made anew each time.
fn numbered(name: &str) -> (&str, &str) {
    match name.split_once('_') {
        Some((base @ ("inner" | "outer"), number)) => (base, number),
        _ => (name, ""),
    }
}

/// Checks who called whom, in so many edges at least; returns how often each function was seen.
fn assert_callers(recorded: &Recorded, is_inlined: bool, least: usize) -> BTreeMap<String, usize> {
    let (mut edges, mut seen) = (0, BTreeMap::new());
    for sample in recorded.samples(&["--language", "javascript"]) {
        let functions = functions(&sample.0["frames"]);
        // Node.js itself is written in JavaScript.
        if !functions.contains(&Some("main")) {
            continue;
        }
        for pair in functions.windows(2) {
            let &[Some(function), Some(caller)] = pair else { continue };
            let ((function, own), (caller, of_caller)) = (numbered(function), numbered(caller));
            let Some(legal) = callers(function) else { continue };
            let is_right = if is_inlined { is_below(function, caller) } else { legal.contains(&caller) };
            assert!(is_right, "{function} < {caller}: {functions:?}");
            assert!(caller != "outer" || own == of_caller || function != "inner", "{functions:?}");
            edges += 1;
            *seen.entry(function.to_owned()).or_default() += 1;
        }
    }
    assert!(edges > least, "{edges}");
    // It takes a while until it is known that this is Node.js.
    let quality = recorded.json("health", &["--from", "1.5"]);
    let interpreted = &quality["interpreted"];
    let number = |key: &str| interpreted[key].as_u64().unwrap_or_else(|| panic!("{interpreted}"));
    assert!((number("inner") + number("outer")) * 100 <= number("stacks"), "{interpreted}");
    assert!(number("agree") as f64 > 0.95 * number("stacks") as f64, "{interpreted}");
    seen
}

#[test]
fn root_each_function_of_javascript_has_its_caller() {
    // Optimized code has functions inlined, which are not shown.
    let seen = assert_callers(&recorded(&[], &[]), true, 3000);
    assert!(seen.contains_key("bottom"), "{seen:?}");
    assert_callers(&recorded(&[], &["worker"]), true, 3000);
}

#[test]
fn root_recursions_of_javascript_are_exact() {
    for more in [&[][..], &["--no-opt", "--no-sparkplug"]] {
        let flags = [&not_inlined()[..], more].concat();
        let recorded = recorded(&flags, &[]);
        let seen = assert_callers(&recorded, false, 5000);
        // Functions that are part of V8 are inlined all the same.
        let is_builtin = |it: &&str| ["map", "sort", "replace", "next", "parse"].contains(it);
        let own = CALLERS.iter().map(|it| it.0).filter(|it| !is_builtin(it) && *it != "outer");
        let missing: Vec<&str> = own.filter(|it| !seen.contains_key(*it)).collect();
        assert!(missing.is_empty(), "{flags:?}: {missing:?}");
        let mut exact = [0, 0];
        for sample in recorded.samples(&["--language", "javascript"]) {
            let functions = functions(&sample.0["frames"]);
            let count = |name| functions.iter().filter(|it| **it == Some(name)).count();
            match functions[..] {
                [Some("bottom"), Some("rec"), ..] => {
                    assert_eq!((count("rec"), count("phase_rec")), (31, 1), "{flags:?}: {functions:?}");
                    exact[0] += 1;
                }
                [Some("bottom"), Some("keyed"), ..] => {
                    assert_eq!((count("keyed"), count("again")), (11, 10), "{flags:?}: {functions:?}");
                    exact[1] += 1;
                }
                _ => {}
            }
        }
        assert!(exact.iter().all(|it| *it > 15), "{flags:?}: {exact:?}");
    }
}

#[test]
fn root_leaves_of_javascript_are_the_functions_that_run() {
    needs("node", &["--version"]);
    // They are so short that most samples are where they make their frame, or give it back.
    let source = "function first() { return 1; } function second() {} function third(a) { return a; }\n\
                  function loop() { for (let i = 0; i < 200000; i++) { first(); second(); third(i); } }\n\
                  const end = Date.now() + 3000; while (Date.now() < end) loop();\n";
    for flags in ["--no-sparkplug --interpreted-frames-native-stack", "--always-sparkplug"] {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        std::fs::write(folder.path().join("tiny.js"), source).expect("room");
        // The map of its code tells what runs. It leaves a log in the current folder.
        let run = format!(
            "cd '{}'; node {} --no-opt {flags} --perf-basic-prof tiny.js & wait; rm /tmp/perf-$!.map",
            folder.path().display(),
            not_inlined().join(" ")
        );
        let recorded = Recorded::new(&["-F", "997", "-q"], &["sh", "-c", &run]);
        let (mut right, mut wrong) = (0, Vec::new());
        for sample in recorded.samples(&["--native", "--language", "javascript"]) {
            let frames = sample.0["frames"].as_array().expect("a list");
            let user = || frames.iter().filter(|frame| frame["side"] == "user");
            let Some((leaf, code)) = user().next().zip(user().nth(1)) else { continue };
            // `JS:~first /tmp/tiny.js:1:15`, in earlier versions `LazyCompile:~first` or `Function:^first`.
            let of_map = code["name"].as_str().and_then(|name| name.split_once(':'));
            let of_map = of_map.filter(|(kind, _)| ["JS", "LazyCompile", "Function"].contains(kind));
            let of_map = of_map
                .and_then(|(_, name)| name.trim_start_matches(['~', '^', '+', '*', '\'']).split(' ').next());
            let Some(of_map) = of_map.filter(|_| leaf["language"] == "javascript") else { continue };
            match leaf["name"].as_str() {
                Some(name) if name == of_map => right += 1,
                name => wrong.push(format!("{name:?} is {of_map}")),
            }
        }
        assert!(right > 100 && wrong.len() * 100 < right, "{flags}: {right} {wrong:?}");
    }
}

#[test]
fn root_functions_of_javascript_of_one_name_are_told_apart_by_their_lines() {
    let recorded = recorded(&not_inlined(), &[]);
    let top = recorded.json("top", &["--language", "javascript", "--sort", "total", "-n", "1000"]);
    let rows = top["rows"].as_array().expect("a list");
    let same: BTreeSet<&str> =
        rows.iter().filter_map(|row| row["name"].as_str()).filter(|it| it.starts_with("same")).collect();
    let source = include_str!("../../programs/known.js");
    let lines = source.lines().enumerate().filter(|(_, line)| line.contains("{ same() {"));
    let expected: Vec<String> = lines.map(|(at, _)| format!("same (known.js:{})", at + 1)).collect();
    assert_eq!(same, expected.iter().map(|it| &**it).collect(), "{rows:?}");
}

#[test]
fn root_a_build_of_v8_that_is_not_known_is_named_with_the_reason() {
    let recorded = Recorded::new(&["-F", "997", "-q"], &[unknown_v8().to_str().expect("UTF-8"), "500"]);
    let expected = serde_json::json!([{"why": "interpreter_build", "files": 1, "needed_bytes": 0}]);
    assert_eq!(recorded.json("summary", &[])["left_out"], expected);
    let path = recorded.path();
    let text = report(&["summary", path.to_str().expect("UTF-8")]);
    assert!(text.contains("interpreters whose functions stacks lack: interpreter_build 1"), "{text}");
}
