//! Tests disks that fill up or fail.

use std::process::{Command, Output};
use std::time::Duration;

use icecore_tests::machine::{Mounted, failing_disk, record, send, text, wait_for_samples};
use serde_json::Value;

use super::remains::{Left, Remains, left_in, number};
use super::{Churn, Trying, alone, in_lanes, record_often};

/// Sizes at which a disk is full, KiB: inside the first blocks, and everywhere in the first batches.
const SIZES_KIB: [u64; 16] = [4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256];
/// The space for the last losses, the receipt, the index and the tail of a few hundred blocks.
const ROOM_FOR_AN_END_BYTES: u64 = 16 << 10;
/// The space for the last losses.
const ROOM_FOR_LOSSES_BYTES: u64 = 512;

/// Runs a recorder, which the disk stops long before its duration is over.
fn until_refused(recorder: &mut Command) -> Output {
    recorder.args(["-d", "600"]).output().expect("the recorder runs")
}

/// Asserts that the recorder failed, and printed the reason and what to do.
fn assert_failed(output: &Output, words: &[&str]) -> String {
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{words:?}: {said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    said
}

/// Returns the samples that the message counts as lost.
fn said_lost(said: &str) -> u64 {
    let count = said.split("lost after it: ").nth(1).and_then(|rest| rest.split(' ').next());
    count.and_then(|count| count.replace(',', "").parse().ok()).unwrap_or_else(|| panic!("a number: {said}"))
}

/// Asserts that the file agrees with the message, if it has the numbers.
fn assert_same_losses(remains: &Remains, said: &str) -> bool {
    let lost = said_lost(said);
    let cause = &remains.info["lost_by_cause"]["write_failed"];
    if *cause != Value::Null {
        assert_eq!(number(cause), lost, "{said}");
    }
    if remains.has_receipt() {
        let receipt = &remains.info["receipt"];
        assert_eq!(number(&receipt["samples"]), remains.samples());
        assert!(number(&receipt["lost"]) >= lost);
    }
    lost == 0 || *cause != Value::Null
}

#[test]
fn root_a_disk_that_fills_up_at_any_size_keeps_its_whole_blocks_and_the_count_of_what_is_lost() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    let told = in_lanes(0, |number| {
        let bytes = SIZES_KIB.get(number as usize)? << 10;
        let _trying = Trying(format!("a disk of {bytes} bytes"));
        let disk = Mounted::small(bytes);
        let path = disk.path().join("r.icecore");
        let output = until_refused(&mut record_often("4999", &churn, &path));
        let said = assert_failed(&output, &["cannot write", "No space left", "free space there", "with -o"]);
        let remains = left_in(&path).some();
        assert!(remains.recording.damage().is_empty(), "{:?}", remains.recording.damage());
        assert!(remains.start_ns().is_some());
        let (_, kept) = kept_bytes(&said);
        let has_room = kept + ROOM_FOR_LOSSES_BYTES <= bytes;
        let has_losses = assert_same_losses(&remains, &said);
        assert!(!has_room || has_losses, "{kept} bytes are written, and there is room: {said}");
        if kept + ROOM_FOR_AN_END_BYTES <= bytes {
            assert!(remains.recording.is_closed(), "{kept} bytes are written, and there is room: {said}");
        }
        if remains.has_receipt() {
            assert_eq!(remains.info["receipt"]["ended_by"][0], "write failed");
        }
        Some((bytes >> 10, kept, said_lost(&said), has_losses, remains.recording.is_closed()))
    });
    eprintln!("KiB, bytes kept, samples lost, losses in the file, closed: {told:?}");
    assert_eq!(told.len(), SIZES_KIB.len());
    assert!(told.iter().any(|(_, _, lost, has_losses, _)| *lost > 0 && *has_losses), "{told:?}");
}

/// Returns the bytes that the message says were written, at least and at most: it rounds to a tenth.
fn kept_bytes(said: &str) -> (u64, u64) {
    let size =
        said.split("written before (").nth(1).and_then(|rest| rest.split_once(')')).map(|(size, _)| size);
    let size = size.and_then(|size| size.split_once(' ')).unwrap_or_else(|| panic!("a size: {said}"));
    let number: f64 = size.0.parse().unwrap_or_else(|_| panic!("a number: {said}"));
    let unit = match size.1 {
        "B" => return (number as u64, number as u64),
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        _ => panic!("a unit: {said}"),
    };
    (((number - 0.05) * unit) as u64, ((number + 0.05) * unit).ceil() as u64)
}

#[test]
fn root_a_disk_without_any_room_is_told_with_the_remedy_and_no_file_is_left() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    let disk = Mounted::small(4096);
    std::fs::write(disk.path().join("other"), [1; 4096]).expect("just as much as there is room for");
    let path = disk.path().join("r.icecore");
    let output = until_refused(&mut record_often("997", &churn, &path));
    assert_failed(&output, &["cannot begin", "No space left", "free space there", "with -o"]);
    assert!(!path.exists());
}

#[test]
fn root_a_limit_to_the_size_of_files_ends_the_recording_and_not_the_recorder() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    for limit in [4096, 10_000, 65_536] {
        let _trying = Trying(format!("a limit of {limit} bytes"));
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("r.icecore");
        let recorder = record_often("4999", &churn, &path);
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--fsize={limit}")).arg(recorder.get_program()).args(recorder.get_args());
        let output = until_refused(&mut limited);
        let said = assert_failed(&output, &["cannot write", "File too large", "ulimit -f", "with -o"]);
        let remains = left_in(&path).some();
        assert!(remains.recording.damage().is_empty(), "{:?}", remains.recording.damage());
        assert!(remains.recording.len_bytes() <= limit);
        assert_same_losses(&remains, &said);
    }
}

#[test]
fn root_the_command_of_a_recorder_gets_the_signals_that_the_recorder_holds_off() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut recorder = record();
    recorder.arg("-q").arg("-o").arg(dir.path().join("r.icecore"));
    let output = recorder.args(["--", "grep", "SigIgn", "/proc/self/status"]).output().expect("it runs");
    let ignored = text(&output.stdout);
    let mask = ignored.split_whitespace().last().and_then(|mask| u64::from_str_radix(mask, 16).ok());
    let bit = 1 << (libc::SIGXFSZ - 1);
    assert!(mask.is_some_and(|mask| mask & bit == 0), "{ignored}");
}

#[test]
fn root_a_disk_that_fails_at_any_write_keeps_the_blocks_before_it() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    let kept = in_lanes(1, |number| fail_at_write(number, &churn));
    eprintln!("{} failures, samples kept {kept:?}", kept.len());
    assert!(kept.iter().any(Option::is_none), "no header, no file: {kept:?}");
    assert!(kept.contains(&Some(0)) && kept.iter().any(|kept| *kept > Some(0)), "{kept:?}");
}

/// Lets the write with this number fail, and all after it, or none of them; `None` if there are fewer writes. Returns the samples
/// that remain in the file, if there is one.
fn fail_at_write(number: u64, churn: &Churn) -> Option<Option<u64>> {
    let how = if number.is_multiple_of(2) { "once" } else { "dead" };
    let _trying = Trying(format!("{how}:{number}"));
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let mut recorder = record_often("997", churn, &path);
    recorder
        .args(["-d", "0.3"])
        .env("LD_PRELOAD", failing_disk())
        .env("DISK_FAILS", format!("{how}:{number}"));
    let output = recorder.output().expect("the recorder runs");
    if output.status.success() {
        assert!(left_in(&path).some().recording.is_closed());
        return None;
    }
    let said = assert_failed(&output, &["cannot", "Input/output error", "the disk", "with -o"]);
    let remains = match left_in(&path) {
        Left::NoFile => {
            assert!(said.contains("cannot begin"), "{said}");
            return Some(None);
        }
        Left::NoHeader => panic!("it was taken away or has a header"),
        Left::Some(remains) => remains,
    };
    if remains.recording.is_closed() {
        assert_same_losses(&remains, &said);
    }
    assert!(kept_bytes(&said).0 <= remains.recording.len_bytes(), "{said}");
    Some(Some(remains.samples()))
}

#[test]
fn root_a_disk_that_takes_half_of_every_write_gets_everything() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let mut recorder = record_often("997", &churn, &path);
    recorder.args(["-d", "1"]).env("LD_PRELOAD", failing_disk()).env("DISK_FAILS", "half:1");
    let output = recorder.output().expect("the recorder runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let remains = left_in(&path).some();
    assert!(remains.recording.is_closed() && remains.recording.damage().is_empty());
    assert_eq!(number(&remains.info["receipt"]["samples"]), remains.samples());
    assert!(remains.samples() > 0);
}

/// A block device whose blocks are a file in memory. The kernel accepts writes, and only later learns whether they succeeded.
struct Loop {
    mounted: Mounted,
    below: Mounted,
}

impl Loop {
    fn new() -> Self {
        let below = Mounted::small(16 << 20);
        let image = below.path().join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(8 << 20)).expect("a sparse file");
        let made = Command::new("mkfs.ext4").args(["-q", "-O", "^has_journal"]).arg(&image).output();
        let made = made.expect("e2fsprogs is everywhere");
        assert!(made.status.success(), "{}", text(&made.stderr));
        let mounted = Mounted::new(&["-o", "loop,nodelalloc", &image.display().to_string()]);
        Self { mounted, below }
    }

    /// Truncates the disk to its first blocks: every write after them is an I/O error.
    fn break_off(&self) {
        let image = self.below.path().join("image");
        let device =
            Command::new("losetup").arg("-j").arg(&image).output().expect("util-linux is everywhere");
        let device = text(&device.stdout).split(':').next().expect("it is mounted").to_owned();
        let file = std::fs::OpenOptions::new().write(true).open(&image).expect("ours");
        file.set_len(256 << 10).expect("shorter");
        assert!(Command::new("losetup").arg("-c").arg(device).status().expect("util-linux").success());
    }
}

#[test]
fn root_a_disk_that_fails_behind_the_recorders_back_is_told_at_the_end() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    let disk = Loop::new();
    let path = disk.mounted.path().join("r.icecore");
    let mut recorder = record_often("4999", &churn, &path);
    let recorder = recorder.spawn().expect("the recorder runs");
    wait_for_samples(&path);
    disk.break_off();
    std::thread::sleep(Duration::from_secs(1));
    send(libc::SIGINT, recorder.id());
    let output = recorder.wait_with_output().expect("it ends");
    let said = assert_failed(&output, &["cannot write", "Input/output error", "the disk", "with -o"]);
    eprint!("{said}");
    // The kernel may still cache what the disk does not have.
    let copy = tempfile::tempdir().expect("a folder for temporary files");
    let copy = copy.path().join("r.icecore");
    match std::fs::copy(&path, &copy) {
        Ok(_) => assert!(!left_in(&copy).some().recording.is_closed()),
        Err(error) => assert_eq!(error.raw_os_error(), Some(libc::EIO)),
    }
}
