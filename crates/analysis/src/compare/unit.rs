//! Defines the denominators of rates.

use super::facts::RecordingFacts;
use super::noise::SLICES;

/// The denominator of a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    /// All samples: the rate is a share.
    Share,
    /// Wall time: CPU seconds per second, if weights are times.
    PerSecond,
    /// Units of work.
    PerWork(Work),
    /// Runs of a command, for whole runs.
    PerRun,
}

/// Units of work that each recording of a side completed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
}

impl Unit {
    /// Returns the denominator of each slice.
    ///
    /// `whole` is the weight of all samples in each slice.
    pub fn divisors(self, whole: &[f64], facts: &RecordingFacts, is_before: bool) -> Vec<f64> {
        let seen = 1.0 - facts.lost_share;
        // Slices have equal lengths. Weights that are times, in ns, give rates in seconds.
        let scale = if facts.are_times { 1e9 } else { 1.0 };
        let each = |whole: f64| vec![whole * scale * seen / SLICES as f64; SLICES];
        match self {
            Self::Share => whole.to_vec(),
            Self::PerSecond => each(facts.span_ns as f64 / 1e9),
            Self::PerWork(work) => each(if is_before { work.before } else { work.after }),
            Self::PerRun => each(facts.runs as f64),
        }
    }
}
