//! Tests the functions of Python in stacks: each has a caller that is known.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::{Recorded, Sample, needs, pretends, report};
use serde_json::Value;

const SECONDS: &str = "3";
/// The minor versions of CPython 3 whose frames are known.
const KNOWN: std::ops::RangeInclusive<u32> = 9..=15;
/// Before, code objects have no qualified names, and a thread has functions in one interpreter alone.
const QUALIFIED: u32 = 11;

/// An interpreter, and its minor version.
pub(crate) struct Python {
    pub(crate) path: PathBuf,
    pub(crate) minor: u32,
}

/// Lists the interpreters at hand, in which the versions are known: that of the path, and those of pyenv.
pub(crate) fn at_hand() -> Vec<Python> {
    needs("python3", &["--version"]);
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let folders = std::fs::read_dir(home.join(".pyenv/versions")).into_iter().flatten().flatten();
    let others = folders.map(|folder| folder.path().join("bin/python3"));
    let all = [PathBuf::from("/usr/bin/python3")].into_iter().chain(others);
    let mut found: Vec<Python> = all.filter_map(version).collect();
    found.retain(|python| KNOWN.contains(&python.minor));
    assert!(!found.is_empty(), "no Python here is of a known version");
    found
}

fn version(path: PathBuf) -> Option<Python> {
    let output = Command::new(&path).arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let minor = text.strip_prefix("Python 3.")?.split('.').next()?.parse().ok()?;
    Some(Python { path, minor })
}

/// Records a program of `tests/programs`.
fn recorded(python: &Python, program: &str, seconds: &str) -> Recorded {
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(program);
    let (python, program) = (python.path.to_str().expect("UTF-8"), program.to_str().expect("UTF-8"));
    Recorded::new(&["-F", "997", "-q"], &[python, program, seconds])
}

/// The names of the functions of Python in a stack, leaf first.
fn of_python(sample: &Sample) -> Vec<&str> {
    sample.of_language("python").map(own_name).collect()
}

/// Behind a name that several functions have comes what tells them apart.
fn own_name(frame: &Value) -> &str {
    frame["name"].as_str().unwrap_or("").split(" (").next().unwrap_or("")
}

/// The caller of each function of the program.
const CALLERS: [(&str, &[&str]); 24] = [
    (
        "bottom",
        &[
            "rec",
            "keyed",
            "reduced",
            "replaced",
            "compared",
            "produced",
            "Made.__init__",
            "Made.value",
            "Made.__getattr__",
            "inner",
        ],
    ),
    ("rec", &["rec", "phase_rec"]),
    ("again", &["keyed", "phase_again"]),
    ("keyed", &["again"]),
    ("reduced", &["phase_reduce"]),
    ("replaced", &["sub"]),
    ("sub", &["phase_sub"]),
    ("compared", &["phase_qsort"]),
    ("produced", &["phase_sum"]),
    ("Made.__init__", &["phase_class"]),
    ("Made.value", &["phase_class"]),
    ("Made.__getattr__", &["phase_class"]),
    ("inner", &["outer"]),
    ("outer", &["Handle._run", "phase_asyncio"]),
    ("phase_rec", &["main"]),
    ("phase_again", &["main"]),
    ("phase_reduce", &["main"]),
    ("phase_sub", &["main"]),
    ("phase_qsort", &["main"]),
    ("phase_sum", &["main"]),
    ("phase_class", &["main"]),
    ("phase_asyncio", &["main"]),
    ("phase_lines", &["main"]),
    ("main", &["<module>"]),
];

/// A qualified name without the classes around it.
fn last_part(name: &'static str) -> &'static str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Since this minor version CPython can report the names of functions, and calls each through a trampoline then.
const TRAMPOLINES: u32 = 12;

#[test]
fn root_each_function_of_python_has_its_caller() {
    for python in at_hand() {
        let recorded = recorded(&python, "known.py", SECONDS);
        assert_callers(&python, &recorded.samples(&[]));
    }
}

#[test]
fn root_functions_of_python_that_it_reports_itself_stand_there_once() {
    let mut reporting = at_hand();
    reporting.retain(|python| python.minor >= TRAMPOLINES);
    if reporting.is_empty() {
        icecore_tests::machine::skip("no Python here reports its functions");
    }
    for python in reporting {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/known.py");
        // The shell removes the map.
        let run = format!(
            "'{}' -X perf '{}' {SECONDS} & wait; rm /tmp/perf-$!.map",
            python.path.display(),
            program.display()
        );
        let recorded = Recorded::new(&["-F", "997", "-q"], &["sh", "-c", &run]);
        let samples = recorded.samples(&[]);
        for sample in samples.iter().filter(|sample| sample.of_language("python").next().is_some()) {
            let names = sample.names("user");
            assert!(!names.iter().any(|name| name.starts_with("py::")), "3.{}: {names:?}", python.minor);
        }
        assert_callers(&python, &samples);
    }
}

pub(crate) fn assert_callers(python: &Python, samples: &[Sample]) {
    let is_qualified = python.minor >= QUALIFIED;
    let (mut edges, mut exact, mut known) = (0, [0, 0], 0);
    for sample in samples {
        let names = of_python(sample);
        // The callers of its own functions are looked at: others have their names without classes.
        let own = |name: &'static str| if is_qualified { name } else { last_part(name) };
        let is_own = sample
            .of_language("python")
            .map(|frame| frame["file"].as_str().is_some_and(|file| file.ends_with("known.py")));
        for (pair, _) in names.windows(2).zip(is_own).filter(|it| it.1) {
            let known = CALLERS.iter().find(|it| own(it.0) == pair[0]);
            let Some((_, callers)) = known else { continue };
            edges += 1;
            let is_known = callers.iter().any(|caller| own(caller) == pair[1]);
            assert!(is_known, "3.{}: {names:?}", python.minor);
        }
        known += usize::from(names.last() == Some(&"<module>"));
        let count = |name| names.iter().filter(|it| **it == name).count();
        if names[..names.len().min(2)] == ["bottom", "rec"] {
            exact[0] += 1;
            assert_eq!((count("rec"), names.len()), (31, 1 + 31 + 3), "3.{}: {names:?}", python.minor);
        }
        if names[..names.len().min(2)] == ["bottom", "keyed"] {
            exact[1] += 1;
            assert_eq!((count("keyed"), count("again")), (11, 11), "3.{}: {names:?}", python.minor);
        }
    }
    assert!(edges > 3000 && exact.iter().all(|it| *it > 15), "3.{}: {edges} {exact:?}", python.minor);
    let share = known as f64 / samples.len() as f64;
    assert!(share > 0.8, "3.{}: {share}", python.minor);
}

#[test]
fn root_lines_of_python_are_those_that_run_and_those_that_call() {
    for python in at_hand() {
        let recorded = recorded(&python, "known.py", SECONDS);
        // Lines of `bottom` and `rec`, and the loops of `phase_lines`, of which the second runs three times as long.
        let (mut first, mut second) = (0, 0);
        for sample in recorded.samples(&["--language", "python"]) {
            for frame in sample.of_language("python") {
                let line = frame["line"].as_u64().unwrap_or(0);
                let file = frame["file"].as_str().unwrap_or("");
                match frame["name"].as_str() {
                    _ if !file.ends_with("known.py") => {}
                    Some("bottom") => assert!((10..=14).contains(&line), "{frame}"),
                    Some("rec") => assert!((17..=18).contains(&line), "{frame}"),
                    Some("phase_rec") => assert!((21..=22).contains(&line), "{frame}"),
                    Some("phase_lines") if (110..=111).contains(&line) => first += 1,
                    Some("phase_lines") if (112..=113).contains(&line) => second += 1,
                    _ => {}
                }
            }
        }
        assert!(first > 5 && second > first, "3.{}: {first} {second}", python.minor);
    }
}

#[test]
fn root_threads_children_and_interpreters_in_others_have_their_functions() {
    for python in at_hand() {
        let recorded = recorded(&python, "many.py", "1");
        let samples = recorded.samples(&[]);
        let count = |chain: &[&str]| {
            samples
                .iter()
                .filter(|sample| of_python(sample).windows(chain.len()).any(|it| it == chain))
                .count()
        };
        let of_child = count(&["spin", "of_child", "<module>"]);
        let is_qualified = python.minor >= QUALIFIED;
        let of_thread = count(&["spin", "of_thread", if is_qualified { "Thread.run" } else { "run" }]);
        let inner = count(&["inner_bottom", "inner_top", "<module>", "outer_run", "<module>"]);
        let found = [of_child, of_thread, if is_qualified { inner } else { usize::MAX }];
        assert!(found.iter().all(|samples| *samples > 400), "3.{}: {found:?}", python.minor);
        if !is_qualified {
            continue;
        }
        let quality = recorded.json("health", &[]);
        let interpreted = &quality["interpreted"];
        let number = |key: &str| interpreted[key].as_u64().unwrap_or_else(|| panic!("{interpreted}"));
        assert_eq!((number("inner"), number("outer")), (0, 0), "3.{}: {interpreted}", python.minor);
        assert!(number("agree") * 100 > number("stacks") * 80, "3.{}: {interpreted}", python.minor);
    }
}

#[test]
fn root_code_that_lies_where_other_code_was_has_its_own_name_or_none() {
    for python in at_hand() {
        let recorded = recorded(&python, "compiles.py", "2");
        let (mut both, mut gone) = (0, 0);
        for sample in recorded.samples(&[]) {
            let names = of_python(&sample);
            let of_rounds: Vec<_> = names.iter().filter_map(|name| name.strip_prefix("round_")).collect();
            let frames = sample.0["frames"].as_array().expect("a list");
            gone += usize::from(frames.iter().any(|frame| frame["reason"] == "code_gone"));
            match of_rounds[..] {
                [leaf, top] => {
                    both += 1;
                    let rounds = [leaf.strip_suffix("_leaf"), top.strip_suffix("_top")];
                    assert!(rounds[0].is_some() && rounds[0] == rounds[1], "3.{}: {names:?}", python.minor);
                }
                [one] => {
                    assert!(one.ends_with("_top") || one.ends_with("_leaf"), "3.{}: {names:?}", python.minor)
                }
                _ => assert!(of_rounds.is_empty(), "3.{}: {names:?}", python.minor),
            }
        }
        println!("3.{}: {both} samples with both names, {gone} with code that was gone", python.minor);
        assert!(both + gone > 1000, "3.{}: {both} {gone}", python.minor);
    }
}

#[test]
fn root_a_program_that_pretends_to_be_python_harms_nobody() {
    let program = pretends();
    for way in ["circle", "threads", "names", "wild"] {
        let recorded = Recorded::new(&["-F", "997", "-q"], &[program.to_str().expect("UTF-8"), way, "1"]);
        let samples = recorded.samples(&["--native"]);
        let whole = samples.iter().filter(|sample| sample.has("spin") && sample.has("evaluate"));
        let whole: Vec<&Sample> = whole.filter(|sample| sample.is_unwound()).collect();
        assert!(whole.len() > 700, "{way}: {} of {}", whole.len(), samples.len());
        let names = whole.iter().flat_map(|sample| of_python(sample));
        let lens: std::collections::BTreeSet<usize> = names.map(str::len).collect();
        let expected: &[usize] = match way {
            // No thread has the number of this one.
            "threads" => &[],
            "names" => &[4096],
            // Of two frames in a circle, one shows code; the other one is code that is none.
            "circle" => &[5],
            _ => &[],
        };
        assert_eq!(lens.into_iter().collect::<Vec<_>>(), expected, "{way}");
        let lost = recorded.json("summary", &[])["lost_samples"].as_u64();
        assert_eq!(lost.unwrap_or(0), 0, "{way}");
    }
}

#[test]
fn root_memory_of_code_that_was_thrown_away_names_nothing() {
    for python in at_hand() {
        let recorded = recorded(&python, "forgets.py", "3");
        let (mut real, mut bodies, mut gone) = (0, 0, 0);
        for sample in recorded.samples(&[]) {
            let frames = sample.0["frames"].as_array().expect("a list");
            gone += usize::from(frames.iter().any(|frame| frame["reason"] == "code_gone"));
            let names = of_python(&sample);
            assert!(!names.iter().any(|name| name.starts_with("fake")), "3.{}: {names:?}", python.minor);
            real += usize::from(names.iter().any(|name| name.starts_with("real")));
            let file = match names[..] {
                ["<module>", "run", "first", ..] => "file_11111.py",
                ["<module>", "run", "second", ..] => "file_22222.py",
                _ => continue,
            };
            bodies += 1;
            let leaf = sample.of_language("python").next().expect("it has a name");
            assert_eq!(leaf["file"], file, "3.{}: {names:?}", python.minor);
        }
        println!("3.{}: {real} samples with real names, {bodies} with bodies, {gone} gone", python.minor);
        assert!(real + bodies + gone > 500, "3.{}", python.minor);
    }
}

#[test]
fn root_who_waits_for_a_lock_and_who_holds_it() {
    // Later versions wait for locks in code without a symbol.
    let python = at_hand().into_iter().find(|python| (11..=12).contains(&python.minor));
    let python = python.expect("3.11 or 3.12 is here");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/gil.py");
    let (path, program) = (python.path.to_str().expect("UTF-8"), program.to_str().expect("UTF-8"));
    // Kernels before 6.18 keep a walk that is made when the wait begins.
    for missing in ["", "task_work"] {
        let options = ["-F", "199", "-q", "--off-cpu", "--wakers"];
        let recorded = Recorded::without(missing, &options, &[path, program, "3"]);
        let path = recorded.path();
        let folded = report(&["folded", path.to_str().expect("UTF-8"), "--event", "off-cpu", "--wakers"]);
        let (mut of_lock, mut held, mut of_gil, mut by_computing) = (0, 0, 0, 0);
        for line in folded.lines() {
            let (stack, weight) = line.rsplit_once(' ').expect("a weight");
            let Some((waits, wakes)) = stack.split_once("[woken by]") else { continue };
            let weight: u64 = weight.parse().expect("a number");
            let has = |stack: &str, function: &str| stack.split(';').any(|name| name == function);
            let names = ["computes", "wants_to_compute", "holds_the_lock", "waits_for_the_lock"];
            let Some(waker) = names.into_iter().find(|name| has(wakes, name)) else { continue };
            assert!(!has(waits, waker), "nobody wakes himself: {line}");
            if has(waits, "waits_for_the_lock") && has(waits, "PyThread_acquire_lock_timed") {
                of_lock += weight;
                held += if waker == "holds_the_lock" { weight } else { 0 };
            } else if has(waits, "wants_to_compute") {
                of_gil += weight;
                by_computing += if waker == "computes" { weight } else { 0 };
            }
        }
        assert!(of_lock > 100_000_000 && held == of_lock, "{held} of {of_lock} ns for the lock");
        assert!(
            of_gil > 50_000_000 && by_computing * 10 > of_gil,
            "{by_computing} of {of_gil} ns for the interpreter"
        );
    }
}

#[test]
fn root_methods_of_one_name_have_their_own_class_and_lines_or_none() {
    for python in at_hand() {
        let recorded = recorded(&python, "classes.py", "2");
        let mut known = 0;
        for sample in recorded.samples(&["--language", "python"]) {
            let frames = sample.0["frames"].as_array().expect("a list");
            let is_shown = |frame: &&Value| frame["language"] == "python" || frame["reason"] == "code_gone";
            let shown: Vec<&Value> = frames.iter().filter(is_shown).collect();
            for run in
                shown.windows(3).filter(|it| own_name(it[1]).ends_with("run") && it[1]["file"] == "<string>")
            {
                let (class, line) = match own_name(run[0]) {
                    "of_alpha" => ("Alpha", 4),
                    "of_gamma" => ("Gamma", 7),
                    _ => continue,
                };
                known += 1;
                let name = own_name(run[1]);
                assert!(name == "run" || name == format!("{class}.run"), "3.{}: {run:?}", python.minor);
                assert_eq!(run[1]["line"], line, "3.{}: {run:?}", python.minor);
            }
        }
        println!("3.{}: {known} known", python.minor);
    }
}
