//! Varies the sampling period, so that no program can run in step with the samples.
//!
//! ```text
//! asked      |    |    |    |    |    |    |    |    |    |    |    |    |    |    |    |    |
//! sampled    |  |  |  |  |  |  |  |    |      |      |      |      |      |      |      |
//!            └ a stretch of 8 samples ┘└ the next one
//! ```
//!
//! A timer keeps its period exactly, so a program that works for a part of each period is hit always or never. Each stretch of 8
//! samples has a period of its own, drawn evenly from a half to one and a half of the requested one, for each CPU: over stretches, any
//! moment of any period of a program is hit equally often, and samples of different stretches know nothing of each other.
//!
//! A change restarts the timer, so that the time since the last sample is lost. A stretch therefore lasts half a period longer than its
//! samples take, and its period is that much shorter: the average rate is the requested one.
//!
//! A thread of its own changes the periods; the recorder's other threads have longer to sleep.

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::sys::perf;
use crate::sys::rights::{self, Part};

/// The number of samples in a stretch.
const SAMPLES: u32 = 8;
/// The shortest mean length of a stretch: at high rates it has more samples.
const SHORTEST: Duration = Duration::from_millis(8);
/// The shortest and the longest period of a stretch, relative to the requested one.
const CHANGE: (f64, f64) = (0.5, 1.5);
/// Changes take at most this fraction of the thread's time: with very many CPUs, stretches are longer.
const COST: u32 = 4;

/// The thread that changes the periods of timers. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Varying {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A timer of one CPU.
#[derive(Debug)]
struct Timer {
    counter: RawFd,
    /// The requested period.
    period: Duration,
    draws: Draws,
    next: Instant,
}

/// Unpredictable numbers.
#[derive(Debug, Default)]
struct Draws {
    random: RandomState,
    drawn: u64,
}

/// A stretch of one period.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Stretch {
    lasts: Duration,
    period_ns: u64,
}

impl Varying {
    /// Begins to change the periods of timers, which are the descriptors of counters with their requested periods. The descriptors must
    /// stay open until this is dropped.
    pub(crate) fn begin(timers: Vec<(RawFd, Duration)>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let run = move || {
            rights::keep(Part::Helper);
            vary(timers, &seen);
        };
        // Without the thread the timers keep their period.
        let thread = thread::Builder::new().name("icecore-jitter".to_owned()).spawn(run).ok();
        Self { stop, thread }
    }
}

impl Drop for Varying {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// Changes periods until it shall stop.
fn vary(timers: Vec<(RawFd, Duration)>, stop: &AtomicBool) {
    let now = Instant::now();
    let timer = |(counter, period)| Timer { counter, period, draws: Draws::default(), next: now };
    let mut timers: Vec<Timer> = timers.into_iter().map(timer).collect();
    let mut each = Duration::ZERO;
    while !stop.load(Ordering::Relaxed) {
        let least = SHORTEST.max(each * timers.len() as u32 * COST);
        let (begun, mut changed) = (Instant::now(), 0);
        for timer in timers.iter_mut().filter(|timer| timer.next <= begun) {
            let stretch = timer.draws.stretch(timer.period, least);
            perf::set_period(timer.counter, stretch.period_ns);
            // The timer begins anew now, however late that is.
            timer.next = Instant::now() + stretch.lasts;
            changed += 1;
        }
        if changed > 0 {
            each = (each * 7 + begun.elapsed() / changed) / 8;
        }
        let Some(next) = timers.iter().map(|timer| timer.next).min() else { return };
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
}

impl Draws {
    /// Draws the next stretch, which lasts `least` on average, or longer.
    fn stretch(&mut self, period: Duration, least: Duration) -> Stretch {
        let samples = f64::from(SAMPLES).max((least.as_secs_f64() / period.as_secs_f64()).ceil());
        let change = CHANGE.0 + (CHANGE.1 - CHANGE.0) * self.draw();
        let lasts = period.mul_f64(samples * change);
        Stretch { lasts, period_ns: (lasts.as_nanos() as f64 / (samples + 0.5)) as u64 }
    }

    /// Returns a number from 0 to 1.
    fn draw(&mut self) -> f64 {
        self.drawn += 1;
        self.random.hash_one(self.drawn) as f64 / u64::MAX as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a timer through many stretches; returns the times of samples, in periods. The thread comes up to `late` periods too late.
    fn samples(period: Duration, periods: f64, late: f64) -> Vec<f64> {
        let mut draws = Draws::default();
        let (mut times, mut begin) = (Vec::new(), 0.0);
        while begin < periods {
            let stretch = draws.stretch(period, SHORTEST);
            let end = begin + stretch.lasts.as_secs_f64() / period.as_secs_f64() + late * draws.draw();
            let step = stretch.period_ns as f64 / period.as_nanos() as f64;
            times.extend((1..).map(|n| begin + step * f64::from(n)).take_while(|at| *at < end));
            begin = end;
        }
        times
    }

    #[test]
    fn the_rate_is_the_one_that_was_asked_for() {
        for hz in [1, 99, 100, 999, 10_000] {
            // At 10,000 Hz these are 5,000 stretches, whose total length chance moves by 0.4 %.
            let periods = 400_000.0;
            let share =
                samples(Duration::from_nanos(1_000_000_000 / hz), periods, 0.0).len() as f64 / periods;
            assert!((0.98..1.02).contains(&share), "{share} at {hz} Hz");
        }
    }

    #[test]
    fn shares_of_a_program_of_any_period_are_as_good_as_those_of_independent_samples() {
        let (part, periods, rounds) = (0.3, 1_000.0, 4_000);
        let mut draws = Draws::default();
        let near = (90..=110).map(|percent| f64::from(percent) / 100.0);
        let far =
            [0.1, 0.25, 0.333, 0.5, 0.52, 0.6, 0.667, 0.7, 0.75, 0.8, 1.2, 1.3, 1.4, 1.5, 2.0, 3.0, 10.0];
        let programs: Vec<f64> = near.chain(far).collect();
        let mut squares = vec![0.0; programs.len()];
        for _ in 0..rounds {
            let times = samples(Duration::from_nanos(10_101_010), periods, 0.05);
            for (program, square) in programs.iter().zip(&mut squares) {
                let begin = draws.draw();
                let works = times.iter().filter(|at| (*at / program + begin).fract() < part).count();
                *square += (works as f64 / times.len() as f64 - part).powi(2);
            }
        }
        for (program, square) in programs.iter().zip(squares) {
            let error = (square / f64::from(rounds)).sqrt();
            let independent = (part * (1.0 - part) / periods).sqrt();
            println!(
                "a program of {program} periods: {:.2} times the error of independent samples",
                error / independent
            );
            // Chance moves the estimate of an error by 1 %.
            assert!(error < 1.2 * independent, "{program}: {}", error / independent);
        }
    }

    #[test]
    fn the_number_of_samples_varies_less_than_that_of_independent_ones() {
        let (periods, rounds) = (1_000.0, 400);
        let counts: Vec<f64> =
            (0..rounds).map(|_| samples(Duration::from_millis(10), periods, 0.0).len() as f64).collect();
        let mean = counts.iter().sum::<f64>() / f64::from(rounds);
        let variance = counts.iter().map(|n| (n - mean).powi(2)).sum::<f64>() / f64::from(rounds);
        assert!(variance < periods, "{variance} of {periods}");
    }

    #[test]
    fn it_ends_at_once() {
        let begun = Instant::now();
        drop(Varying::begin(Vec::new()));
        drop(Varying::begin(vec![(-1, Duration::from_secs(1_000))]));
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
}
