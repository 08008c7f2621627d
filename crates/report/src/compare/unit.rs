//! What rates are rates of.

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
    /// `whole` is the weight of everything in each slice, of which `span_ns` were sampled, and `seen` the share of all
    /// samples that was not lost.
    pub fn divisors(self, whole: &[f64], span_ns: u64, seen: f64, is_before: bool) -> Vec<f64> {
        // Slices are equally long. Weights that are times are divided by times.
        let each = |whole: f64| vec![whole * seen / SLICES as f64; SLICES];
        match self {
            Self::Share => whole.to_vec(),
            Self::PerSecond => each(span_ns as f64),
            Self::PerWork(work) => each(1e9 * if is_before { work.before } else { work.after }),
        }
    }
}
