//! `icecore-record ctl`: a recorder that runs answers its user and root, and nobody else; nobody can hold it up.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use icecore_tests::machine::{copy, json, program, record, send, target, text, wait_until};
use serde_json::Value;
use tempfile::TempDir;

use crate::rotation::{Running, files};

const TERMINATE: i32 = 15;
const KILL: i32 = 9;
const NOBODY: &str = "65534";

/// A recorder of a program that runs all the time, and its socket.
pub(crate) struct Asked {
    dir: TempDir,
    recorder: Child,
    native: Running,
}

impl Asked {
    pub(crate) fn new(options: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
        std::fs::create_dir(dir.path().join("out")).expect("room");
        let native = Running::new(&target(), &["shares", "60000"]);
        let mut recorder = record();
        recorder.args(["-p", &native.id(), "-F", "499", "--no-cache", "--flush", "100ms"]).args(options);
        recorder
            .arg("--control")
            .arg(dir.path().join("socket"))
            .arg("-o")
            .arg(dir.path().join("out/r.icecore"));
        let recorder = recorder.stderr(Stdio::piped()).spawn().expect("it runs");
        let asked = Self { dir, recorder, native };
        wait_until("it has samples", || asked.status()["samples"].as_u64() > Some(100));
        asked
    }

    /// Returns the process that is recorded.
    pub(crate) fn target(&self) -> String {
        self.native.id()
    }

    fn socket(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn ask(&self, request: &str) -> Output {
        let socket = self.socket();
        let mut ctl = record();
        ctl.arg("ctl")
            .args(request.split(' '))
            .args(["--json", "--socket"])
            .arg(socket)
            .output()
            .expect("it runs")
    }

    /// Returns the answer to a request.
    pub(crate) fn json(&self, request: &str) -> Value {
        serde_json::from_str(&text(&self.ask(request).stdout)).unwrap_or_default()
    }

    /// Returns why a request is refused.
    pub(crate) fn refused(&self, request: &str) -> String {
        refused(&self.ask(request))
    }

    pub(crate) fn status(&self) -> Value {
        self.json("status")
    }

    /// Ends it; returns its messages and the files.
    pub(crate) fn end(self) -> (String, Vec<PathBuf>, TempDir) {
        send(TERMINATE, self.recorder.id());
        let output = self.recorder.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        let files = files(&self.dir.path().join("out"));
        (text(&output.stderr), files, self.dir)
    }
}

/// Returns the path that an answer names.
fn told(output: &Output) -> PathBuf {
    assert!(output.status.success(), "{}", text(&output.stderr));
    let answer: Value = serde_json::from_str(&text(&output.stdout)).expect("JSON");
    assert_eq!(answer["schema"], "icecore.ctl/1");
    let path = PathBuf::from(answer["path"].as_str().expect("a text"));
    assert_eq!(answer["samples"], json("summary", &path)["samples"]);
    assert_eq!(answer["bytes"].as_u64(), path.metadata().ok().map(|meta| meta.len()));
    path
}

fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stdout));
    text(&output.stderr)
}

#[test]
fn root_a_recorder_says_what_it_does_and_begins_the_next_file() {
    let asked = Asked::new(&["--rotate", "1h"]);
    let [first, second] = [asked.status(), asked.status()];
    assert_eq!(first["pid"].as_u64(), Some(asked.recorder.id().into()));
    assert_eq!(
        (&first["state"], &first["lost"], &first["rotate"]["s"]),
        (&"recording".into(), &0.into(), &3600.0.into())
    );
    assert!(first["samples"].as_u64() <= second["samples"].as_u64() && first["bytes"].as_u64() > Some(0));
    let finished = told(&asked.ask("rotate"));
    assert_eq!(json("info", &finished)["receipt"]["end_reason"], "rotated");
    assert!(json("summary", &finished)["samples"].as_u64() > Some(100));
    assert!(refused(&asked.ask("snapshot")).contains("start the recorder with --flight TIME"));
    let mode = std::fs::metadata(asked.socket()).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let (_, files, dir) = asked.end();
    assert_eq!((files.len(), &files[0]), (2, &finished));
    let ends = |file: &Path, key: &str| {
        json("info", file)[if key == "start_ns" { "session" } else { "receipt" }][key].clone()
    };
    assert_eq!(ends(&files[0], "end_ns"), ends(&files[1], "start_ns"), "nothing is between them");
    assert!(!dir.path().join("socket").exists(), "the socket goes with the recorder");
}

#[test]
fn root_a_snapshot_says_where_it_is() {
    let asked = Asked::new(&["--flight", "30s"]);
    let file = told(&asked.ask("snapshot"));
    let summary = json("summary", &file);
    assert_eq!(summary["triggers"][0]["cause"], "control");
    assert!(summary["samples"].as_u64() > Some(100));
    let (said, files, _dir) = asked.end();
    assert_eq!(files, [file], "{said}");
}

#[test]
fn root_a_recording_of_one_file_says_what_it_cannot_do() {
    let asked = Asked::new(&[]);
    assert!(refused(&asked.ask("rotate")).contains("start the recorder with --rotate"));
    assert!(refused(&asked.ask("snapshot")).contains("start the recorder with --flight"));
    assert_eq!(asked.status()["rotate"], Value::Null);
    let output = record().args(["-a", "--control"]).arg(asked.socket()).output().expect("it runs");
    assert!(text(&output.stderr).contains("it exists; remove it"), "{}", text(&output.stderr));
    assert!(asked.socket().exists(), "that of another one stays");
    // Somebody has put something else there.
    std::fs::remove_file(asked.socket()).expect("ours");
    std::fs::write(asked.socket(), "precious").expect("room");
    let (_, _, dir) = asked.end();
    assert_eq!(std::fs::read(dir.path().join("socket")).expect("it stays"), b"precious");
}

#[test]
fn root_a_recorder_takes_the_place_of_one_that_was_killed() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let socket = dir.path().join("socket");
    let recorder = |name: &str| {
        let mut recorder = record();
        recorder.args(["-a", "-q", "--control"]).arg(&socket).arg("-o").arg(dir.path().join(name));
        recorder.spawn().expect("it runs")
    };
    let ask =
        || record().args(["ctl", "status", "--json", "--socket"]).arg(&socket).output().expect("it runs");
    let records = |recorder: &Child| {
        let status: Value = serde_json::from_str(&text(&ask().stdout)).unwrap_or_default();
        status["state"] == "recording" && status["pid"].as_u64() == Some(recorder.id().into())
    };
    for name in ["first", "second"] {
        let mut recorder = recorder(name);
        wait_until("it records", || records(&recorder));
        send(KILL, recorder.id());
        let _ = recorder.wait();
        assert!(socket.exists() && !ask().status.success());
    }
}

#[test]
fn root_a_stranger_gets_no_answer_and_nobody_holds_the_recorder_up() {
    let asked = Asked::new(&["--rotate", "1h"]);
    let recorder = asked.dir.path().join("icecore-record");
    copy(&program("icecore-record"), &recorder);
    let stranger = || {
        let mut run = Command::new("setpriv");
        run.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]).arg(&recorder);
        run.args(["ctl", "status", "--socket"]).arg(asked.socket()).output().expect("util-linux is installed")
    };
    assert!(refused(&stranger()).contains("Permission denied"));
    // Even if the way is open, the recorder looks who it is.
    std::fs::set_permissions(asked.socket(), std::fs::Permissions::from_mode(0o666)).expect("ours");
    let error = refused(&stranger());
    assert!(error.contains("it belongs to another user") || error.contains("no answer"), "{error}");
    let mut dumb = Command::new("setpriv");
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\ntry: s.sendall(b'status\\n'); print(len(s.recv(99)))\nexcept OSError: print(0)";
    dumb.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "/usr/bin/python3", "-c", script])
        .arg(asked.socket());
    let output = dumb.output().expect("Python is installed");
    assert_eq!(text(&output.stdout).trim(), "0", "{}", text(&output.stderr));
    // Some of this user say nothing, or too much.
    let silent: Vec<UnixStream> =
        (0..7).map(|_| UnixStream::connect(asked.socket()).expect("it listens")).collect();
    assert!(asked.status()["samples"].as_u64() > Some(0));
    let more: Vec<UnixStream> = (0..64).filter_map(|_| UnixStream::connect(asked.socket()).ok()).collect();
    let mut closed = silent.into_iter().chain(more);
    let mut nothing = Vec::new();
    closed
        .try_for_each(|mut stream| stream.read_to_end(&mut nothing).map(drop))
        .expect("each is closed after a while");
    let before = asked.status()["samples"].as_u64().expect("it answers again");
    wait_until("it goes on", || asked.status()["samples"].as_u64() > Some(before));
    asked.end();
}

#[test]
fn root_the_usual_socket_is_found_and_that_of_a_killed_recorder_is_not() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut recorder = record();
    recorder.args(["-a", "-q", "--rotate", "1h", "-o"]).arg(dir.path().join("r.icecore"));
    let mut recorder = recorder.spawn().expect("it runs");
    let pid = recorder.id().to_string();
    let ask = || record().args(["ctl", "-p", &pid, "status"]).output().expect("it runs");
    let recording = format!("process {pid}: recording for ");
    wait_until("it records", || text(&ask().stdout).starts_with(&recording));
    let usual = PathBuf::from(format!("/run/icecore-record/{pid}.sock"));
    assert!(usual.exists());
    send(KILL, recorder.id());
    let _ = recorder.wait();
    let said = refused(&ask());
    assert!(
        said.contains(&format!("no recorder of this user with a control socket has the process id {pid}")),
        "{said}"
    );
    // The next recorder cleans up.
    let output = record()
        .args(["-a", "-q", "--rotate", "1h", "-d", "0.2", "-o"])
        .arg(dir.path().join("s.icecore"))
        .output();
    assert!(output.expect("it runs").status.success() && !usual.exists());
}
