//! Recordings through pipes: what one end writes, the other reads, and each end notices when the other has gone.

use icecore_tests::machine::{json, program, record, target, text};
use std::io::Read as _;
use std::process::{Command, Stdio};

#[test]
fn root_a_recording_through_a_pipe_is_whole_and_the_command_does_not_mix_in() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("streamed");
    let script = format!("echo printed by the command; exec {} recursion 500", target().display());
    let mut recorder = record()
        .args(["-F", "997", "--flush", "0.2", "-o", "-", "--", "sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the recorder runs");
    let mut bytes = Vec::new();
    recorder.stdout.take().expect("piped").read_to_end(&mut bytes).expect("a pipe");
    let said = text(&recorder.wait_with_output().expect("ours").stderr);
    assert!(said.contains("printed by the command") && said.contains("recorded   to stdout"), "{said}");
    std::fs::write(&path, &bytes).expect("room");
    assert_eq!(json("summary", &path)["closed"], true);
    let piped = Command::new("sh")
        .arg("-c")
        .arg(format!("cat {} | {} top -", path.display(), program("icecore-report").display()))
        .output()
        .expect("sh is everywhere");
    assert!(text(&piped.stdout).contains("at_the_bottom"), "{}", text(&piped.stdout));
}

#[test]
fn root_a_reader_that_goes_away_ends_the_recording_with_a_word() {
    let mut recorder = record()
        .args(["-a", "--flush", "0.1", "-d", "30", "-o", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the recorder runs");
    let mut stdout = recorder.stdout.take().expect("piped");
    // One byte more than the file header: the first block has been written.
    stdout.read_exact(&mut [0; 65]).expect("both come at once");
    drop(stdout);
    let output = recorder.wait_with_output().expect("ours");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write stdout: its reader closed the pipe"), "{said}");
}
