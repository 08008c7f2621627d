//! Compares rows with few samples on one side by their counts, because few samples are not normally distributed.
//!
//! Noise beyond that of independent samples reduces the effective number of samples: samples that come in bunches of two count half
//! (quasi-likelihood, Wedderburn 1974).

use statrs::distribution::{ContinuousCDF, Gamma};
use statrs::function::beta::beta_reg;

use super::estimate::Estimate;

/// A side with fewer samples is compared by counts.
const FEW: u64 = 5;

/// The effective samples of both sides, as if independent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Few {
    counts: [f64; 2],
    wholes: [f64; 2],
}

impl Few {
    /// Returns the counts if one side has few samples of a row. `error` is the standard error of the difference by all known noise.
    pub(crate) fn of(estimate: &Estimate, error: f64) -> Option<Self> {
        let Estimate { counts, wholes, of_sampling, .. } = *estimate;
        let is_few = counts.iter().any(|count| *count < FEW) && wholes.iter().all(|whole| *whole > 0.0);
        let dispersion = (error.powi(2) / of_sampling).max(1.0);
        let independent = is_few && dispersion.is_finite();
        independent.then(|| Self {
            counts: counts.map(|count| count as f64 / dispersion),
            wholes: wholes.map(|whole| whole / dispersion),
        })
    }

    /// Returns the probability of counts at least as different, given their sum, if both sides have one rate.
    pub(crate) fn p(&self) -> f64 {
        let [before, after] = self.counts;
        let share = self.wholes[1] / (self.wholes[0] + self.wholes[1]);
        let (less, more, share) = if after * self.wholes[0] > before * self.wholes[1] {
            (before, after, 1.0 - share)
        } else {
            (after, before, share)
        };
        if more <= 0.0 {
            return 1.0;
        }
        // The probability of at most so many on the side with less: a binomial distribution, interpolated between whole numbers.
        (2.0 * beta_reg(more, less + 1.0, 1.0 - share)).min(1.0)
    }

    /// Returns the interval of the difference of the rates that excludes this probability in each tail of each side.
    ///
    /// # Source   Garwood 1936 for each side; Zou and Donner 2008 (MOVER) for the difference
    pub(super) fn interval(&self, tail: f64) -> (f64, f64) {
        let [before, after] = [0, 1].map(|side| {
            let (count, whole) = (self.counts[side], self.wholes[side]);
            let below = if count > 0.0 { count - quantile(count, tail) } else { 0.0 };
            let above = quantile(count + 1.0, 1.0 - tail) - count;
            (count / whole, below / whole, above / whole)
        });
        let delta = after.0 - before.0;
        (delta - after.1.hypot(before.2), delta + after.2.hypot(before.1))
    }
}

fn quantile(shape: f64, share: f64) -> f64 {
    Gamma::new(shape, 1.0).map_or(0.0, |gamma| gamma.inverse_cdf(share))
}

#[cfg(test)]
mod tests {
    use super::super::estimate::p_of_counts;
    use super::*;

    fn few(before: u64, after: u64, dispersion: f64) -> Few {
        let of_sampling = 1.0;
        let estimate = Estimate {
            counts: [before, after],
            wholes: [2200.0, 2262.0],
            of_sampling,
            ..Estimate::default()
        };
        Few::of(&estimate, dispersion.sqrt()).expect("few")
    }

    #[test]
    fn counts_are_compared_as_the_binomial_test_does() {
        for (before, after) in [(0, 33), (3, 20), (4, 4), (33, 0), (2, 0)] {
            let exact = p_of_counts([before, after], [2200.0, 2262.0]);
            let p = few(before, after, 1.0).p();
            assert!((p - exact).abs() < 1e-9 + 1e-6 * exact, "{before} {after}: {p}, {exact}");
        }
        assert_eq!(few(0, 0, 1.0).p(), 1.0);
    }

    #[test]
    fn a_function_that_was_not_there_is_no_chance_though_runs_differ() {
        // 33 of 2,262 samples, with the noise of one run a side: chance explains at most one of 300 functions.
        let row = few(0, 33, 1.3 * 1.3);
        assert!(row.p() < 0.05 / 300.0, "{}", row.p());
        let (low, high) = row.interval(0.05 / 600.0);
        assert!(low > 0.0 && low < 33.0 / 2262.0 && high > 33.0 / 2262.0, "{low} {high}");
        // In three bunches, chance may explain it.
        assert!(few(0, 33, 11.0).p() > 0.05);
        assert!(few(0, 33, 11.0).interval(0.025).0 < 0.0);
    }

    #[test]
    fn what_both_sides_have_enough_of_is_normal() {
        let estimate =
            Estimate { counts: [5, 5], wholes: [9.0, 9.0], of_sampling: 1.0, ..Estimate::default() };
        assert_eq!(Few::of(&estimate, 1.0), None);
        assert_eq!(Few::of(&Estimate { counts: [0, 9], ..estimate }, f64::INFINITY), None);
    }
}
