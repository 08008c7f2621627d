//! Measures one row of one recording: its rate and noise.

use statrs::distribution::ContinuousCDF;

use super::estimate::{Coverage, RecordedRow};
use super::judge::student;
use super::noise::{self, LEVELS};

/// A rate with its noise.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// The rate.
    pub rate: f64,
    /// Its standard error.
    pub error: f64,
    /// 95 % confidence interval.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// Samples of the row.
    pub samples: u64,
    /// Samples that a rate of 1 would give.
    pub whole: f64,
    /// The factor by which the variance exceeds that of independent samples.
    pub excess: f64,
}

impl Point {
    /// Makes a point of samples that are taken as independent: nothing says how they follow each other.
    pub fn of_counts(rate: f64, samples: u64, whole: f64) -> Self {
        let whole = whole.max(1.0);
        let error = (rate * (1.0 - rate).max(0.0) / whole + whole.powi(-2)).sqrt();
        let (low, high) = ((rate - NORMAL * error).max(0.0), rate + NORMAL * error);
        Self { rate, error, low, high, samples, whole, excess: 1.0 }
    }
}

/// The quantile of the normal distribution that one in forty exceeds.
const NORMAL: f64 = 1.96;

/// Measures one row.
pub fn point(seen: RecordedRow<'_>, piece: Coverage) -> Point {
    let pulls = seen.pulls();
    let left = |level: usize| noise::blocks(level) - 1.0;
    let (variance, degrees) = match piece {
        Coverage::WholeRun => (noise::variance_of_steps(&pulls), left(0) * 2.0 / 3.0),
        Coverage::OfTime(least) => {
            let variances: [f64; LEVELS.len()] = std::array::from_fn(|level| noise::variance(&pulls, level));
            let level = noise::level(variances, left).max(least);
            (variances[level], left(level))
        }
    };
    let rate = seen.rate();
    let of_sampling = seen.of_sampling();
    let error = variance.max(of_sampling).sqrt();
    let reach = student(degrees).inverse_cdf(0.975) * error;
    Point {
        rate,
        error,
        low: (rate - reach).max(0.0),
        high: rate + reach,
        samples: seen.samples(),
        whole: seen.base.samples_of_one(),
        excess: if of_sampling > 0.0 { variance.max(of_sampling) / of_sampling } else { 1.0 },
    }
}
