//! Names that travel with the recording: another machine shows every name that the recorded machine could show.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use icecore_tests::elsewhere::{frames, root_with, samples_elsewhere};
use serde_json::{Value, json};

use icecore_tests::machine::{Recorded, Sample, copy, record, report, target, text, wait_for_samples};

/// Uses a fixed amount of CPU time, however fast the processor is.
const PYTHON: &str =
    "exec(\"import time\\nwhile time.process_time() < 0.4: sum(len(str(i*i)) for i in range(9999))\")";

#[test]
fn root_every_function_that_is_named_here_is_named_where_nothing_is() {
    // A compiler, an interpreter, a shell and programs that live for a moment, as they are installed.
    let work = tempfile::tempdir().expect("a folder for temporary files");
    let source = work.path().join("x.cc");
    std::fs::write(
        &source,
        "#include <regex>\nint main() { return std::regex_match(\"a\", std::regex(\"a+\")); }\n",
    )
    .expect("room");
    let script = format!(
        "c++ -O2 -c {0} -o {0}.o; python3 -c '{PYTHON}'; \
         for i in 1 2 3 4 5 6 7 8 9; do ls -lR /usr/include >/dev/null; done",
        source.display()
    );
    let recorded = Recorded::new(&["-F", "997", "-q"], &["sh", "-c", &script]);
    // The report reads callers of code without unwind tables from its instructions if it has the file: few stacks differ.
    let (here, elsewhere) = (recorded.samples(&[]), samples_elsewhere(&recorded.path()));
    let all = here.len();
    let called = |sample: &Sample| {
        let frames = sample.0["frames"].as_array().expect("a list");
        frames.iter().filter(|frame| frame["inlined"] == false).count()
    };
    let pairs = here.into_iter().zip(elsewhere);
    let (here, elsewhere): (Vec<Sample>, Vec<Sample>) =
        pairs.filter(|(here, there)| called(here) == called(there)).unzip();
    assert!(here.len() * 100 >= all * 99, "{} of {all} stacks are as long elsewhere", here.len());
    let (here, elsewhere) = (frames(&here), frames(&elsewhere));
    assert!(here.len() > 2000, "{} frames", here.len());

    let named = here.iter().filter(|(name, _)| name.is_some()).count();
    let lost: Vec<_> =
        here.iter().zip(&elsewhere).filter(|(here, there)| here.0.is_some() && here != there).collect();
    eprintln!(
        "{} frames, {named} named here, {} of these elsewhere ({:.2} %)",
        here.len(),
        named - lost.len(),
        100.0 * (named - lost.len()) as f64 / named as f64
    );
    assert!(named * 2 > here.len(), "{named} of {} frames are named", here.len());
    // Where debug information is, it says which of several names of one address is meant.
    let (renamed, lost): (Vec<_>, Vec<_>) = lost.into_iter().partition(|(_, there)| there.0.is_some());
    assert!(renamed.len() * 100 < named, "{} of {named}, the first: {:?}", renamed.len(), renamed[0]);
    assert!(lost.is_empty(), "{} of {named}, the first: {:?}", lost.len(), lost[0]);
}

#[test]
fn root_a_frame_has_one_name_whatever_is_embedded_and_wherever_it_is_read() {
    // Returns the name of the physical function at each location in files, and the source of the name.
    let mut names: BTreeMap<(String, u64), BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let script = format!("python3 -c '{PYTHON}'; ls -lR /usr/include >/dev/null");
    for embed in ["none", "hits", "sections", "all"] {
        let recorded = Recorded::new(&["-F", "997", "-q", "--embed", embed], &["sh", "-c", &script]);
        let (here, there) = (recorded.samples(&[]), samples_elsewhere(&recorded.path()));
        for (side, samples) in [("here", here), ("elsewhere", there)] {
            let frames = samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list"));
            for frame in frames.filter(|frame| frame["inlined"] != true && frame["reason"].is_null()) {
                let (Some(image), Some(offset)) = (frame["image"].as_str(), frame["offset"].as_u64()) else {
                    continue;
                };
                let name = frame["name"].as_str().expect("there is no reason why not").to_owned();
                let of = names.entry((image.to_owned(), offset)).or_default().entry(name).or_default();
                of.insert(format!("{embed} {side}"));
            }
        }
    }
    let of_libc = |((_, _), names): (&(String, u64), &BTreeMap<String, BTreeSet<String>>)| {
        names.get("__libc_start_main").map_or(0, BTreeSet::len)
    };
    // Without embedded names another machine has none.
    assert_eq!(names.iter().map(of_libc).max(), Some(7));
    let several: Vec<_> = names.iter().filter(|(_, names)| names.len() > 1).collect();
    // Where debug information is, it says which of several names of one address is meant.
    let are_few = several.len() * 100 <= names.len();
    assert!(names.len() > 200 && are_few, "{} of {}: {several:?}", several.len(), names.len());
}

/// Commands of a system as it is installed, which run for about a second.
const TWELVE: [&str; 12] = [
    "xz -c /bin/bash >/dev/null",
    "gzip -9c /bin/bash /bin/bash /bin/bash >/dev/null",
    "python3 -c 'sum(len(str(i * i)) for i in range(10**6))'",
    "perl -e 'for (1..1500000) { $h{$_ % 1000} .= \"x\" }'",
    "awk 'BEGIN { for (i = 0; i < 2000000; i++) a[i % 1000] += i; print a[1] }'",
    "bash -c 'for i in {1..60000}; do : $((i * i)); done'",
    "seq 300000 | sort -R | sort -n >/dev/null",
    "for i in 1 2 3; do ls -lR /usr/include >/dev/null; done",
    "for i in 1 2 3; do find /usr -name nothing; done",
    "tar cf - /usr/include | sha256sum >/dev/null",
    "for i in 1 2 3; do grep -rc 'a.*b.*c' /usr/include >/dev/null; done; true",
    "echo '#include <regex>' >x.cc; c++ -c x.cc",
];

/// Prints what views say of functions that are not inlined, as this machine and one without any file print it.
fn views(path: &Path, elsewhere: bool) -> Vec<BTreeMap<String, Value>> {
    let empty = tempfile::tempdir().expect("a folder for temporary files");
    let json = |view: &[&str]| -> Value {
        let mut args: Vec<&OsStr> = view.iter().map(OsStr::new).collect();
        args.extend([path.as_os_str(), "--json".as_ref(), "--no-cache".as_ref(), "--no-debuginfod".as_ref()]);
        if elsewhere {
            args.extend(["--sysroot".as_ref(), empty.path().as_os_str()]);
        }
        serde_json::from_str(&report(&args)).expect("JSON")
    };
    let list = |of: &Value| of.as_array().expect("a list").clone();
    let text = |of: &Value| of.as_str().unwrap_or_default().to_owned();
    let name = |row: &Value| format!("{} {}", text(&row["name"]), text(&row["image"]));
    let top = json(&["top", "-n", "0"]);
    let mut stacks: BTreeMap<String, Value> = BTreeMap::new();
    for stack in list(&json(&["folded"])["stacks"]) {
        let frames = list(&stack["frames"]).iter().map(text).collect::<Vec<_>>();
        let physical: Vec<&str> = frames.iter().filter(|it| !it.ends_with("_[i]")).map(|it| &**it).collect();
        let sum = stacks.entry(physical.join(";")).or_insert(json!(0));
        *sum = json!(sum.as_u64().expect("a number") + stack["weight"].as_u64().expect("a number"));
    }
    let depth = json(&["depth", "-n", "0"]);
    let key = |row: &Value, keys: &[&str]| {
        keys.iter().map(|key| row[key].to_string()).collect::<Vec<_>>().join(" ")
    };
    let of = |row: &Value, keys: &[&str]| -> Value { keys.iter().map(|key| row[key].clone()).collect() };
    let by_name =
        |rows: &Value, keys: &[&str]| list(rows).iter().map(|row| (name(row), of(row, keys))).collect();
    let depths = list(&depth["groups"]).into_iter().map(|row| {
        let figures = ["count", "min", "mean", "p50", "p99", "max", "cut_share", "histogram"];
        (key(&row, &["tgid", "event", "side"]), of(&row, &figures))
    });
    let recursion = list(&depth["recursion"]).into_iter().map(|row| {
        let whose = format!("{} {}", name(&row), key(&row, &["event", "side", "kind"]));
        (whose, of(&row, &["max_repeats", "samples", "repeats", "function_count"]))
    });
    let times = json(&["timeline", "--by", "function", "-n", "0"]);
    vec![
        by_name(&top["rows"], &["self", "total", "self_samples", "total_samples"]),
        stacks,
        depths.collect(),
        recursion.collect(),
        by_name(&times["rows"], &["total", "peak", "values"]),
    ]
}

#[test]
fn root_twelve_recordings_say_the_same_where_no_file_is() {
    let mut all = 0;
    for command in TWELVE {
        let work = tempfile::tempdir().expect("a folder for temporary files");
        let script = format!("cd {}; {command}", work.path().display());
        // A sample in what begins or ends a program, which has no unwind tables: only its code proves or refutes the caller, so that
        // it is a guess where no file is.
        let has_guess = |recorded: &Recorded| {
            let there =
                ["--sysroot".as_ref(), work.path().as_os_str(), "--json".as_ref(), "--no-cache".as_ref()];
            let health = report(&[&["health".as_ref(), recorded.path().as_os_str()], &there[..]].concat());
            let health: Value = serde_json::from_str(&health).expect("JSON");
            health["guessed_share"].as_f64().is_some_and(|share| share > 0.0)
        };
        let mut recordings = (0..10).map(|_| Recorded::new(&["-F", "997", "-q"], &["sh", "-c", &script]));
        let recorded = recordings.find(|recorded| !has_guess(recorded)).expect("one of ten");
        // Debug information, where it is, says which of several names of one address is meant.
        let mut meant: BTreeMap<String, String> = BTreeMap::new();
        for row in recorded.json("top", &["-n", "0"])["rows"].as_array().expect("a list") {
            for alias in row["aliases"].as_array().into_iter().flatten() {
                let [alias, name] = [alias, &row["name"]].map(|it| it.as_str().expect("a name").to_owned());
                meant.insert(alias, name);
            }
        }
        let word = |word: &str| {
            let bare = word.trim_end_matches([';', ' ']);
            let bare = bare.strip_suffix("_[k]").unwrap_or(bare);
            let name = meant.get(bare).map_or(bare, |name| &**name);
            format!("{name}{}", &word[bare.len()..])
        };
        let renamed = |views: Vec<BTreeMap<String, Value>>| -> Vec<BTreeMap<String, Value>> {
            let name =
                |(name, of): (String, Value)| (name.split_inclusive([';', ' ']).map(word).collect(), of);
            views.into_iter().map(|view| view.into_iter().map(name).collect()).collect()
        };
        let [here, there] = [false, true].map(|elsewhere| renamed(views(&recorded.path(), elsewhere)));
        for (view, (here, there)) in here.iter().zip(&there).enumerate() {
            let differs = here.iter().find(|(name, of)| there.get(*name) != Some(of));
            assert_eq!(differs.map(|(name, of)| (name, of, there.get(name))), None, "{command}: view {view}");
            assert_eq!(here.len(), there.len(), "{command}: view {view}");
        }
        assert!(
            here[0].len() > 12 && here[1].len() > 5 && !here[4].is_empty(),
            "{command}: {} functions",
            here[0].len()
        );
        all += here[0].len();
    }
    assert!(all > 2000, "{all} functions");
}

/// A program that spends its time in `main.spin`, which calls nothing.
const GO: &str = r#"
package main
import "time"
//go:noinline
func spin(n int) (sum int) { for i := 0; i < n; i++ { sum += i % 7 }; return }
func main() {
	sum := 0
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		sum += spin(1000000)
	}
	println(sum)
}
"#;

#[test]
fn root_a_stripped_program_of_go_is_named_where_nothing_is() {
    let work = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::write(work.path().join("main.go"), GO).expect("room");
    // The modes are: at a fixed address, position-independent, and linked by the linker of C.
    for (mode, cgo, flags) in
        [("exe", "0", "-s -w"), ("pie", "0", "-s -w"), ("exe", "1", "-s -w -linkmode=external")]
    {
        let mut go = Command::new("go");
        go.args(["build", "-buildmode", mode, "-ldflags", flags, "-o", "spin", "main.go"])
            .current_dir(work.path());
        go.env("GOCACHE", concat!(env!("CARGO_TARGET_TMPDIR"), "/go")).env("CGO_ENABLED", cgo);
        go.envs([("GOFLAGS", ""), ("GO111MODULE", "off")]);
        assert!(go.status().expect("Go is installed: run tests/setup.sh").success(), "{mode} {flags}");
        let recorded = Recorded::new(&["-F", "997", "-q"], &[work.path().join("spin")]);
        std::fs::remove_file(work.path().join("spin")).expect("it was there");
        let samples = samples_elsewhere(&recorded.path());
        let spinning = samples.iter().filter(|sample| sample.has("main.spin") && sample.has("runtime.main"));
        let spinning = spinning.count();
        assert!(
            spinning > 50 && spinning * 10 > samples.len() * 8,
            "{mode} {flags}: {spinning} of {}",
            samples.len()
        );
    }
}

/// Records a copy of the target program, and does something to it while it runs; returns the names of its frames.
fn names_after(meanwhile: impl FnOnce(&Path)) -> Vec<String> {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (program, path) = (dir.path().join("service"), dir.path().join("r.icecore"));
    copy(&target(), &program);
    let mut recorder = record()
        .args(["-q", "-F", "997", "--flush", "0.1", "-o"])
        .arg(&path)
        .arg("--")
        .arg(&program)
        .args(["shares", "1500"])
        .stderr(Stdio::piped())
        .spawn()
        .expect("the recorder runs");
    wait_for_samples(&path);
    meanwhile(&program);
    assert!(recorder.wait().expect("ours").success());
    let samples = report(&["samples".as_ref(), path.as_os_str(), "--json".as_ref()]);
    let samples: Vec<Sample> =
        samples.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect();
    let frames = frames(&samples);
    let names = frames.iter().filter(|(_, image)| image.contains("/service")).map(|(name, _)| name.clone());
    let all = names.clone().count();
    let names: Vec<String> = names.flatten().collect();
    assert_eq!(names.len(), all, "named frames");
    names
}

#[test]
fn root_a_program_that_is_deleted_while_it_runs_is_named() {
    let names = names_after(|program| std::fs::remove_file(program).expect("it was there"));
    assert!(names.iter().filter(|name| *name == "takes_half").count() > 50, "{} frames", names.len());
}

#[test]
fn root_a_program_that_is_replaced_while_it_runs_keeps_its_own_names() {
    let names = names_after(|program| {
        let other = program.with_extension("new");
        copy(&icecore_tests::machine::churn(), &other);
        std::fs::rename(&other, program).expect("one folder");
    });
    assert!(names.iter().filter(|name| *name == "takes_half").count() > 50, "{} frames", names.len());
}

#[test]
fn root_a_program_in_a_root_of_its_own_is_named() {
    let root = root_with(&target(), None);
    let command =
        ["chroot".as_ref(), root.path().as_os_str(), "/target".as_ref(), "shares".as_ref(), "600".as_ref()];
    let recorded = Recorded::new(&["-F", "997", "-q"], &command);
    drop(root);
    let names = frames(&samples_elsewhere(&recorded.path()));
    let found = names.iter().filter(|(name, _)| name.as_deref() == Some("takes_half")).count();
    assert!(found > 50, "{found} of {} frames", names.len());
}

#[test]
fn root_symbols_are_read_in_a_root_without_proc() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = dir.path().join("stripped");
    let strip = Command::new("strip").arg(target()).arg("-o").arg(&program).status();
    assert!(strip.expect("binutils are installed").success());
    let recorded =
        Recorded::new(&["-F", "997", "-q"], &[program.as_os_str(), "shares".as_ref(), "300".as_ref()]);
    let root = root_with(&icecore_tests::machine::program("icecore-report"), Some(&recorded.path()));
    let has_names = || {
        let mut report = Command::new("chroot");
        report.arg(root.path()).args(["/icecore-report", "top", "/r.icecore", "--symbols", "/symbols"]);
        text(&report.output().expect("chroot is everywhere").stdout).contains("takes_half")
    };
    let symbols = root.path().join("symbols");
    std::fs::create_dir(&symbols).expect("room");
    assert!(!has_names(), "the program is stripped");
    std::fs::copy(target(), symbols.join("whole")).expect("room");
    assert!(has_names());
}

#[test]
fn root_nothing_is_embedded_if_nothing_is_wanted() {
    let symbols = |options: &[&str]| {
        let recorded = Recorded::target(&[&["-F", "997"], options].concat(), "shares", 200);
        let said = text(&recorded.output.stderr);
        let info = recorded.json("info", &[]);
        (info["symbols"].as_u64().expect("a number"), said.contains("embedded   the names of"))
    };
    assert_eq!(symbols(&["--embed", "none"]), (0, false));
    let (count, is_told) = symbols(&[]);
    assert!(count > 2 && is_told, "{count} symbols");
}

#[test]
fn root_a_piece_of_a_recording_keeps_its_names_and_a_merged_one_has_those_of_all() {
    let recorded = Recorded::target(&["-F", "997", "-q"], "threads", 400);
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [piece, both] = ["piece", "both"].map(|name| dir.path().join(name));
    let second = Recorded::target(&["-F", "997", "-q"], "shares", 300);
    let path = recorded.path();
    report(&[
        "cut".as_ref(),
        path.as_os_str(),
        "--to".as_ref(),
        "0.3".as_ref(),
        "-o".as_ref(),
        piece.as_os_str(),
    ]);
    report(&[
        "merge".as_ref(),
        piece.as_os_str(),
        second.path().as_os_str(),
        "-o".as_ref(),
        both.as_os_str(),
    ]);
    report(&["verify".as_ref(), both.as_os_str()]);
    let elsewhere = samples_elsewhere(&both);
    for function in ["only_in_first", "only_in_second", "takes_half"] {
        assert!(elsewhere.iter().any(|sample| sample.has(function)), "{function}");
    }
}
