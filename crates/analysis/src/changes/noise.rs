//! Removes first-order autocorrelation from a series.

use super::period;

/// Shorter series count as independent values: they are too short to estimate the autocorrelation.
const SHORT: usize = 40;
/// The largest share of differences that may be steps rather than noise.
const STEPS: f64 = 0.1;
/// The largest autocorrelation that is removed.
const MOST: f64 = 0.95;
/// Differences are compared over up to so many values.
const LAGS: usize = 5;
/// Added to the estimate, in units of one over the root of the number of values.
const DOUBT: f64 = 1.6;
/// The median of the square of a standard normal variable.
const MEDIAN: f64 = 0.4549;
/// The least variance, as a share of the usual one.
const LEAST: f64 = 1e-3;

/// A series whose noise is independent, or nearly so.
#[derive(Debug)]
pub(super) struct Whitened {
    pub(super) values: Vec<f64>,
    /// One over the variance of each value; all 1 if the variances are unknown.
    pub(super) weights: Vec<f64>,
}

impl Whitened {
    /// Removes from each value the part that the value before it predicts. A step keeps its position and height.
    pub(super) fn new(values: &[f64], errors: Option<&[f64]>) -> Self {
        let variances = variances(values, errors);
        let carried = carried(values, &variances);
        Self::without(carried, values, &variances)
    }

    /// Does the same for a periodic series, with the period in values: the periodic part is not drifting noise. Over whole periods
    /// it has a constant sum, and shuffled values drift more than it does.
    pub(super) fn of_periods(values: &[f64], errors: Option<&[f64]>, period: usize) -> Self {
        let rest = period::rest(values, period.max(LAGS + 1).next_multiple_of(period));
        let carried = carried(&rest, &vec![1.0; rest.len()]).max(period::carried(values, period)).min(MOST);
        Self::without(carried, values, &variances(values, errors))
    }

    fn without(carried: f64, values: &[f64], variances: &[f64]) -> Self {
        let known = || values.iter().copied().zip(variances.iter().copied());
        // The first value has no predecessor: it counts as its own.
        let before = known().take(1).chain(known());
        let white = known().zip(before).map(|((value, variance), (before, of_before))| {
            let value = (value - carried * before) / (1.0 - carried);
            (value, 1.0 / (variance + carried * carried * of_before))
        });
        let (values, weights) = white.unzip();
        Self { values, weights }
    }
}

/// Estimates the share of a value's deviation that carries over to the next, from differences over one step and over several: if
/// noise drifts, the latter are larger.
///
/// ```text
/// E (x[t+k] − x[t])² = 2σ² (1 − φᵏ)      over k steps and over one: 1 + φ + … + φᵏ⁻¹
/// ```
///
/// Steps between levels cause few, large differences: the largest are ignored.
pub(super) fn carried(values: &[f64], variances: &[f64]) -> f64 {
    if values.len() < SHORT {
        return 0.0;
    }
    let mean_of_usual = |steps: usize| {
        let all = differences(values, variances, steps);
        let kept = &all[..(all.len() as f64 * (1.0 - STEPS)) as usize];
        kept.iter().sum::<f64>() / kept.len().max(1) as f64
    };
    let one = mean_of_usual(1);
    if one <= 0.0 {
        return 0.0;
    }
    let quotients: Vec<f64> = (1..=LAGS).map(|steps| mean_of_usual(steps) / one).collect();
    let misfit = |carried: f64| -> f64 {
        let expected = (1..).scan((0.0, 1.0), |(sum, power), _: usize| {
            *sum += *power;
            *power *= carried;
            Some(*sum)
        });
        quotients.iter().zip(expected).map(|(found, expected)| (found / expected - 1.0).powi(2)).sum()
    };
    let candidates = (0..=100).map(|percent| f64::from(percent) / 100.0);
    let best = candidates.min_by(|a, b| misfit(*a).total_cmp(&misfit(*b))).unwrap_or_default();
    // Too small an estimate causes false alarms; too large an estimate only hides small steps.
    if best == 0.0 { 0.0 } else { (best + DOUBT / (values.len() as f64).sqrt()).min(MOST) }
}

/// Returns squared differences over some steps, in units of their variance; the smallest first.
fn differences(values: &[f64], variances: &[f64], steps: usize) -> Vec<f64> {
    let pairs = values.iter().zip(&values[steps..]).zip(variances.iter().zip(&variances[steps..]));
    let mut all: Vec<f64> = pairs.map(|((a, b), (of_a, of_b))| (b - a) * (b - a) / (of_a + of_b)).collect();
    all.sort_by(f64::total_cmp);
    all
}

/// Returns variances from standard errors, and from how much the values vary beyond these; all 1 if nothing is known.
fn variances(values: &[f64], errors: Option<&[f64]>) -> Vec<f64> {
    let ones = vec![1.0; values.len()];
    let Some(errors) = errors.filter(|errors| errors.iter().any(|error| *error > 0.0)) else { return ones };
    let mut squared: Vec<f64> = errors.iter().map(|error| error * error).collect();
    squared.sort_by(f64::total_cmp);
    let usual = squared[squared.len() / 2].max(squared[squared.len() - 1] * LEAST);
    let differences = differences(values, &ones, 1);
    let all = differences.get(differences.len() / 2).map_or(0.0, |middle| middle / MEDIAN);
    let beyond = (all - usual).max(0.0);
    // No value is known exactly: it would outweigh all others.
    errors.iter().map(|error| (error * error).max(usual * LEAST) + beyond).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_no_noise_that_wanders() {
        let carried = |values: &[f64]| carried(values, &vec![1.0; values.len()]);
        let step = |t: usize| if t < 50 { 0.0 } else { 10.0 } + if t.is_multiple_of(2) { 0.5 } else { -0.5 };
        let steps: Vec<f64> = (0..100).map(step).collect();
        assert_eq!(carried(&steps), 0.0, "its noise goes to and fro");
        let wandering: Vec<f64> = (0..100).map(|t| (f64::from(t) / 7.0).sin()).collect();
        assert!(carried(&wandering) > 0.9, "{}", carried(&wandering));
        assert_eq!(carried(&[1.0; 100]), 0.0);
    }

    #[test]
    fn whitening_keeps_the_height_of_a_step() {
        let value = |t: i32| if t < 100 { 1.0 } else { 3.0 } + (f64::from(t) / 9.0).sin() * 0.1;
        let values: Vec<f64> = (0..200).map(value).collect();
        let white = Whitened::new(&values, None).values;
        let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
        let height = mean(&white[110..]) - mean(&white[..100]);
        assert!((height - 2.0).abs() < 0.5, "{height}");
    }

    #[test]
    fn values_with_large_errors_weigh_little() {
        let of = variances(&[1.0, 1.1, 0.9, 1.0], Some(&[0.1, 0.1, 1.0, 0.0]));
        assert!(of[2] > 20.0 * of[0] && of[3] > 0.0, "{of:?}");
        assert_eq!(variances(&[1.0, 2.0], Some(&[0.0, 0.0])), [1.0, 1.0]);
    }
}
