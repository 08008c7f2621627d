//! Whole processes that change an archive are killed: what was confirmed stays, nothing is half there, and to run them again completes it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use icecore_tests::inside::{json, run_in};
use icecore_tests::machine::program;
use icecore_tests::synthetic::Fleet;

const FLEET: Fleet = Fleet { first: 0, days: 2, hosts: 3, samples: 60 };
/// How often each command is killed, later each time.
const KILLS: u32 = 8;

fn start(dir: &Path, line: &str) -> Child {
    let mut command = Command::new(program("icecore-report"));
    command.args(line.split(' ')).current_dir(dir);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("it runs")
}

/// All files below a folder, also those that have no names yet.
fn files(folder: &Path) -> BTreeSet<PathBuf> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for path in entries.flatten().map(|entry| entry.path()) {
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path);
            }
        }
    }
    found
}

/// Runs a command, and kills it when files have come or gone so often; returns false if it has ended before.
fn is_killed(dir: &Path, line: &str, changes: u32) -> bool {
    let mut last = files(dir);
    let mut child = start(dir, line);
    let mut seen = 0;
    while seen < changes && child.try_wait().expect("it runs").is_none() {
        let now = files(dir);
        seen += u32::from(now != last);
        last = now;
    }
    child.kill().expect("it may");
    !child.wait().expect("it ends").success()
}

/// The UUIDs that an archive lists.
fn listed(dir: &Path) -> BTreeSet<String> {
    let list = json(dir, "archive DIR/archive list");
    let rows = list["rows"].as_array().expect("rows").iter();
    rows.map(|row| row["uuid"].as_str().expect("a UUID").to_owned()).collect()
}

/// Copies the archive and what is to be added; for `gc`, also what dead processes left two days ago.
fn copy(from: &Path, to: &Path, command: &str) {
    let copied = Command::new("cp").arg("-r").args([&from.join("archive"), &from.join("fleet"), to]).status();
    assert!(copied.expect("it runs").success());
    let left = if command.ends_with("gc") { 2_000 } else { 0 };
    for number in 0..left {
        let file = fs::File::create(to.join(format!("archive/.tmp/left-{number}"))).expect("made");
        file.set_modified(SystemTime::now() - Duration::from_secs(2 * 86_400)).expect("set");
    }
}

#[test]
fn whatever_is_killed_at_any_time_loses_nothing_and_completes_the_next_time() {
    // The archive has the recordings of one service; those of the other are added.
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path();
    for service in ["web", "db"] {
        fs::create_dir_all(path.join("fleet").join(service)).expect("made");
        for (day, host) in (0..FLEET.days).flat_map(|day| (0..FLEET.hosts).map(move |host| (day, host))) {
            let file = path.join(format!("fleet/{service}/{host}-{day}.icecore"));
            FLEET.night(service, host, day).write(&file, true).expect("written");
        }
    }
    json(path, "archive DIR/archive add DIR/fleet/web");
    let confirmed = listed(path);
    assert_eq!(confirmed.len(), 6);
    // What each command leaves in the end: how many recordings are listed.
    let commands = [
        ("archive add fleet/db", 12),
        ("archive compact", 6),
        ("archive gc", 6),
        ("archive prune host=web-01", 4),
        ("archive reindex --all", 6),
        ("archive push other", 6),
        ("other pull archive", 6),
    ];
    for (command, left) in commands {
        let line = format!("archive {command}");
        let whole = tempfile::tempdir().expect("a directory");
        copy(path, whole.path(), command);
        assert!(start(whole.path(), &line).wait().expect("it ends").success(), "{command}");
        let expected = [
            json(whole.path(), "archive DIR/archive list"),
            json(whole.path(), "archive DIR/archive search --function * -n 0"),
        ];
        let mut killed = 0;
        for number in 0..KILLS {
            let copied = tempfile::tempdir().expect("a directory");
            let path = copied.path();
            copy(dir.path(), path, command);
            // At once, and late enough in the end to be in the midst of removing files: some commands change few files.
            let changes = if number % 2 == 0 { 1 + number / 4 } else { number * (number + 1) / 2 + 1 };
            killed += u32::from(is_killed(path, &line, changes));
            // Whoever reads now sees what was confirmed; only what is pruned may be gone.
            let now = listed(path);
            let kept = confirmed.iter().filter(|uuid| now.contains(*uuid)).count();
            assert!(
                kept == confirmed.len() || command.contains("prune") && kept >= left,
                "{command}: {number}"
            );
            // To run it again completes it; what was written half is garbage.
            assert!(start(path, &line).wait().expect("it ends").success(), "{command}: {number}");
            let done = [
                json(path, "archive DIR/archive list"),
                json(path, "archive DIR/archive search --function * -n 0"),
            ];
            assert_eq!((listed(path).len(), &done), (left, &expected), "{command}: {number}");
            for archive in ["archive", "other"].iter().filter(|archive| command.contains(*archive)) {
                let archive = &format!("DIR/{archive}");
                let (code, out, err) = run_in(path, &["archive", archive, "verify"]);
                assert_eq!(code, 0, "{command}: {number}: {out}{err}");
            }
        }
        assert!(killed > 1, "{command} was killed {killed} times");
    }
}
