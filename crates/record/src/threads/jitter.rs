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
//! samples take, and its period is that much shorter: the average rate is the requested one. The thread may come late, and the timer has had more
//! samples by then: the next stretch lasts longer by as many. At the begin, after a pause and when another rate is wanted, a timer begins at a
//! random moment of a stretch, so that any time has as many samples as it should, however short it is.
//!
//! A thread of its own changes the periods; the recorder's other threads have longer to sleep.

use std::hash::{BuildHasher as _, RandomState};
use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use icecore_format::records::RateChange;

use crate::sys::perf;
use crate::sys::rights::{self, Part};

/// The number of samples in a stretch, and how long these may take: at low rates it has fewer samples.
const SAMPLES: f64 = 8.0;
const LONGEST: Duration = Duration::from_secs(1);
/// The shortest mean length of a stretch: at high rates it has more samples.
const SHORTEST: Duration = Duration::from_millis(8);
/// The kernel has no shorter periods.
const SHORTEST_NS: u64 = 10_000;
/// The shortest and the longest period of a stretch, relative to the requested one.
const CHANGE: (f64, f64) = (0.5, 1.5);
/// Changes take at most this fraction of the thread's time: with very many CPUs, stretches are longer.
const COST: u32 = 4;

/// The thread that changes the periods of timers. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Varying {
    stop: Arc<AtomicBool>,
    share: Arc<AtomicU32>,
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
    /// The current stretch, and when it began.
    last: Option<(Stretch, Instant)>,
    /// The rest of the stretch in whose midst the timer has begun.
    rest: Option<Stretch>,
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
    /// The samples that it should have, and how long each further one should take: the requested period.
    samples: f64,
    each: Duration,
}

impl Stretch {
    /// Returns how many samples too many the timer has had when the stretch ends after this time.
    fn excess(self, took: Duration) -> f64 {
        let had = (took.as_nanos() / u128::from(self.period_ns.max(1))) as f64;
        let late = took.saturating_sub(self.lasts).as_secs_f64();
        had - self.samples - late / self.each.as_secs_f64()
    }
}

impl Varying {
    /// Begins to change the periods of timers, which are the descriptors of counters with their requested periods. The descriptors must
    /// stay open until this is dropped.
    pub(crate) fn begin(timers: Vec<(RawFd, Duration)>) -> Self {
        let (stop, share) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(RateChange::WHOLE)));
        let (seen, wanted) = (stop.clone(), share.clone());
        let run = move || {
            rights::keep(Part::Helper);
            vary(timers, &seen, &wanted);
        };
        // Without the thread the timers keep their period.
        let thread = thread::Builder::new().name("icecore-jitter".to_owned()).spawn(run).ok();
        Self { stop, share, thread }
    }

    /// Lets timers have so many samples of what was asked for, in parts of [`RateChange::WHOLE`]; 0: they stand still.
    pub(crate) fn sample_share(&self, share: u32) {
        self.share.store(share, Ordering::Relaxed);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
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
fn vary(timers: Vec<(RawFd, Duration)>, stop: &AtomicBool, wanted: &AtomicU32) {
    let now = Instant::now();
    let timer = |(counter, period)| Timer {
        counter,
        period,
        draws: Draws::default(),
        next: now,
        last: None,
        rest: None,
    };
    let mut timers: Vec<Timer> = timers.into_iter().map(timer).collect();
    let (mut each, mut share) = (Duration::ZERO, 0);
    while !stop.load(Ordering::Relaxed) {
        let last = std::mem::replace(&mut share, wanted.load(Ordering::Relaxed));
        if share == 0 {
            thread::park();
            continue;
        }
        let rarer = f64::from(RateChange::WHOLE) / f64::from(share);
        let least = SHORTEST.max(each * timers.len() as u32 * COST);
        let (begun, mut changed) = (Instant::now(), 0);
        for timer in timers.iter_mut().filter(|timer| share != last || timer.next <= begun) {
            let period = timer.period.mul_f64(rarer);
            let now = Instant::now();
            let excess =
                timer.last.filter(|_| share == last).map(|(stretch, begun)| stretch.excess(now - begun));
            let stretch = match excess {
                Some(excess) => {
                    let rest = timer.rest.take();
                    rest.unwrap_or_else(|| timer.draws.stretch(period, least, excess))
                }
                None => {
                    let (first, rest) = timer.draws.first(period, least);
                    timer.rest = rest;
                    first
                }
            };
            perf::set_period(timer.counter, stretch.period_ns);
            // The timer begins anew now, however late that is.
            let begun = Instant::now();
            (timer.next, timer.last) = (begun + stretch.lasts, Some((stretch, begun)));
            changed += 1;
        }
        if changed > 0 {
            each = (each * 7 + begun.elapsed() / changed) / 8;
        }
        let Some(next) = timers.iter().map(|timer| timer.next).min() else { return };
        thread::park_timeout(next.saturating_duration_since(Instant::now()));
    }
}

/// Returns the number of samples in a stretch that lasts `least` on average, or longer.
fn samples_of(period: Duration, least: Duration) -> f64 {
    let most = (LONGEST.as_secs_f64() / period.as_secs_f64()).clamp(1.0, SAMPLES).floor();
    most.max((least.as_secs_f64() / period.as_secs_f64()).ceil())
}

impl Draws {
    /// Draws the next stretch, which lasts `least` on average, or longer, and longer by so many samples as the last one had too many.
    fn stretch(&mut self, period: Duration, least: Duration, excess: f64) -> Stretch {
        let samples = samples_of(period, least);
        let change = CHANGE.0 + (CHANGE.1 - CHANGE.0) * self.draw();
        let lasts = period.mul_f64((samples + excess.clamp(-samples / 2.0, 4.0 * samples)) * change);
        Stretch {
            lasts,
            period_ns: (lasts.as_nanos() as f64 / (samples + 0.5)) as u64,
            samples,
            each: period,
        }
    }

    /// Draws a moment of a stretch: that up to the next sample, and what comes after that sample.
    fn first(&mut self, period: Duration, least: Duration) -> (Stretch, Option<Stretch>) {
        let samples = samples_of(period, least);
        // A moment is more often in a long stretch than in a short one.
        let (shortest, longest) = (CHANGE.0 * CHANGE.0, CHANGE.1 * CHANGE.1);
        let change = (shortest + (longest - shortest) * self.draw()).sqrt();
        let lasts = samples * change;
        let (step, passed) = (lasts / (samples + 0.5), lasts * self.draw());
        let (next, left) = (step - passed % step, lasts - passed);
        let stretch = |lasts: f64, step: f64, samples: f64| Stretch {
            lasts: period.mul_f64(lasts),
            period_ns: ((period.as_nanos() as f64 * step) as u64).max(SHORTEST_NS),
            samples,
            each: period,
        };
        if next < left {
            let rest = left - next;
            (stretch(next, next, 1.0), Some(stretch(rest, step, (rest / step).floor())))
        } else {
            (stretch(left, step.max(2.0 * left), 0.0), None)
        }
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
        let (mut stretch, mut rest) = draws.first(period, SHORTEST);
        while begin < periods {
            let took = stretch.lasts + period.mul_f64(late * draws.draw());
            let end = begin + took.as_secs_f64() / period.as_secs_f64();
            let step = stretch.period_ns as f64 / period.as_nanos() as f64;
            times.extend((1..).map(|n| begin + step * f64::from(n)).take_while(|at| *at < end + 1e-6));
            let next = rest.take().unwrap_or_else(|| draws.stretch(period, SHORTEST, stretch.excess(took)));
            (begin, stretch) = (end, next);
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
    fn the_rate_is_kept_however_late_the_thread_comes() {
        for late in [0.1, 1.0, 5.0] {
            let periods = 200_000.0;
            let share = samples(Duration::from_millis(10), periods, late).len() as f64 / periods;
            println!("up to {late} periods too late: {share:.3} of the samples");
            assert!((0.98..1.02).contains(&share), "{late}: {share}");
        }
    }

    #[test]
    fn a_short_time_has_as_many_samples_as_it_should() {
        for periods in [0.3, 1.0, 2.0, 5.0, 8.0, 20.0] {
            for hz in [1, 19, 99] {
                let rounds = 20_000;
                let one = || {
                    let all = samples(Duration::from_nanos(1_000_000_000 / hz), periods, 0.0);
                    all.iter().filter(|at| **at <= periods).count()
                };
                let mean = (0..rounds).map(|_| one()).sum::<usize>() as f64 / f64::from(rounds) / periods;
                println!("{periods} periods at {hz} Hz: {mean:.3} of the samples");
                let chance = 4.0 / (f64::from(rounds) * periods).sqrt();
                assert!((mean - 1.0).abs() < 0.01 + chance, "{periods} periods at {hz} Hz: {mean}");
            }
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
