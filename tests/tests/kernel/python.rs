//! Tests the functions of Python in stacks: each has a caller that is known.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::{Recorded, Sample, needs};

const SECONDS: &str = "3";
/// The minor versions of CPython 3 whose frames are known.
const KNOWN: std::ops::RangeInclusive<u32> = 11..=15;

/// An interpreter, and its minor version.
struct Python {
    path: PathBuf,
    minor: u32,
}

/// Lists the interpreters at hand, in which the versions are known: that of the path, and those of pyenv.
fn at_hand() -> Vec<Python> {
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

fn program() -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/known.py").display().to_string()
}

fn recorded(python: &Python, options: &[&str]) -> Recorded {
    let program = program();
    let command = [python.path.to_str().expect("UTF-8"), &program, SECONDS];
    Recorded::new(&[&["-F", "997", "-q"], options].concat(), &command)
}

/// The names of the functions of Python in a stack, leaf first.
fn of_python<'a>(sample: &'a Sample) -> Vec<&'a str> {
    let frames = sample.0["frames"].as_array().expect("`frames` is a list");
    let python = frames.iter().filter(|frame| frame["language"] == "python");
    // Behind a name that several functions have comes what tells them apart.
    let own = |name: &'a str| name.split(" (").next().unwrap_or(name);
    python.map(|frame| own(frame["name"].as_str().unwrap_or(""))).collect()
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

#[test]
fn root_each_function_of_python_has_its_caller() {
    for python in at_hand() {
        let recorded = recorded(&python, &[]);
        let samples = recorded.samples(&[]);
        let (mut edges, mut exact, mut known) = (0, [0, 0], 0);
        for sample in &samples {
            let names = of_python(sample);
            for pair in names.windows(2) {
                let Some((_, callers)) = CALLERS.iter().find(|it| it.0 == pair[0]) else { continue };
                edges += 1;
                assert!(callers.contains(&pair[1]), "3.{}: {names:?}", python.minor);
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
        assert!(edges > 5000 && exact.iter().all(|it| *it > 30), "3.{}: {edges} {exact:?}", python.minor);
        let share = known as f64 / samples.len() as f64;
        assert!(share > 0.9, "3.{}: {share}", python.minor);
    }
}
