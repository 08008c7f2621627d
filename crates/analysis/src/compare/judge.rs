//! Decides which differences are more than chance, considering all rows together.

use std::collections::HashMap;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use super::estimate::Estimate;
use super::few::Few;

/// The share of the rows called changed that may be so by chance alone.
pub const FALSE_DISCOVERIES: f64 = 0.05;
/// The probability of finding a change of the size that is called detectable.
pub const POWER: f64 = 0.8;
/// Rows with fewer samples on both sides together are not tested: no test could call them changed.
pub const FEWEST_SAMPLES: u64 = 12;

/// The weight, in runs, of what all rows show when the spread between runs of one row is estimated.
const PRIOR_DEGREES: f64 = 8.0;
/// The least number of rows from which the spread between runs can be learned.
const ENOUGH_ROWS: usize = 20;
/// The largest factor by which noise is raised because all rows differ more than expected.
const MOST_WIDENING: f64 = 2.0;

/// The judgement of one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// Lower end of the 95 % confidence interval of the difference. For rows called changed it is wider: of all those intervals,
    /// only the accepted share of false discoveries may miss the true value (Benjamini and Yekutieli 2005).
    pub low: f64,
    /// Its upper end.
    pub high: f64,
    /// The row had enough samples for a test.
    pub tested: bool,
    /// The probability of at least as large a difference by chance; 1 if the row was not tested.
    pub p: f64,
    /// The difference is more than chance.
    pub significant: bool,
    /// The smallest change of this row that would have been found with probability [`POWER`].
    pub detectable: f64,
    /// The standard error of the difference.
    pub error: f64,
}

/// The judgement of all rows together.
#[derive(Debug, Clone, PartialEq)]
pub struct Judgement {
    /// Each row, in the order of the estimates.
    pub rows: Vec<Judged>,
    /// Rows that were tested.
    pub tested: usize,
    /// The factor by which noise was raised because rows differ more than chance within recordings explains.
    pub widened: f64,
    /// The probability below which a row is called changed.
    pub threshold: f64,
    /// The median ratio of the variance of a row to that of its samples.
    pub excess: f64,
    /// The median degrees of freedom of the noise of a row.
    pub degrees: f64,
}

impl Judgement {
    /// Returns the smallest change that would have been found in a row with this variance from sampling alone.
    pub fn detectable(&self, of_sampling: f64) -> f64 {
        detectable(
            Noise { error: of_sampling.sqrt() * self.excess.sqrt() * self.widened, degrees: self.degrees },
            self.threshold,
        )
    }
}

/// The least factor by which noise is raised if each side has one recording: these do not show how runs of one program differ.
/// Measured on pairs of real recordings (docs/COMPARING.md).
pub const BETWEEN_RUNS: f64 = 1.3;

/// Judges rows, given which to test and their estimates. If each side has one recording, noise is raised by at least
/// `least_widening`.
pub fn judge(estimates: &[Estimate], is_tested: &[bool], level: f64, least_widening: f64) -> Judgement {
    let noise = noises(estimates, is_tested);
    let tested: Vec<usize> = (0..estimates.len()).filter(|row| is_tested[*row]).collect();
    let by_runs = estimates.iter().any(|estimate| estimate.between.is_some());
    let scores = tested.iter().map(|row| score(estimates[*row].delta(), noise[*row]));
    let widened = if by_runs { 1.0 } else { widening(scores.collect()).max(least_widening) };
    let noise: Vec<Noise> = noise.iter().map(|n| Noise { error: n.error * widened, ..*n }).collect();
    let few: Vec<Option<Few>> =
        estimates.iter().zip(&noise).map(|(it, noise)| Few::of(it, noise.error)).collect();
    let p = |row: usize| match (is_tested[row], few[row]) {
        (false, _) => 1.0,
        // Noise is estimated from limited data: the tails are those of Student's distribution.
        (true, Some(few)) => {
            let score = -normal().inverse_cdf((few.p() / 2.0).max(f64::MIN_POSITIVE));
            (2.0 * student(noise[row].degrees).sf(score)).clamp(estimates[row].p_of_counts, 1.0)
        }
        (true, None) => p_value(estimates[row].delta(), noise[row]).max(estimates[row].p_of_counts),
    };
    let p: Vec<f64> = (0..estimates.len()).map(p).collect();
    let threshold = threshold(tested.iter().map(|row| p[*row]).collect(), level);
    // Quantiles are slow to compute, and degrees of freedom are estimates themselves: steps of an eighth suffice.
    let mut quantiles: HashMap<u64, (f64, f64)> = HashMap::new();
    let rows = (0..estimates.len()).map(|row| {
        let eighths = (noise[row].degrees * 8.0).round() as u64;
        let known = quantiles.entry(eighths);
        let (reach, needed) = *known.or_insert_with(|| quantiles_of(eighths as f64 / 8.0, threshold));
        let interval = |reach: f64| match few[row] {
            Some(few) => few.interval(normal().sf(reach)),
            None => interval(&estimates[row], reach * noise[row].error, widened),
        };
        let selected = interval(needed);
        let excludes_zero = selected.0 > 0.0 || selected.1 < 0.0;
        let significant = is_tested[row] && p[row] <= threshold && excludes_zero;
        // Rows are selected for large differences, and chance contributed to these: their intervals are wider.
        let (low, high) = if significant { selected } else { interval(reach) };
        let detectable = (needed + normal().inverse_cdf(POWER)) * noise[row].error;
        Judged {
            low,
            high,
            tested: is_tested[row],
            p: p[row],
            significant,
            detectable,
            error: noise[row].error,
        }
    });
    let degrees = median(tested.iter().map(|row| noise[*row].degrees).collect()).unwrap_or(1.0);
    let excess = tested.iter().map(|row| of_sampling_alone(&estimates[*row], noise[*row], widened));
    let excess = median(excess.collect()).unwrap_or(1.0).max(1.0);
    Judgement { rows: rows.collect(), tested: tested.len(), widened, threshold, excess, degrees }
}

/// The standard error of a difference, and its degrees of freedom.
#[derive(Debug, Clone, Copy)]
struct Noise {
    error: f64,
    degrees: f64,
}

/// Returns the noise of each row. If a side has several recordings, their spread counts. The spread of one row is poorly known, so
/// it is combined with that of all rows.
fn noises(estimates: &[Estimate], is_tested: &[bool]) -> Vec<Noise> {
    let tested = estimates.iter().zip(is_tested).filter(|(_, is_tested)| **is_tested);
    let ratios = tested.filter_map(|(estimate, _)| Some(estimate.between?.0));
    let ratios: Vec<f64> = ratios.collect();
    // A few rows do not show the common spread.
    let prior = if ratios.len() >= ENOUGH_ROWS { PRIOR_DEGREES } else { 0.0 };
    let common = median(ratios).unwrap_or(1.0);
    let noise = |estimate: &Estimate| {
        let of_chance = Noise { error: estimate.variance.sqrt(), degrees: estimate.degrees };
        let Some((ratio, degrees)) = estimate.between else { return of_chance };
        // The median of a variance lies below its mean: (1 - 2/9ν)³, Wilson and Hilferty 1931.
        let common = common / (1.0 - 2.0 / (9.0 * degrees)).powi(3);
        let mixed = (prior * common + degrees * ratio) / (prior + degrees);
        let of_runs = Noise { error: (estimate.of_sampling * mixed).sqrt(), degrees: prior + degrees };
        if of_runs.error > of_chance.error { of_runs } else { of_chance }
    };
    estimates.iter().map(noise).collect()
}

/// Returns the ratio of the variance of a row to that of its samples.
fn of_sampling_alone(estimate: &Estimate, noise: Noise, widened: f64) -> f64 {
    (noise.error / widened).powi(2) / estimate.of_sampling
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Converts a difference in standard errors to a score of the normal distribution.
fn score(delta: f64, noise: Noise) -> f64 {
    let size = -normal().inverse_cdf(p_value(delta, noise).clamp(1e-300, 1.0) / 2.0);
    size.copysign(delta)
}

/// Returns the factor by which scores spread more than chance within recordings explains: two recordings of one program differ by
/// more than that. It uses the middle half of the rows, so that rows that did change do not matter.
///
/// # Source   Efron 2004, "Large-Scale Simultaneous Hypothesis Testing", the empirical null
fn widening(mut scores: Vec<f64>) -> f64 {
    if scores.len() < ENOUGH_ROWS {
        return 1.0;
    }
    scores.sort_unstable_by(f64::total_cmp);
    let quartile = |quarter: usize| scores[(scores.len() - 1) * quarter / 4];
    // The quartiles of the normal distribution lie 1.349 standard deviations apart.
    ((quartile(3) - quartile(1)) / 1.349).clamp(1.0, MOST_WIDENING)
}

fn p_value(delta: f64, noise: Noise) -> f64 {
    match noise.error > 0.0 {
        true => (2.0 * student(noise.degrees).sf((delta / noise.error).abs())).min(1.0),
        false if delta == 0.0 => 1.0,
        false => 0.0,
    }
}

/// Returns the largest p-value of a row that is called changed.
///
/// # Source   Benjamini and Hochberg 1995
pub(crate) fn threshold(mut p: Vec<f64>, level: f64) -> f64 {
    p.sort_unstable_by(f64::total_cmp);
    let of_rank = |rank: usize| level * (rank + 1) as f64 / p.len() as f64;
    let last = (0..p.len()).rev().find(|rank| p[*rank] <= of_rank(*rank));
    // If no row is called changed, the first would have needed a smaller p-value than this.
    last.map_or(level / p.len().max(1) as f64, of_rank)
}

/// Returns an interval with the shape of the resamples, and the width that few blocks and sampling require.
fn interval(estimate: &Estimate, reach: f64, widened: f64) -> (f64, f64) {
    let (below, above) = estimate.spread;
    let resampled = (below + above) / 2.0;
    let delta = estimate.delta();
    // If the resamples hardly spread, the interval is as wide on both sides as the samples allow.
    if resampled > 0.0 && resampled * widened >= 0.5 * reach {
        (delta - below / resampled * reach, delta + above / resampled * reach)
    } else {
        (delta - reach, delta + reach)
    }
}

/// Returns how many standard errors a 95 % interval reaches, and how many a difference needs to be called a change.
fn quantiles_of(degrees: f64, threshold: f64) -> (f64, f64) {
    let student = student(degrees);
    (student.inverse_cdf(0.975), -student.inverse_cdf(threshold / 2.0))
}

fn detectable(noise: Noise, threshold: f64) -> f64 {
    (quantiles_of(noise.degrees, threshold).1 + normal().inverse_cdf(POWER)) * noise.error
}

pub(crate) fn student(degrees: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, degrees.max(1.0)).expect("bug: a distribution of at least one degree of freedom")
}

fn normal() -> Normal {
    Normal::new(0.0, 1.0).expect("bug: the standard normal distribution")
}
