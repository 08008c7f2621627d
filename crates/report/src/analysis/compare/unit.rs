//! What rates are rates of.

use super::facts::Facts;
use super::noise::SLICES;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Unit {
    /// The share of all that was sampled.
    Share,
    /// Weight per wall time: CPU seconds per second, where weights are times.
    PerSecond,
    /// Weight per unit of work.
    PerWork(Work),
    /// Weight per run of a command, of whole runs.
    PerRun,
}

/// Units of work that each recording of a side did.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Work {
    /// Before.
    pub before: f64,
    /// After.
    pub after: f64,
}

impl Unit {
    /// What the weights of each slice are divided by.
    ///
    /// `whole` is the weight of everything in each slice.
    pub fn divisors(self, whole: &[f64], facts: &Facts, is_before: bool) -> Vec<f64> {
        let seen = 1.0 - facts.lost_share;
        // Slices are equally long. Weights that are times are divided by times.
        let each = |whole: f64| vec![whole * seen / SLICES as f64; SLICES];
        match self {
            Self::Share => whole.to_vec(),
            Self::PerSecond => each(facts.span_ns as f64),
            Self::PerWork(work) => each(1e9 * if is_before { work.before } else { work.after }),
            Self::PerRun => each(1e9 * facts.runs as f64),
        }
    }
}
