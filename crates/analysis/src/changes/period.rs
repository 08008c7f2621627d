//! Finds periods: a series that goes up and down regularly.
//!
//! A program that works for a part of each quarter of a second makes slices that resemble their neighbours, as drifting noise does.
//! But it does not drift: over whole periods it has a constant sum.

/// The least number of periods in a series.
const LEAST_PERIODS: usize = 8;
/// The median of the square of a standard normal variable.
const MEDIAN: f64 = 0.4549;
/// Differences over one period, and over two, are smaller by at least this factor than differences over the steps in between.
const LESS: f64 = 0.5;
const STILL_LESS: f64 = 0.6;

/// Finds the period of a series, in values; `None` if it has none.
///
/// ```text
/// E (x[t+k] − x[t])²    rises with k to a level if noise drifts, and falls again near each multiple of a period
/// ```
pub(super) fn period(values: &[f64]) -> Option<usize> {
    let longest = values.len() / LEAST_PERIODS;
    let apart: Vec<f64> = (0..=2 * longest + 2).map(|steps| apart(values, steps)).collect();
    let mut most: f64 = 0.0;
    (2..=longest).find(|&steps| {
        most = most.max(apart[steps - 1]);
        let is_lowest = apart[steps] <= apart[steps - 1] && apart[steps] <= apart[steps + 1];
        // If the period is not a whole number of values, twice the period lies a little beside twice the rounded one.
        let again = apart[2 * steps - 1..=2 * steps + 1].iter().copied().fold(f64::MAX, f64::min);
        is_lowest && apart[steps] < LESS * most && again < STILL_LESS * most
    })
}

/// Removes the periodic part of a series: subtracts from each value the mean of those one period before and after.
pub(super) fn rest(values: &[f64], period: usize) -> Vec<f64> {
    let around = values.iter().zip(values.get(2 * period..).unwrap_or_default());
    let between = values.get(period..).unwrap_or_default();
    between.iter().zip(around).map(|(value, (before, behind))| value - (before + behind) / 2.0).collect()
}

/// Returns the autocorrelation with which drifting noise would be as large over whole periods; 0 if independent values would
/// usually be larger.
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
        // At least half of the differences contain no step.
        squares.get(squares.len() / 2).map_or(0.0, |middle| middle / MEDIAN / 2.0 * len as f64)
    });
    let more = of_means.into_iter().fold(0.0, f64::max) / variance;
    if more > 1.0 { (more - 1.0) / (more + 1.0) } else { 0.0 }
}

/// Returns the mean squared difference of values that are `steps` apart.
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
