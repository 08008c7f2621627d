//! `--flight`: a recording that is held in memory until something asks for it, through real eBPF. The file has what was before, all of it, and
//! no sample is in two files.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use icecore_tests::machine::{copy, json, probed, record, send, target, text, wait_until};
use tempfile::TempDir;

use crate::rotation::{Running, files, samples};

const USR1: i32 = 10;
const TERMINATE: i32 = 15;

/// A recorder that holds a history, and the folder into which it writes.
struct Holding {
    dir: TempDir,
    recorder: Child,
}

impl Holding {
    /// Starts it, and returns once it records.
    fn new(options: &[&str], command: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let pidfile = dir.path().join("pid");
        std::fs::create_dir(dir.path().join("out")).expect("room");
        let mut recorder = record();
        recorder.args(["--no-cache", "--flush", "100ms"]).args(options);
        recorder.arg("--pidfile").arg(&pidfile).arg("-o").arg(dir.path().join("out/h.icecore"));
        if !command.is_empty() {
            recorder.arg("--").args(command);
        }
        let recorder = recorder.stderr(Stdio::piped()).spawn().expect("it runs");
        let holding = Self { dir, recorder };
        wait_until("it records", || pidfile.exists());
        holding
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    fn files(&self) -> Vec<PathBuf> {
        files(&self.folder())
    }

    /// Asks for the history; returns the new file once it is whole.
    fn ask(&self) -> PathBuf {
        let before = self.files();
        send(USR1, self.recorder.id());
        let mut file = PathBuf::new();
        wait_until("it is written", || {
            file = self.files().into_iter().find(|file| !before.contains(file)).unwrap_or_default();
            file.exists() && json("info", &file)["closed"] == true
        });
        file
    }

    /// Waits for the end; returns the exit code, the messages and the folder.
    fn end(self) -> (Option<i32>, String, TempDir) {
        let output = self.recorder.wait_with_output().expect("it ends");
        (output.status.code(), text(&output.stderr), self.dir)
    }
}

/// The calls of `sized` in a file, in the order of time.
fn calls(file: &Path) -> Vec<u64> {
    let samples = samples(file, &[]);
    for sample in &samples {
        assert_eq!(sample.names("user")[..2], ["sized", "main"], "{}", sample.0);
    }
    samples.iter().map(|sample| sample.number("weight")).collect()
}

/// Returns the begin of the first part of a file, and the end of its last one, ns of the clock of recordings.
fn span_ns(file: &Path) -> (u64, u64) {
    let info = json("info", file);
    let parts = info["sessions"].as_array();
    let start = match parts.and_then(|all| all.first()) {
        Some(first) => first["start_ns"].clone(),
        None => info["session"]["start_ns"].clone(),
    };
    let last = parts.and_then(|all| all.last()).unwrap_or(&info);
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    (number(&start), number(&last["receipt"]["end_ns"]))
}

fn triggers(file: &Path) -> Vec<(String, String, bool)> {
    let rows = json("summary", file)["triggers"].as_array().cloned().unwrap_or_default();
    let text = |row: &serde_json::Value, key: &str| row[key].as_str().expect("a text").to_owned();
    rows.iter().map(|row| (text(row, "cause"), text(row, "what"), row["full"] == true)).collect()
}

#[test]
fn root_a_file_has_all_calls_before_the_signal_and_the_next_one_those_after_it() {
    let program = probed();
    let event = format!("uprobe:{}:sized,weight=arg1", program.display());
    let options = ["-e", &event, "--flight", "2s", "--max-event-rate", "0"];
    let holding = Holding::new(&options, &[program.to_str().expect("UTF-8"), "paced", "9000"]);
    std::thread::sleep(Duration::from_millis(5_500));
    assert!(holding.files().is_empty(), "nothing is on disk until something asks");
    let first = holding.ask();
    let second = holding.ask();
    send(TERMINATE, holding.recorder.id());
    let (code, said, _dir) = holding.end();
    // The command ends by the signal that the recorder sends.
    assert_eq!(code, Some(128 + TERMINATE), "{said}");
    let [before, after] = [&first, &second].map(|file| calls(file));
    let whole: Vec<u64> = (before[0]..=before[0] + before.len() as u64 - 1).collect();
    assert_eq!(before, whole, "all calls, each once");
    assert!(before[0] > 1, "what is older than the history is gone");
    let summary = json("summary", &first);
    let length = summary["duration_s"].as_f64().expect("a number");
    assert!((1.99..2.9).contains(&length), "{length}");
    assert_eq!(summary["lost"], 0, "{summary}");
    let next: Vec<u64> = (after[0]..=after[0] + after.len() as u64 - 1).collect();
    assert_eq!(
        (after[0], &after),
        (before[before.len() - 1] + 1, &next),
        "it begins where the first one ends"
    );
    for file in [&first, &second] {
        let triggers = triggers(file);
        assert_eq!(triggers.len(), 1, "{triggers:?}");
        assert!(
            triggers[0].0 == "signal" && triggers[0].1.starts_with("SIGUSR1 from process "),
            "{triggers:?}"
        );
        let info = json("info", file);
        let last = info["sessions"].as_array().and_then(|all| all.last()).unwrap_or(&info);
        assert_eq!(last["receipt"]["end_reason"], "triggered");
    }
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let after_ns = number(&summary["end_unix_ns"]).saturating_sub(number(&summary["triggers"][0]["unix_ns"]));
    assert!(after_ns < 1_000_000_000, "it ends soon after something asks: {after_ns} ns");
}

#[test]
fn root_a_command_that_a_signal_ends_leaves_its_last_seconds() {
    let program = probed();
    let event = format!("uprobe:{}:sized,weight=arg1", program.display());
    let script = format!("{} paced 700; kill -SEGV $$", program.display());
    let options = ["-e", &event, "--flight", "30s", "--max-event-rate", "0"];
    let (code, said, dir) = Holding::new(&options, &["sh", "-c", &script]).end();
    assert_eq!(code, Some(139), "{said}");
    let files = files(&dir.path().join("out"));
    assert_eq!(files.len(), 1, "{said}");
    assert_eq!(calls(&files[0]), (1..=700).collect::<Vec<_>>());
    let expected = ("command".to_owned(), "SIGSEGV ended the command".to_owned(), false);
    assert_eq!(triggers(&files[0]), [expected]);
    assert!(said.contains("SIGSEGV ended the command: wrote `"), "{said}");
}

#[test]
fn root_nothing_is_written_if_nothing_asks() {
    let (code, said, dir) = Holding::new(&["-a", "--flight", "30s"], &["true"]).end();
    assert_eq!((code, files(&dir.path().join("out"))), (Some(0), vec![]), "{said}");
    assert!(said.contains("nothing asked for the history"), "{said}");
}

#[test]
fn root_a_history_that_cannot_be_written_stays_until_it_can() {
    let native = Running::new(&target(), &["shares", "60000"]);
    let holding = Holding::new(&["-p", &native.id(), "-F", "499", "--flight", "20s"], &[]);
    std::thread::sleep(Duration::from_millis(1_500));
    let (folder, away) = (holding.folder(), holding.dir.path().join("away"));
    std::fs::rename(&folder, &away).expect("ours");
    send(USR1, holding.recorder.id());
    std::thread::sleep(Duration::from_millis(2_500));
    std::fs::rename(&away, &folder).expect("ours");
    let file = holding.ask();
    send(TERMINATE, holding.recorder.id());
    let (code, said, _dir) = holding.end();
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("its folder does not exist; the history stays in memory"), "{said}");
    assert!(json("summary", &file)["duration_s"].as_f64().expect("a number") > 3.5);
    assert_eq!(triggers(&file).len(), 2, "both are in the file");
    let samples = samples(&file, &[]);
    let named = samples.iter().filter(|sample| sample.has("takes_half")).count();
    assert!(samples.len() > 300 && named * 10 > samples.len() * 4, "{named} of {}", samples.len());
}

#[test]
fn root_a_folder_in_which_no_file_can_be_made_is_told_at_the_start() {
    let output =
        record().args(["-a", "--flight", "5s", "-o", "/nowhere/h.icecore"]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("/nowhere"), "{}", text(&output.stderr));
    let output = Command::new(record().get_program()).args(["-a", "--flight", "5s", "-o", "-"]).output();
    assert!(text(&output.expect("it runs").stderr).contains("cannot write several files to stdout"));
}

/// Holds a history until one of these conditions asks; returns what asked, and the messages.
fn asked_by(
    conditions: &[&str],
    options: &[&str],
    program: &Path,
    args: &[&str],
) -> (Vec<(String, String, bool)>, String) {
    let mut words = vec!["-a", "--flight", "30s", "--counters", "0.2"];
    conditions.iter().for_each(|condition| words.extend(["--when", condition]));
    words.extend(options);
    let holding = Holding::new(&words, &[]);
    let program = Running::new(program, args);
    wait_until("something asks", || {
        holding.files().first().is_some_and(|file| json("info", file)["closed"] == true)
    });
    drop(program);
    send(TERMINATE, holding.recorder.id());
    let asked = holding.files().iter().flat_map(|file| triggers(file)).collect();
    let (code, said, _dir) = holding.end();
    assert_eq!(code, Some(0), "{said}");
    (asked, said)
}

/// Returns a copy of a program whose processes have a name of their own.
fn named(dir: &TempDir, name: &str, program: &Path) -> PathBuf {
    let path = dir.path().join(name);
    copy(program, &path);
    path
}

#[test]
fn root_a_process_that_fails_asks() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let fails = named(&dir, "fails-3", Path::new("/bin/sh"));
    let (asked, said) =
        asked_by(&["exit(fails-*)!=0", "exit(fails-*)=4"], &[], &fails, &["-c", "sleep 0.3; exit 3"]);
    assert_eq!((asked.len(), asked[0].0.as_str()), (1, "condition"), "{said}");
    let what = &asked[0].1;
    assert!(what.starts_with("exit(fails-*)!=0: fails-3 (") && what.ends_with(") ended with 3"), "{what}");
}

#[test]
fn root_a_process_that_a_signal_ends_asks() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let dies = named(&dir, "dies", Path::new("/bin/sh"));
    let (asked, said) = asked_by(&["exit(dies)>=128"], &[], &dies, &["-c", "sleep 0.3; kill -SEGV $$"]);
    assert!(asked.len() == 1 && asked[0].1.ends_with("ended with 139"), "{asked:?} {said}");
}

#[test]
fn root_a_process_that_takes_memory_asks_once() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let takes = named(&dir, "takes", Path::new("/usr/bin/python3"));
    let script = "import time\nheld = bytearray(b'x') * (300 << 20)\nwhile True: time.sleep(0.01)";
    let (asked, said) = asked_by(&["rss(takes)>200M"], &[], &takes, &["-c", script]);
    assert_eq!(asked.len(), 1, "{said}");
    let shown = asked[0].1.strip_prefix("rss(takes)>200M: ").unwrap_or_default();
    let mebibytes: f64 = shown.split(' ').next().and_then(|number| number.parse().ok()).expect(shown);
    assert!((200.0..400.0).contains(&mebibytes) && shown.contains(" MiB (process "), "{shown}");
}

#[test]
fn root_a_process_that_runs_long_enough_asks() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let spins = named(&dir, "spins", &target());
    let conditions = ["cpu(spins)>30% for 1s", "cpu(spins)>500%", "memory<0%"];
    let (asked, said) = asked_by(&conditions, &[], &spins, &["shares", "60000"]);
    assert!(asked.len() == 1 && asked[0].1.starts_with("cpu(spins)>30% for 1s: "), "{asked:?} {said}");
}

#[test]
fn root_conditions_that_nothing_can_show_are_refused() {
    let refused = |options: &[&str]| {
        let output = record().args(["-a", "--flight", "5s"]).args(options).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2));
        text(&output.stderr)
    };
    assert!(refused(&["--when", "cpu>50%", "--counters", "off"]).contains("--counters is off"));
    assert!(refused(&["--when", "run_delay>5ms"]).contains("only with --off-cpu"));
    let by_chance = refused(&["--when", "run_delay>5ms", "--off-cpu=10ms"]);
    assert!(by_chance.contains("shorter waits than 10.0 ms are recorded by chance"), "{by_chance}");
    assert!(refused(&["--when", "load>3"]).contains("`load` is none of cpu, cpu(NAME)"));
}

#[test]
fn root_a_condition_that_others_make_hold_again_and_again_fills_no_disk() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let fails = named(&dir, "fails", Path::new("/bin/sh"));
    let script = format!("while :; do {} -c 'exit 1'; done", fails.display());
    let holding = Holding::new(&["-a", "--flight", "2s", "--when", "exit(fails)=1"], &[]);
    let loops = Running::new(Path::new("/bin/sh"), &["-c", &script]);
    std::thread::sleep(Duration::from_secs(7));
    drop(loops);
    send(TERMINATE, holding.recorder.id());
    let (code, said, dir) = holding.end();
    assert_eq!(code, Some(0), "{said}");
    let files = files(&dir.path().join("out"));
    assert!((2..=5).contains(&files.len()), "{} files in 7 s: {said}", files.len());
    let spans: Vec<(u64, u64)> = files.iter().map(|file| span_ns(file)).collect();
    assert!(spans.is_sorted_by(|one, next| one.1 <= next.0), "no time is in two files: {spans:?}");
}

#[test]
fn root_a_signal_does_not_wait_for_a_condition_that_has_to() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let fails = named(&dir, "fails", Path::new("/bin/sh"));
    let holding = Holding::new(&["-a", "--flight", "10min", "--when", "exit(fails)=1"], &[]);
    let fail =
        || assert_eq!(Command::new(&fails).args(["-c", "exit 1"]).status().expect("it runs").code(), Some(1));
    fail();
    wait_until("the first file is written", || {
        holding.files().first().is_some_and(|file| json("info", file)["closed"] == true)
    });
    fail();
    std::thread::sleep(Duration::from_millis(700));
    let file = holding.ask();
    send(TERMINATE, holding.recorder.id());
    let asked = triggers(&file);
    let (code, said, _dir) = holding.end();
    assert_eq!(code, Some(0), "{said}");
    assert_eq!((asked.len(), asked[0].0.as_str()), (1, "signal"), "{said}");
    assert!(
        asked[0].1.starts_with("SIGUSR1 ") && asked[0].1.contains("; exit(fails)=1: fails ("),
        "{asked:?}"
    );
}
