//! Varies the sampling period, so that no program can run in step with the samples.
//!
//! ```text
//! asked      |    |    |    |    |    |    |    |    |    |    |    |    |    |
//! sampled    |   |   |   |   |   |  |     |     |     |     |  |    |    |    |
//!            └ a stretch of one distance ┘└ the next one ──────┘
//! ```
//!
//! A timer keeps its period exactly, so a program that works for a part of each period is hit always or never. In each
//! stretch the period differs from the requested one by 1 to 5 %, and in the next stretch by as much in the other
//! direction, so that samples wander through every period of the program. A stretch can end at any moment of a period, which loses
//! half a period each time; periods are that much shorter, so that the average rate is the requested one.

use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

/// The shortest mean length of a stretch.
const STRETCH: Duration = Duration::from_millis(250);
/// The smallest mean number of samples in a stretch.
const SAMPLES: u32 = 100;
/// The smallest and the largest change of the period, relative to it.
const CHANGE: (f64, f64) = (0.01, 0.05);
/// How much shorter or longer than the mean a stretch may be, relative to the mean.
const UNEVEN: f64 = 0.3;

/// The state of the current stretch.
#[derive(Debug)]
pub(crate) struct Jitter {
    /// The requested period.
    period: Duration,
    random: RandomState,
    drawn: u64,
    /// Change and relative length of the next stretch, if the current one was drawn at random.
    back: Option<(f64, f64)>,
    next: Instant,
}

impl Jitter {
    pub(crate) fn new(period: Duration) -> Self {
        Self { period, random: RandomState::new(), drawn: 0, back: None, next: Instant::now() }
    }

    /// Returns the new period, ns, if it must change now.
    pub(crate) fn change(&mut self, now: Instant) -> Option<u64> {
        if now < self.next {
            return None;
        }
        let period = self.period;
        let stretch = STRETCH.max(period * SAMPLES);
        // Two stretches of equal length together have the requested rate.
        let (change, length) = match self.back.take() {
            Some(back) => back,
            None => {
                let (change, length) = self.drawn_stretch();
                self.back = Some((-change, length));
                (change, length)
            }
        };
        self.next = now + stretch.mul_f64(length);
        let lost = 0.5 * period.as_secs_f64() / stretch.as_secs_f64();
        Some((period.as_nanos() as f64 * (1.0 + change) * (1.0 - lost)) as u64)
    }

    fn drawn_stretch(&mut self) -> (f64, f64) {
        let (side, change, length) = (self.draw(), self.draw(), self.draw());
        let change = CHANGE.0 + (CHANGE.1 - CHANGE.0) * change;
        (change.copysign(side - 0.5), 1.0 + UNEVEN * (2.0 * length - 1.0))
    }

    /// Returns an unpredictable number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.drawn += 1;
        self.random.hash_one(self.drawn) as f64 / u64::MAX as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a timer through many stretches; returns the times of samples, ns.
    fn samples(period: Duration, seconds: u64) -> Vec<u64> {
        let mut jitter = Jitter::new(period);
        let begun = jitter.next;
        let (mut distance, mut times, mut at, mut look) = (0, Vec::new(), 0, 0);
        while at < seconds * 1_000_000_000 {
            if let Some(new) = jitter.change(begun + Duration::from_nanos(look)) {
                (distance, at) = (new, look + new);
            }
            // The recorder looks ten times a second.
            look += 100_000_000;
            while at < look {
                times.push(at);
                at += distance;
            }
        }
        times
    }

    #[test]
    fn the_rate_is_the_one_that_was_asked_for() {
        for hz in [1, 99, 100, 999, 10_000] {
            // Two hundred stretches of a hundred samples or a quarter of a second.
            let seconds = (20_000 / hz).max(50);
            let expected = (hz * seconds) as f64;
            let share = samples(Duration::from_nanos(1_000_000_000 / hz), seconds).len() as f64 / expected;
            assert!((0.99..1.01).contains(&share), "{share} at {hz} Hz");
        }
    }

    #[test]
    fn no_period_of_a_program_is_in_step_with_it() {
        // Two thousand stretches, drawn at random: shares differ from one run to the next by a percent.
        let times = samples(Duration::from_millis(10), 2000);
        for period_ns in [10_000_000, 5_000_000, 20_000_000, 9_900_000, 10_200_000, 33_333_333] {
            for phase_ns in [0, 2_500_000, 5_000_000] {
                let works = |at: &&u64| (*at + phase_ns) % period_ns < period_ns * 4 / 10;
                let share = times.iter().filter(works).count() as f64 / times.len() as f64;
                assert!((0.35..0.45).contains(&share), "{share} of a program of {period_ns} ns");
            }
        }
    }
}
