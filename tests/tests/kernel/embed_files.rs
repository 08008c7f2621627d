//! Files that travel with the recording: another machine shows the same names, lines and inlined functions as the recorded
//! one.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::ImagePartsV1;
use icecore_tests::elsewhere::{
    frames, report_in_a_container, root_with, samples_elsewhere, samples_in_a_container,
};
use icecore_tests::machine::{Mounted, Recorded, Sample, record, report, send, target, text};
use serde_json::Value;

/// Inlining is two functions deep. Each inlined function has its own loop, because the processor decides on which of two
/// neighbouring instructions a sample falls.
const SOURCE: &str = r#"
#include <time.h>
volatile unsigned long sink;
__attribute__((always_inline)) static inline void inner(unsigned long x) {
  for (int i = 0; i < 20000; i++) sink += x * 3;
}
__attribute__((always_inline)) static inline void middle(unsigned long x) {
  inner(x);
  for (int i = 0; i < 20000; i++) sink ^= x;
}
__attribute__((noinline, noclone)) static void outer(unsigned long x) {
  for (int i = 0; i < 10; i++) middle(x + i);
}
int main(void) {
  for (clock_t end = clock() + CLOCKS_PER_SEC * 7 / 10; clock() < end;) outer(7);
  return 0;
}
"#;

/// Compiles [`SOURCE`]; with `pad`, this file is in the program as data.
fn inlining(dir: &Path, pad: Option<&Path>) -> PathBuf {
    let (source, program) = (dir.join("x.c"), dir.join("inlining"));
    let data = |pad: &Path| {
        format!(r#"__asm__(".section .pad,\"a\"\n.incbin \"{}\"\n.previous\n");"#, pad.display())
    };
    std::fs::write(&source, format!("{SOURCE}{}", pad.map(data).unwrap_or_default())).expect("room");
    let mut cc = Command::new("cc");
    cc.args(["-O2", "-g", "-fno-omit-frame-pointer", "-o"]).arg(&program).arg(source);
    assert!(cc.status().expect("a C compiler").success());
    program
}

/// Bytes that no compressor shrinks.
fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    (0..bytes / 8).flat_map(|_| next().to_le_bytes()).collect()
}

/// Returns all frames of a program, with all of their fields.
fn frames_of<'s>(samples: &'s [Sample], program: &str) -> Vec<&'s Value> {
    let frames = samples.iter().flat_map(|sample| sample.0["frames"].as_array().expect("a list"));
    frames.filter(|frame| frame["image"].as_str().is_some_and(|image| image.contains(program))).collect()
}

/// Returns the bytes of pieces in a recording.
fn piece_bytes(recording: &Recording) -> u64 {
    let entries = recording.entries().iter().filter(|entry| entry.header.kind == Kind::IMAGE_PARTS);
    let of_block = |entry| {
        let payload = recording.payload(entry).expect("a whole block");
        payload.view::<ImagePartsV1>().expect("its layout").bytes.len() as u64
    };
    entries.map(of_block).sum()
}

/// Returns how many files were skipped for this cause.
fn left_out(recording: &Path, why: &str) -> u64 {
    let info = report(&["info".as_ref(), recording.as_os_str(), "--json".as_ref()]);
    let info: Value = serde_json::from_str(&info).expect("JSON");
    let rows = info["left_out"].as_array().expect("a list").iter();
    rows.filter(|row| row["why"] == why).filter_map(|row| row["files"].as_u64()).sum()
}

fn samples_of(recording: &Path) -> Vec<Sample> {
    let lines = report(&["samples".as_ref(), recording.as_os_str(), "--json".as_ref()]);
    lines.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON"))).collect()
}

#[test]
fn root_whole_files_bring_lines_and_inlined_functions_to_a_machine_without_files() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = inlining(dir.path(), None);
    let recorded = Recorded::new(&["-F", "997", "--embed", "all"], &[&program]);
    let said = text(&recorded.output.stderr);
    assert!(said.contains(" whole files, "), "{said}");
    let (here, elsewhere) = (recorded.samples(&[]), samples_in_a_container(&recorded.path()));
    let (here, elsewhere) = (frames_of(&here, "/inlining"), frames_of(&elsewhere, "/inlining"));
    assert_eq!(here, elsewhere);
    let inlined = |name: &str| {
        let is_it = |frame: &&&Value| frame["name"] == name && frame["inlined"] == true;
        elsewhere.iter().filter(is_it).filter(|frame| frame["line"].is_u64()).count()
    };
    assert!(inlined("inner") > 50 && inlined("middle") > 50, "{} of {}", inlined("inner"), elsewhere.len());
    // The names are there even without a folder for temporary files.
    let bare = samples_elsewhere(&recorded.path());
    assert!(bare.iter().filter(|sample| sample.has("outer")).count() > 50);
}

#[test]
fn root_sections_bring_all_names_and_the_beginnings_of_functions_without_names() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (stripped, headless) = (dir.path().join("stripped"), dir.path().join("headless"));
    let strip = |from: &Path, to: &Path| {
        let done = Command::new("strip").arg("-o").args([to, from]).status();
        assert!(done.expect("binutils").success());
    };
    strip(&inlining(dir.path(), None), &stripped);
    // This makes another build without section headers: e_shoff, and e_shnum with e_shstrndx.
    let pad = dir.path().join("pad");
    std::fs::write(&pad, noise(64)).expect("room");
    strip(&inlining(dir.path(), Some(&pad)), &headless);
    let mut bytes = std::fs::read(&headless).expect("just made");
    bytes[40..48].fill(0);
    bytes[60..64].fill(0);
    std::fs::write(&headless, bytes).expect("room");
    let named = target();
    let script = format!("{}; {}; {} shares 300", stripped.display(), headless.display(), named.display());
    let recorded = Recorded::new(&["-F", "997", "--embed", "sections"], &["sh", "-c", &script]);
    let said = text(&recorded.output.stderr);
    assert!(said.contains(" files without code and data, "), "{said}");

    let elsewhere = report_in_a_container(&["top", "-n", "9999"], &recorded.path());
    let elsewhere: Value = serde_json::from_str(&elsewhere).expect("JSON");
    let (here, elsewhere) = (&recorded.json("top", &["-n", "9999"])["rows"], &elsewhere["rows"]);
    assert_eq!(here, elsewhere);
    let names = |beginning: &str| -> Vec<&str> {
        let names = elsewhere.as_array().expect("a list").iter().filter_map(|row| row["name"].as_str());
        names.filter(|name| name.starts_with(beginning)).collect()
    };
    for beginning in ["stripped+0x", "headless+0x"] {
        // These are its own functions, and those that the C library needs in every program.
        assert!((1..6).contains(&names(beginning).len()), "{:?}", names(beginning));
    }
    assert_eq!(names("takes_half"), ["takes_half"]);
}

#[test]
fn root_what_is_too_large_is_told_and_has_its_names() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let pad = dir.path().join("pad");
    std::fs::write(&pad, noise(2 << 20)).expect("room");
    let program = inlining(dir.path(), Some(&pad));
    // One file may use a quarter of the space: less than the program, more than its sections; then less than the sections.
    for (max, words, why) in [("4M", "only sections of /", "reduced"), ("16K", "skipped /", "too_large")] {
        let options = ["-F", "997", "--embed", "all", "--embed-max", max];
        let recorded = Recorded::new(&options, &[&program]);
        let said = text(&recorded.output.stderr);
        let line = said.lines().find(|line| line.contains(words) && line.contains("inlining: it needs "));
        assert!(line.is_some_and(|line| line.ends_with("(--embed-max)")), "{max}: {said}");
        let recording = Recording::open(&recorded.path()).expect("it opens");
        assert!(piece_bytes(&recording) < 4 << 20);
        assert!(left_out(&recorded.path(), why) > 0, "{max}");
        let info = report(&["info".as_ref(), recorded.path().as_os_str()]);
        let line = info.lines().find(|line| line.contains("of the files to embed: "));
        assert!(line.is_some_and(|line| line.contains(why)), "{info}");
        let missing: Value =
            serde_json::from_str(&report_in_a_container(&["missing"], &recorded.path())).expect("JSON");
        let rows = missing["lines"].as_array().expect("a list");
        let row =
            rows.iter().find(|row| row["image"].as_str().is_some_and(|path| path.ends_with("/inlining")));
        let told = &row.expect("it has no lines there")["left_out"];
        assert_eq!(told["why"], why, "{max}");
        assert!(told["needed_bytes"].as_u64() > told["free_bytes"].as_u64(), "{told}");
        report(&["verify".as_ref(), recorded.path().as_os_str()]);
        let named = frames(&samples_elsewhere(&recorded.path()));
        assert!(named.iter().filter(|(name, _)| name.as_deref() == Some("outer")).count() > 50);
    }
}

#[test]
fn root_a_deleted_program_in_a_root_of_its_own_keeps_its_lines() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let root = root_with(&inlining(dir.path(), None), None);
    let script = format!(
        "chroot {0} /inlining & until [ \"$(readlink /proc/$!/exe)\" = {0}/inlining ]; do :; done; \
         sleep 0.1; rm {0}/inlining; wait",
        root.path().canonicalize().expect("it is there").display()
    );
    let recorded = Recorded::new(&["-F", "997", "-q", "--embed", "all"], &["sh", "-c", &script]);
    let elsewhere = samples_in_a_container(&recorded.path());
    let with_lines = frames_of(&elsewhere, "/inlining");
    let lines = with_lines.iter().filter(|frame| frame["name"] == "inner" && frame["line"].is_u64());
    assert!(lines.count() > 50, "of {} frames", with_lines.len());
}

#[test]
fn root_a_signal_ends_the_taking_of_files_and_the_recording_is_whole() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (pad, path) = (dir.path().join("pad"), dir.path().join("r.icecore"));
    std::fs::write(&pad, noise(24 << 20)).expect("room");
    let program = inlining(dir.path(), Some(&pad));
    let mut recorder = record();
    recorder.args(["-F", "997", "--embed", "all", "-o", "-", "--"]).arg(&program);
    let mut recorder = recorder.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it runs");
    let mut stream = recorder.stdout.take().expect("a pipe");
    // Nobody reads the pipe: the recorder waits in the middle of the first large file, however fast the machine is.
    let mut bytes = vec![0; 2 << 20];
    stream.read_exact(&mut bytes).expect("so much is recorded");
    send(libc::SIGINT, recorder.id());
    stream.read_to_end(&mut bytes).expect("it ends");
    let output = recorder.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("ended early: "), "{said}");
    std::fs::write(&path, &bytes).expect("room");
    assert!(left_out(&path, "interrupted") > 0);
    let recording = Recording::open(&path).expect("it opens");
    assert!(recording.is_closed() && recording.damage().is_empty());
    let taken = piece_bytes(&recording);
    assert!((1 << 20..16 << 20).contains(&taken), "{taken} bytes of pieces");
    report(&["verify".as_ref(), path.as_os_str()]);
    assert!(samples_of(&path).iter().filter(|sample| sample.has("outer")).count() > 50);
}

#[test]
fn root_a_disk_that_fills_up_with_files_has_all_samples() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let pad = dir.path().join("pad");
    std::fs::write(&pad, noise(24 << 20)).expect("room");
    let program = inlining(dir.path(), Some(&pad));
    let disk = Mounted::small(5_000_000);
    let (path, repaired) = (disk.path().join("r.icecore"), dir.path().join("repaired"));
    let mut recorder = record();
    recorder.args(["-F", "997", "--embed", "all", "-o"]).arg(&path).arg("--").arg(&program);
    let output = recorder.output().expect("the recorder runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    for words in ["No space left", "; lost after it: 0 samples; what is missing is of files"] {
        assert!(said.contains(words), "{said}");
    }
    let is_closed = Recording::open(&path).expect("it opens").is_closed();
    eprintln!("closed: {is_closed}");
    report(&["repair".as_ref(), path.as_os_str(), "-o".as_ref(), repaired.as_os_str()]);
    report(&["verify".as_ref(), repaired.as_os_str()]);
    let recording = Recording::open(&repaired).expect("it opens");
    assert!(piece_bytes(&recording) > 3 << 20);
    let info: Value =
        serde_json::from_str(&report(&["info".as_ref(), repaired.as_os_str(), "--json".as_ref()]))
            .expect("JSON");
    // The rest of the disk usually has room for it, because the block that did not fit was cut off.
    assert!(!is_closed || left_out(&repaired, "write_failed") > 0);
    let samples = samples_of(&repaired);
    assert_eq!(info["receipt"]["samples"], samples.len());
    assert!(samples.iter().filter(|sample| sample.has("outer")).count() > 50);
}

#[test]
fn root_a_piece_of_a_recording_keeps_its_files_and_a_merged_one_has_those_of_all() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let program = inlining(dir.path(), None);
    let whole = Recorded::new(&["-F", "997", "-q", "--embed", "all"], &[&program]);
    let sections = Recorded::new(&["-F", "997", "-q", "--embed", "sections"], &[&program]);
    let [first, second] = [&sections, &whole].map(Recorded::path);
    let [piece, both] = ["piece", "both"].map(|name| dir.path().join(name));
    let [cut, comm, merge, out] = ["cut", "--comm", "merge", "-o"].map(AsRef::as_ref);
    report(&[cut, second.as_os_str(), comm, "inlining".as_ref(), out, piece.as_os_str()]);
    report(&[merge, first.as_os_str(), piece.as_os_str(), out, both.as_os_str()]);
    report(&["verify".as_ref(), both.as_os_str()]);
    std::fs::remove_file(&program).expect("it was there");
    let lines = |path: &Path| {
        let samples = samples_in_a_container(path);
        let frames = frames_of(&samples, "/inlining");
        frames.iter().filter(|frame| frame["name"] == "inner" && frame["line"].is_u64()).count()
    };
    let (of_piece, of_both) = (lines(&piece), lines(&both));
    // If one session has pieces of a file, they serve the other session, too.
    assert!(of_piece > 30 && of_both > of_piece + 30, "{of_piece}, {of_both}");
}
