//! Tests the functions of PHP in stacks: each has a caller that is known.

use std::path::{Path, PathBuf};

use icecore_tests::machine::{Recorded, Sample, needs, report, unknown_php, unknown_python};
use serde_json::Value;

const SECONDS: &str = "4";

/// Lists the interpreters at hand.
fn at_hand() -> Vec<PathBuf> {
    needs("php", &["--version"]);
    let folder = std::fs::read_dir("/usr/bin").expect("a folder").flatten().map(|entry| entry.path());
    let is_php = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or("");
        name.strip_prefix("php").is_some_and(|version| version.parse::<f32>().is_ok())
    };
    let found: Vec<PathBuf> = folder.filter(is_php).collect();
    assert!(!found.is_empty(), "no PHP here has its version in its name");
    found
}

/// Records a program of `tests/programs`.
fn recorded(php: &Path, program: &str) -> Recorded {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(program);
    let (php, program) = (php.to_str().expect("UTF-8"), program.to_str().expect("UTF-8"));
    Recorded::new(&["-F", "997", "-q"], &[php, "-n", program, SECONDS])
}

/// The names of the functions of PHP in a stack, leaf first; closures have their place in their names since 8.4.
fn of_php(sample: &Sample) -> Vec<&str> {
    let own = |frame| name(frame).split([' ', ':']).next().filter(|name| *name == "{closure");
    sample
        .of_language("php")
        .map(|frame| if own(frame).is_some() { "{closure}" } else { name(frame) })
        .collect()
}

fn name(frame: &Value) -> &str {
    frame["name"].as_str().unwrap_or("")
}

/// The caller of each function of the program. The object dies while its function ends: then the caller of that is the current one.
const CALLERS: [(&str, &[&str]); 26] = [
    (
        "bottom",
        &[
            "rec",
            "keyed",
            "compared",
            "replaced",
            "produced",
            "Made::__construct",
            "Made::__get",
            "Made::__toString",
            "Made::__destruct",
            "Made::stat",
            "{closure}",
        ],
    ),
    ("rec", &["rec", "phase_rec"]),
    ("keyed", &["array_map", "phase_again"]),
    ("array_map", &["again"]),
    ("again", &["keyed"]),
    ("compared", &["usort"]),
    ("usort", &["phase_sort"]),
    ("replaced", &["preg_replace_callback"]),
    ("preg_replace_callback", &["phase_sub"]),
    ("produced", &["phase_yield"]),
    ("Made::__construct", &["phase_class"]),
    ("Made::__get", &["phase_class"]),
    ("Made::__toString", &["phase_class"]),
    ("Made::__destruct", &["phase_class", "main"]),
    ("Made::stat", &["phase_class"]),
    ("{closure}", &["phase_closure"]),
    ("phase_rec", &["main"]),
    ("phase_again", &["main"]),
    ("phase_sort", &["main"]),
    ("phase_sub", &["main"]),
    ("phase_yield", &["main"]),
    ("phase_class", &["main"]),
    ("phase_closure", &["main"]),
    ("phase_lines", &["main"]),
    ("main", &["{main}"]),
    ("{main}", &[]),
];

#[test]
fn root_each_function_of_php_has_its_caller() {
    for php in at_hand() {
        let recorded = recorded(&php, "known.php");
        let php = php.display();
        let samples = recorded.samples(&[]);
        let (mut edges, mut exact, mut known, mut seen) = (0, [0, 0], 0, std::collections::BTreeSet::new());
        for sample in &samples {
            let names = of_php(sample);
            // A closure is a new object each time, and may be gone.
            let frames = sample.0["frames"].as_array().expect("a list");
            let is_gone = frames.iter().any(|frame| frame["reason"] == "code_gone");
            for pair in names.windows(2).filter(|_| !is_gone) {
                let Some((function, callers)) = CALLERS.iter().find(|it| it.0 == pair[0]) else { continue };
                edges += 1;
                seen.insert(*function);
                assert!(callers.contains(&pair[1]), "{php}: {names:?}");
            }
            known += usize::from(names.last() == Some(&"{main}"));
            let count = |name| names.iter().filter(|it| **it == name).count();
            if names[..names.len().min(2)] == ["bottom", "rec"] {
                exact[0] += 1;
                assert_eq!((count("rec"), names.len()), (31, 1 + 31 + 3), "{php}: {names:?}");
            }
            if names[..names.len().min(2)] == ["bottom", "keyed"] {
                exact[1] += 1;
                let counts = ["keyed", "again", "array_map"].map(count);
                assert_eq!(counts, [11, 10, 10], "{php}: {names:?}");
            }
        }
        assert!(edges > 2000 && exact.iter().all(|it| *it > 15), "{php}: {edges} {exact:?}");
        let missing: Vec<&str> =
            CALLERS.iter().map(|it| it.0).filter(|it| !seen.contains(it) && *it != "{main}").collect();
        assert!(missing.is_empty(), "{php}: {missing:?}");
        let share = known as f64 / samples.len() as f64;
        assert!(share > 0.8, "{php}: {share}");
        let quality = recorded.json("health", &[]);
        let interpreted = &quality["interpreted"];
        let number = |key: &str| interpreted[key].as_u64().unwrap_or_else(|| panic!("{interpreted}"));
        assert_eq!((number("inner"), number("outer")), (0, 0), "{php}: {interpreted}");
    }
}

#[test]
fn root_an_interpreter_that_is_not_known_is_named_with_the_reason() {
    for (program, why) in [(unknown_php(), "interpreter_build"), (unknown_python(), "interpreter_version")] {
        let recorded = Recorded::new(&["-F", "997", "-q"], &[program.to_str().expect("UTF-8"), "500"]);
        let summary = recorded.json("summary", &[]);
        let expected = serde_json::json!([{"why": why, "files": 1, "needed_bytes": 0}]);
        assert_eq!(summary["left_out"], expected);
        let path = recorded.path();
        let text = report(&["summary", path.to_str().expect("UTF-8")]);
        assert!(text.contains(&format!("interpreters whose functions stacks lack: {why} 1")), "{text}");
    }
}

#[test]
fn root_lines_of_php_are_those_that_run_and_those_that_call() {
    for php in at_hand() {
        let recorded = recorded(&php, "known.php");
        let php = php.display();
        // The loops of `phase_lines`, of which the second runs three times as long.
        let (mut first, mut second, mut calls) = (0, 0, 0);
        for sample in recorded.samples(&["--language", "php"]) {
            for (at, frame) in sample.of_language("php").enumerate() {
                let Some(line) = frame["line"].as_u64() else {
                    // What has called has written its line down.
                    let is_leaf = at == 0 || frame["file"].is_null();
                    assert!(is_leaf, "{php}: {frame}");
                    continue;
                };
                calls += usize::from(at > 0);
                match name(frame) {
                    "bottom" => assert!((6..=10).contains(&line), "{php}: {frame}"),
                    "rec" if at > 1 => assert_eq!(line, 17, "{php}: {frame}"),
                    "again" if at > 0 => assert_eq!(line, 28, "{php}: {frame}"),
                    "phase_class" if at > 0 => assert!((88..=91).contains(&line), "{php}: {frame}"),
                    "main" if at > 0 => assert!([112, 114].contains(&line), "{php}: {frame}"),
                    "{main}" => assert_eq!(line, 119, "{php}: {frame}"),
                    "phase_lines" if line == 104 => first += 1,
                    "phase_lines" if line == 105 => second += 1,
                    _ => {}
                }
            }
        }
        assert!(first > 5 && second > first && calls > 2000, "{php}: {first} {second} {calls}");
    }
}

#[test]
fn root_stacks_that_are_hard_to_tell_have_the_right_functions_or_none() {
    // What may call a function; an empty name is one that is not known.
    let callers: [(&str, &[&str]); 15] = [
        ("burn", &["of_deep", "of_sort", "One::runs", "Two::runs", "innermost", "{main}", ""]),
        ("of_deep", &["array_map"]),
        ("nested", &["nested", "phase_deep"]),
        ("usort", &["Kept::__destruct"]),
        ("of_sort", &["usort"]),
        ("Kept::__destruct", &["array_map"]),
        ("keeps", &["array_map"]),
        ("One::runs", &["One::{closure}", ""]),
        ("Two::runs", &["Two::{closure}", ""]),
        ("bound", &["phase_bound"]),
        ("One::{closure}", &["bound"]),
        ("Two::{closure}", &["bound"]),
        ("innermost", &["", "delegates"]),
        ("delegates", &["phase_delegates"]),
        ("phase_deep", &["{main}"]),
    ];
    for php in at_hand() {
        let recorded = recorded(&php, "unusual.php");
        let php = php.display();
        let mut edges = 0;
        for sample in recorded.samples(&[]) {
            let frames = sample.0["frames"].as_array().expect("a list");
            let is_shown = |frame: &&Value| frame["language"] == "php" || frame["reason"] == "code_gone";
            let own = |frame: &'_ Value| {
                let name = name(frame).split(" (").next().unwrap_or("").to_owned();
                // Closures have their place in their names since 8.4.
                name.find("{closure").map_or(name.clone(), |at| name[..at].to_owned() + "{closure}")
            };
            let names: Vec<String> = frames.iter().filter(is_shown).map(own).collect();
            for pair in names.windows(2) {
                let Some((_, callers)) = callers.iter().find(|it| it.0 == pair[0]) else { continue };
                edges += 1;
                assert!(callers.contains(&&*pair[1]), "{php}: {names:?}");
            }
            // The outermost one is there as well, and stands where the interpreter begins.
            assert!(names.last().is_none_or(|name| name == "{main}"), "{php}: {names:?}");
            let begins = frames.iter().position(|frame| frame["name"] == "zend_execute");
            let outermost = frames.iter().rposition(|frame| frame["language"] == "php");
            assert!(names.is_empty() || begins == outermost.map(|at| at + 1), "{php}: {names:?}");
        }
        println!("{php}: {edges} edges");
        assert!(edges > 300, "{php}: {edges}");
    }
}
