//! Runs the two programs as a user would: on this machine, through eBPF, from the command line.
//!
//! | room | what lives there |
//! |---|---|
//! | `programs` | the programs that are recorded |
//! | `served` | a file on a file system that a program serves |
//! | `host` | another host, on loopback |

mod host;
mod mounted;
mod programs;
mod served;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use serde_json::Value;

pub use host::Host;
pub use mounted::Mounted;
pub use programs::*;
pub use served::{Served, ServedTo};

/// Builds the programs of the workspace once, and returns the path of one.
pub fn program(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        // The runner has built them.
        if let Some(folder) = std::env::var_os("ICECORE_PROGRAMS") {
            return folder.into();
        }
        // target/<profile>/deps/<this test>
        let test = std::env::current_exe().expect("we are running");
        let folder = test.ancestors().nth(2).expect("a test lies two folders deep").to_owned();
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        // With examples, the crates get the same features as in `cargo test --workspace`, and are not built twice.
        build.args(["build", "--quiet", "--workspace", "--bins", "--examples"]);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        // The variables that cargo sets for a test would make build scripts run again, here and in the next build.
        let of_package = |name: &str| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(of_package)) {
            build.env_remove(name);
        }
        if folder.ends_with("release") {
            build.arg("--release");
        }
        assert!(build.status().expect("cargo runs").success(), "the programs do not build");
        folder
    });
    folder.join(name)
}

/// Ends a test that cannot run here: `tests/run.py` reports it as skipped. A test that called this never counts as passed.
pub fn skip(cause: &str) -> ! {
    panic!("skipped: {cause}")
}

/// Skips the test unless a program runs with these arguments. If `ICECORE_REQUIRE_EBPF` is set, as in CI, the test fails instead.
pub fn needs(program: &str, args: &[&str]) {
    let cause = match Command::new(program).args(args).output() {
        Ok(out) if out.status.success() => return,
        Ok(out) => format!("{program} cannot be used here: {}", text(&out.stderr)),
        Err(_) => format!("there is no {program} here: run tests/setup.sh"),
    };
    assert!(std::env::var_os("ICECORE_REQUIRE_EBPF").is_none(), "{cause}");
    skip(&cause)
}

/// Skips the test unless perf can record here.
pub fn needs_perf() {
    needs("perf", &["record", "-q", "-e", "cpu-clock", "-o", "/dev/null", "true"]);
}

/// Returns a Python with the package `zstandard`, which `tests/setup.sh` installs.
pub fn python() -> Command {
    let has_package = |python: &&str| {
        let import = Command::new(python).args(["-c", "import zstandard"]).output();
        import.is_ok_and(|output| output.status.success())
    };
    let found = ["python3", "/usr/bin/python3"].into_iter().find(has_package);
    if found.is_none() {
        needs("python3", &["-c", "import zstandard"]);
    }
    Command::new(found.expect("it was found"))
}

/// Returns a command that runs the recorder, without arguments.
pub fn record() -> Command {
    Command::new(program("icecore-record"))
}

/// Runs the report and returns its text; panics with its message if it fails.
pub fn report<S: AsRef<OsStr>>(args: &[S]) -> String {
    let out = report_output(args);
    assert!(out.status.success(), "icecore-report failed: {}", text(&out.stderr));
    text(&out.stdout)
}

/// Returns a view of a recording as JSON.
pub fn json(view: &str, path: &Path) -> Value {
    let text = report(&[view.as_ref(), path.as_os_str(), "--json".as_ref()]);
    serde_json::from_str(&text).expect("the report prints JSON")
}

/// Runs the report without a cache.
pub fn report_output<S: AsRef<OsStr>>(args: &[S]) -> Output {
    let mut report = Command::new(program("icecore-report"));
    report.env_remove("XDG_CACHE_HOME").env_remove("HOME");
    report.args(args).output().expect("the report runs")
}

/// Copies a program to run it. Another process makes the copy: if this one did, a program that another thread starts meanwhile could
/// hold the copy open for writing for a moment, and then it could not be run.
pub fn copy(program: &Path, to: &Path) {
    let copied = Command::new("cp").arg(program).arg(to).status();
    assert!(copied.expect("cp is everywhere").success());
}

/// Waits until a condition is true; panics if it is not within a minute.
pub fn wait_until(what: &str, mut has_come: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !has_come() {
        assert!(Instant::now() < deadline, "it took more than a minute: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Waits until the recorder that makes this recording samples.
pub fn wait_for_session(recording: &Path) {
    wait_for(recording, Kind::SESSION, "a session in the recording");
}

/// Waits until an unfinished recording has samples.
pub fn wait_for_samples(recording: &Path) {
    wait_for(recording, Kind::SAMPLES, "samples in the recording");
}

fn wait_for(recording: &Path, kind: Kind, what: &str) {
    let has_it = |recording: Recording| recording.entries().iter().any(|e| e.header.kind == kind);
    wait_until(what, || Recording::open(recording).is_ok_and(has_it));
}

/// Sends a signal to a process.
pub fn send(signal: i32, pid: u32) {
    let sent = Command::new("kill").args([format!("-{signal}"), pid.to_string()]).status();
    assert!(sent.expect("kill exists").success());
}

/// Returns the time on the clock of recordings, ns.
pub fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writing, and nothing else is touched.
    #[allow(unsafe_code)]
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    assert_eq!(result, 0, "every Linux has this clock");
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A recording in a folder of its own.
pub struct Recorded {
    dir: tempfile::TempDir,
    /// The output of the recorder.
    pub output: Output,
}

impl Recorded {
    /// Records with these arguments (all but `-o`).
    pub fn new<S: AsRef<OsStr>>(options: &[&str], command: &[S]) -> Self {
        Self::without("", options, command)
    }

    /// Records with these arguments, and as if the kernel did not have a feature (`ICECORE_WITHOUT`). Leaves nothing for later recordings.
    pub fn without<S: AsRef<OsStr>>(feature: &str, options: &[&str], command: &[S]) -> Self {
        Self::with(("ICECORE_WITHOUT", feature), &[&["--no-cache"], options].concat(), command)
    }

    /// Records with these arguments and a variable of the environment.
    pub fn with<S: AsRef<OsStr>>(variable: (&str, &str), options: &[&str], command: &[S]) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let mut recorder = record();
        recorder.env(variable.0, variable.1);
        recorder.args(options).arg("-o").arg(dir.path().join("r.icecore"));
        if !command.is_empty() {
            recorder.arg("--").args(command);
        }
        let output = recorder.output().expect("the recorder runs");
        let said = text(&output.stderr);
        assert_ne!(output.status.code(), Some(2), "icecore-record failed: {said}");
        Self { dir, output }
    }

    /// Records with these arguments, and calls a function as soon as sampling has begun.
    pub fn meanwhile(options: &[&str], act: impl FnOnce()) -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("r.icecore");
        let mut recorder = record();
        recorder.args(options).arg("-o").arg(&path).stderr(Stdio::piped());
        let recorder = recorder.spawn().expect("the recorder runs");
        wait_for_session(&path);
        act();
        let output = recorder.wait_with_output().expect("it ends");
        assert_ne!(output.status.code(), Some(2), "icecore-record failed: {}", text(&output.stderr));
        Self { dir, output }
    }

    /// Records up to three times, until a recording passes the check: other programs may have used the machine. The third recording is
    /// returned in any case.
    pub fn until(serves: impl Fn(&Self) -> bool, record: impl Fn() -> Self) -> Self {
        for _ in 0..2 {
            let recorded = record();
            if serves(&recorded) {
                return recorded;
            }
            eprintln!(
                "recorded once more: {} samples, lost {}",
                recorded.samples(&[]).len(),
                recorded.lost()
            );
        }
        record()
    }

    /// Records up to three times, until nothing is lost.
    pub fn without_loss<S: AsRef<OsStr>>(options: &[&str], command: &[S]) -> Self {
        Self::until(|recorded| recorded.lost() == serde_json::json!({}), || Self::new(options, command))
    }

    /// Records a program with events, in which `{}` stands for its path.
    pub fn events(program: &Path, options: &[&str], events: &[&str], arguments: &[&str]) -> Self {
        let path = program.to_str().expect("plain text");
        let events: Vec<String> = events.iter().map(|event| event.replace("{}", path)).collect();
        let events = events.iter().flat_map(|event| ["-e", event]);
        let options: Vec<&str> = options.iter().copied().chain(events).collect();
        Self::new(&options, &[&[path], arguments].concat())
    }

    /// Returns what was lost, by cause.
    pub fn lost(&self) -> Value {
        self.json("info", &[])["lost_by_cause"].clone()
    }

    /// Records the target program under one of its names.
    pub fn target(options: &[&str], name: &str, milliseconds: u32) -> Self {
        let target = target();
        Self::new(options, &[target.as_os_str(), name.as_ref(), milliseconds.to_string().as_ref()])
    }

    /// Returns the file.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("r.icecore")
    }

    /// Returns a view as JSON.
    pub fn json(&self, view: &str, options: &[&str]) -> Value {
        let path = self.path();
        let mut args = vec![OsStr::new(view), path.as_os_str(), OsStr::new("--json")];
        args.extend(options.iter().map(OsStr::new));
        serde_json::from_str(&report(&args)).expect("the report prints JSON")
    }

    /// Returns all samples.
    pub fn samples(&self, options: &[&str]) -> Vec<Sample> {
        let path = self.path();
        let mut args = vec![OsStr::new("samples"), path.as_os_str(), OsStr::new("--json")];
        args.extend(options.iter().map(OsStr::new));
        let text = report(&args);
        text.lines().map(|line| Sample(serde_json::from_str(line).expect("a JSON object a line"))).collect()
    }
}

/// One line of `samples --json`.
#[derive(Debug)]
pub struct Sample(pub Value);

impl Sample {
    /// Returns a numeric field.
    pub fn number(&self, key: &str) -> u64 {
        self.0[key].as_u64().unwrap_or_else(|| panic!("`{key}` is a number: {}", self.0))
    }

    /// Returns a text field.
    pub fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_else(|| panic!("`{key}` is text: {}", self.0))
    }

    /// Returns true if its user stack was found by unwind tables, from the leaf to the outermost frame.
    pub fn is_unwound(&self) -> bool {
        matches!(self.text("ended"), "unwound" | "by_tables")
    }

    /// Returns the names of the frames of one side (`user`, `kernel`), leaf first; empty if a frame has no name.
    pub fn names(&self, side: &str) -> Vec<&str> {
        let frames = self.0["frames"].as_array().expect("`frames` is a list");
        frames.iter().filter(|f| f["side"] == side).map(|f| f["name"].as_str().unwrap_or("")).collect()
    }

    /// Returns the frames of functions of a language, leaf first.
    pub fn of_language<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a Value> {
        let frames = self.0["frames"].as_array().expect("`frames` is a list");
        frames.iter().filter(move |frame| frame["language"] == language)
    }

    /// Returns true if a function is anywhere in the stack.
    pub fn has(&self, function: &str) -> bool {
        self.names("user").contains(&function) || self.names("kernel").contains(&function)
    }
}

/// Returns the output of a program as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
