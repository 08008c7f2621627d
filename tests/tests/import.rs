//! Files of `perf record`, imported: chains of callers are known, whether perf walked frame pointers or copied stacks.

use std::path::Path;
use std::process::Command;

use icecore_tests::machine::{Sample, has_perf, report, stacks_with_frames, stacks_without_frames, text};
use serde_json::Value;

/// Records a part of `tests/programs/stacks.c` with perf, and imports the file.
struct Imported {
    dir: tempfile::TempDir,
}

impl Imported {
    fn new(program: &Path, name: &str, options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mut perf = Command::new("perf");
        // Build-ids of all files, not only of those that leaves are in.
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
        let out = report(&[view.as_ref(), self.path().as_os_str(), "--json".as_ref()]);
        serde_json::from_str(&out).expect("the report prints JSON")
    }

    /// Samples that hit in the function where the program spends its time: most of them.
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
    if !has_perf() {
        return;
    }
    let imported = Imported::new(&stacks_with_frames(), "chain", &["-g"]);
    for sample in imported.in_leaf() {
        let names = sample.names("user");
        assert!(names.starts_with(&["leaf", "b", "a", "chain", "main"]), "{names:?}");
        assert_eq!((sample.text("comm"), sample.text("event")), ("stacks", "cpu-clock"));
    }
    let summary = imported.json("summary");
    let rate = summary["achieved_hz"].as_f64().expect("a number");
    assert!((900.0..1100.0).contains(&rate), "{rate}");
    let command = summary["command_line"].as_array().expect("a list");
    assert!(command.iter().any(|word| word == "record"), "{command:?}");
}

#[test]
fn root_stacks_that_perf_copied_are_unwound_to_the_root() {
    if !has_perf() {
        return;
    }
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

#[test]
fn root_compressed_and_streamed_files_of_perf_are_read() {
    if !has_perf() {
        return;
    }
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
