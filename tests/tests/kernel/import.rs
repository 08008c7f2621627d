//! Tests imported files of `perf record`: the chains of callers are known, whether perf walked frame pointers or copied stacks.

use std::path::{Path, PathBuf};
use std::process::Command;

use icecore_tests::machine::{
    Sample, jit, json, needs_perf, report, stacks_with_frames, stacks_without_frames, target, text,
};
use serde_json::Value;

/// Records a part of `tests/programs/stacks.c` with perf, and imports the file.
struct Imported {
    dir: tempfile::TempDir,
}

impl Imported {
    fn new(program: &Path, name: &str, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mut perf = Command::new("perf");
        // This records the build-ids of all files, not only of those that contain leaves.
        perf.args(["record", "-q", "--buildid-mmap", "-e", "cpu-clock", "-F", "997"]).args(options);
        perf.arg("-o").arg(dir.path().join("perf.data")).arg("--").arg(program).args([name, "500"]);
        let out = perf.output().expect("perf runs");
        assert!(out.status.success(), "perf record failed: {}", text(&out.stderr));
        let this = Self { dir };
        report(&[
            "import".as_ref(),
            this.dir.path().join("perf.data").as_os_str(),
            "-o".as_ref(),
            this.path().as_os_str(),
        ]);
        report(&["verify".as_ref(), this.path().as_os_str()]);
        this
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("r.icecore")
    }

    fn json(&self, view: &str) -> Value {
        json(view, &self.path())
    }

    /// Returns the samples in the function in which the program spends its time: most of them.
    fn in_leaf(&self) -> Vec<Sample> {
        let out = report(&["samples".as_ref(), self.path().as_os_str(), "--json".as_ref()]);
        let samples: Vec<Sample> =
            out.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect();
        let all = samples.len();
        let samples: Vec<Sample> =
            samples.into_iter().filter(|sample| sample.names("user").first() == Some(&"leaf")).collect();
        assert!(samples.len() > 100 && samples.len() * 10 > all * 8, "{} of {all}", samples.len());
        samples
    }
}

#[test]
fn root_call_chains_of_perf_are_whole_where_frames_are_kept() {
    needs_perf();
    let imported = Imported::new(&stacks_with_frames(), "chain", &["-g"]);
    let (mut whole, mut in_prologue) = (0, 0);
    for sample in imported.in_leaf() {
        let names = sample.names("user");
        // Before a function has made its frame, the frame pointer leads to that of its caller, whose address the kernel's walk misses.
        if names.starts_with(&["leaf", "a", "chain", "main"]) {
            in_prologue += 1;
        } else {
            assert!(names.starts_with(&["leaf", "b", "a", "chain", "main"]), "{names:?}");
            whole += 1;
        }
        assert_eq!((sample.text("comm"), sample.text("event")), ("stacks", "cpu-clock"));
    }
    assert!(in_prologue * 50 <= whole, "{in_prologue} samples without the caller, {whole} with it");
    let summary = imported.json("summary");
    let rate = summary["achieved_hz"].as_f64().expect("a number");
    assert!((900.0..1100.0).contains(&rate), "{rate}");
    let command = summary["command_line"].as_array().expect("a list");
    assert!(command.iter().any(|word| word == "record"), "{command:?}");
}

#[test]
fn root_stacks_that_perf_copied_are_unwound_to_the_root() {
    needs_perf();
    let imported = Imported::new(&stacks_without_frames(), "chain", &["--call-graph", "dwarf,4096"]);
    for sample in imported.in_leaf() {
        let names = sample.names("user");
        assert!(names.starts_with(&["leaf", "b", "a", "chain", "main"]), "{}: {names:?}", sample.0["ended"]);
        assert_eq!((names.last(), sample.text("ended")), (Some(&"_start"), "unwound"));
    }
    let health = imported.json("health");
    assert!(health["rooted_share"].as_f64().is_some_and(|share| share > 0.95), "{health}");
    let deep = Imported::new(&stacks_without_frames(), "deep", &["--call-graph", "dwarf,4096"]);
    for sample in deep.in_leaf() {
        let names = sample.names("user");
        assert!(names.len() > 4 && names[1..].iter().all(|name| *name == "deep"), "{names:?}");
        assert_eq!(sample.text("ended"), "not_copied", "the copy ends in front of the root");
    }
}

/// Returns the reasons why kernel frames have no name, and how many have one.
fn kernel_frames(path: &Path) -> (std::collections::BTreeSet<String>, usize) {
    let out = report(&["samples".as_ref(), path.as_os_str(), "--json".as_ref()]);
    let samples = out.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON")));
    let frames = samples.flat_map(|sample| sample.0["frames"].as_array().expect("a list").clone());
    let kernel: Vec<Value> = frames.filter(|frame| frame["side"] == "kernel").collect();
    let reasons = kernel.iter().filter_map(|frame| Some(frame["reason"].as_str()?.to_owned()));
    (reasons.collect(), kernel.iter().filter(|frame| frame["reason"].is_null()).count())
}

#[test]
fn root_functions_of_the_kernel_are_named_where_it_still_runs_and_nowhere_else() {
    needs_perf();
    let imported = Imported::new(&target(), "syscalls", &["-g"]);
    let (reasons, named) = kernel_frames(&imported.path());
    assert!(reasons.is_empty() && named > 50, "{reasons:?}, {named}");
    let notes = imported.json("info")["session"]["notes"].to_string();
    assert!(notes.contains("named by /proc/kallsyms of the importing machine"), "{notes}");
    let top = imported.json("top")["rows"].to_string();
    assert!(top.contains("read_zero") || top.contains("clear_user") || top.contains("vfs_read"), "{top}");
    // This is the same file, as if another kernel had run.
    let data = imported.dir.path().join("perf.data");
    let mut bytes = std::fs::read(&data).expect("there");
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("it runs");
    let release = release.trim_end().as_bytes();
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(release.len()).position(|window| window == release) {
        at += found + release.len();
        bytes[at - 1] ^= 1;
    }
    std::fs::write(&data, bytes).expect("room");
    let path = imported.dir.path().join("other.icecore");
    report(&["import".as_ref(), data.as_os_str(), "-o".as_ref(), path.as_os_str()]);
    let (reasons, named) = kernel_frames(&path);
    assert_eq!(
        (reasons.into_iter().collect::<Vec<_>>(), named),
        (vec!["kernel_symbol_missing".to_owned()], 0)
    );
}

#[test]
fn root_compressed_and_streamed_files_of_perf_are_read() {
    needs_perf();
    let options = ["--call-graph", "dwarf,4096", "-z"];
    let imported = Imported::new(&stacks_without_frames(), "chain", &options);
    for sample in imported.in_leaf() {
        assert!(sample.names("user").starts_with(&["leaf", "b", "a", "chain", "main"]));
    }
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let recording = dir.path().join("r.icecore");
    let script = "perf record -q --buildid-mmap -e cpu-clock,page-faults -c 1000000 -g -o - -- \"$1\" chain 300 | \"$2\" import - -o \"$3\" --json";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, "sh"]).arg(stacks_with_frames());
    let out = shell
        .arg(icecore_tests::machine::program("icecore-report"))
        .arg(&recording)
        .output()
        .expect("a shell");
    let said: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{}", text(&out.stderr)));
    assert_eq!(said["events"], serde_json::json!(["cpu-clock", "page-faults"]));
    assert!(said["samples"].as_u64().is_some_and(|samples| samples > 100), "{said}");
    assert!(report(&["verify".as_ref(), recording.as_os_str()]).contains("all is well"));
}

#[test]
fn root_made_code_is_named_by_the_map_of_its_process_and_by_no_other() {
    needs_perf();
    // It calls a function without a frame pointer: only unwinding finds it.
    let imported = Imported::new(&jit(), "called", &["--call-graph", "dwarf"]);
    let callers = |samples: &[Sample]| {
        let in_numbers = samples.iter().filter(|sample| sample.names("user").first() == Some(&"numbers"));
        let caller = |sample: &Sample| {
            let frames = sample.0["frames"].as_array().expect("a list");
            // Some samples hit in the kernel.
            let user: Vec<&Value> = frames.iter().filter(|frame| frame["side"] == "user").collect();
            let text = |key: &str| user[1][key].as_str().map(str::to_owned);
            text("reason").map_or_else(|| text("name").expect("it has one"), |reason| format!("[{reason}]"))
        };
        in_numbers.map(caller).collect::<Vec<String>>()
    };
    let again = || {
        let (data, path) = (imported.dir.path().join("perf.data"), imported.path());
        report(&["import".as_ref(), data.as_os_str(), "-o".as_ref(), path.as_os_str(), "--force".as_ref()]);
        let out = report(&["samples".as_ref(), path.as_os_str(), "--json".as_ref()]);
        out.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect::<Vec<Sample>>()
    };
    let before = again();
    assert!(callers(&before).len() > 50 && callers(&before).iter().all(|name| name == "[jit]"));
    // The program removes its map; this writes it once more for each process, as if at its end. Nobody knows which code was there when.
    let touch = |path: &Path, time: &str| {
        let touched = Command::new("touch").args(["-d", time]).arg(path).status();
        assert!(touched.expect("touch is everywhere").success());
    };
    let tgids: std::collections::BTreeSet<u64> = before.iter().map(|sample| sample.number("tgid")).collect();
    let maps: Vec<PathBuf> = tgids.iter().map(|tgid| format!("/tmp/perf-{tgid}.map").into()).collect();
    let ended = imported.dir.path().join("perf.data").metadata().and_then(|meta| meta.modified());
    let ended = ended.expect("there").duration_since(std::time::UNIX_EPOCH).expect("later").as_secs();
    for map in &maps {
        std::fs::write(map, "10000000 100 wrong\n10000000 100 alpha\n").expect("room");
        touch(map, &format!("@{ended}"));
    }
    let named = callers(&again());
    maps.iter().for_each(|map| touch(map, "2001-01-01"));
    let older = callers(&again());
    maps.iter().for_each(|map| std::fs::remove_file(map).expect("ours"));
    assert!(named.len() > 50 && named.iter().all(|name| name == "wrong or alpha"), "{named:?}");
    assert!(older.iter().all(|name| name == "[jit]"), "{older:?}");
}
