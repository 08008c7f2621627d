//! `icecore-record --ship`: finished files go to an archive, which may be away, slow or cut off. Sampling goes on, each sample arrives once,
//! and what waits is bounded.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use icecore_tests::bucket::{Server, cutting, finds};
use icecore_tests::machine::{
    Host, copy, json, probed, program, record, report_output, send, target, text, wait_until,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::rotation::{files, samples};

const INTERRUPT: i32 = 2;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;
const CONTINUE: i32 = 18;
const STOP: i32 = 19;
const NOBODY: &str = "65534";

/// A folder with `out`, into which a recorder writes, and `to`, its archive.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        for name in ["out", "to"] {
            fs::create_dir(dir.path().join(name)).expect("room");
        }
        Self(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A recorder that ships.
    fn recorder(&self, to: &str, options: &[&str]) -> Command {
        let mut recorder = record();
        recorder.args(["--no-cache", "--flush", "100ms", "--ship", to]).args(options);
        recorder.arg("--control").arg(self.at("socket")).arg("-o").arg(self.at("out/r.icecore"));
        recorder.stderr(Stdio::piped());
        recorder
    }

    fn status(&self) -> Value {
        let socket = self.at("socket");
        let output = record().args(["ctl", "status", "--json", "--socket"]).arg(socket).output();
        serde_json::from_str(&text(&output.expect("it runs").stdout)).unwrap_or_default()
    }

    fn shipped(&self, key: &str) -> u64 {
        self.status()["ship"][key].as_u64().unwrap_or(0)
    }

    /// Records a program that calls a function about once in a millisecond, so many times, in files of 300 ms.
    fn calls(&self, to: &str, sftp: &str, count: u32) -> Child {
        self.calling(to, count).env("ICECORE_SFTP", sftp).spawn().expect("it runs")
    }

    fn calling(&self, to: &str, count: u32) -> Command {
        let program = probed();
        let event = format!("uprobe:{}:sized,weight=arg1", program.display());
        let mut recorder = self.recorder(to, &["-e", &event, "--max-event-rate", "0", "--rotate", "300ms"]);
        recorder.arg("--").arg(&program).arg("paced").arg(count.to_string());
        recorder
    }

    /// Checks that each of so many calls is in one file of the archive, and that nothing is left here.
    fn assert_calls(&self, count: u64, output: &Output) {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(files(&self.at("out")).is_empty(), "{said}");
        let arrived = files(&self.at("to"));
        let mut calls: Vec<u64> = Vec::new();
        for file in &arrived {
            assert_eq!(json("summary", file)["lost"].as_u64(), Some(0));
            calls.extend(samples(file, &[]).iter().map(|sample| sample.number("weight")));
        }
        calls.sort_unstable();
        assert_eq!(calls, (1..=count).collect::<Vec<_>>(), "each call is in one file: {said}");
        assert_eq!(said.matches("has arrived at").count(), arrived.len(), "none twice: {said}");
    }
}

fn end(recorder: Child) -> Output {
    recorder.wait_with_output().expect("it ends")
}

/// Returns the process that ships the files of a recorder.
fn shipper(recorder: &Child) -> u32 {
    let list =
        Command::new("pgrep").args(["-P", &recorder.id().to_string(), "-x", "icecore-report"]).output();
    text(&list.expect("procps").stdout).trim().parse().expect("one process")
}

#[test]
fn root_each_call_arrives_once_while_the_archive_is_away_and_while_it_does_not_answer() {
    let place = Place::new();
    let (to, away) = (place.at("to"), place.at("away"));
    let recorder = place.calls(to.to_str().expect("UTF-8"), "", 12_000);
    wait_until("files arrive", || place.shipped("arrived") > 0);
    fs::rename(&to, &away).expect("ours");
    wait_until("files wait", || place.shipped("waiting") > 2);
    let status = place.status();
    let error = status["ship"]["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains("there is no folder") && !to.exists(), "{status}");
    assert!(status["ship"]["waiting_bytes"].as_u64() > Some(0), "{status}");
    fs::rename(&away, &to).expect("ours");
    wait_until("they arrive", || place.shipped("waiting") < 2);
    assert!(place.status()["ship"]["error"].is_null());
    let shipper = shipper(&recorder);
    send(STOP, shipper);
    let before = place.status()["samples"].as_u64();
    wait_until("files wait", || place.shipped("waiting") > 2);
    let status = place.status();
    assert!(status["samples"].as_u64() > before, "sampling goes on: {status}");
    assert!(status["ship"]["sending_s"].as_f64() > Some(0.5), "{status}");
    send(CONTINUE, shipper);
    let output = end(recorder);
    place.assert_calls(12_000, &output);
    let said = text(&output.stderr);
    assert_eq!(said.matches("it stays here, and the recorder tries again").count(), 1, "told once: {said}");
}

#[test]
fn root_each_call_arrives_once_at_another_host_whose_connections_are_cut() {
    let (place, mut host) = (Place::new(), Host::start());
    let to = place.at("to");
    let recorder = place.calls(&host.folder(&to), &host.sftp(), 12_000);
    for _ in 0..3 {
        let arrived = place.shipped("arrived");
        wait_until("files arrive", || place.shipped("arrived") > arrived);
        host.cut();
        wait_until("it fails", || place.status()["ship"]["error"].is_string());
        host.begin();
    }
    let output = end(recorder);
    place.assert_calls(12_000, &output);
}

#[test]
fn root_each_call_arrives_once_in_a_bucket_whose_connections_are_cut() {
    let (place, server) = (Place::new(), Server::start());
    // Every other connection ends before a file is over.
    let (cut_at, cut) =
        cutting(server.address, |number| [if number % 2 == 0 { 3_000 } else { u64::MAX }, u64::MAX]);
    let mut recorder = place.calling("s3://fleet/web", 6_000);
    finds(&mut recorder, cut_at);
    let output = end(recorder.spawn().expect("it runs"));
    let cut = cut.load(Ordering::Relaxed);
    eprintln!("{cut} connections were cut");
    assert!(cut > 3, "{cut}");
    server.download("fleet", &place.at("to"));
    place.assert_calls(6_000, &output);
}

#[test]
fn root_what_waits_is_bounded_and_each_file_that_goes_is_told() {
    const MOST: u64 = 1 << 20;
    let place = Place::new();
    let nowhere = place.at("nowhere");
    let options = ["-a", "-F", "997", "--rotate", "300ms", "--keep-bytes", "1M"];
    let mut recorder = place.recorder(nowhere.to_str().expect("UTF-8"), &options);
    let said = place.at("said");
    recorder.stderr(fs::File::create(&said).expect("room"));
    let mut recorder = recorder.spawn().expect("it runs");
    let said = || fs::read_to_string(&said).expect("it is there");
    let sizes =
        || files(&place.at("out")).iter().flat_map(fs::metadata).map(|meta| meta.len()).collect::<Vec<_>>();
    let (mut most, mut largest) = (0, 0);
    wait_until("files have gone", || {
        let sizes = sizes();
        (most, largest) =
            (most.max(sizes.iter().sum()), largest.max(sizes.iter().copied().max().unwrap_or(0)));
        place.shipped("removed_unsent") > 5
    });
    // Between two looks, one file is finished and another one begins.
    assert!(most <= MOST + 2 * largest, "{most} bytes, and the largest file has {largest}");
    send(INTERRUPT, recorder.id());
    wait_until("it waits for the archive", || said().contains("at most 60 s; Ctrl-C ends it"));
    let waiting = place.status();
    let begun = Instant::now();
    send(INTERRUPT, recorder.id());
    let status = recorder.wait().expect("it ends");
    let said = said();
    assert!(begun.elapsed() < Duration::from_secs(5), "the second Ctrl-C ends the wait: {said}");
    assert_eq!(status.code(), Some(0), "{said}");
    let gone = said.matches("before it has arrived at").count() as u64;
    assert_eq!(Some(gone), waiting["ship"]["removed_unsent"].as_u64(), "{said}");
    let left = files(&place.at("out"));
    assert_eq!(Some(left.len() as u64), waiting["ship"]["waiting"].as_u64(), "{said}");
    assert!(
        said.contains(&format!("error: {} files (", left.len())) && said.contains("have not arrived"),
        "{said}"
    );
    // As it says.
    fs::create_dir(&nowhere).expect("room");
    let mut words = vec!["ship".into(), nowhere.clone().into_os_string()];
    words.extend(left.iter().map(|file| file.clone().into_os_string()));
    assert!(report_output(&words).status.success());
    assert_eq!(files(&nowhere).len(), left.len());
}

#[test]
fn root_what_a_killed_recorder_has_left_is_shipped_by_the_next_one() {
    let place = Place::new();
    let to = place.at("to");
    let nowhere = place.at("nowhere");
    let options = ["-a", "--rotate", "300ms"];
    let mut recorder = place.recorder(nowhere.to_str().expect("UTF-8"), &options);
    let mut recorder = recorder.spawn().expect("it runs");
    wait_until("files wait", || place.shipped("waiting") > 3);
    send(KILL, recorder.id());
    let _ = recorder.wait();
    let contents = |folder: &Path| -> BTreeMap<_, _> {
        let read =
            |path: &PathBuf| (path.file_name().expect("a name").to_owned(), fs::read(path).expect("ours"));
        files(folder).iter().map(read).collect()
    };
    let left = contents(&place.at("out"));
    // One has arrived, and its recorder was killed before it removed it.
    let (name, bytes) = left.iter().next().expect("files");
    fs::write(to.join(name), bytes).expect("room");
    let options = ["-a", "--rotate", "1h", "-d", "1"];
    let output = place.recorder(to.to_str().expect("UTF-8"), &options).output().expect("it runs");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(files(&place.at("out")).is_empty(), "{said}");
    let arrived = contents(&to);
    assert_eq!(arrived.len(), left.len() + 1, "{said}");
    assert!(left.iter().all(|(name, bytes)| arrived.get(name) == Some(bytes)), "{said}");
}

#[test]
fn root_files_stay_if_the_program_that_ships_them_is_gone() {
    let place = Place::new();
    let options = ["-a", "--rotate", "300ms"];
    let mut recorder = place.recorder(place.at("to").to_str().expect("UTF-8"), &options);
    let recorder = recorder.spawn().expect("it runs");
    wait_until("files arrive", || place.shipped("arrived") > 0);
    send(KILL, shipper(&recorder));
    wait_until("files wait", || place.shipped("waiting") > 2);
    let error = place.status()["ship"]["error"].as_str().unwrap_or_default().to_owned();
    assert_eq!(error, "the program that ships has ended: start the recorder again");
    send(TERMINATE, recorder.id());
    let output = end(recorder);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let left = files(&place.at("out"));
    assert!(left.len() > 2 && said.contains(&format!("error: {} files (", left.len())), "{said}");
    left.iter().for_each(|file| _ = samples(file, &[]));
}

#[test]
fn root_a_recording_of_one_file_is_shipped_at_its_end() {
    let place = Place::new();
    let (to, here) = (place.at("to"), place.at("out/r.icecore"));
    let to_text = to.to_str().expect("UTF-8");
    let there = to.join("r.icecore");
    let run = |options: &[&str]| {
        let output = place.recorder(to_text, options).output().expect("it runs");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        said
    };
    let said = run(&["-a", "-d", "0.5"]);
    assert!(!here.exists() && samples(&there, &[]).len() < 1_000_000, "{said}");
    fs::remove_file(&there).expect("ours");
    run(&["-a", "-d", "0.5", "--keep", "1"]);
    assert_eq!(fs::read(&here).expect("kept"), fs::read(&there).expect("arrived"));
    // Another file has the name there.
    let before = fs::read(&there).expect("arrived");
    let mut recorder = place.recorder(to_text, &["-a", "-d", "0.5", "--force"]);
    let recorder = recorder.spawn().expect("it runs");
    wait_until("it is refused", || place.status()["ship"]["error"].is_string());
    send(INTERRUPT, recorder.id());
    let output = end(recorder);
    let said = text(&output.stderr);
    assert!(said.contains("another file of this name is there") && said.contains("1 file ("), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(here.exists() && fs::read(&there).expect("there") == before);
}

#[test]
fn root_what_was_held_in_memory_is_shipped_when_it_is_written() {
    let place = Place::new();
    let to = place.at("to");
    let mut recorder = place.recorder(to.to_str().expect("UTF-8"), &["-a", "--flight", "2s"]);
    let recorder = recorder.spawn().expect("it runs");
    wait_until("it records", || place.status()["samples"].as_u64() > Some(10));
    for number in 1..=2 {
        let ctl = record().args(["ctl", "snapshot", "--socket"]).arg(place.at("socket")).output();
        assert!(ctl.expect("it runs").status.success());
        wait_until("it arrives", || files(&to).len() == number && place.shipped("arrived") == number as u64);
    }
    send(TERMINATE, recorder.id());
    let output = end(recorder);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(files(&place.at("out")).is_empty());
    files(&to).iter().for_each(|file| _ = samples(file, &[]));
}

#[test]
fn root_what_cannot_be_shipped_is_refused_before_anything_is_written() {
    let place = Place::new();
    for (to, why) in [("ssh://nowhere", "names no folder"), ("s3://", "names no bucket")] {
        let output = place.recorder(to, &["-a", "-d", "1"]).output().expect("it runs");
        let said = text(&output.stderr);
        assert!(
            output.status.code() == Some(2) && said.contains(why) && said.contains("cannot ship files"),
            "{said}"
        );
    }
    let output = record().args(["-a", "-d", "1", "--ship", "to", "-o", "-"]).output().expect("it runs");
    assert!(text(&output.stderr).contains("cannot ship what is written to stdout"));
    // The program that ships is missing.
    copy(&program("icecore-record"), &place.at("icecore-record"));
    let mut alone = Command::new(place.at("icecore-record"));
    let output = alone.args(["-a", "-d", "1", "--ship", "to", "-o"]).arg(place.at("out/x")).output();
    let said = text(&output.expect("it runs").stderr);
    assert!(said.contains("icecore-report` is missing; install it there"), "{said}");
    assert!(files(&place.at("out")).is_empty());
}

#[test]
fn a_recorder_without_privileges_ships_as_well() {
    let place = Place::new();
    for name in ["", "out", "to"] {
        fs::set_permissions(place.at(name), fs::Permissions::from_mode(0o777)).expect("ours");
    }
    for name in ["icecore-record", "icecore-report"] {
        copy(&program(name), &place.at(name));
    }
    let busy = place.at("busy");
    copy(&target(), &busy);
    let is_root = text(&Command::new("id").arg("-u").output().expect("id runs").stdout).trim() == "0";
    let mut run = Command::new(if is_root { "setpriv" } else { "env" });
    if is_root {
        run.args([
            "--reuid",
            NOBODY,
            "--regid",
            NOBODY,
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
        ]);
    }
    run.arg(place.at("icecore-record"))
        .args(["--rotate", "500ms", "-F", "499", "--ship"])
        .arg(place.at("to"));
    let output =
        run.arg("-o").arg(place.at("out/r.icecore")).arg("--").arg(&busy).args(["shares", "2500"]).output();
    let output = output.expect("util-linux");
    let said = text(&output.stderr);
    if said.contains("perf_event_paranoid") && output.status.code() == Some(2) {
        icecore_tests::machine::skip(&said);
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(files(&place.at("out")).is_empty(), "{said}");
    let arrived = files(&place.at("to"));
    assert!(arrived.len() >= 3, "{said}");
    let shown = |file: &PathBuf| json("summary", file)["samples"].as_u64().unwrap_or(0);
    assert!(arrived.iter().map(shown).sum::<u64>() > 500, "{said}");
}
