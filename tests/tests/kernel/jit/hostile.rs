//! Tests perf maps that another user, a mistake or an attacker has written.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use icecore_tests::machine::{Recorded, jit, text};

use super::{assert_named, names, until};

/// A program that has made its code and written its map; killed at the end.
struct Running {
    child: Child,
    map: PathBuf,
}

impl Running {
    fn new() -> Self {
        let child = Command::new(jit()).args(["map", "60000"]).spawn().expect("it was compiled");
        let map = PathBuf::from(format!("/tmp/perf-{}.map", child.id()));
        until(|| map.exists().then_some(()));
        Self { child, map }
    }

    /// Records the program for a moment; returns the names, and the recorder's messages.
    fn recorded(&self) -> (BTreeMap<String, usize>, String) {
        let begin = Instant::now();
        let pid = self.child.id().to_string();
        let recorded = Recorded::until(
            |recorded| names(&recorded.samples(&[])).values().sum::<usize>() > 50,
            || Recorded::new::<&str>(&["-F", "997", "-d", "2", "-p", &pid], &[]),
        );
        assert!(begin.elapsed() < Duration::from_secs(120), "the recorder waited for something");
        (names(&recorded.samples(&[])), text(&recorded.output.stderr))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.map).or_else(|_| std::fs::remove_dir(&self.map));
    }
}

#[test]
fn root_files_of_others_and_what_is_no_file_are_not_believed() {
    type Change = fn(&Path, &str);
    let changes: [(&str, Change); 6] = [
        ("a file of somebody else", |map, _| chown(map, Some(12345), None).expect("root may")),
        ("a link", |map, _| {
            let real = map.with_extension("real");
            std::fs::rename(map, &real).expect("one folder");
            symlink(&real, map).expect("room");
        }),
        ("a pipe", |map, _| {
            std::fs::remove_file(map).expect("it is there");
            assert!(Command::new("mkfifo").arg(map).status().expect("mkfifo is everywhere").success());
        }),
        ("a folder", |map, _| {
            std::fs::remove_file(map).expect("it is there");
            std::fs::create_dir(map).expect("room");
        }),
        ("a file of an older process", |map, _| {
            let touched = Command::new("touch").args(["-d", "2001-01-01"]).arg(map).status();
            assert!(touched.expect("touch is everywhere").success());
        }),
        ("garbage", |map, text| {
            let garbage: Vec<u8> = (0..300_000_u64).map(|n| ((n * n) >> 7) as u8).collect();
            let line = text.lines().next().expect("two lines").replace(' ', "\t");
            std::fs::write(map, [&garbage[..], line.as_bytes()].concat()).expect("room");
        }),
    ];
    for (what, change) in changes {
        let running = Running::new();
        let told = std::fs::read_to_string(&running.map).expect("it is there");
        change(&running.map, &told);
        let (names, _) = running.recorded();
        let _ = std::fs::remove_file(running.map.with_extension("real"));
        assert!(names.len() == 1 && names["[jit]"] > 50, "{what}: {names:?}");
    }
}

#[test]
fn root_of_a_huge_map_the_end_is_read_and_it_is_told() {
    let running = Running::new();
    let told = std::fs::read_to_string(&running.map).expect("it is there");
    let file = std::fs::OpenOptions::new().append(true).open(&running.map).expect("ours");
    file.set_len(20 << 30).expect("nothing is stored");
    std::io::Write::write_all(&mut &file, format!("\n{told}").as_bytes()).expect("room");
    assert_eq!(file.metadata().expect("ours").permissions().mode() & 0o400, 0o400);
    let (names, said) = running.recorded();
    assert_named(&names, &["alpha"]);
    assert!(said.contains("skipped, or read in part: 1 file that may name such code"), "{said}");
}
