//! `archive` on a disk that is full: what was confirmed stays, and the rest follows when there is room.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use icecore_tests::machine::{Mounted, program, text};
use icecore_tests::synthetic::Fleet;
use serde_json::Value;

const FLEET: Fleet = Fleet { first: 0, days: 2, hosts: 5, samples: 60 };
/// The sizes of disks, KiB: too small for the first recording, and for the last one.
const SIZES_KIB: [u64; 6] = [16, 48, 128, 256, 400, 600];

fn report(archive: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(program("icecore-report"));
    command.arg("archive").arg(archive).args(words).arg("--json").stdin(Stdio::null());
    command.output().expect("it runs")
}

fn document(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn uuids(document: &Value, key: &str) -> Vec<String> {
    let rows = document[key].as_array().expect("rows").iter();
    rows.map(|row| row["uuid"].as_str().expect("a UUID").to_owned()).collect()
}

#[test]
fn root_an_archive_on_a_full_disk_keeps_what_was_confirmed_and_takes_the_rest_later() {
    let fleet = tempfile::tempdir().expect("a directory");
    FLEET.write(fleet.path()).expect("written");
    let fleet = fleet.path().to_str().expect("UTF-8");
    let (mut none, mut some) = (0, 0);
    for kib in SIZES_KIB {
        let disk = Mounted::small(kib << 10);
        let archive = disk.path().join("archive");
        let added = report(&archive, &["add", fleet]);
        let said = text(&added.stderr);
        assert_eq!(added.status.code(), Some(2), "{kib} KiB: {said}");
        assert!(
            said.contains("No space left on device") && said.contains("free space there"),
            "{kib} KiB: {said}"
        );
        let confirmed = if added.stdout.is_empty() { Vec::new() } else { uuids(&document(&added), "added") };
        none += u32::from(confirmed.is_empty());
        some += u32::from(!confirmed.is_empty());
        if !confirmed.is_empty() {
            // Others may be listed that were not confirmed; those that were are whole.
            let listed = uuids(&document(&report(&archive, &["list"])), "rows");
            assert!(confirmed.iter().all(|uuid| listed.contains(uuid)), "{kib} KiB: {listed:?}");
            let merged = report(&archive, &["compact"]);
            let said = text(&merged.stderr);
            assert!(merged.status.success() || said.contains("No space left on device"), "{kib} KiB: {said}");
            assert_eq!(uuids(&document(&report(&archive, &["list"])), "rows"), listed, "{kib} KiB");
            // Less room is needed to remove than to keep.
            let pruned = report(&archive, &["prune", &confirmed[0], "--without-sums"]);
            let said = text(&pruned.stderr);
            assert!(pruned.status.success() || said.contains("No space left on device"), "{kib} KiB: {said}");
        }
        let larger = Command::new("mount").args(["-o", "remount,size=16M"]).arg(disk.path()).status();
        assert!(larger.expect("mount exists").success());
        let added = report(&archive, &["add", fleet]);
        assert!(added.status.success(), "{kib} KiB: {}", text(&added.stderr));
        for words in [&["gc"][..], &["compact"], &["verify"]] {
            let done = report(&archive, words);
            assert!(
                done.status.success(),
                "{kib} KiB: {words:?}: {}{}",
                text(&done.stdout),
                text(&done.stderr)
            );
        }
        let listed = uuids(&document(&report(&archive, &["list"])), "rows");
        let pruned = uuids_of(&added, "pruned");
        assert_eq!(listed.len() + pruned, 20, "{kib} KiB");
        let left = fs::read_dir(archive.join(".tmp")).expect("listed").count();
        assert_eq!(left, 0, "{kib} KiB: what was not published is gone");
    }
    assert!(none > 0 && some > 1, "{none} disks had room for none, {some} for some");
}

fn uuids_of(output: &Output, key: &str) -> usize {
    document(output)[key].as_array().expect("a list").len()
}
