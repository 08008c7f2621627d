//! `icecore-record --live`: the table of now on the terminal of the recorder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use icecore_tests::machine::{json, needs, program, record, target, text, wait_until};

/// A terminal of a tmux server of its own.
struct Terminal(PathBuf);

impl Terminal {
    fn tmux(&self, args: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.env("LC_ALL", "C.UTF-8").env_remove("TMUX").arg("-u").arg("-S").arg(&self.0);
        let output = tmux.args(args).output().expect("tmux runs");
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = Command::new("tmux").arg("-S").arg(&self.0).arg("kill-server").output();
    }
}

/// Returns the status of the report that shows a file.
fn viewer(file: &Path) -> Option<String> {
    let processes = fs::read_dir("/proc").expect("a folder").flatten();
    let words = |folder: &Path| fs::read(folder.join("cmdline")).unwrap_or_default();
    let wanted = format!("tui\0--follow\0--\0{}\0", file.display());
    let shows = |folder: &PathBuf| words(folder).windows(wanted.len()).any(|part| part == wanted.as_bytes());
    let folder = processes.map(|entry| entry.path()).find(shows)?;
    fs::read_to_string(folder.join("status")).ok()
}

#[test]
fn root_a_recorder_shows_what_it_records_by_a_program_without_capabilities() {
    needs("tmux", &["-V"]);
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("x.icecore");
    let mut busy = Command::new(target());
    let mut busy = busy.args(["shares", "60000"]).stdout(Stdio::null()).spawn().expect("it runs");
    let terminal = Terminal(dir.path().join("tmux"));
    let recorder = program("icecore-record");
    let line = format!(
        "{} --live -p {} -F 499 -d 8 -o {}; echo ended $?; sleep 100",
        recorder.display(),
        busy.id(),
        path.display()
    );
    terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "140", "-y", "30", &line]);
    wait_until("the table is there", || {
        let screen = terminal.screen();
        screen.contains("q quit") && screen.contains("takes_half")
    });
    let status = viewer(&path).expect("it runs");
    for set in [
        "CapInh:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
    ] {
        assert!(status.contains(set), "{set}: {status}");
    }
    wait_until("the recording has ended", || terminal.screen().contains("ended 0"));
    let screen = terminal.screen();
    assert!(screen.contains("recorded   ") && !screen.contains("q quit"), "{screen}");
    assert!(viewer(&path).is_none(), "it has ended, too");
    assert!(json("summary", &path)["samples"].as_u64() > Some(0));
    let _ = busy.kill();
    let _ = busy.wait();
}

#[test]
fn root_what_cannot_be_shown_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("x.icecore");
    for (words, why) in [
        (&["-a", "-d", "1"][..], "stdout is no terminal; `icecore-report tui --follow FILE` prints tables"),
        (&["true"], "the command has the terminal"),
    ] {
        let output = record().args(["--live", "-o"]).arg(&path).args(words).output().expect("it runs");
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{said}");
        assert!(!path.exists());
    }
}
