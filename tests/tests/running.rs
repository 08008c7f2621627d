//! How a recording ends: Ctrl-C at a terminal.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use icecore_tests::machine::{has_ebpf, program, record, report, send, wait_until};
use serde_json::Value;

const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

fn json(view: &str, path: &Path) -> Value {
    let text = report(&[view.as_ref(), path.as_os_str(), "--json".as_ref()]);
    serde_json::from_str(&text).expect("JSON")
}

fn assert_intact(path: &Path) {
    report(&["verify".as_ref(), path.as_os_str()]);
}

/// Runs a shell command on a terminal of its own.
fn on_terminal(line: &str) -> Command {
    let mut script = Command::new("script");
    script.args(["-q", "-e", "-c", line, "/dev/null"]).env("TERM", "xterm");
    script.stdin(Stdio::piped()).stdout(Stdio::piped());
    script
}

/// A program that takes a while to end at SIGINT, and notes the signals that it gets.
fn graceful(dir: &Path) -> String {
    let dir = dir.display();
    let script = format!(
        "trap 'echo INT >> {dir}/signals; sleep 0.7; exit 7' INT
         trap 'echo TERM >> {dir}/signals; exit 8' TERM
         touch {dir}/ready
         while :; do sleep 0.05; done"
    );
    let path = format!("{dir}/graceful.sh");
    std::fs::write(&path, script).expect("room");
    path
}

/// Starts something that records such a program, does something to it, and returns its exit code and the signals of the program.
fn signals(dir: &Path, recorder: &mut Command, act: impl FnOnce(&mut Child)) -> (Option<i32>, String) {
    let _ = ["signals", "ready"].map(|name| std::fs::remove_file(dir.join(name)));
    let mut child = recorder.spawn().expect("it runs");
    wait_until("the program handles signals", || dir.join("ready").exists());
    act(&mut child);
    let code = child.wait().expect("it ends").code();
    (code, std::fs::read_to_string(dir.join("signals")).unwrap_or_default())
}

#[test]
fn root_ctrl_c_reaches_the_command_once_and_its_exit_code_is_passed_on() {
    if !has_ebpf() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (graceful, path) = (graceful(dir.path()), dir.path().join("r.icecore"));
    let recorder = program("icecore-record").display().to_string();
    let line = format!("exec {recorder} --force -o {} -- sh {graceful}", path.display());
    let pressed = |terminal: &mut Child| {
        let mut keys = terminal.stdin.take().expect("a pipe");
        keys.write_all(b"\x03").expect("script reads it");
        // The end of its input would end the terminal.
        let _ = terminal.wait();
    };
    assert_eq!(signals(dir.path(), &mut on_terminal(&line), pressed), (Some(7), "INT\n".to_owned()));
    assert_intact(&path);
    let receipt = json("info", &path)["receipt"].clone();
    assert_eq!(receipt["ended_by"][0], "signal", "{receipt}");
}

#[test]
fn root_a_signal_for_the_recorder_alone_ends_the_command() {
    if !has_ebpf() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (graceful, path) = (graceful(dir.path()), dir.path().join("r.icecore"));
    for signal in [TERMINATE, INTERRUPT] {
        let mut recorder = record();
        recorder.args(["--force", "-o"]).arg(&path).args(["--", "sh", &graceful]).stderr(Stdio::piped());
        let ended = signals(dir.path(), &mut recorder, |child| send(signal, child.id()));
        assert_eq!(ended, (Some(8), "TERM\n".to_owned()), "signal {signal}");
        assert_intact(&path);
    }
}
