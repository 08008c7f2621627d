//! Reads a recording while it is being written.

use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use icecore_tests::machine::{monotonic_ns, record, report, send, wait_for_session, wait_until};
use serde_json::Value;

use super::remains::{Remains, left_in, number};
use super::{Churn, alone, record_often};

/// The default limit of the recorder, and half a second for making a copy.
const USUALLY_LATE_NS: u64 = 2_500_000_000;
/// The same limit on a busy machine.
const LATE_NS: u64 = 10_000_000_000;

/// Starts a recorder with its default flush interval.
fn start(churn: &Churn, hz: &str, path: &Path) -> Child {
    let mut recorder = record();
    recorder.args(["-q", "-F", hz, "-p", &churn.0.id().to_string(), "-o"]).arg(path);
    recorder.stderr(Stdio::inherit()).spawn().expect("the recorder runs")
}

/// Asks the recorder to end, and returns the recording.
fn finish(mut recorder: Child, path: &Path) -> Box<Remains> {
    send(libc::SIGINT, recorder.id());
    assert!(recorder.wait().expect("it ends").success());
    let remains = left_in(path).some();
    assert!(remains.recording.is_closed() && remains.recording.damage().is_empty());
    remains
}

/// Returns the contents of a copy of the file; `None` while it has no session.
fn copy(path: &Path, to: &Path) -> Option<Box<Remains>> {
    std::fs::copy(path, to).ok().filter(|bytes| *bytes > 64)?;
    Some(left_in(to).some()).filter(|remains| remains.start_ns().is_some())
}

#[test]
fn root_samples_reach_the_file_though_nothing_happens_after_them() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let churn = Churn::start("nap");
    let recorder = start(&churn, "99", &path);
    let copied = || copy(&path, &dir.path().join("copy.icecore"));
    wait_for_session(&path);
    // The program is busy for a moment, and then sleeps for ever.
    send(libc::SIGUSR1, churn.0.id());
    wait_until("what was sampled is in the file", || copied().is_some_and(|copy| copy.samples() > 0));
    // The copy contains everything.
    let early = left_in(&dir.path().join("copy.icecore")).some().newest_ns();
    let late = finish(recorder, &path).newest_ns();
    assert!(early > late.map(|ns| ns - LATE_NS), "{early:?}, {late:?}");
}

#[test]
fn root_rare_samples_are_in_the_file_seconds_after_they_were_taken() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let churn = Churn::start("doze");
    let recorder = start(&churn, "5", &path);
    let until = Instant::now() + Duration::from_secs(20);
    let mut copies = Vec::new();
    while Instant::now() < until {
        let now_ns = monotonic_ns();
        let copied = copy(&path, &dir.path().join("copy.icecore"));
        copies.extend(copied.map(|copy| (now_ns, copy.samples(), times(&dir.path().join("copy.icecore")))));
        std::thread::sleep(Duration::from_millis(250));
    }
    let whole = finish(recorder, &path);
    let all = times(&path);
    assert!(all.len() > 2 && whole.samples() == all.len() as u64, "{} samples", all.len());
    let start_ns = whole.start_ns().expect("it was closed");
    let older =
        |late_ns: u64, now_ns: u64| all.iter().filter(|at| start_ns + **at + late_ns < now_ns).count();
    let late = copies.iter().filter(|copy| copy.2.len() < older(USUALLY_LATE_NS, copy.0)).count();
    assert!(late * 2 <= copies.len(), "{late} of {} copies lack what was promised", copies.len());
    for (now_ns, samples, copied) in &copies {
        assert_eq!(*samples, copied.len() as u64);
        let old = older(LATE_NS, *now_ns);
        assert!(copied.len() >= old && all.starts_with(copied), "{old} are old, {copied:?} of {all:?}");
    }
    let written: Vec<u64> = copies.iter().map(|(_, samples, _)| *samples).collect();
    eprintln!("{} samples, in the copies {written:?}", all.len());
    assert!(copies.last().is_some_and(|(_, samples, _)| *samples > 0), "{written:?}");
}

/// Returns the times of all samples, from the start of the session.
fn times(path: &Path) -> Vec<u64> {
    let text = report(&["samples".as_ref(), path.as_os_str(), "--json".as_ref()]);
    let row = |line: &str| serde_json::from_str::<Value>(line).expect("a JSON object a line");
    text.lines().map(|line| number(&row(line)["time_ns"])).collect()
}

/// Returns the number of distinct values in an ordered list.
fn steps(seen: &[u64]) -> usize {
    seen.chunk_by(|a, b| a == b).count()
}

#[test]
fn root_reports_that_read_along_see_it_grow_and_do_not_disturb() {
    let _alone = alone();
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let churn = Churn::start("crowd");
    let recorder = record_often("997", &churn, &path).spawn().expect("the recorder runs");
    let deadline = Instant::now() + Duration::from_secs(120);
    let read_along = || {
        let mut seen: Vec<u64> = Vec::new();
        while seen.last() < Some(&3000) || steps(&seen) < 3 {
            assert!(Instant::now() < deadline, "it does not grow: {seen:?}");
            if std::fs::metadata(&path).is_ok_and(|meta| meta.len() > 64) {
                let text = report(&["summary".as_ref(), path.as_os_str(), "--json".as_ref()]);
                let summary: Value = serde_json::from_str(&text).expect("the report prints JSON");
                assert_eq!(summary["closed"], false);
                seen.push(number(&summary["samples"]));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        seen
    };
    let seen: Vec<Vec<u64>> = std::thread::scope(|scope| {
        let readers = [scope.spawn(read_along), scope.spawn(read_along)];
        readers.into_iter().map(|reader| reader.join().expect("it says above what is wrong")).collect()
    });
    let remains = finish(recorder, &path);
    for seen in &seen {
        assert!(seen.is_sorted(), "what was there is gone: {seen:?}");
        assert!(seen.last() <= Some(&remains.samples()), "{seen:?}");
    }
    assert_eq!(remains.summary["lost"], 0);
    eprintln!(
        "two reports read along {} times, {} samples",
        seen[0].len() + seen[1].len(),
        remains.samples()
    );
}
