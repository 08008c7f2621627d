//! Converts the times that a process writes into its jitdump to those of samples.
//!
//! ```text
//! CLOCK_MONOTONIC in a time namespace      minus what the namespace adds
//! processor counter (arch timestamps)      along a line through two readings of the recorder:
//!
//!   ns     │            ● end           only if the kernel keeps its own time by this counter, and the
//!          │  ● begin                   dump then began while its process ran
//!          └──────────── counter
//! ```

use std::fs;

use crate::proc::namespace;
use crate::sys::clock;

/// The clock by which the kernel of x86-64 keeps time if all CPUs have one counter of constant speed that never stops.
const COUNTER: &str = "tsc";
const CLOCK_SOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
/// The least time between two readings of the counter: each is wrong by less than a microsecond.
const LEAST_APART_NS: u64 = 100_000_000;

/// The processor counter and `CLOCK_MONOTONIC` at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) counter: u64,
    pub(super) ns: u64,
}

impl Reading {
    /// Reads both; `None` if the kernel does not keep its time by the counter.
    pub(super) fn now() -> Option<Self> {
        fs::read_to_string(CLOCK_SOURCE).ok().filter(|source| source.trim_end() == COUNTER)?;
        let (counter, ns) = clock::counter_and_ns()?;
        Some(Self { counter, ns })
    }
}

/// The clocks of the process that writes a dump.
#[derive(Debug, Clone, Copy)]
pub(super) struct DumpClock {
    /// What the time namespace of the process adds to `CLOCK_MONOTONIC`, ns; `None` if nobody knows.
    pub(super) ahead_ns: Option<i64>,
    /// The process did not run before, ns.
    pub(super) began_ns: u64,
    /// A reading when the recording began, and one when the dump was read.
    pub(super) readings: Option<[Reading; 2]>,
}

/// Converts times.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scale {
    Ahead(i64),
    /// The first reading, and the distances of the second.
    Counter {
        begin: Reading,
        counter: u64,
        ns: u64,
    },
}

impl DumpClock {
    /// The clock of a process that shares the recorder's time.
    pub(super) const SHARED: Self = Self { ahead_ns: Some(0), began_ns: 0, readings: None };

    /// Returns how the times of a dump are converted, by the time in its header; `None` if that is not provable.
    pub(super) fn scale(&self, is_counter: bool, header: u64) -> Option<Scale> {
        if !is_counter {
            return self.ahead_ns.map(Scale::Ahead);
        }
        let [begin, end] = self.readings?;
        let (counter, ns) = (end.counter.checked_sub(begin.counter)?, end.ns.checked_sub(begin.ns)?);
        let scale = Scale::Counter { begin, counter, ns };
        let is_sound = ns >= LEAST_APART_NS && counter > 0;
        let began = is_sound.then(|| scale.ns(header))?;
        (self.began_ns..=end.ns).contains(&began).then_some(scale)
    }
}

impl Scale {
    /// Converts a time to ns of `CLOCK_MONOTONIC`, as samples have it.
    pub(super) fn ns(self, time: u64) -> u64 {
        match self {
            Self::Ahead(ahead_ns) => time.saturating_add_signed(ahead_ns.saturating_neg()),
            Self::Counter { begin, counter, ns } => {
                let passed = i128::from(time) - i128::from(begin.counter);
                let passed_ns = passed * i128::from(ns) / i128::from(counter);
                u64::try_from(i128::from(begin.ns) + passed_ns).unwrap_or(0)
            }
        }
    }
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

    const BEGIN: Reading = Reading { counter: 5_000, ns: 1_000_000_000 };
    /// Three ticks a nanosecond.
    const END: Reading = Reading { counter: 5_000 + 600_000_000, ns: 1_200_000_000 };

    #[test]
    fn what_a_namespace_adds_is_taken_off() {
        assert_eq!(offset_ns("monotonic           7   500\nboottime    9  0\n"), Some(7_000_000_500));
        assert_eq!(offset_ns("monotonic -1 5\n"), Some(-999_999_995));
        assert_eq!([offset_ns(""), offset_ns("monotonic x 5"), offset_ns("monotonic 1")], [None; 3]);
        let clock = DumpClock { ahead_ns: Some(-3), ..DumpClock::SHARED };
        assert_eq!(
            clock.scale(false, 0).map(|scale| [scale.ns(10), scale.ns(u64::MAX)]),
            Some([13, u64::MAX])
        );
        assert!(DumpClock { ahead_ns: None, ..clock }.scale(false, 0).is_none());
        assert_eq!(ahead_ns(std::process::id()), Some(0), "tests run in the first time namespace");
    }

    #[test]
    fn a_counter_is_converted_only_where_the_dump_can_have_begun_then() {
        let clock = DumpClock { ahead_ns: None, began_ns: 1_000_000_100, readings: Some([BEGIN, END]) };
        let scale = clock.scale(true, 5_000 + 300).expect("it began with its process");
        assert_eq!(
            [5_000, 8_000, 2_000].map(|counter| scale.ns(counter)),
            [1_000_000_000, 1_000_001_000, 999_999_000]
        );
        for wrong in [5_000, 2_000_000_000_000, 1_000_000_050] {
            assert!(clock.scale(true, wrong).is_none(), "{wrong}");
        }
        let near = Reading { ns: BEGIN.ns + 1_000, ..END };
        for readings in [None, Some([BEGIN, BEGIN]), Some([END, BEGIN]), Some([BEGIN, near])] {
            assert!(DumpClock { readings, ..clock }.scale(true, 5_300).is_none(), "{readings:?}");
        }
    }

    #[test]
    fn the_counter_of_this_machine_tells_its_time() {
        let Some(begin) = Reading::now() else { return println!("the kernel keeps time by something else") };
        std::thread::sleep(std::time::Duration::from_millis(150));
        let between = Reading::now().expect("as before");
        std::thread::sleep(std::time::Duration::from_millis(50));
        let readings = Some([begin, Reading::now().expect("as before")]);
        let clock = DumpClock { ahead_ns: None, began_ns: begin.ns, readings };
        let scale = clock.scale(true, between.counter).expect("a line");
        assert!(scale.ns(between.counter).abs_diff(between.ns) < 20_000, "{between:?}");
    }
}
