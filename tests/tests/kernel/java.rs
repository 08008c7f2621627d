//! Tests Java without a flag: the recorder reads names and frames in the memory of the virtual machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::{Recorded, Sample, needs, skip};
use serde_json::Value;

const SECONDS: &str = "4";

/// The last samples may be cut: nobody knows whether code was still there after it was last looked at, up to 50 ms before the
/// program ended, and more on a machine that is busy.
const END_NS: u64 = 200_000_000;

/// The interpreter is not known in the first samples: up to 100 ms, and more on a machine that is busy.
const BEGIN_NS: u64 = 400_000_000;

/// A virtual machine, and its version.
struct Jdk {
    java: PathBuf,
    version: u32,
}

/// Lists the virtual machines at hand, each version once: the one of the path, and all in the folder of Debian.
fn at_hand() -> Vec<Jdk> {
    needs("javac", &["-version"]);
    let folders = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    let others = folders.map(|folder| folder.path().join("bin/java")).filter(|java| java.exists());
    let mut seen = BTreeSet::new();
    let mut found: Vec<Jdk> = [PathBuf::from("java")].into_iter().chain(others).filter_map(version).collect();
    found.retain(|jdk| seen.insert(jdk.version));
    found
}

fn version(java: PathBuf) -> Option<Jdk> {
    let output = Command::new(&java).arg("-version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let (_, version) = text.split_once("version \"")?;
    let version = version.split(['.', '"', '-']).next()?.parse().ok()?;
    Some(Jdk { java, version })
}

/// Compiles a program, with the compiler beside a virtual machine.
fn compiled(jdk: &Jdk, name: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let compiler = jdk.java.with_file_name("javac");
    let compiler = if compiler.exists() { compiler } else { "javac".into() };
    let mut command = Command::new(compiler);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs").join(name);
    command.arg("-d").arg(folder.path()).arg(source);
    assert!(command.status().expect("it runs").success(), "{name}");
    folder
}

fn recorded(jdk: &Jdk, flags: &[&str], classes: &Path, class: &str) -> Recorded {
    let (java, classes) = (jdk.java.to_str().expect("UTF-8"), classes.to_str().expect("UTF-8"));
    let command = [&[java][..], flags, &["-cp", classes, class, SECONDS]].concat();
    Recorded::new(&["-F", "997", "-q"], &command)
}

/// The samples that hit while Java ran, but for those of its end.
fn of_java(recorded: &Recorded) -> Vec<Sample> {
    let is_java = |name: &&str| {
        ["Known", "Inlined", "Virtual", "java.", "Interpreter"].iter().any(|begin| name.starts_with(begin))
    };
    let mut samples = recorded.samples(&[]);
    samples.retain(|sample| sample.names("user").iter().any(is_java));
    let end_ns = samples.iter().map(|sample| sample.number("time_ns")).max().unwrap_or(0) - END_NS;
    samples.retain(|sample| sample.number("time_ns") < end_ns);
    assert!(samples.len() > 1000, "{} samples", samples.len());
    samples
}

/// Returns true if no frame of the stack is a guess.
fn is_known(sample: &Sample) -> bool {
    let frames = sample.0["frames"].as_array().expect("`frames` is a list");
    frames.iter().all(|frame| frame.get("guessed").is_none())
}

fn whole_share(samples: &[Sample]) -> f64 {
    let whole = samples.iter().filter(|sample| sample.is_unwound()).count();
    whole as f64 / samples.len() as f64
}

/// The caller of each function of the program.
const CALLERS: [(&str, &[&str]); 9] = [
    ("Known.rec", &["Known.rec", "Known.phaseRec"]),
    ("Known.recA", &["Known.recB", "Known.phaseAB"]),
    ("Known.recB", &["Known.recA"]),
    ("Known.bottom", &["Known.rec", "Known.recA"]),
    ("Known.phaseRec", &["Known.main"]),
    ("Known.phaseAB", &["Known.main"]),
    ("Known.phaseSort", &["Known.main"]),
    ("Known$Circle.area", &["Known.phaseVirtual"]),
    ("Known$Square.area", &["Known.phaseVirtual"]),
];

#[test]
fn root_java_without_a_flag_has_whole_stacks_and_each_caller() {
    for jdk in at_hand() {
        let classes = compiled(&jdk, "Known.java");
        let recorded = recorded(&jdk, &["-XX:-Inline"], classes.path(), "Known");
        let samples = of_java(&recorded);
        assert!(whole_share(&samples) > 0.98, "{}: {}", jdk.version, whole_share(&samples));
        let (mut edges, mut exact) = (0, 0);
        for sample in samples.iter().filter(|sample| sample.is_unwound() && is_known(sample)) {
            let names = sample.names("user");
            for pair in names.windows(2).filter(|pair| pair[1] != "Interpreter") {
                let Some((_, callers)) = CALLERS.iter().find(|it| it.0 == pair[0]) else { continue };
                edges += 1;
                assert!(callers.contains(&pair[1]), "{}: {names:?}", jdk.version);
            }
            // The interpreter has frames of the same functions, whose names are not known.
            let java = names.iter().position(|name| name.starts_with("StubRoutines"));
            let java = &names[..java.filter(|_| names[0] == "Known.bottom").unwrap_or(0)];
            if java.contains(&"Known.rec") || java.contains(&"Known.recA") {
                exact += 1;
                // The leaf, the recursion, the phase, and `main`.
                let depth = if java.contains(&"Known.rec") { 1 + 41 + 2 } else { 1 + 61 + 2 };
                assert_eq!(java.len(), depth, "{}: {names:?}", jdk.version);
            }
        }
        assert!(edges > 2000 && exact > 30, "{}: {edges} edges, {exact} recursions", jdk.version);
        let quality = recorded.json("health", &[]);
        assert!(quality["named_share"].as_f64() > Some(0.98), "{}: {quality}", jdk.version);
    }
}

/// What `Inlined.java` says of itself: in which lines a method calls another.
fn calls_of_inlined() -> BTreeSet<(String, String, u64)> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/Inlined.java");
    let source = std::fs::read_to_string(source).expect("it is there");
    let remarks =
        (1..).zip(source.lines()).filter_map(|(line, text)| Some((line, text.rsplit_once("; //")?.1)));
    let calls = remarks.flat_map(|(line, remark)| {
        remark.split(", ").filter_map(move |call| {
            let (caller, callee) = call.trim().split_once(" > ")?;
            Some((caller.to_owned(), callee.to_owned(), line))
        })
    });
    calls.collect()
}

/// The name of a method of `Inlined.java` in its remarks; `None` of others.
fn of_inlined(frame: &Value) -> Option<&str> {
    let name = frame["name"].as_str()?;
    if name.starts_with("Inlined$$Lambda") {
        return Some("$$Lambda");
    }
    name.strip_prefix("Inlined.").or_else(|| name.strip_prefix("Inlined$"))
}

#[test]
fn root_java_shows_inlined_methods_and_the_lines_of_all_calls() {
    let calls = calls_of_inlined();
    // With these flags HotSpot says of nearly each instruction in which methods it is.
    let debug = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DebugNonSafepoints"];
    for jdk in at_hand() {
        let classes = compiled(&jdk, "Inlined.java");
        for flags in [&[][..], &["-XX:+UseSerialGC"], &debug] {
            let recorded = recorded(&jdk, flags, classes.path(), "Inlined");
            let samples = of_java(&recorded);
            let found = samples.iter().map(|sample| inlined_of(sample, &calls));
            let found = found.fold([0; 4], |sum, it| std::array::from_fn(|at| sum[at] + it[at]));
            let [edges, inlined, exact, leaves] = found;
            let counts = format!("{} {flags:?}: {found:?} of {}", jdk.version, samples.len());
            assert!(edges > 2000 && inlined > 1000, "{counts}");
            assert!(flags != debug || exact > 100 && 100 * leaves > 95 * samples.len(), "{counts}");
            // Hardly any time goes by where `refuse` throws: what lies beside that code is other code.
            let throws = samples.iter().filter(|sample| is_at_throw(sample)).count();
            assert!(100 * throws < 3 * samples.len(), "{counts}: {throws}");
        }
    }
}

/// Returns true if the innermost frame is where `refuse` throws.
fn is_at_throw(sample: &Sample) -> bool {
    let source = include_str!("../../programs/Inlined.java");
    let throws = (1_u64..).zip(source.lines()).find(|it| it.1.contains("throw new"));
    let frames = sample.0["frames"].as_array().expect("`frames` is a list");
    let leaf = frames.iter().find(|frame| frame["side"] == "user");
    let is_it =
        |leaf: &Value| leaf["name"] == "Inlined.refuse" && leaf["line"].as_u64() == throws.map(|it| it.0);
    leaf.is_some_and(is_it)
}

/// Compares a stack of `Inlined.java` with its remarks; counts edges, those into inlined methods, recursions that are known to the last
/// frame, and stacks whose innermost method is known.
fn inlined_of(sample: &Sample, calls: &BTreeSet<(String, String, u64)>) -> [usize; 4] {
    let frames = sample.0["frames"].as_array().expect("`frames` is a list");
    let frames: Vec<&Value> = frames.iter().filter(|frame| frame["side"] == "user").collect();
    let (mut edges, mut inlined) = (0, 0);
    for pair in frames.windows(2) {
        let (Some(callee), Some(caller)) = (of_inlined(pair[0]), of_inlined(pair[1])) else { continue };
        // The class of a lambda has no source.
        if (callee, caller) == ("lambda$lambda$0", "$$Lambda") {
            continue;
        }
        let line = pair[1]["line"].as_u64();
        let is_right = |line: u64| calls.contains(&(caller.to_owned(), callee.to_owned(), line));
        assert!(line.is_some_and(is_right), "{caller} > {callee}: {line:?} in {frames:?}");
        assert_eq!(pair[1]["file"], "Inlined.java");
        edges += 1;
        inlined += usize::from(pair[0]["inlined"] == true);
    }
    // Without flags, the instruction of a leaf may be in a method that is inlined into the innermost one that is known.
    let names: Vec<&str> = frames.iter().filter_map(|frame| of_inlined(frame)).collect();
    let is_leaf_known = names.first() == Some(&"spin");
    // Where the interpreter still runs some of it, their names are missing.
    let callees = frames.iter().take_while(|frame| frame["name"] != "Inlined.recursion");
    let is_compiled = callees.clone().all(|frame| frame["name"] != "Interpreter");
    let is_exact = is_leaf_known && is_compiled && callees.count() < frames.len();
    if is_exact {
        assert_eq!(names.iter().filter(|name| **name == "down").count(), 21, "{names:?}");
    }
    [edges, inlined, usize::from(is_exact), usize::from(is_leaf_known)]
}

#[test]
fn root_java_names_the_methods_that_the_interpreter_runs() {
    let calls = calls_of_inlined();
    for jdk in at_hand() {
        let classes = compiled(&jdk, "Inlined.java");
        let recorded = recorded(&jdk, &["-Xint"], classes.path(), "Inlined");
        let samples = of_java(&recorded);
        let found = samples.iter().map(|sample| inlined_of(sample, &calls));
        let [edges, inlined, exact, leaves] =
            found.fold([0; 4], |sum, it| std::array::from_fn(|at| sum[at] + it[at]));
        let counts = format!("{}: {edges} {exact} {leaves} of {}", jdk.version, samples.len());
        assert!(edges > 5000 && inlined == 0 && exact > 100, "{counts}");
        assert!(100 * leaves > 95 * samples.len(), "{counts}");
        // The recorder has to find the virtual machine first.
        let begin_ns = samples.iter().map(|sample| sample.number("time_ns")).min().unwrap_or(0) + BEGIN_NS;
        let later = samples.iter().filter(|sample| sample.number("time_ns") > begin_ns);
        let names: Vec<&str> = later.flat_map(|sample| sample.names("user")).collect();
        let named = names.iter().filter(|name| name.starts_with("Inlined")).count();
        let unnamed = names.iter().filter(|name| **name == "Interpreter").count();
        assert!(100 * unnamed < named, "{}: {unnamed} frames without a name, {named} with one", jdk.version);
        // The frames of the interpreter are there if they are asked for.
        let native = recorded.samples(&["--native"]);
        let native = native.iter().flat_map(|sample| sample.names("user"));
        assert!(native.filter(|name| *name == "Interpreter").count() > named);
    }
}

#[test]
fn root_java_is_whole_however_it_is_compiled() {
    for jdk in at_hand() {
        let classes = compiled(&jdk, "Known.java");
        for flags in [&[][..], &["-Xint"], &["-XX:TieredStopAtLevel=1"], &["-XX:-TieredCompilation"]] {
            let recorded = recorded(&jdk, flags, classes.path(), "Known");
            let whole = whole_share(&of_java(&recorded));
            assert!(whole > 0.98, "{} {flags:?}: {whole}", jdk.version);
        }
    }
}

#[test]
fn root_a_virtual_thread_whose_callers_are_in_the_heap_is_cut() {
    let mut all = at_hand();
    all.retain(|jdk| jdk.version >= 21);
    if all.is_empty() {
        skip("no Java here has virtual threads: they came with 21");
    }
    for jdk in all {
        let classes = compiled(&jdk, "Virtual.java");
        let recorded = recorded(&jdk, &[], classes.path(), "Virtual");
        let mut samples = of_java(&recorded);
        samples.retain(|sample| sample.names("user").contains(&"Virtual.spin"));
        let barrier = |sample: &Sample| {
            sample.names("user").iter().position(|name| name.starts_with("StubRoutines (continuation"))
        };
        let cut: Vec<&Sample> = samples.iter().filter(|sample| barrier(sample).is_some()).collect();
        assert!(cut.len() > 500, "{} of {}", cut.len(), samples.len());
        for sample in cut {
            let names = sample.names("user");
            assert_eq!(
                (barrier(sample), &sample.0["ended"]),
                (Some(names.len() - 1), &"no_rules".into()),
                "{names:?}"
            );
        }
    }
}
