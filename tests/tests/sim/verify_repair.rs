//! `verify`, `repair` and `info --sizes`: `verify` finds all damage, `repair` keeps all whole blocks, and `info` accounts for all bytes.
//!
//! `INSTA_UPDATE=always cargo test -p icecore-tests --test sim -- verify_repair::` rewrites the goldens.

use std::path::{Path, PathBuf};

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_tests::inside::run_in;
use icecore_tests::synthetic::story;
use serde_json::Value;

/// A folder with a recording of the story.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new(close: bool) -> Self {
        let folder = Self(tempfile::tempdir().expect("a directory"));
        story().write(&folder.path("x.icecore"), close).expect("written");
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn bytes(&self) -> Vec<u8> {
        std::fs::read(self.path("x.icecore")).expect("there")
    }

    fn put(&self, bytes: &[u8]) {
        std::fs::write(self.path("x.icecore"), bytes).expect("written");
    }

    /// Flips a bit in the payload of the last block of each kind.
    fn damage(&self, kinds: &[Kind]) {
        let mut bytes = self.bytes();
        for kind in kinds {
            let recording = Recording::from_bytes(&bytes).expect("opens");
            let entry = recording.entries().iter().rfind(|entry| entry.header.kind == *kind).expect("one");
            let at = entry.off as usize + 70;
            bytes[at] ^= 1;
        }
        self.put(&bytes);
    }

    /// Runs a command line, in which `DIR` stands for this folder; returns exit code, stdout and stderr without its name.
    fn run(&self, args: &[&str]) -> (u8, String, String) {
        run_in(self.0.path(), args)
    }

    fn json(&self, args: &[&str]) -> (u8, Value) {
        let (code, out, err) = self.run(&[args, &["--json"]].concat());
        (code, serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}{err}")))
    }

    fn repair(&self) -> Value {
        let (code, repaired) = self.json(&["repair", "DIR/x.icecore", "-o", "DIR/y.icecore", "--force"]);
        assert_eq!(code, 0);
        repaired
    }

    /// Compares a command's text and JSON with their snapshots, at 1 and at 4 threads.
    fn golden(&self, name: &str, expected: u8, args: &[&str]) {
        for (name, json) in [(name.to_owned(), &[][..]), (format!("{name}.json"), &["--json"])] {
            let outputs = ["1", "4"].map(|threads| self.run(&[args, json, &["--threads", threads]].concat()));
            assert_eq!(outputs[0], outputs[1], "{args:?}: output depends on the number of threads");
            let (code, out, err) = &outputs[0];
            assert_eq!((*code, err.as_str()), (expected, ""), "{args:?}");
            insta::with_settings!({ snapshot_path => "../../golden", prepend_module_to_snapshot => false, omit_expression => true }, {
                insta::assert_snapshot!(name, out);
            });
        }
    }
}

#[test]
fn what_is_whole_is_well() {
    Folder::new(true).golden("verify", 0, &["verify", "DIR/x.icecore"]);
    let open = Folder::new(false);
    let (code, verified) = open.json(&["verify", "DIR/x.icecore"]);
    assert_eq!(
        (code, &verified["closed"], verified["problems"].as_array().map(Vec::len)),
        (1, &false.into(), Some(1))
    );
}

#[test]
fn what_is_damaged_is_told_block_by_block_with_the_remedy() {
    let folder = Folder::new(true);
    folder.damage(&[Kind::SAMPLES, Kind::STACKS, Kind::STRINGS]);
    folder.golden("verify_damaged", 1, &["verify", "DIR/x.icecore"]);
}

#[test]
fn a_flipped_bit_is_found_wherever_it_is() {
    let folder = Folder::new(true);
    let whole = folder.bytes();
    for at in (0..whole.len()).step_by(3) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        folder.put(&bytes);
        let (code, out, _) = folder.run(&["verify", "DIR/x.icecore"]);
        assert_eq!(code, if at < 64 { 2 } else { 1 }, "byte {at}: {out}");
    }
}

#[test]
fn two_blocks_that_changed_places_are_found_and_put_back() {
    let folder = Folder::new(true);
    let whole = folder.bytes();
    let recording = Recording::from_bytes(&whole).expect("opens");
    let [.., a, b, _, _] = recording.entries() else { panic!("a story has blocks") };
    let [from, middle, to] = [a.off, b.off, b.header.next(b.off)].map(|off| off as usize);
    let swapped = [&whole[..from], &whole[middle..to], &whole[from..middle], &whole[to..]].concat();
    folder.put(&swapped);
    assert_eq!(folder.run(&["verify", "DIR/x.icecore"]).0, 1);
    let repaired = folder.repair();
    assert_eq!((&repaired["lost_blocks"], &repaired["copied"]), (&0.into(), &false.into()));
    assert_eq!(std::fs::read(folder.path("y.icecore")).expect("written"), whole, "nothing else was wrong");
}

#[test]
fn a_cut_file_is_repaired_to_one_that_is_well() {
    let folder = Folder::new(true);
    let whole = folder.bytes();
    let mut before = 0;
    for cut in (64..whole.len()).step_by(53) {
        folder.put(&whole[..cut]);
        assert_eq!(folder.run(&["verify", "DIR/x.icecore"]).0, 1, "cut at {cut}");
        let repaired = folder.repair();
        let (code, verified) = folder.json(&["verify", "DIR/y.icecore"]);
        assert_eq!(code, 0, "cut at {cut}: {verified}");
        assert_eq!(verified["closed"], true);
        let (_, summary) = folder.json(&["summary", "DIR/y.icecore"]);
        let samples = summary["samples"].as_u64().expect("a number");
        assert!(samples >= before && repaired["samples"] == samples, "cut at {cut}");
        assert_eq!(folder.json(&["info", "DIR/y.icecore"]).1["uuid"], "1c".repeat(16));
        before = samples;
    }
    assert_eq!(before, 530);
}

#[test]
fn what_was_torn_off_is_a_loss_of_the_repaired_file() {
    let folder = Folder::new(true);
    let whole = folder.bytes();
    let recording = Recording::from_bytes(&whole).expect("opens");
    let last = recording.entries().iter().rfind(|entry| entry.header.kind == Kind::SAMPLES).expect("samples");
    folder.put(&whole[..last.off as usize + 80]);
    folder.golden("repair_cut", 0, &["repair", "DIR/x.icecore", "-o", "DIR/y.icecore", "--force"]);
    folder.golden("repair_cut_summary", 0, &["summary", "DIR/y.icecore"]);
    let (_, info) = folder.json(&["info", "DIR/y.icecore"]);
    let receipt = &info["receipt"];
    assert_eq!(receipt["ended_by"], serde_json::json!(["repaired"]));
    assert_eq!((&receipt["samples"], &receipt["lost"]), (&500.into(), &30.into()));
    assert_eq!(info["lost_by_cause"]["damaged"], 30);
}

#[test]
fn what_was_damaged_is_a_loss_of_the_repaired_file_and_the_receipt_stays() {
    let folder = Folder::new(true);
    folder.damage(&[Kind::SAMPLES, Kind::KERNEL_SYMBOLS]);
    folder.golden("repair_damaged", 0, &["repair", "DIR/x.icecore", "-o", "DIR/y.icecore", "--force"]);
    assert_eq!(folder.json(&["verify", "DIR/y.icecore"]).0, 0);
    let (_, summary) = folder.json(&["summary", "DIR/y.icecore"]);
    assert_eq!(
        (&summary["samples"], &summary["lost"]),
        (&500.into(), &35.into()),
        "five were lost while recording"
    );
    assert_eq!(summary["lost_by_cause"]["damaged"], 30);
    assert_eq!(summary["receipt"]["ended_by"], serde_json::json!(["duration"]));
    assert_eq!(summary["damage"], serde_json::json!([]));
    folder.put(&std::fs::read(folder.path("y.icecore")).expect("written"));
    assert_eq!(folder.repair()["copied"], true, "once is enough");
}

#[test]
fn what_a_repair_could_not_save_is_written_down_and_no_problem_of_the_new_file() {
    let folder = Folder::new(true);
    folder.damage(&[Kind::STACKS]);
    folder.repair();
    let (code, verified) = folder.json(&["verify", "DIR/y.icecore"]);
    assert_eq!((code, &verified["lost_blocks"]), (0, &1.into()));
    let (_, out, _) = folder.run(&["verify", "DIR/y.icecore"]);
    assert!(out.starts_with("lost before this file was written: 1 block"), "{out}");
    let (_, summary) = folder.json(&["summary", "DIR/y.icecore"]);
    assert_eq!(summary["lost_by_cause"]["blocks_damaged"], 1);
    assert_eq!((&summary["lost"], &summary["verdict"]), (&5.into(), &"misleading".into()));
}

#[test]
fn a_whole_file_is_copied_byte_for_byte() {
    let folder = Folder::new(true);
    let (code, out, err) = folder.run(&["repair", "DIR/x.icecore", "-o", "DIR/y.icecore"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.starts_with("nothing to repair: wrote y.icecore (") && out.ends_with("), a copy\n"), "{out}");
    assert_eq!(std::fs::read(folder.path("y.icecore")).expect("written"), folder.bytes());
}

#[test]
fn nothing_precious_is_written_over() {
    let folder = Folder::new(false);
    let before = folder.bytes();
    std::fs::write(folder.path("y.icecore"), "precious").expect("written");
    std::os::unix::fs::symlink("x.icecore", folder.path("link")).expect("linked");
    std::os::unix::fs::symlink("nowhere", folder.path("dangling")).expect("linked");
    for (args, why) in [
        (&["-o", "DIR/y.icecore"][..], "overwrite it with --force"),
        (&["-o", "DIR/x.icecore", "--force"], "this is the recording itself"),
        (&["-o", "DIR/link", "--force"], "this is the recording itself"),
        (&["-o", "DIR/dangling"], "a symbolic link that leads nowhere"),
        (&["-o", "/dev/null", "--force"], "not a regular file"),
        (&["-o", "DIR/none/y.icecore"], "No such file or directory"),
    ] {
        let (code, out, err) = folder.run(&[&["repair", "DIR/x.icecore"], args].concat());
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(why), "{args:?}: {err}");
    }
    assert_eq!(std::fs::read(folder.path("y.icecore")).expect("there"), b"precious");
    assert_eq!(folder.bytes(), before);
    let names = std::fs::read_dir(folder.path("")).expect("ours").count();
    assert_eq!(names, 4, "nothing is left behind");
}

#[test]
fn what_cannot_be_opened_is_neither_verified_nor_repaired() {
    let folder = Folder::new(true);
    folder.put(b"PERFILE2 and more");
    for args in [&["verify", "DIR/x.icecore"][..], &["repair", "DIR/x.icecore", "-o", "DIR/y.icecore"]] {
        let (code, out, err) = folder.run(args);
        assert_eq!((code, out.as_str()), (2, ""));
        assert!(err.contains("this is a perf.data file"), "{err}");
    }
    assert!(!Path::new(&folder.path("y.icecore")).exists());
}

#[test]
fn sizes_add_up_to_the_length_of_the_file() {
    let whole = Folder::new(true);
    whole.golden("info_sizes", 0, &["info", "--sizes", "DIR/x.icecore"]);
    let open = Folder::new(false);
    let damaged = Folder::new(true);
    damaged.damage(&[Kind::SAMPLES]);
    let cut = Folder::new(true);
    let bytes = cut.bytes();
    cut.put(&bytes[..bytes.len() - 100]);
    for folder in [whole, open, damaged, cut] {
        let (_, info) = folder.json(&["info", "--sizes", "DIR/x.icecore"]);
        let rows = info["sizes"].as_array().expect("a list");
        let sum: u64 = rows.iter().map(|row| row["bytes"].as_u64().expect("a number")).sum();
        assert_eq!(sum, info["file_bytes"]);
        let shares: f64 = rows.iter().map(|row| row["share"].as_f64().expect("a number")).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{shares}");
    }
}
