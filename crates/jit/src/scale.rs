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

/// The least time between two readings of the counter: each is wrong by less than a microsecond.
const LEAST_APART_NS: u64 = 100_000_000;

/// The processor counter and `CLOCK_MONOTONIC` at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The counter.
    pub counter: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub ns: u64,
}

/// The clocks of the process that writes a dump.
#[derive(Debug, Clone, Copy)]
pub struct DumpClock {
    /// What the time namespace of the process adds to `CLOCK_MONOTONIC`, ns; `None` if nobody knows.
    pub ahead_ns: Option<i64>,
    /// The process did not run before, ns.
    pub began_ns: u64,
    /// A reading when the recording began, and one when the dump was read.
    pub readings: Option<[Reading; 2]>,
}

/// Converts times.
#[derive(Debug, Clone, Copy)]
pub enum Scale {
    /// A clock is ahead by so many ns.
    Ahead(i64),
    /// A line through two readings of a counter.
    Counter {
        /// The first reading.
        begin: Reading,
        /// How far the counter of the second is from that of the first.
        counter: u64,
        /// How much later the second is, ns.
        ns: u64,
    },
}

impl DumpClock {
    /// The clock of a process that shares the recorder's time.
    pub const SHARED: Self = Self { ahead_ns: Some(0), began_ns: 0, readings: None };

    /// Returns how the times of a dump are converted, by the time in its header; `None` if that is not provable.
    pub fn scale(&self, is_counter: bool, header: u64) -> Option<Scale> {
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
    pub fn ns(self, time: u64) -> u64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: Reading = Reading { counter: 5_000, ns: 1_000_000_000 };
    /// Three ticks a nanosecond.
    const END: Reading = Reading { counter: 5_000 + 600_000_000, ns: 1_200_000_000 };

    #[test]
    fn what_a_namespace_adds_is_taken_off() {
        let clock = DumpClock { ahead_ns: Some(-3), ..DumpClock::SHARED };
        assert_eq!(
            clock.scale(false, 0).map(|scale| [scale.ns(10), scale.ns(u64::MAX)]),
            Some([13, u64::MAX])
        );
        assert!(DumpClock { ahead_ns: None, ..clock }.scale(false, 0).is_none());
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
}
