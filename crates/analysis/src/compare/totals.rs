//! Compares the total CPU time and wall time of whole runs.
//!
//! One recording does not show how the totals of runs differ; several recordings on a side do. With one recording on each side the
//! spread is assumed, as measured for programs on a shared machine (docs/COMPARING.md).

use super::compared::Compared;
use super::estimate::Estimate;
use super::facts::RecordingFacts;
use super::judge::{FALSE_DISCOVERIES, judge};

/// Assumed standard deviation of the CPU time of runs of one program, as a share of it.
pub const CPU_NOISE: f64 = 0.05;
/// Assumed standard deviation of their wall time, as a share of it: other users of the machine affect it.
pub const WALL_NOISE: f64 = 0.30;
/// Added to both, s: short runs differ by more.
pub const LEAST_NOISE_S: f64 = 0.02;
/// The weight of these assumptions, in degrees of freedom.
const ASSUMED_DEGREES: f64 = 8.0;
/// From so many degrees of freedom on only the spread of the recordings counts: three recordings on each side.
const ENOUGH_DEGREES: f64 = 4.0;

/// Totals of both sides, per run.
#[derive(Debug, Clone, Copy)]
pub struct Totals {
    /// CPU time, s; what weights add up to if they are not CPU time, in s if they are times.
    pub cpu: Compared,
    /// Wall time, s.
    pub wall: Compared,
    /// The CPU time is the kernel's account, not an estimate from samples.
    pub is_exact: bool,
    /// The origin of the noise.
    pub noise: NoiseOrigin,
}

/// The origin of the noise of runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoiseOrigin {
    /// Assumed: each side has one recording.
    Assumed,
    /// Measured with a few recordings, combined with the assumption.
    Both,
    /// Measured with the recordings of each side.
    Runs,
}

/// The total of one recording per run, and its variance from sampling alone.
#[derive(Debug, Clone, Copy)]
struct RunTotal {
    value: f64,
    of_sampling: f64,
}

/// What weights of all recordings are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weights {
    pub(super) are_times: bool,
    /// They are times of CPUs, and not of threads that wait.
    pub(super) are_cpu_times: bool,
}

/// Compares recordings of whole runs; `side` is the side of each.
pub(super) fn totals(facts: &[RecordingFacts], side: &[usize], weights: Weights) -> Totals {
    let is_exact = weights.are_cpu_times && facts.iter().all(|facts| facts.exact_ns.is_some());
    let scale = if weights.are_times { 1e-9 } else { 1.0 };
    let cpu = |facts: &RecordingFacts| match facts.exact_ns.filter(|_| is_exact) {
        Some(ns) => RunTotal { value: per_run(ns as f64 * scale, facts), of_sampling: 0.0 },
        None => {
            let value =
                per_run(facts.weight as f64 * scale, facts) / (1.0 - facts.lost_share).max(f64::MIN_POSITIVE);
            RunTotal { value, of_sampling: value.powi(2) / facts.samples.max(1) as f64 }
        }
    };
    let wall = |facts: &RecordingFacts| RunTotal {
        value: per_run(facts.ran_ns as f64 / 1e9, facts),
        of_sampling: 0.0,
    };
    let least = if weights.are_times { LEAST_NOISE_S } else { 0.0 };
    // Threads wait for other users of the machine, too.
    let assumed = if weights.are_times && !weights.are_cpu_times { WALL_NOISE } else { CPU_NOISE };
    let sides = |total: &dyn Fn(&RecordingFacts) -> RunTotal| {
        [0, 1].map(|of| {
            facts.iter().zip(side).filter(|(_, side)| **side == of).map(|(it, _)| total(it)).collect()
        })
    };
    let samples = [0, 1].map(|of| {
        facts.iter().zip(side).filter(|(_, side)| **side == of).map(|(facts, _)| facts.samples).sum::<u64>()
    });
    let (cpu, noise) = compared(&sides(&cpu), assumed, least);
    let (wall, _) = compared(&sides(&wall), WALL_NOISE, LEAST_NOISE_S);
    let samples = (samples[0], samples[1]);
    Totals { cpu: Compared { samples, ..cpu }, wall: Compared { samples, ..wall }, is_exact, noise }
}

/// A merged recording holds several runs.
fn per_run(total: f64, facts: &RecordingFacts) -> f64 {
    total / facts.runs.max(1) as f64
}

/// Compares the means of both sides. The error of each total has three parts: a share of it that is the same on both sides,
/// measured or assumed; `least` seconds; and sampling.
fn compared(sides: &[Vec<RunTotal>; 2], assumed: f64, least: f64) -> (Compared, NoiseOrigin) {
    let mean = |side: &[RunTotal]| side.iter().map(|total| total.value).sum::<f64>() / side.len() as f64;
    let means = sides.each_ref().map(|side| mean(side));
    let assumed_at = |value: f64| (assumed * value).powi(2) + least.powi(2);
    // Both sides are expected to have the same relative spread.
    let (mut squares, mut freedom) = (0.0, 0.0);
    for (side, mean) in sides.iter().zip(means) {
        let deviation = |total: &RunTotal| ((total.value - mean) / mean.max(f64::MIN_POSITIVE)).powi(2);
        squares += side.iter().map(deviation).sum::<f64>();
        freedom += side.len() as f64 - 1.0;
    }
    let (noise, degrees) = match freedom {
        0.0 => (NoiseOrigin::Assumed, ASSUMED_DEGREES),
        few if few < ENOUGH_DEGREES => (NoiseOrigin::Both, ASSUMED_DEGREES + few),
        enough => (NoiseOrigin::Runs, enough),
    };
    let of_side = |(side, mean): (&Vec<RunTotal>, f64)| {
        let runs = side.len() as f64;
        let of_sampling = side.iter().map(|total| total.of_sampling).sum::<f64>() / runs;
        // The spread between recordings includes the sampling error.
        let of_runs = match noise {
            NoiseOrigin::Assumed => assumed_at(mean) + of_sampling,
            NoiseOrigin::Both => {
                (ASSUMED_DEGREES * (assumed_at(mean) + of_sampling) + squares * mean.powi(2)) / degrees
            }
            NoiseOrigin::Runs => (squares / freedom * mean.powi(2)).max(of_sampling),
        };
        of_runs / runs
    };
    let variance = sides.iter().zip(means).map(of_side).sum();
    let estimate = Estimate { before: means[0], after: means[1], variance, degrees, ..Estimate::default() };
    let judged = judge(&[estimate], &[true], FALSE_DISCOVERIES, 1.0).rows[0];
    (Compared { estimate, judged, samples: (0, 0) }, noise)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(values: &[f64]) -> Vec<RunTotal> {
        values.iter().map(|value| RunTotal { value: *value, of_sampling: 0.0 }).collect()
    }

    fn changed(before: &[f64], after: &[f64]) -> (bool, NoiseOrigin) {
        let (compared, noise) = compared(&[exact(before), exact(after)], CPU_NOISE, LEAST_NOISE_S);
        let Compared { judged, .. } = compared;
        assert_eq!(judged.significant, judged.low > 0.0 || judged.high < 0.0, "{judged:?}");
        (judged.significant, noise)
    }

    #[test]
    fn one_run_a_side_shows_what_is_far_more_than_runs_differ_by() {
        assert_eq!(changed(&[2.73], &[3.53]), (true, NoiseOrigin::Assumed));
        assert_eq!([changed(&[3.53], &[2.73]).0, changed(&[2.73], &[3.0]).0], [true, false]);
        // A run of 30 ms may take 40 ms the next time.
        assert!(!changed(&[0.030], &[0.040]).0 && changed(&[0.030], &[0.130]).0);
    }

    #[test]
    fn several_runs_tell_how_much_they_differ() {
        assert_eq!(changed(&[1.0, 1.004, 0.998], &[1.03, 1.032, 1.028]), (true, NoiseOrigin::Runs));
        assert_eq!(changed(&[1.0, 1.4, 0.7], &[1.3, 1.1, 0.9]), (false, NoiseOrigin::Runs));
        assert_eq!(changed(&[1.0, 1.01], &[1.3]), (true, NoiseOrigin::Both));
        assert_eq!(changed(&[1.0, 1.01], &[1.05]), (false, NoiseOrigin::Both));
    }

    #[test]
    fn what_sampling_adds_counts() {
        let of = |value: f64, samples: f64| vec![RunTotal { value, of_sampling: value.powi(2) / samples }];
        let significant = |samples: f64| {
            compared(&[of(1.0, samples), of(1.3, samples)], CPU_NOISE, LEAST_NOISE_S).0.judged.significant
        };
        assert_eq!([10.0, 10_000.0].map(significant), [false, true]);
    }

    #[test]
    fn runs_that_take_no_time_are_no_change() {
        assert!(!changed(&[0.0], &[0.0]).0 && !changed(&[0.0, 0.0, 0.0], &[0.0, 0.0, 0.0]).0);
    }
}
