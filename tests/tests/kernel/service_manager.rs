//! The recorder as a service: what it tells the service manager, and whether what `packaging/` gives it is enough and is needed.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use icecore_tests::machine::{
    Sample, copy, json, program, record, report, send, target, text, wait_for_session,
};
use tempfile::TempDir;

const TERMINATE: i32 = 15;
const EVERYTHING: [&str; 3] = ["-a", "-F", "997"];
const NOBODY: &str = "65534";

fn packaged(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging").join(name);
    std::fs::read_to_string(path).expect("it is there")
}

/// Returns the capabilities that a list names, as setpriv has them: `+bpf,+perfmon`.
fn capabilities(list: &str) -> Vec<String> {
    let names = list.split([' ', ',']).map(str::trim).filter(|name| !name.is_empty());
    names.map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase())).collect()
}

/// A recorder that anybody may run, in a folder that anybody may write to.
struct Place {
    dir: TempDir,
    recorder: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
        let recorder = dir.path().join("icecore-record");
        copy(&program("icecore-record"), &recorder);
        Self { dir, recorder }
    }

    /// Records for a moment with some capabilities and no others: those of a user, or those of root in a container.
    fn record(&self, of_root: bool, capabilities: &[String], options: &[&str]) -> (PathBuf, Output) {
        let path = self.dir.path().join(format!("{}.icecore", capabilities.join("")));
        let set = format!("-all,{}", capabilities.join(","));
        let mut run = Command::new("setpriv");
        run.args(["--inh-caps", &set, "--bounding-set", &set, "--no-new-privs"]);
        if !of_root {
            run.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--ambient-caps", &set]);
        }
        run.arg(&self.recorder).args(["--no-cache", "-d", "1"]).args(options).arg("-o").arg(&path);
        let output = run.output().expect("util-linux is installed");
        (path, output)
    }
}

/// A program of root's that runs until the test ends.
struct Running(Child);

impl Running {
    fn new() -> Self {
        Self::of(&target())
    }

    fn of(program: &Path) -> Self {
        let mut command = Command::new(program);
        Self(command.args(["shares", "60000"]).stdout(Stdio::null()).spawn().expect("the program runs"))
    }

    fn samples(&self, recording: &Path) -> Vec<Sample> {
        let pid = self.0.id().to_string();
        let words = ["samples", "--json", "--pid", &pid, recording.to_str().expect("UTF-8")];
        let lines = report(&words);
        let parsed = lines.lines().map(|line| Sample(serde_json::from_str(line).expect("JSON")));
        parsed.filter(|sample| sample.0.get("weight").is_some()).collect()
    }

    /// Returns how many of its samples have the function that takes half of its time, percent.
    fn named(&self, recording: &Path) -> usize {
        let samples = self.samples(recording);
        assert!(samples.len() > 100, "{} samples", samples.len());
        100 * samples.iter().filter(|sample| sample.has("takes_half")).count() / samples.len()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn root_the_service_manager_is_told_that_it_records_lives_and_ends() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let (name, path) = (dir.path().join("notify"), dir.path().join("r.icecore"));
    let manager = UnixDatagram::bind(&name).expect("room");
    manager.set_read_timeout(Some(Duration::from_secs(20))).expect("a time");
    let told = || {
        let mut state = [0; 4096];
        let len = manager.recv(&mut state).expect("the recorder says something");
        text(&state[..len])
    };
    let mut recorder = record();
    recorder.args(["-a", "-o"]).arg(&path).stderr(Stdio::piped());
    let recorder =
        recorder.env("NOTIFY_SOCKET", &name).env("WATCHDOG_USEC", "200000").spawn().expect("it runs");
    assert_eq!(told(), "READY=1");
    // It is no promise: the recording has begun.
    wait_for_session(&path);
    let (mut lives, mut states) = (0, Vec::new());
    while lives < 10 {
        match told().as_str() {
            "WATCHDOG=1" => lives += 1,
            state => states.push(state.to_owned()),
        }
    }
    assert!(states[0].starts_with("STATUS=recording 0."), "{states:?}");
    send(TERMINATE, recorder.id());
    while told() != "STOPPING=1" {}
    let output = recorder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn root_a_command_that_is_the_service_speaks_for_itself() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let name = dir.path().join("notify");
    let manager = UnixDatagram::bind(&name).expect("room");
    manager.set_nonblocking(true).expect("a socket");
    let mut recorder = record();
    recorder.arg("-o").arg(dir.path().join("r.icecore")).env("NOTIFY_SOCKET", &name);
    let script = "test -S \"$NOTIFY_SOCKET\"";
    let output = recorder.args(["--", "sh", "-c", script]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(manager.recv(&mut [0; 64]).is_err(), "the recorder says nothing");
}

#[test]
fn root_a_manager_that_is_not_there_changes_nothing() {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    for name in ["@nobody", "/nobody", "", "\u{1}"] {
        let mut recorder = record();
        recorder.args(["-q", "-a", "-d", "0.2", "--force", "-o"]).arg(&path).env("NOTIFY_SOCKET", name);
        let output = recorder.output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn root_the_unit_records_the_whole_machine_with_its_capabilities_and_no_others() {
    let unit = packaged("systemd/icecore-record.service");
    let field = |name: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("the unit has {name}")).to_owned()
    };
    let all = capabilities(&field("AmbientCapabilities"));
    assert_eq!(all, capabilities(&field("CapabilityBoundingSet")));
    let options = field("Environment");
    let options =
        options.trim_matches('"').strip_prefix("ICECORE_OPTIONS=").expect("they come first").to_owned();
    let (place, running) = (Place::new(), Running::new());
    // With its own options: the files rotate, so their names have the time.
    let words: Vec<&str> = options.split(' ').collect();
    let (path, output) = place.record(false, &all, &EVERYTHING);
    assert_records_all(&running, &path, &output);
    std::fs::remove_file(&path).expect("ours");
    let (path, output) = place.record(false, &all, &words);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(!path.exists(), "its name has the time");

    let without = |name: &str| {
        let others: Vec<String> = all.iter().filter(|other| *other != name).cloned().collect();
        assert_eq!(others.len() + 1, all.len(), "{name}");
        place.record(false, &others, &EVERYTHING)
    };
    for name in ["+bpf", "+perfmon"] {
        let (_, output) = without(name);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{name}: {said}");
        assert!(said.contains("setcap cap_bpf,cap_perfmon,"), "{name}: {said}");
    }
    let (path, output) = without("+sys_ptrace");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let samples = running.samples(&path);
    let named = samples.iter().filter(|sample| sample.has("takes_half")).count();
    assert!(named * 2 < samples.len(), "without it, mappings of root's programs are not seen: {named}");
}

/// docs/OPERATIONS.md, "As a service": what each capability is for.
#[test]
fn root_files_that_are_private_or_deleted_need_a_capability_each() {
    let place = Place::new();
    let [private, deleted] = ["private", "deleted"].map(|name| place.dir.path().join(name));
    [&private, &deleted].into_iter().for_each(|path| copy(&target(), path));
    std::fs::set_permissions(&private, std::fs::Permissions::from_mode(0o700)).expect("ours");
    let programs = [&private, &deleted].map(|path| Running::of(path));
    std::fs::remove_file(&deleted).expect("ours");
    let all = ["+bpf", "+perfmon", "+sys_ptrace", "+syslog", "+dac_read_search", "+checkpoint_restore"];
    let expected = [
        ("none", [true, true]),
        ("+dac_read_search", [false, false]),
        ("+checkpoint_restore", [true, false]),
    ];
    let recordings = expected.map(|(missing, _)| {
        let set = all.iter().filter(|name| **name != missing).map(|name| (*name).to_owned());
        let (path, output) = place.record(false, &set.collect::<Vec<_>>(), &EVERYTHING);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        path
    });
    // Names are those in the recording: the report does not find the file.
    std::fs::remove_file(&private).expect("ours");
    for ((missing, are_named), recording) in expected.into_iter().zip(recordings) {
        let named = [0, 1].map(|at: usize| programs[at].named(&recording));
        assert_eq!(named.map(|percent| percent > 30), are_named, "without {missing}: {named:?}");
    }
}

#[test]
fn root_the_daemon_set_records_the_whole_machine_with_its_capabilities_and_no_others() {
    let set = packaged("kubernetes/icecore-record.yaml");
    assert!(set.contains("hostPID: true") && set.contains("drop: [ALL]"));
    let added = set.lines().find_map(|line| line.trim().strip_prefix("add: [")?.strip_suffix(']'));
    let all = capabilities(added.expect("it adds capabilities"));
    let (place, running) = (Place::new(), Running::new());
    let (path, output) = place.record(true, &all, &EVERYTHING);
    assert_records_all(&running, &path, &output);
}

/// Checks that a recording has the stacks and the kernel functions of a program of root's.
fn assert_records_all(running: &Running, path: &Path, output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let samples = running.samples(path);
    let named = samples.iter().filter(|sample| sample.has("main") && sample.has("takes_half")).count();
    assert!(named > 50 && named * 10 > samples.len() * 4, "{named} of {}", samples.len());
    let missing = json("info", path)["session"]["missing_features"].to_string();
    assert!(!missing.contains("kernel_addresses"), "{missing}");
    let top = report(&["top".as_ref(), "--kernel".as_ref(), path.as_os_str()]);
    assert!(top.contains("[kernel]"), "{top}");
}
