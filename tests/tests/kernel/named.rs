//! `--name` records the processes that have a name when recording begins, and no others.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use icecore_tests::machine::{Recorded, copy, record, report, send, text, wait_for_session, wait_until};
use serde_json::Value;

/// A shell under another name, which computes until it is dropped.
struct Busy(Child);

impl Busy {
    fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const COMPUTES: &str = "while :; do :; done";
const COUNTS: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

fn shell(dir: &Path, name: &str) -> PathBuf {
    let path = dir.join(name);
    copy(Path::new("/bin/sh"), &path);
    path
}

fn busy(dir: &Path, name: &str) -> Busy {
    running(&shell(dir, name), COMPUTES)
}

fn running(shell: &Path, script: &str) -> Busy {
    Busy(Command::new(shell).args(["-c", script]).spawn().expect("a shell"))
}

/// Returns the numbers of the processes that a recording has as its targets.
fn targets(recorded: &Recorded) -> BTreeSet<u32> {
    let ids = recorded.json("info", &[])["session"]["target_ids"].clone();
    serde_json::from_value::<BTreeSet<u32>>(ids).expect("numbers")
}

fn notes(recorded: &Recorded) -> String {
    recorded.json("info", &[])["session"]["notes"].to_string()
}

/// Returns the names of the processes that have samples.
fn sampled(recorded: &Recorded) -> BTreeSet<String> {
    let rows = recorded.json("top", &["--by", "comm"])["rows"].clone();
    let names =
        rows.as_array().expect("a list").iter().map(|row| row["name"].as_str().expect("a name").to_owned());
    names.collect()
}

#[test]
fn root_processes_are_chosen_by_patterns_of_their_names_and_the_file_says_which() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [one, two, other] = ["ice-busy-1", "ice-busy-2", "ice-other"].map(|name| busy(dir.path(), name));
    let recorded = Recorded::new(&["--name", "ice-busy-?", "-F", "499", "-d", "0.5"], &[""; 0]);
    assert_eq!(targets(&recorded), BTreeSet::from([one.id(), two.id()]));
    assert_eq!(sampled(&recorded), BTreeSet::from(["ice-busy-1", "ice-busy-2"].map(str::to_owned)));
    let named = format!("{} (`ice-busy-", one.id());
    let said = text(&recorded.output.stderr);
    assert!(notes(&recorded).contains(&named) && said.contains("--name means the processes"), "{said}");
    // Several names and a number.
    let number = other.id().to_string();
    let line = ["--name", "*busy-1", "-p", &number, "--name", "ice-busy-1", "-F", "499", "-d", "0.5"];
    let recorded = Recorded::new(&line, &[""; 0]);
    assert_eq!(targets(&recorded), BTreeSet::from([one.id(), other.id()]));
    assert_eq!(sampled(&recorded), BTreeSet::from(["ice-busy-1", "ice-other"].map(str::to_owned)));
}

#[test]
fn root_a_name_that_the_kernel_cuts_is_known_in_full() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let name = "ice-with-a-name-of-many-bytes";
    let [long, similar] = [name, "ice-with-a-name-that-differs"].map(|name| busy(dir.path(), name));
    for (pattern, expected) in [(name, vec![long.id()]), ("ice-with-a-name*", vec![long.id(), similar.id()])]
    {
        let recorded = Recorded::new(&["--name", pattern, "-d", "0.2"], &[""; 0]);
        assert_eq!(targets(&recorded), expected.into_iter().collect(), "{pattern}");
    }
}

#[test]
fn root_children_are_recorded_and_others_that_get_the_name_later_are_not() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (parent, child) = (shell(dir.path(), "ice-parent"), shell(dir.path(), "ice-child"));
    let [begins, ends] = ["begins", "ends"].map(|name| dir.path().join(name));
    let script = format!(
        "until [ -e {} ]; do sleep 0.1; done; {} -c '{COUNTS}'; echo > {}; {COMPUTES}",
        begins.display(),
        child.display(),
        ends.display()
    );
    let family = running(&parent, &script);
    let path = dir.path().join("r.icecore");
    let mut recorder = record();
    recorder.args(["--name", "ice-parent", "-F", "499", "-q", "-o"]).arg(&path);
    let mut recorder = recorder.spawn().expect("it runs");
    wait_for_session(&path);
    std::fs::write(&begins, "").expect("room");
    // It gets the name when recording has begun, and somebody else has forked it.
    let mut unrelated = Command::new(&parent).args(["-c", COUNTS]).spawn().expect("a shell");
    assert!(unrelated.wait().expect("it ends").success());
    wait_until("the end of the child", || ends.exists());
    send(libc::SIGINT, recorder.id());
    assert!(recorder.wait().expect("it ends").success());
    let top =
        report(&["top".as_ref(), path.as_os_str(), "--by".as_ref(), "process".as_ref(), "--json".as_ref()]);
    let top: Value = serde_json::from_str(&top).expect("JSON");
    let rows = top["rows"].as_array().expect("a list");
    assert!(rows.iter().any(|row| row["name"] == "ice-child"), "{top:#}");
    assert!(!rows.iter().any(|row| row["tgid"] == unrelated.id()), "{top:#}");
    assert!(rows.iter().any(|row| row["tgid"] == family.id()), "{top:#}");
}

#[test]
fn root_the_recorder_never_records_itself_by_name() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let recorder = dir.path().join("ice-unlike");
    copy(&icecore_tests::machine::program("icecore-record"), &recorder);
    let path = dir.path().join("r.icecore");
    let run = |pattern: &str| {
        let mut run = Command::new(&recorder);
        run.args(["--name", pattern, "--force", "-d", "0.2", "-o"]).arg(&path);
        run.output().expect("it runs")
    };
    let output = run("ice-unlike");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no process has such a name") && !path.exists(), "{said}");
    let output = run("*");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Recorders of other tests may run, under another name.
    let samples = report(&["top".as_ref(), path.as_os_str(), "--by".as_ref(), "process".as_ref()]);
    assert!(!samples.contains("ice-unlike"), "{samples}");
}

#[test]
fn a_name_that_no_process_has_is_refused_with_similar_ones() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let _busy = busy(dir.path(), "ice-postgres");
    for (pattern, words) in [
        ("ice-postgrse", ["named `ice-postgrse`", "there is `ice-postgres`"]),
        ("no-such-name-anywhere", ["no process has such a name", "`ps -e` lists all names"]),
        ("", ["named ``", "`ps -e`"]),
    ] {
        let output =
            record().args(["--name", "ice-postgre?", "--name", pattern]).current_dir(dir.path()).output();
        let output = output.expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    }
    let output = record().args(["--name", "x", "--", "ls"]).output().expect("it runs");
    assert!(text(&output.stderr).contains("cannot be used with"), "{}", text(&output.stderr));
}
