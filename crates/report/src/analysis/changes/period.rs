//! Noise that comes again: a series that goes up and down in periods.
//!
//! A program that works for a while of each quarter of a second makes slices that resemble their neighbours, as noise that
//! wanders does. It does not wander: over whole periods it adds up to the same.

/// So many periods there must be.
const LEAST_PERIODS: usize = 8;
/// The median of the square of a number of the standard normal distribution.
const MEDIAN: f64 = 0.4549;
/// How much less values differ a period later than they do in between; and two periods later.
const LESS: f64 = 0.5;
const STILL_LESS: f64 = 0.6;

/// Finds the period of a series, in values; `None` if it has none.
///
/// ```text
/// E (x[t+k] − x[t])²    rises with k to a level where noise wanders, and falls again near each multiple of a period
/// ```
pub(super) fn period(values: &[f64]) -> Option<usize> {
    let longest = values.len() / LEAST_PERIODS;
    let apart: Vec<f64> = (0..=2 * longest + 2).map(|steps| apart(values, steps)).collect();
    let mut most: f64 = 0.0;
    (2..=longest).find(|&steps| {
        most = most.max(apart[steps - 1]);
        let is_lowest = apart[steps] <= apart[steps - 1] && apart[steps] <= apart[steps + 1];
        // A period that is no whole number of values lies a little beside its double.
        let again = apart[2 * steps - 1..=2 * steps + 1].iter().copied().fold(f64::MAX, f64::min);
        is_lowest && apart[steps] < LESS * most && again < STILL_LESS * most
    })
}

/// What is left of a series without what comes again: each value, less the mean of those a period before and behind it.
pub(super) fn rest(values: &[f64], period: usize) -> Vec<f64> {
    let around = values.iter().zip(values.get(2 * period..).unwrap_or_default());
    let between = values.get(period..).unwrap_or_default();
    between.iter().zip(around).map(|(value, (before, behind))| value - (before + behind) / 2.0).collect()
}

/// The share of a value's deviation that is carried over to the next so that noise that wanders as much would be as large over
/// whole periods; 0 if independent values would be larger, as a rule.
///
/// ```text
/// variance of the mean of n values = σ² / n · (1 + φ) / (1 − φ)
/// ```
pub(super) fn carried(values: &[f64], period: usize) -> f64 {
    let variance = (1..=period).map(|steps| apart(values, steps) / 2.0).fold(0.0, f64::max);
    let of_means = [1, 2].map(|periods| periods * period).map(|len| {
        let starts = (0..values.len().saturating_sub(2 * len)).step_by(period);
        let mean = |begin: usize| values[begin..begin + len].iter().sum::<f64>() / len as f64;
        let mut squares: Vec<f64> = starts.map(|begin| (mean(begin + len) - mean(begin)).powi(2)).collect();
        squares.sort_by(f64::total_cmp);
        // Half of them are none of a step.
        squares.get(squares.len() / 2).map_or(0.0, |middle| middle / MEDIAN / 2.0 * len as f64)
    });
    let more = of_means.into_iter().fold(0.0, f64::max) / variance;
    if more > 1.0 { (more - 1.0) / (more + 1.0) } else { 0.0 }
}

/// The mean of squared differences of values so far apart.
fn apart(values: &[f64], steps: usize) -> f64 {
    let pairs = values.iter().zip(values.get(steps..).unwrap_or_default());
    let squares: f64 = pairs.map(|(a, b)| (b - a) * (b - a)).sum();
    squares / values.len().saturating_sub(steps).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wave_has_a_period_and_a_ramp_has_none() {
        let wave: Vec<f64> = (0..288).map(|t| f64::from(u8::from(t % 7 < 2))).collect();
        assert_eq!((period(&wave), carried(&wave, 7)), (Some(7), 0.0));
        let slow: Vec<f64> = (0..288).map(|t| f64::from(u8::from(t % 72 < 20))).collect();
        let ramp: Vec<f64> = (0..288).map(f64::from).collect();
        for values in [&slow[..], &ramp, &[1.0; 288], &[0.0, 1.0], &[]] {
            assert_eq!(period(values), None);
        }
    }

    #[test]
    fn what_wanders_beside_a_wave_is_seen() {
        let value = |t: usize| f64::from(u8::from(t % 7 < 2)) + (t as f64 / 30.0).sin();
        let values: Vec<f64> = (0..288).map(value).collect();
        assert!(carried(&values, 7) > 0.5, "{}", carried(&values, 7));
    }
}
