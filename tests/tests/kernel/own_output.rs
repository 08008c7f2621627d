//! The recorder's own file: whatever happens to the file or the recorder, no recording is lost without a message.

use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use icecore_tests::machine::{json, program, send, text, wait_for_samples, wait_until};

const HANGUP: i32 = 1;
const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;
const CONTINUE: i32 = 18;
const STOP: i32 = 19;

/// Returns a line of `/proc/PID/status`.
fn status(pid: u32, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default().trim().to_owned()
}

/// Returns the signals of such a line, as bits.
fn mask(pid: u32, field: &str) -> u64 {
    u64::from_str_radix(&status(pid, field), 16).unwrap_or(0)
}

/// Returns a recorder that reacts to SIGHUP, even if the tests run under `nohup`, which ignores it.
fn record() -> Command {
    let mut record = Command::new("env");
    record.arg("--default-signal=HUP").arg(program("icecore-record"));
    record
}

/// Records the machine until a signal ends the recorder.
fn recorder(path: &Path, options: &[&str]) -> Child {
    let mut recorder = record();
    recorder.args(["-a", "--flush", "0.1"]).args(options).arg("-o").arg(path).stderr(Stdio::piped());
    recorder.spawn().expect("the recorder runs")
}

/// Records the machine, does something to the file, and ends the recording.
fn meddled(path: &Path, meddle: impl FnOnce()) -> Output {
    let recorder = recorder(path, &[]);
    wait_for_samples(path);
    meddle();
    send(INTERRUPT, recorder.id());
    recorder.wait_with_output().expect("ours")
}

/// Asserts that a file is a whole recording.
fn assert_whole(path: &Path) {
    assert_eq!(json("summary", path)["closed"], true);
}

#[test]
fn root_a_file_that_is_removed_while_it_is_written_is_written_again() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let output = meddled(&path, || std::fs::remove_file(&path).expect("there"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("somebody removed `") && said.contains("written there again"), "{said}");
    assert_whole(&path);
}

#[test]
fn root_a_file_whose_folder_is_removed_is_saved_and_told() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (here, folder) = (dir.path().join("here"), dir.path().join("folder"));
    for folder in [&here, &folder] {
        std::fs::create_dir(folder).expect("room");
    }
    let path = folder.join("r.icecore");
    let mut recorder = record();
    recorder.args(["-a", "--flush", "0.1", "-o"]).arg(&path).current_dir(&here).stderr(Stdio::piped());
    let recorder = recorder.spawn().expect("the recorder runs");
    wait_for_samples(&path);
    std::fs::remove_dir_all(&folder).expect("there");
    send(TERMINATE, recorder.id());
    let output = recorder.wait_with_output().expect("ours");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the recording has been saved as `r.icecore`"), "{said}");
    assert!(said.contains("recorded   r.icecore"), "{said}");
    assert_whole(&here.join("r.icecore"));
}

#[test]
fn root_a_file_that_is_renamed_or_replaced_is_named_as_it_is_now() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [path, other, saved] = ["r.icecore", "other", "r-2.icecore"].map(|name| dir.path().join(name));
    let output = meddled(&path, || std::fs::rename(&path, &other).expect("there"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("the recording is now `{}`", other.display())), "{said}");
    assert_whole(&other);
    // Another recorder does this if it must replace the file at the same moment.
    let output = meddled(&path, || std::fs::rename(&other, &path).expect("there"));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("saved as `{}`", saved.display())), "{said}");
    assert_whole(&path);
    assert_whole(&saved);
}

#[test]
fn root_a_hangup_closes_the_file_unless_it_is_ignored() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let [first, second] = ["first", "second"].map(|name| dir.path().join(name));
    let running = recorder(&first, &[]);
    wait_for_samples(&first);
    send(HANGUP, running.id());
    let output = running.wait_with_output().expect("ours");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_whole(&first);

    let mut nohup = Command::new("nohup");
    nohup
        .arg(program("icecore-record"))
        .args(["-a", "-d", "60", "--flush", "0.1", "-o"])
        .arg(&second)
        .args(["--", "sleep", "60"]);
    let recorder = nohup.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("coreutils");
    wait_for_samples(&second);
    let ignores = |pid: u32| mask(pid, "SigIgn:") & 1 << (HANGUP - 1) != 0;
    let children = format!("/proc/{0}/task/{0}/children", recorder.id());
    let children = std::fs::read_to_string(children).expect("it runs");
    let is_command = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim_end() == "sleep")
    };
    let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
    let command = children.into_iter().find(is_command).expect("the command");
    assert!(ignores(recorder.id()), "the recorder is to outlive its terminal");
    assert!(ignores(command), "and so is the command");
    send(HANGUP, recorder.id());
    send(TERMINATE, recorder.id());
    recorder.wait_with_output().expect("ours");
    assert_whole(&second);
}

#[test]
fn root_a_stop_before_recording_begins_runs_nothing_and_leaves_no_file() {
    // A second signal does not abort yet.
    for signals in [&[INTERRUPT][..], &[TERMINATE], &[HANGUP], &[INTERRUPT, TERMINATE]] {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (path, trace) = (dir.path().join("r.icecore"), dir.path().join("it ran"));
        let recorder = loop {
            let mut recorder = record();
            recorder
                .args(["--force", "-o"])
                .arg(&path)
                .arg("--")
                .arg("touch")
                .arg(&trace)
                .stderr(Stdio::piped());
            let recorder = recorder.spawn().expect("the recorder runs");
            wait_until("it listens", || {
                let caught = mask(recorder.id(), "SigCgt:");
                signals.iter().all(|signal| caught & 1 << (signal - 1) != 0)
            });
            send(STOP, recorder.id());
            wait_until("it is stopped", || status(recorder.id(), "State:").contains('T'));
            // Usually it is still loading.
            if !path.exists() {
                break recorder;
            }
            send(KILL, recorder.id());
            recorder.wait_with_output().expect("ours");
            let _ = (std::fs::remove_file(&path), std::fs::remove_file(&trace));
        };
        signals.iter().for_each(|signal| send(*signal, recorder.id()));
        send(CONTINUE, recorder.id());
        let output = recorder.wait_with_output().expect("ours");
        let said = text(&output.stderr);
        let codes = signals.iter().map(|signal| Some(128 + *signal));
        assert!(codes.into_iter().any(|code| output.status.code() == code), "{said}");
        assert!(said.contains("stopped before recording began"), "{said}");
        assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 0, "nothing ran, nothing is left");
    }
}

#[test]
fn root_force_replaces_what_a_link_leads_to_and_keeps_the_link() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    std::fs::create_dir(dir.path().join("kept")).expect("room");
    let [link, target, nowhere] = ["link", "kept/target", "nowhere"].map(|name| dir.path().join(name));
    std::fs::write(&target, "old").expect("room");
    std::fs::set_permissions(&target, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("ours");
    symlink("kept/target", &link).expect("room");
    symlink("no such file", &nowhere).expect("room");
    let run = |path: &Path, options: &[&str]| {
        record()
            .args(["-a", "-d", "0.1"])
            .args(options)
            .arg("-o")
            .arg(path)
            .output()
            .expect("the recorder runs")
    };
    let refused = run(&link, &[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("--force"), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read(&target).expect("there"), b"old");

    let forced = run(&link, &["--force"]);
    assert_eq!(forced.status.code(), Some(0), "{}", text(&forced.stderr));
    assert!(link.is_symlink());
    assert_whole(&target);
    assert_eq!(
        std::fs::metadata(&target).expect("there").mode() & 0o777,
        0o600,
        "only its owner may read it"
    );
    assert_eq!(
        std::fs::read_dir(dir.path().join("kept")).expect("ours").count(),
        1,
        "nothing is left beside it"
    );

    for options in [&[][..], &["--force"]] {
        let refused = run(&nowhere, options);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("a symbolic link that leads nowhere: remove it"), "{said}");
    }
}
