//! Recordings of a user without any privilege: shares, stacks, threads and children of known programs; what is missing is said, and counted.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use icecore_tests::machine::{Sample, copy, own, program, report, stacks_with_frames, text, wait_until};
use serde_json::Value;

use crate::rates::{assert_none_in_a_pause, stretches, weight};

/// A user who owns nothing.
const NOBODY: [&str; 5] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"];

/// A folder that every user may read and write, with the recorder and the program that it records.
struct Room(tempfile::TempDir);

impl Room {
    fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("icecore").tempdir_in("/tmp").expect("/tmp");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).expect("ours");
        copy(&program("icecore-record"), &dir.path().join("icecore-record"));
        copy(&own(), &dir.path().join("own"));
        Self(dir)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a command of the user.
    fn of_user(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(NOBODY[0]);
        command.args(&NOBODY[1..]).arg(self.path(program)).args(args).current_dir(self.0.path());
        command
    }

    fn record(&self, args: &[&str]) -> Output {
        self.of_user("icecore-record", args).output().expect("util-linux is everywhere")
    }

    /// Records a part of the program; returns what the recorder said. At most three times, until no sample is lost.
    fn recorded(&self, options: &[&str], name: &str, milliseconds: &str) -> String {
        let fixed = ["-F", "999", "--force", "-o", "r.icecore"];
        let command = ["--", "./own", name, milliseconds];
        for _ in 0..3 {
            let output = self.record(&[&fixed[..], options, &command].concat());
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{said}");
            if self.json("summary")["lost"] == 0 {
                return said;
            }
        }
        panic!("samples were lost three times: {}", self.json("summary")["lost_by_cause"])
    }

    fn json(&self, view: &str) -> Value {
        let path = self.path("r.icecore");
        serde_json::from_str(&report(&[view.as_ref(), path.as_os_str(), "--json".as_ref()])).expect("JSON")
    }

    fn samples(&self) -> Vec<Sample> {
        let path = self.path("r.icecore");
        let lines = report(&["samples".as_ref(), path.as_os_str(), "--json".as_ref()]);
        lines.lines().map(|line| Sample(serde_json::from_str(line).expect("an object a line"))).collect()
    }
}

/// Returns the share of samples that have a function.
fn share(samples: &[Sample], function: &str) -> f64 {
    samples.iter().filter(|sample| sample.has(function)).count() as f64 / samples.len() as f64
}

/// Asserts that functions have their shares, that stacks reach their roots, and that none has a frame of the kernel.
fn assert_shares(samples: &[Sample], truth: &[(&str, f64)]) {
    assert!(samples.len() > 300, "{} samples", samples.len());
    let found: Vec<f64> = truth.iter().map(|(function, _)| share(samples, function)).collect();
    println!("{found:.3?}, true are {truth:?}");
    for (found, (function, truth)) in found.iter().zip(truth) {
        assert!((found - truth).abs() < 0.06, "{function}: {found}, true is {truth}");
    }
    let rooted = samples.iter().filter(|sample| sample.is_unwound()).count();
    assert!(rooted * 100 >= samples.len() * 95, "{rooted} of {} stacks are whole", samples.len());
    assert!(samples.iter().all(|sample| sample.names("kernel").is_empty()));
}

#[test]
fn root_a_user_records_a_program_without_frame_pointers_with_its_shares() {
    let room = Room::new();
    let said = room.recorded(&[], "shares", "1000");
    for word in ["CAP_BPF", "user mode alone", "time in the kernel, waits", "setcap"] {
        assert!(said.contains(word), "{said}");
    }
    let samples = room.samples();
    assert_shares(&samples, &[("ten", 0.1), ("thirty", 0.3), ("sixty", 0.6), ("main", 1.0)]);
    // Each sample stands for a period of CPU time.
    let sampled = samples.len() as f64 / 999.0;
    assert!((0.85..1.15).contains(&sampled), "{sampled} s of 1 s");
    let info = room.json("info");
    let session = &info["session"];
    assert_eq!((&session["user"], &session["kernel"]), (&true.into(), &false.into()));
    assert!(session["missing_features"].to_string().contains("programs"), "{session:#}");
    assert!(session["notes"].to_string().contains("user mode alone"), "{session:#}");
    let verified = report(&["verify".as_ref(), room.path("r.icecore").as_os_str()]);
    assert!(!verified.contains("problem"), "{verified}");
}

#[test]
fn root_threads_and_children_of_a_user_are_followed() {
    let room = Room::new();
    room.recorded(&[], "threads", "700");
    let samples = room.samples();
    assert_shares(&samples, &[("in_first", 0.5), ("in_second", 0.5)]);
    room.recorded(&[], "child", "700");
    let samples = room.samples();
    assert_shares(&samples, &[("in_child", 0.5), ("in_parent", 0.5)]);
    let of = |function: &str| {
        let mut ids: Vec<u64> = samples
            .iter()
            .filter(|sample| sample.has(function))
            .map(|sample| sample.number("tgid"))
            .collect();
        ids.dedup();
        ids
    };
    assert!(of("in_child").len() == 1 && of("in_parent").len() == 1 && of("in_child") != of("in_parent"));
    assert!(samples.iter().all(|sample| sample.text("comm") == "own"));
}

#[test]
fn root_frame_pointers_show_callers_beyond_the_copy_of_a_stack() {
    let room = Room::new();
    copy(&stacks_with_frames(), &room.path("own"));
    room.recorded(&["--unwind", "fp"], "chain", "700");
    let samples = room.samples();
    let whole =
        samples.iter().filter(|sample| sample.has("leaf") && sample.has("b") && sample.has("chain")).count();
    assert!(whole * 100 >= samples.len() * 95, "{whole} of {}", samples.len());
    assert!(!samples.iter().any(Sample::is_unwound), "nothing was copied");
}

#[test]
fn root_time_in_the_kernel_is_not_sampled_and_its_length_is_known() {
    let room = Room::new();
    let said = room.recorded(&[], "kernel", "1000");
    let summary = room.json("summary");
    let kernel_s = summary["ns_not_sampled"].as_f64().expect("known") / 1e9;
    let user_s = room.samples().len() as f64 / 999.0;
    println!("{user_s} s in user mode, {kernel_s} s in the kernel: {}", summary["restrictions"]);
    // Reading from /dev/zero takes the kernel nearly all of the second.
    assert!(kernel_s > 0.8 && (0.9..1.1).contains(&(kernel_s + user_s)), "{kernel_s} s and {user_s} s");
    assert_eq!((&summary["lost"], &summary["kernel_share"]), (&0.into(), &Value::Null));
    assert!(summary["restrictions"].to_string().contains("end before their first sample (together about "));
    assert!(
        said.contains("not sampled, in the kernel or of threads that ended before a sample: the time of "),
        "{said}"
    );
    let health = room.json("health");
    assert!(health["lost"]["not_sampled"].as_u64().is_some_and(|count| count > 700), "{health:#}");
    assert_eq!(health["ns_not_sampled"], summary["ns_not_sampled"]);
}

/// Starts the program, which then waits for a line.
fn waiting(room: &Room, is_of_user: bool) -> Child {
    let mut command = match is_of_user {
        true => room.of_user("own", &["waits", "1000"]),
        false => {
            let mut command = Command::new(room.path("own"));
            command.args(["waits", "1000"]);
            command
        }
    };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("piped")).read_line(&mut line).expect("it says so");
    assert_eq!(line, "ready\n");
    child
}

#[test]
fn root_a_running_process_of_the_user_is_attached_to_and_one_of_another_user_is_refused() {
    let room = Room::new();
    for option in ["-p", "-t"] {
        let mut child = waiting(&room, true);
        let id = child.id().to_string();
        let mut recorder =
            room.of_user("icecore-record", &["-F", "999", "--force", "-o", "r.icecore", option, &id]);
        let recorder = recorder.stderr(Stdio::piped()).spawn().expect("it runs");
        icecore_tests::machine::wait_for_session(&room.path("r.icecore"));
        child.stdin.take().expect("piped").write_all(b"go\n").expect("it reads");
        assert!(child.wait().expect("ours").success());
        // The recording ends with its target.
        let output = recorder.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_shares(&room.samples(), &[("ten", 0.1), ("thirty", 0.3), ("sixty", 0.6)]);
        assert_eq!(room.json("info")["receipt"]["end_reason"], "targets gone");
        std::fs::remove_file(room.path("r.icecore")).expect("there");
    }
    let mut of_root = waiting(&room, false);
    let id = of_root.id().to_string();
    let output = room.record(&["-p", &id, "-o", "other.icecore"]);
    let said = text(&output.stderr);
    drop(of_root.stdin.take());
    of_root.wait().expect("ours");
    assert_eq!(output.status.code(), Some(2), "{said}");
    for word in [&format!("cannot sample process {id}"), "another user", "setcap"] {
        assert!(said.contains(word), "{said}");
    }
    assert!(!room.path("other.icecore").exists());
}

#[test]
fn root_what_needs_privileges_is_refused_and_what_does_not_is_named() {
    let room = Room::new();
    for (options, what) in [
        (&["-a"][..], "-a needs that"),
        (&["--off-cpu", "--", "true"], "--off-cpu needs that"),
        (&["-K", "--", "true"], "-K needs that"),
    ] {
        let output = room.record(&[&["-d", "1"], options].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        for word in [what, "cannot load the sampling programs", "cap_bpf", "a command, or processes"] {
            assert!(said.contains(word), "{said}");
        }
    }
    let asked = room.record(&["doctor", "--json"]);
    let document: Value = serde_json::from_slice(&asked.stdout).expect("JSON");
    assert_eq!(
        (&document["verdict"], &document["can"]),
        (&"impossible".into(), &serde_json::json!(["own_processes"]))
    );
    let asked = text(&room.record(&["doctor"]).stdout);
    assert!(asked.contains("It can record a command, and processes of its own"), "{asked}");
}

#[test]
fn root_samples_without_room_are_counted() {
    let room = Room::new();
    // A recorder that is stopped empties no queue, and the smallest queues have room for seven samples.
    let mut recorder = room.of_user(
        "icecore-record",
        &["-F", "999", "--ring", "256K", "--force", "-o", "r.icecore", "--", "./own", "threads", "1500"],
    );
    let recorder = recorder.stderr(Stdio::piped()).spawn().expect("it runs");
    icecore_tests::machine::wait_for_session(&room.path("r.icecore"));
    std::thread::sleep(Duration::from_millis(200));
    // setpriv became the recorder.
    icecore_tests::machine::send(19, recorder.id());
    std::thread::sleep(Duration::from_millis(700));
    icecore_tests::machine::send(18, recorder.id());
    let output = recorder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let health = room.json("health");
    let lost = health["lost"]["ring_full_sample"].as_u64().expect("some are lost");
    let sampled = room.samples().len() as u64;
    println!("{sampled} samples, {lost} lost: {}", health["lost"]);
    assert!(lost > 100, "{lost}");
    // Together they are the two threads' three seconds.
    let together = (sampled + lost) as f64 / 999.0;
    assert!((2.7..3.3).contains(&together), "{together} s of 3 s");
}

/// Asserts that samples of a program that computes weigh the sampled time, up to the last one: the session ends later than the program. Others may
/// have had its CPU for a part of the time.
fn assert_weights(samples: &[Sample], path: &Path) {
    let last = samples[samples.len() - 1].number("time_ns");
    let sampled: u64 =
        stretches(path).iter().map(|(from, to, _)| (*to).min(last).saturating_sub(*from)).sum();
    let share = weight(samples) as f64 / sampled as f64;
    println!("samples weigh {share:.3} of the sampled {:.3} s", sampled as f64 / 1e9);
    assert!((0.75..1.02).contains(&share), "{share} of {sampled} ns");
}

#[test]
fn root_parts_of_the_time_weigh_what_was_sampled_without_privileges_too() {
    let room = Room::new();
    room.recorded(&["--duty", "300ms/1s"], "shares", "3200");
    let (path, samples) = (room.path("r.icecore"), room.samples());
    let stretches = stretches(&path);
    assert_eq!(stretches.len(), 4, "{stretches:?}");
    assert_none_in_a_pause(&samples, &stretches);
    assert_weights(&samples, &path);
    assert_shares(&samples, &[("ten", 0.1), ("thirty", 0.3), ("sixty", 0.6)]);
}

#[test]
fn root_a_user_stops_and_starts_what_is_recorded() {
    let room = Room::new();
    let mut recorder = room.of_user(
        "icecore-record",
        &["-F", "999", "--control", "socket", "-o", "r.icecore", "--", "./own", "shares", "4000"],
    );
    let recorder = recorder.stderr(Stdio::piped()).spawn().expect("it runs");
    let ctl = |args: &[&str]| room.record(&[&["ctl"], args, &["--json", "--socket", "socket"]].concat());
    wait_until("it records", || text(&ctl(&["status"]).stdout).contains("\"recording\""));
    std::thread::sleep(Duration::from_millis(500));
    assert!(text(&ctl(&["stop"]).stdout).contains("paused"));
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(text(&ctl(&["status"]).stdout).contains("\"paused\""));
    assert!(text(&ctl(&["start"]).stdout).contains("as often as was asked for"));
    let refused = text(&ctl(&["rate", "99"]).stderr);
    assert!(refused.contains("keeps its rate"), "{refused}");
    let output = recorder.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let (path, samples) = (room.path("r.icecore"), room.samples());
    let stretches = stretches(&path);
    let [(_, pause, _), (start, ..)] = stretches[..] else { panic!("{stretches:?}") };
    assert!(start - pause > 1_400_000_000, "{stretches:?}");
    assert_none_in_a_pause(&samples, &stretches);
    assert_weights(&samples, &path);
    assert_shares(&samples, &[("ten", 0.1), ("thirty", 0.3), ("sixty", 0.6)]);
}
