//! `--pidfile` names the recorder while it records, and is gone afterwards, however the recording ends.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use icecore_tests::machine::{record, send, text, wait_until};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder for temporary files"))
    }

    fn pidfile(&self) -> PathBuf {
        self.0.path().join("x.pid")
    }

    /// A recorder that writes the file, with more arguments.
    fn recorder(&self, args: &[&str]) -> Command {
        let mut recorder = record();
        recorder
            .arg("--pidfile")
            .arg(self.pidfile())
            .args(["--force", "-o"])
            .arg(self.0.path().join("r.icecore"));
        recorder.args(args).stderr(Stdio::piped());
        recorder
    }

    /// Starts a recorder, and waits until the file is there.
    fn started(&self, args: &[&str]) -> Child {
        let recorder = self.recorder(args).spawn().expect("it runs");
        wait_until("the file with the process id", || self.pidfile().exists());
        assert_eq!(content(&self.pidfile()), format!("{}\n", recorder.id()), "it appears with its content");
        recorder
    }

    fn names(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.0.path()).expect("ours");
        let mut names: Vec<String> =
            names.map(|entry| entry.expect("ours").file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

fn content(path: &Path) -> String {
    std::fs::read_to_string(path).expect("it is there")
}

fn ended(recorder: Child) -> (Option<i32>, String) {
    let output = recorder.wait_with_output().expect("it ends");
    (output.status.code(), text(&output.stderr))
}

#[test]
fn root_the_file_is_there_while_the_recorder_records() {
    let folder = Folder::new();
    let recorder = folder.started(&["-a", "-d", "1"]);
    let meta = std::fs::metadata(folder.pidfile()).expect("there");
    assert_eq!((meta.mode() & 0o7777, meta.is_file()), (0o644, true));
    let (code, said) = ended(recorder);
    assert_eq!((code, folder.names()), (Some(0), vec!["r.icecore".to_owned()]), "{said}");
    // With a delay it is there before sampling begins.
    let recorder = folder.started(&["-a", "--delay", "30"]);
    send(libc::SIGTERM, recorder.id());
    let (_, said) = ended(recorder);
    assert!(!folder.pidfile().exists(), "{said}");
}

#[test]
fn root_signals_and_errors_remove_the_file() {
    let folder = Folder::new();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        let recorder = folder.started(&["-a"]);
        send(signal, recorder.id());
        let (code, said) = ended(recorder);
        assert_eq!((code, folder.names()), (Some(0), vec!["r.icecore".to_owned()]), "{said}");
    }
    // The second signal ends the recorder at once, which waits for a command that ignores the first.
    let recorder = folder.started(&["--", "sh", "-c", "trap '' TERM; sleep 20"]);
    send(libc::SIGTERM, recorder.id());
    std::thread::sleep(std::time::Duration::from_millis(500));
    assert!(folder.pidfile().exists(), "it waits for the command");
    send(libc::SIGTERM, recorder.id());
    let (code, said) = ended(recorder);
    assert_eq!((code, folder.pidfile().exists()), (Some(143), false), "{said}");
    // The command ends with an error of its own.
    let (code, _) = ended(folder.started(&["--", "sh", "-c", "sleep 1; exit 7"]));
    assert_eq!((code, folder.pidfile().exists()), (Some(7), false));
    // Recording does not begin.
    let output = folder.recorder(&["-a", "-d", "1", "-e", "no-such-event"]).output().expect("it runs");
    assert_eq!((output.status.code(), folder.pidfile().exists()), (Some(2), false));
}

#[test]
fn root_the_file_of_a_living_recorder_is_refused_and_a_stale_one_is_replaced() {
    let folder = Folder::new();
    let first = folder.started(&["-a"]);
    let mut args = vec!["--pidfile".to_owned(), folder.pidfile().display().to_string()];
    args.extend(["-a", "-d", "0.1", "-o"].map(str::to_owned));
    args.push(folder.0.path().join("s.icecore").display().to_string());
    let output = record().args(&args).output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["cannot write `", &format!("process id {}, which still runs", first.id()), "with --pidfile"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!folder.0.path().join("s.icecore").exists(), "nothing is recorded");
    assert_eq!(content(&folder.pidfile()), format!("{}\n", first.id()));
    // A recorder that is killed leaves it.
    send(libc::SIGKILL, first.id());
    let _ = ended(first);
    assert!(folder.pidfile().exists());
    let output = record().args(&args).output().expect("it runs");
    assert_eq!(
        (output.status.code(), folder.pidfile().exists()),
        (Some(0), false),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn root_what_is_no_such_file_is_not_touched() {
    let folder = Folder::new();
    let refuse = |path: &Path, words: &[&str]| {
        let recording = folder.0.path().join("r.icecore");
        let output =
            record().arg("--pidfile").arg(path).args(["-a", "-d", "0.1", "-o"]).arg(&recording).output();
        let output = output.expect("it runs");
        let said = text(&output.stderr);
        assert_eq!((output.status.code(), recording.exists()), (Some(2), false), "{said}");
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
    };
    std::fs::write(folder.pidfile(), "precious\n").expect("room");
    refuse(&folder.pidfile(), &["cannot replace `", "something else than a process id", "--pidfile"]);
    assert_eq!(content(&folder.pidfile()), "precious\n");
    refuse(folder.0.path(), &["not a regular file"]);
    refuse(Path::new("/dev/null"), &["not a regular file"]);
    refuse(&folder.0.path().join("none/x.pid"), &["create its folder"]);
    refuse(Path::new("/proc/x.pid"), &["cannot write `/proc/x.pid`"]);
}
