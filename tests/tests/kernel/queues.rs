//! Threads that wait for a CPU which another one keeps for itself, recorded through real eBPF. They starve other tests, so `tests/run.py`
//! runs them alone.

use std::process::Command;
use std::sync::{Mutex, PoisonError};

use icecore_tests::machine::{Recorded, Sample, queues, text};

const WAITS: &str = "off-cpu,run-delay";

/// Held by the test whose program keeps CPU 0.
static CPU: Mutex<()> = Mutex::new(());

/// Returns weights of waits by event, ns, of the threads with a name.
fn weights(samples: &[Sample], comm: &str) -> [u64; 2] {
    ["off-cpu", "run-delay"].map(|event| {
        let is_one = |sample: &&Sample| sample.text("comm") == comm && sample.text("event") == event;
        samples.iter().filter(is_one).map(|sample| sample.number("weight")).sum()
    })
}

#[test]
fn root_a_thread_that_is_moved_while_it_waits_for_a_cpu_waits_for_it_all_the_time() {
    let _alone = CPU.lock().unwrap_or_else(PoisonError::into_inner);
    for wakers in [&[][..], &["--wakers"]] {
        let options = [&["--off-cpu-only=1ms"], wakers].concat();
        let recorded = Recorded::new(&options, &[queues().as_os_str(), "moves".as_ref(), "4".as_ref()]);
        let told = text(&recorded.output.stdout);
        let delayed: u64 = told.lines().map(|line| line.parse::<u64>().expect("a number")).sum();
        let [blocked, delay] = weights(&recorded.samples(&["--event", WAITS]), "moved");
        assert!(delayed > 4 * 50_000_000, "{told}");
        assert!(delay.abs_diff(delayed) < 10_000_000 + delayed / 50, "{delay} instead of {delayed} ns");
        assert!((4 * 50_000_000..4 * 120_000_000).contains(&blocked), "{blocked} ns");
    }
}

#[test]
fn root_a_thread_that_queues_at_an_end_of_the_recording_waits_for_a_cpu() {
    let _alone = CPU.lock().unwrap_or_else(PoisonError::into_inner);
    for wakers in [&[][..], &["--wakers"]] {
        let options = [&["--off-cpu-only=1ms", "-d", "0.8"], wakers].concat();
        let recorded = Recorded::new(&options, &[queues().as_os_str(), "ends".as_ref()]);
        let told: u64 = text(&recorded.output.stdout).trim().parse().expect("a number");
        let samples = recorded.samples(&["--event", WAITS]);
        let [blocked, delay] = weights(&samples, "queued");
        assert!(blocked.abs_diff(told) < 20_000_000, "{blocked} instead of {told} ns");
        assert!(delay > 200_000_000, "{delay} ns");
        let of_thread = samples.iter().filter(|sample| sample.text("comm") == "queued");
        for sample in of_thread.filter(|sample| sample.number("weight") > 100_000_000) {
            let (is_open, is_delay) = (&sample.0["wait"]["not_ended"], sample.text("event") == "run-delay");
            // The kernel may let it run before the recording ends.
            assert!(*is_open != true || is_delay, "{}", sample.0);
            if !is_delay && !wakers.is_empty() {
                assert_eq!(sample.0["wait"]["waker"]["comm"], "queues", "{}", sample.0);
            }
        }
    }
    let mut begun = Command::new(queues()).arg("begins").spawn().expect("it runs");
    std::thread::sleep(std::time::Duration::from_millis(600));
    let pid = begun.id().to_string();
    let recorded = Recorded::new::<&str>(&["--off-cpu-only=1ms", "-p", &pid, "-d", "0.5"], &[]);
    let _ = begun.kill();
    let _ = begun.wait();
    let [blocked, delay] = weights(&recorded.samples(&["--event", WAITS]), "queued");
    assert!(blocked == 0 && delay > 300_000_000, "{blocked} and {delay} ns");
}
