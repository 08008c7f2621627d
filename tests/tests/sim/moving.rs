//! `archive push` and `pull`: only what is missing moves, checked, and again after the connection has ended.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use icecore_archive::Folder;
use icecore_tests::inside::{answer, json, run_in, text};
use icecore_tests::machine::program;
use icecore_tests::synthetic::Fleet;
use serde_json::Value;

const FLEET: Fleet = Fleet { first: 0, days: 2, hosts: 3, samples: 60 };

fn count(document: &Value, key: &str) -> usize {
    document[key].as_array().expect("a list").len()
}

fn recordings(path: &Path, archive: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Folder::new(&path.join(archive));
    let listed = folder.list(Path::new("recordings")).expect("listed");
    listed
        .into_iter()
        .map(|file| (file.name.clone(), fs::read(folder.path(&file.name)).expect("read")))
        .collect()
}

/// What an archive says of its recordings.
fn said(path: &Path, archive: &str) -> [Value; 2] {
    ["list", "search --function * -n 0"]
        .map(|action| json(path, &format!("archive DIR/{archive} {action}"))["rows"].clone())
}

/// A program that runs commands on another host as ssh does, and is none: it runs them here, and does this with what they print.
fn rsh(path: &Path, then: &str) -> String {
    let script = path.join("rsh");
    fs::write(&script, format!("#!/bin/sh\ntest \"$1\" = host || exit 9\nsh -c \"$2\" {then}\n"))
        .expect("written");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).expect("changed");
    format!("--rsh {} --remote-program {}", script.display(), program("icecore-report").display())
}

#[test]
fn what_is_missing_moves_between_folders_and_nothing_else() {
    let dir = FLEET.archived();
    let path = dir.path();
    let some = json(path, "archive DIR/archive push DIR/other host=web-01");
    assert_eq!((count(&some, "moved"), some["offered"].as_u64()), (2, Some(2)));
    let all = json(path, "archive DIR/archive push DIR/other");
    assert_eq!((count(&all, "moved"), all["offered"].as_u64()), (10, Some(12)));
    assert!(recordings(path, "archive") == recordings(path, "other"));
    assert_eq!(said(path, "archive"), said(path, "other"));
    assert_eq!(json(path, "archive DIR/other verify")["ok"], true);
    let again = json(path, "archive DIR/archive push DIR/other");
    assert_eq!((count(&again, "moved"), again["bytes"].as_u64()), (0, Some(0)));
    let pulled = json(path, "archive DIR/third pull DIR/other service=db --since 2026-09-02");
    assert_eq!(count(&pulled, "moved"), 3);
    // What was pruned does not come back.
    text(path, "archive DIR/third prune host=db-01");
    let pulled = json(path, "archive DIR/third pull DIR/other --since 2026-09-02");
    assert_eq!((count(&pulled, "moved"), pulled["offered"].as_u64()), (3, Some(6)));
    assert_eq!(said(path, "third")[0].as_array().map(Vec::len), Some(5));
    let (code, err) = answer(path, "archive DIR/archive pull DIR/nowhere");
    assert!(code == 2 && err.contains("there is no archive in `nowhere`"), "{err}");
    let (code, err) = answer(path, "archive DIR/archive push -oProxyCommand=x:a");
    assert!(code == 2, "{err}");
}

#[test]
fn a_damaged_recording_does_not_move_and_the_others_do() {
    let dir = FLEET.archived();
    let path = dir.path();
    let (name, mut bytes) = recordings(path, "archive").remove(3);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path.join("archive").join(&name), bytes).expect("written");
    let (code, out, err) = run_in(path, &["archive", "DIR/archive", "push", "DIR/other", "--json"]);
    let document: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!((code, count(&document, "moved"), count(&document, "refused")), (2, 11, 1), "{err}");
    assert!(err.contains("it is damaged") && err.contains("cannot move 1 recording"), "{err}");
    assert_eq!(json(path, "archive DIR/other verify")["recordings"], 11);
}

#[test]
fn recordings_move_through_a_shell_and_again_after_the_connection_has_ended() {
    let dir = FLEET.archived();
    let path = dir.path();
    let options = rsh(path, "");
    let pushed = json(path, &format!("archive DIR/archive push host:DIR/it's service=web {options}"));
    assert_eq!(count(&pushed, "moved"), 6);
    assert_eq!(json(path, "archive DIR/it's verify")["ok"], true);
    let pull = "archive DIR/third pull ssh://hostDIR/it's host=web-0* --until 2026-09-02";
    let pulled = json(path, &format!("{pull} {options}"));
    assert_eq!(count(&pulled, "moved"), 3);
    // After so many bytes nothing more comes.
    let size: u64 = recordings(path, "archive").iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let options = rsh(path, &format!("| {{ dd bs=1 count={} 2>/dev/null; kill $$; }}", size / 2));
    let (code, err) = answer(path, &format!("archive DIR/fourth pull host:DIR/archive {options}"));
    assert!(code == 2 && err.contains("the connection has ended: run it again"), "{err}");
    let there = recordings(path, "fourth").len();
    assert!((2..10).contains(&there), "{there}");
    assert_eq!(json(path, "archive DIR/fourth verify")["ok"], true);
    let options = rsh(path, "");
    let rest = json(path, &format!("archive DIR/fourth pull host:DIR/archive {options}"));
    assert_eq!(count(&rest, "moved"), 12 - there);
    assert_eq!(said(path, "fourth"), said(path, "archive"));
    // Who is there does not speak so.
    let script = path.join("rsh");
    fs::write(&script, "#!/bin/sh\necho Welcome\n").expect("written");
    let (code, err) = answer(path, &format!("archive DIR/fifth pull host:DIR/archive {options}"));
    assert!(code == 2 && err.contains("does not offer recordings; it says: \"Welcome\""), "{err}");
    let (code, err) = answer(path, "archive DIR/fifth pull host:DIR/archive --rsh DIR/none");
    assert!(code == 2 && err.contains("cannot start"), "{err}");
}
