//! Reads the clocks by which the times of jitdump files are converted: the processor counter, and time namespaces.

use std::fs;

use icecore_jit::Reading;

use crate::proc::namespace;
use crate::sys::clock;

/// The clock by which the kernel of x86-64 keeps time if all CPUs have one counter of constant speed that never stops.
const COUNTER: &str = "tsc";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// Reads the counter and the time; `None` if the kernel does not keep its time by the counter.
pub(super) fn now() -> Option<Reading> {
    fs::read_to_string(CLOCK_SOURCE).ok().filter(|source| source.trim_end() == COUNTER)?;
    let (counter, ns) = clock::counter_and_ns()?;
    Some(Reading { counter, ns })
}

/// Returns what the time namespace of a process adds to `CLOCK_MONOTONIC`, ns; `None` if the process has left the namespace for its
/// children, of which alone the kernel says that.
///
/// # Source  time_namespaces(7): `/proc/PID/timens_offsets`, Linux 5.6 and later
pub(super) fn ahead_ns(tgid: u32) -> Option<i64> {
    let Ok(text) = fs::read_to_string(format!("/proc/{tgid}/timens_offsets")) else { return Some(0) };
    namespace::is_time_of_children(tgid).then(|| offset_ns(&text))?
}

fn offset_ns(text: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix("monotonic"))?;
    let mut numbers = line.split_ascii_whitespace().map(|word| word.parse::<i64>().ok());
    let (seconds, ns) = (numbers.next()??, numbers.next()??);
    seconds.checked_mul(1_000_000_000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_jit::DumpClock;

    #[test]
    fn what_a_namespace_adds_is_read() {
        assert_eq!(offset_ns("monotonic           7   500\nboottime    9  0\n"), Some(7_000_000_500));
        assert_eq!(offset_ns("monotonic -1 5\n"), Some(-999_999_995));
        assert_eq!([offset_ns(""), offset_ns("monotonic x 5"), offset_ns("monotonic 1")], [None; 3]);
        assert_eq!(ahead_ns(std::process::id()), Some(0), "tests run in the first time namespace");
    }

    #[test]
    fn the_counter_of_this_machine_tells_its_time() {
        let Some(begin) = now() else { return println!("the kernel keeps time by something else") };
        std::thread::sleep(std::time::Duration::from_millis(150));
        let between = now().expect("as before");
        std::thread::sleep(std::time::Duration::from_millis(50));
        let readings = Some([begin, now().expect("as before")]);
        let clock = DumpClock { ahead_ns: None, began_ns: begin.ns, readings };
        let scale = clock.scale(true, between.counter).expect("a line");
        assert!(scale.ns(between.counter).abs_diff(between.ns) < 20_000, "{between:?}");
    }
}
