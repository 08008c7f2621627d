//! `--rotate`: a recording that goes on in another file, through real eBPF. Each file stands alone, no sample is lost, and none is in two
//! files.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::machine::{
    Sample, json, probed, record, report, report_output, send, target, text, wait_until,
};
use tempfile::TempDir;

use crate::python;

const TERMINATE: i32 = 15;
const KILL: i32 = 9;

/// The files of a recording, in a folder of their own.
struct Rotated {
    dir: TempDir,
    said: String,
}

impl Rotated {
    /// Records a command, or without one the targets of the options.
    fn new(options: &[&str], command: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let output = recorder(&dir, options, command).output().expect("the recorder runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        Self { dir, said }
    }

    /// Returns the paths in the order of their names.
    fn files(&self) -> Vec<PathBuf> {
        files(self.dir.path())
    }
}

fn recorder(dir: &TempDir, options: &[&str], command: &[&str]) -> Command {
    let mut recorder = record();
    recorder
        .args(["--no-cache", "--flush", "100ms"])
        .args(options)
        .arg("-o")
        .arg(dir.path().join("r.icecore"));
    if !command.is_empty() {
        recorder.arg("--").args(command);
    }
    recorder
}

/// Lists a folder in the order of names.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

/// Returns the samples of a file, after checking that its blocks are whole and that it is closed.
pub(crate) fn samples(file: &Path, options: &[&str]) -> Vec<Sample> {
    report(&["verify".as_ref(), file.as_os_str()]);
    assert_eq!(json("summary", file)["closed"].as_bool(), Some(true), "{}", file.display());
    let mut words: Vec<OsString> = ["samples", "--json"].map(Into::into).to_vec();
    words.extend(options.iter().map(Into::into));
    words.push(file.into());
    let lines = report(&words);
    let parsed = lines.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON")));
    parsed.filter(|sample| sample.0.get("weight").is_some()).collect()
}

/// A process that ends with the test.
pub(crate) struct Running(Child);

impl Running {
    pub(crate) fn new(program: &Path, args: &[&str]) -> Self {
        let mut command = Command::new(program);
        Self(command.args(args).stdout(Stdio::null()).spawn().expect("the program runs"))
    }

    pub(crate) fn id(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn root_two_hundred_files_have_each_of_20000_calls_once() {
    const CALLS: u64 = 20_000;
    let program = probed();
    let event = format!("uprobe:{}:sized,weight=arg1", program.display());
    let options = ["-q", "-e", &event, "--rotate", "100ms", "--max-event-rate", "0"];
    let command = [program.to_str().expect("UTF-8"), "paced", &CALLS.to_string()];
    let rotated = Rotated::new(&options, &command);
    let files = rotated.files();
    let mut last_end_ns = 0;
    for file in &files {
        let info = json("info", file);
        let start_ns = info["session"]["start_ns"].as_u64().expect("a number");
        let end_ns = info["receipt"]["end_ns"].as_u64().expect("a number");
        assert!(last_end_ns == 0 || start_ns == last_end_ns, "a file begins where the one before it ends");
        last_end_ns = end_ns;
    }
    // Each file is a session of its own in the merged one, with its own names and processes.
    let merged = rotated.dir.path().join("all");
    let mut words: Vec<&OsStr> = vec!["merge".as_ref(), "-o".as_ref(), merged.as_os_str()];
    words.extend(files.iter().map(|file| file.as_os_str()));
    report(&words);
    let samples = samples(&merged, &[]);
    for sample in &samples {
        assert_eq!(sample.names("user")[..2], ["sized", "main"], "{}", sample.0);
        assert_eq!(sample.text("comm"), "probed");
    }
    assert_eq!(json("summary", &merged)["lost"].as_u64(), Some(0));
    let calls: Vec<u64> = samples.iter().map(|sample| sample.number("weight")).collect();
    assert_eq!(calls, (1..=CALLS).collect::<Vec<_>>(), "each call is in one file, in the order of time");
    assert!(files.len() >= 150, "{} files", files.len());
}

#[test]
fn root_each_file_knows_processes_that_began_long_before_it() {
    let python = python::at_hand().into_iter().max_by_key(|python| python.minor).expect("checked there");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/known.py");
    let python_program = Running::new(&python.path, &[script.to_str().expect("UTF-8"), "60"]);
    let native = Running::new(&target(), &["shares", "60000"]);
    let wanted = [python_program.id(), native.id()].join(",");
    let options = ["-F", "997", "-p", &wanted, "--rotate", "3s", "-d", "9.5", "--off-cpu"];
    let rotated = Rotated::new(&options, &[]);
    let files = rotated.files();
    assert!((3..=5).contains(&files.len()), "{files:?}");
    assert!(rotated.said.contains("finished `"), "each finished file is named: {}", rotated.said);
    for file in &files[..files.len() - 1] {
        let of = |process: &Running| samples(file, &["--pid", &process.id(), "--event", "cpu-clock"]);
        python::assert_callers(&python, &of(&python_program));
        let samples = of(&native);
        let named = samples.iter().filter(|sample| sample.has("takes_half") && sample.has("main")).count();
        assert!(samples.len() > 500 && named * 10 > samples.len() * 4, "{named} of {}", samples.len());
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", native.id())).expect("it runs");
        assert!(samples.iter().all(|sample| sample.text("comm") == comm.trim_end()));
        assert!(!samples[0].text("cgroup").is_empty(), "{}", samples[0].0);
        let info = json("info", file);
        let reason = info["receipt"]["end_reason"].as_str().unwrap_or_default().to_owned();
        assert_eq!(reason, "rotated", "{info}");
        let health = json("health", file);
        let agreement = health["cpu_time_agreement"].as_f64().expect("a number");
        assert!((0.8..1.2).contains(&agreement), "{agreement}");
        assert!(health["rooted_share"].as_f64().expect("a number") > 0.98, "{health}");
    }
}

#[test]
fn root_files_that_are_not_to_be_kept_are_removed_and_others_stay() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let stranger = dir.path().join("r-20200101T000000.000Z.icecore");
    std::fs::write(&stranger, "no recording").expect("room");
    let options = ["-a", "--rotate", "200ms", "--keep", "3", "-d", "3"];
    let output = recorder(&dir, &options, &[]).output().expect("the recorder runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let files = files(dir.path());
    assert_eq!((files.len(), &files[0]), (4, &stranger), "{files:?}");
    assert!(said.matches("finished `").count() > 5, "{said}");
    files[1..]
        .iter()
        .for_each(|file| assert!(!samples(file, &[]).is_empty() || json("summary", file)["closed"] == true));
    let bytes: u64 = files[1..].iter().map(|file| file.metadata().expect("there").len()).sum();
    let most = (bytes / 2).to_string();
    let options = ["-a", "--rotate", "10s", "--keep-bytes", &most, "-d", "0.2"];
    let output = recorder(&dir, &options, &[]).output().expect("the recorder runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let left = self::files(dir.path());
    assert!(
        left.len() < files.len() + 1 && left.contains(&stranger),
        "files of earlier runs count: {left:?}"
    );
}

#[test]
fn root_a_file_that_is_large_enough_is_followed_by_another() {
    let event = format!("uprobe:{}:sized,weight=arg1", probed().display());
    let options = ["-q", "-e", &event, "--rotate", "1h,64K", "--max-event-rate", "0", "--flush-bytes", "64K"];
    let program = probed();
    let rotated = Rotated::new(&options, &[program.to_str().expect("UTF-8"), "sized", "600000"]);
    let files = rotated.files();
    assert!(files.len() > 1, "{files:?}");
    for file in &files[..files.len() - 1] {
        let bytes = file.metadata().expect("there").len();
        assert!((64 << 10..4 << 20).contains(&bytes), "{bytes} bytes");
    }
    let calls: Vec<u64> =
        files.iter().flat_map(|file| samples(file, &[])).map(|sample| sample.number("weight")).collect();
    let lost: u64 = files.iter().map(|file| json("summary", file)["lost"].as_u64().expect("a number")).sum();
    let different: BTreeSet<u64> = calls.iter().copied().collect();
    assert_eq!(
        (different.len(), different.len() as u64 + lost),
        (calls.len(), 600_000),
        "none twice, none unseen"
    );
}

#[test]
fn root_the_recording_goes_on_in_the_same_file_if_no_other_can_be_made() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (folder, away) = (dir.path().join("there"), dir.path().join("away"));
    std::fs::create_dir(&folder).expect("room");
    let mut recorder = record();
    recorder.args(["-a", "--flush", "100ms", "--rotate", "500ms", "-d", "2"]);
    let mut recorder =
        recorder.arg("-o").arg(folder.join("r.icecore")).stderr(Stdio::piped()).spawn().expect("it runs");
    wait_until("a file is there", || !files(&folder).is_empty());
    std::fs::rename(&folder, &away).expect("ours");
    let output = recorder.wait().map(|status| (status, recorder.wait_with_output()));
    let (status, output) = output.expect("it ends");
    let said = text(&output.expect("it has ended").stderr);
    assert!(said.contains("its folder does not exist; the recording goes on in the same file"), "{said}");
    // The file was moved with its folder, as the recorder says.
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.contains("somebody renamed"), "{said}");
    let files = files(&away);
    assert_eq!(files.len(), 1, "{files:?}");
    samples(&files[0], &[]);
    assert!(json("summary", &files[0])["duration_s"].as_f64().expect("a number") > 1.5);
}

#[test]
fn root_a_recorder_that_is_killed_leaves_files_that_can_be_read() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut recorder = recorder(&dir, &["-q", "-a", "-F", "997", "--rotate", "300ms"], &[]);
    let mut recorder = recorder.spawn().expect("it runs");
    wait_until("there are five files", || files(dir.path()).len() >= 5);
    // Every view reads the file that is being written.
    let newest = files(dir.path()).pop().expect("five");
    let begun = Instant::now();
    while !report_output(&["top".as_ref(), newest.as_os_str()]).status.success() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{}", newest.display());
    }
    send(KILL, recorder.id());
    let _ = recorder.wait();
    let files = files(dir.path());
    for file in &files[..files.len() - 1] {
        assert!(json("summary", file)["samples"].as_u64() > Some(0), "{}", file.display());
    }
}

#[test]
fn root_a_signal_ends_the_last_file() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let mut recorder = recorder(&dir, &["-a", "--rotate", "300ms"], &[]);
    let recorder = recorder.stderr(Stdio::piped()).spawn().expect("it runs");
    wait_until("there are four files", || files(dir.path()).len() >= 4);
    send(TERMINATE, recorder.id());
    let output = recorder.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    for file in files(dir.path()) {
        samples(&file, &[]);
    }
}

#[test]
fn root_a_recording_is_followed_across_its_files_and_every_view_reads_the_open_one() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let busy = Running::new(&target(), &["shares", "60000"]);
    let options = ["-q", "-a", "-F", "499", "--rotate", "2s", "-d", "9"];
    let mut recorder = recorder(&dir, &options, &[]).spawn().expect("it runs");
    wait_until("the first file is there", || !files(dir.path()).is_empty());
    let first = files(dir.path()).remove(0);
    let words = ["tui", "--follow", "--json", "--last", "all", "--interval", "300ms"].map(OsString::from);
    let mut follower = Command::new(icecore_tests::machine::program("icecore-report"));
    let follower = follower.args(words).arg(&first).stdout(Stdio::piped()).spawn().expect("it runs");
    wait_until("there are two files", || files(dir.path()).len() >= 2);
    let svg = dir.path().join("x.svg");
    let views: [&[&OsStr]; 7] = [
        &["summary".as_ref(), "--json".as_ref()],
        &["top".as_ref()],
        &["tree".as_ref()],
        &["flame".as_ref(), "-o".as_ref(), svg.as_os_str(), "--force".as_ref()],
        &["timeline".as_ref()],
        &["folded".as_ref()],
        &["health".as_ref()],
    ];
    for view in views {
        // A file that has just begun has no samples yet, and the newest one may end meanwhile.
        let mut open = 0;
        wait_until("the view reads a file that is open", || {
            let newest = files(dir.path()).into_iter().rfind(|path| path != &svg).expect("two");
            let was_open = !json("info", &newest)["closed"].as_bool().unwrap_or(true);
            let output = report_output(&[view, &[newest.as_os_str()]].concat());
            open += u64::from(was_open && output.status.success());
            open > 0
        });
    }
    let status = recorder.wait().expect("it ends");
    assert!(status.success(), "{status}");
    let output = follower.wait_with_output().expect("it ends with the recording");
    assert!(output.status.success());
    let lines = text(&output.stdout);
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().expect("a line")).expect("JSON");
    assert_eq!(last["ended"], "the recording has ended: duration", "{last}");
    let recorded = files(dir.path()).into_iter().filter(|path| path != &svg);
    let samples: u64 =
        recorded.map(|file| json("summary", &file)["samples"].as_u64().expect("a number")).sum();
    let followed = last["total_samples"].as_u64().zip(last["samples_without_frames"].as_u64());
    assert_eq!(followed.map(|(shown, without)| shown + without), Some(samples), "none twice, none missing");
    let rows = last["rows"].as_array().expect("rows");
    let named = rows
        .iter()
        .find(|row| row["name"] == "takes_half")
        .expect("the program takes half of its time there");
    assert!(named["reason"].is_null() && named["samples"].as_u64() > Some(0), "{named}");
    assert!(rows.iter().any(|row| row["side"] == "kernel" && row["reason"].is_null()), "{last}");
    drop(busy);
}
