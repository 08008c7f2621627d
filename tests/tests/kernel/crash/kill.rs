//! Kills the recorder at random moments and at every write.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_tests::machine::{failing_disk, monotonic_ns, send, text};

use super::remains::{Left, left_in};
use super::{Churn, FLUSH_NS, Random, Trying, alone, in_lanes, record_often};

const SEED: u64 = 0x1ce_c0de;
const KILLS: u64 = 200;

/// Far more time than a recorder needs to name functions for the first time, and than a busy disk needs to take a block.
const SLACK_NS: u64 = 20_000_000_000;
/// The time that half of the recorders need for that, unless the machine is so slow that they take longer to begin.
const USUAL_SLACK_NS: u64 = 250_000_000;

/// When the recorder is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    /// Before it samples.
    Start,
    /// While it samples.
    Middle,
    /// After it was asked to end.
    End,
}

/// The progress of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reached {
    NoFile,
    NoHeader,
    Header,
    Session,
    Samples,
    Receipt,
    Closed,
}

/// The outcome of one recording.
struct Killed {
    phase: Phase,
    reached: Reached,
    torn: bool,
    /// The recorder had ended before it was killed.
    well: bool,
    /// The age of the newest sample when the recorder was killed.
    missing_ns: Option<u64>,
}

/// The longest delays, in µs, after which a recorder is killed that begins, or was asked to end. They are measured once; then the
/// recorders themselves adjust them, so that half of them come that far, however slow the disk has become.
#[derive(Debug)]
struct Pace {
    start: AtomicU64,
    end: AtomicU64,
}

#[test]
fn root_killed_at_any_moment_a_recording_keeps_all_but_its_last_interval() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    let pace = pace(&churn);
    let slack_ns = USUAL_SLACK_NS.max(pace.start.load(Relaxed) * 1000);
    let killed = in_lanes(0, |number| (number < KILLS).then(|| kill(number, &churn, &pace)));

    let mut fell: BTreeMap<(Phase, Reached), u32> = BTreeMap::new();
    killed.iter().for_each(|killed| *fell.entry((killed.phase, killed.reached)).or_default() += 1);
    let torn = killed.iter().filter(|killed| killed.torn).count();
    let mut missing_ns: Vec<u64> = killed.iter().filter_map(|killed| killed.missing_ns).collect();
    missing_ns.sort_unstable();
    let median_ns = missing_ns[missing_ns.len() / 2];
    let most_ns = missing_ns[missing_ns.len() - 1];
    eprintln!(
        "{pace:?}, fell {fell:?}, {torn} torn, {median_ns} ns missing in the middle, {most_ns} at most"
    );

    // Anything may delay one recorder; what delays half of them is their own fault.
    assert!(median_ns <= FLUSH_NS + slack_ns, "{median_ns} ns are missing in the middle");
    let count = |wanted: fn(&Killed) -> bool| killed.iter().filter(|killed| wanted(killed)).count();
    assert!(count(|k| k.phase == Phase::Start && k.reached < Reached::Session) > 3, "{fell:?}");
    assert_eq!(count(|k| k.phase == Phase::Middle && k.reached == Reached::Samples), 120, "{fell:?}");
    assert!(count(|k| k.phase == Phase::End && !k.well) > 5, "{fell:?}");
}

/// Measures the delays once, and checks that recordings are right if nobody kills the recorder.
fn pace(churn: &Churn) -> Pace {
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let begun = Instant::now();
    let mut recorder = record_often("997", churn, &path).spawn().expect("the recorder runs");
    wait_for_samples(&mut recorder, &path);
    let start = micros(begun.elapsed());
    let asked = Instant::now();
    send(libc::SIGINT, recorder.id());
    assert!(recorder.wait().expect("it ends").success());
    let end = micros(asked.elapsed());
    let remains = left_in(&path).some();
    assert!(remains.recording.is_closed() && remains.samples() > 0);
    Pace { start: start.into(), end: end.into() }
}

fn micros(duration: Duration) -> u64 {
    duration.as_micros() as u64
}

/// Waits until the file has samples.
fn wait_for_samples(recorder: &mut Child, path: &Path) {
    let has_samples =
        |recording: Recording| recording.entries().iter().any(|e| e.header.kind == Kind::SAMPLES);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !Recording::open(path).is_ok_and(has_samples) {
        let ended = recorder.try_wait().expect("it is ours");
        assert!(ended.is_none() && Instant::now() < deadline, "the recorder does not begin: {ended:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Records, and kills the recorder at a random moment.
fn kill(number: u64, churn: &Churn, pace: &Pace) -> Killed {
    let mut random = Random::new(SEED, number);
    let phase = [Phase::Start, Phase::Middle, Phase::Middle, Phase::Middle, Phase::End][number as usize % 5];
    let mut up_to = |micros: u64| Duration::from_micros(random.below(micros));
    let (first, second) = match phase {
        Phase::Start => (up_to(pace.start.load(Relaxed)), Duration::ZERO),
        Phase::Middle => (up_to(700_000), Duration::ZERO),
        Phase::End => (up_to(200_000), up_to(pace.end.load(Relaxed))),
    };
    let _trying = Trying(format!("kill {number} of seed {SEED:#x}, {phase:?}, after {first:?} + {second:?}"));

    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let mut recorder = record_often("997", churn, &path).spawn().expect("the recorder runs");
    if phase != Phase::Start {
        wait_for_samples(&mut recorder, &path);
    }
    std::thread::sleep(first);
    if phase == Phase::End {
        send(libc::SIGINT, recorder.id());
        std::thread::sleep(second);
    }
    let held_up_ns = held_up_ns(recorder.id());
    let killed_ns = monotonic_ns();
    recorder.kill().expect("it is ours");
    let output = recorder.wait_with_output().expect("it was killed");
    let well = phase == Phase::End && output.status.success();
    assert!(well || is_killed(output.status), "{}: {}", output.status, text(&output.stderr));

    let (reached, torn, missing_ns) = look(&path, killed_ns);
    assert!(!well || reached == Reached::Closed, "it said that all went well");
    match phase {
        Phase::Start => lead(&pace.start, reached >= Reached::Session),
        Phase::Middle => {}
        Phase::End => lead(&pace.end, well),
    }
    assert!(phase == Phase::End || reached < Reached::Receipt, "nobody asked for an end");
    let missing_ns = missing_ns.filter(|_| phase != Phase::End);
    assert!(missing_ns.is_none_or(|ns| ns <= FLUSH_NS + SLACK_NS + held_up_ns), "{missing_ns:?} ns");
    let missing_ns = missing_ns.filter(|_| phase == Phase::Middle);
    Killed { phase, reached, torn, well, missing_ns }
}

/// Makes the next delay shorter if this recorder was faster than its killer, otherwise longer.
fn lead(delay: &AtomicU64, was_faster: bool) {
    let micros = delay.load(Relaxed);
    delay.store(if was_faster { micros * 3 / 4 } else { micros * 4 / 3 }, Relaxed);
}

/// Returns how long the threads of a process have waited for a CPU, all together: a busy machine is to blame for this time.
fn held_up_ns(tgid: u32) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten();
    let waited = threads.filter_map(|thread| {
        // The file has "time on a CPU, time waiting for one, time slices".
        let schedstat = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        schedstat.split_whitespace().nth(1)?.parse::<u64>().ok()
    });
    waited.sum()
}

/// Returns the progress of a file, whether its last block is torn, and how much older its newest sample is than the end of its
/// recorder.
fn look(path: &Path, killed_ns: u64) -> (Reached, bool, Option<u64>) {
    let remains = match left_in(path) {
        Left::NoFile => return (Reached::NoFile, false, None),
        Left::NoHeader => return (Reached::NoHeader, false, None),
        Left::Some(remains) => remains,
    };
    let reached = match (remains.start_ns(), remains.newest_ns()) {
        _ if remains.recording.is_closed() => Reached::Closed,
        _ if remains.has_receipt() => Reached::Receipt,
        (_, Some(_)) => Reached::Samples,
        (Some(_), None) => Reached::Session,
        (None, None) => Reached::Header,
    };
    let last_ns = remains.newest_ns().or(remains.start_ns());
    let missing_ns = last_ns.map(|ns| killed_ns.saturating_sub(ns));
    (reached, !remains.recording.damage().is_empty(), missing_ns)
}

fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(libc::SIGKILL)
}

#[test]
fn root_killed_in_front_of_and_inside_every_write_a_recording_keeps_the_blocks_before() {
    let _alone = alone();
    let churn = Churn::start("crowd");
    // The number of writes varies. Those of the end are counted from the first of them.
    let of_end = format!("@{}", Kind::RECEIPT.0);
    let [all, end] = ["", &of_end].map(|from| {
        let mut reached = in_lanes(1, |number| kill_at_write(number, from, &churn));
        reached.sort_unstable();
        eprintln!("{} kills: {reached:?}", reached.len());
        reached
    });
    // The first write is the header, the second the session.
    assert_eq!((all[0].1, all[1].1), (Reached::NoHeader, Reached::Header));
    assert_eq!((end[0].1, end[1].1), (Reached::Samples, Reached::Receipt));
    for (kills, wanted) in [(&all, Reached::Session), (&all, Reached::Samples), (&end, Reached::Closed)] {
        assert!(kills.iter().any(|(_, reached)| *reached == wanted), "{wanted:?}: {kills:?}");
    }
}

/// Kills the recorder before its write with this number, or in the middle of it; `None` if the recorder ends earlier.
fn kill_at_write(number: u64, from: &str, churn: &Churn) -> Option<(u64, Reached)> {
    let how = if number.is_multiple_of(2) { "kill" } else { "torn" };
    let _trying = Trying(format!("{how}:{number}{from}"));
    let dir = tempfile::tempdir().expect("a folder for temporary files");
    let path = dir.path().join("r.icecore");
    let mut recorder = record_often("997", churn, &path);
    // The recording must have had samples before its end.
    let duration = if from.is_empty() { "0.3" } else { "1" };
    recorder
        .args(["-d", duration])
        .env("LD_PRELOAD", failing_disk())
        .env("DISK_FAILS", format!("{how}:{number}{from}"));
    let output = recorder.output().expect("the recorder runs");
    let (reached, torn, _) = look(&path, 0);
    if output.status.success() {
        assert_eq!((reached, torn), (Reached::Closed, false));
        return None;
    }
    assert!(is_killed(output.status), "{}: {}", output.status, text(&output.stderr));
    assert!(!torn || how == "torn", "nothing is half written");
    Some((number, reached))
}
