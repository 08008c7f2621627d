//! Estimates how far chance may move a rate: block bootstrap over slices of time.
//!
//! Consecutive samples are correlated, so slices are drawn in blocks, and blocks grow until longer ones show no more noise. A rate
//! is a quotient of two sums over slices, `Σ part / Σ of`:
//!
//! ```text
//! share of CPU                part: weight of the row      of: weight of everything
//! CPU time per wall time      part: weight of the row      of: length of the slice
//! CPU time per unit of work   part: weight of the row      of: equal parts of the work
//! ```
//!
//! # Source
//! Künsch 1989, Politis and Romano 1992 (circular block bootstrap); Flyvbjerg and Petersen 1989 (length of blocks)

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};

/// The number of slices of each recording.
pub const SLICES: usize = 64;
/// The number of resamples of each recording.
pub const RESAMPLES: usize = 1_000;
/// The seed of the first recording; each further recording takes the next one.
pub const SEED: u64 = 1;

/// The lengths of blocks that are tried, in slices.
pub(super) const LEVELS: [usize; 5] = [1, 2, 4, 8, 16];

/// How often each slice occurs in each resample, for every length of blocks.
#[derive(Debug, Clone)]
pub struct Draws {
    /// By level: for each resample, how often it has each slice.
    times: [Vec<u8>; LEVELS.len()],
}

impl Draws {
    /// Draws blocks with a fixed seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let times = LEVELS.map(|len| {
            let mut times = vec![0u8; RESAMPLES * SLICES];
            for resample in times.chunks_exact_mut(SLICES) {
                for _ in 0..SLICES / len {
                    let start = (random.next_u64() % SLICES as u64) as usize;
                    (start..start + len).for_each(|slice| resample[slice % SLICES] += 1);
                }
            }
            times
        });
        Self { times }
    }

    /// Returns the sum of a series in each resample.
    pub fn sums(&self, level: usize, series: &[f64]) -> Vec<f64> {
        let hit: Vec<(usize, f64)> = series.iter().copied().enumerate().filter(|(_, x)| *x != 0.0).collect();
        let resamples = self.times[level].chunks_exact(SLICES);
        resamples.map(|times| hit.iter().map(|(slice, x)| f64::from(times[*slice]) * x).sum()).collect()
    }
}

/// Returns how much each slice moves a rate; the sum is 0.
///
/// # Shape   as many values as slices
pub fn pulls(part: &[f64], of: &[f64]) -> Vec<f64> {
    let whole: f64 = of.iter().sum();
    if whole <= 0.0 {
        return vec![0.0; part.len()];
    }
    let rate = part.iter().sum::<f64>() / whole;
    part.iter().zip(of).map(|(part, of)| (part - rate * of) / whole).collect()
}

/// Returns the variance of a rate by the spread of its blocks, if these are independent.
pub fn variance(pulls: &[f64], level: usize) -> f64 {
    let len = LEVELS[level];
    let blocks = (pulls.len() / len) as f64;
    let squares: f64 = pulls.chunks(len).map(|block| block.iter().sum::<f64>().powi(2)).sum();
    squares * blocks / (blocks - 1.0)
}

/// Returns the variance of a rate by the changes from each slice to the next; slower changes do not count.
///
/// # Source   von Neumann 1941, the mean square successive difference
pub fn variance_of_steps(pulls: &[f64]) -> f64 {
    let steps = pulls.windows(2).map(|pair| (pair[1] - pair[0]).powi(2));
    steps.sum::<f64>() / 2.0 * pulls.len() as f64 / (pulls.len() as f64 - 1.0)
}

/// Returns the number of blocks of a level.
pub fn blocks(level: usize) -> f64 {
    (SLICES / LEVELS[level]) as f64
}

/// Chooses the length of blocks by the variance of each level: longer blocks if they show more noise than chance explains.
/// `degrees` are the degrees of freedom of each variance.
pub fn level(variances: [f64; LEVELS.len()], degrees: impl Fn(usize) -> f64) -> usize {
    let mut level = 0;
    for longer in 1..LEVELS.len() {
        // A variance of ν degrees of freedom has a relative standard error of √(2/ν).
        let by_chance = 1.0 + ONE_IN_TWENTY * (2.0 / degrees(longer)).sqrt();
        if variances[longer] > variances[level] * by_chance {
            level = longer;
        }
    }
    level
}

/// Chooses the least length of blocks for all rows, by how their variances grow with it: many rows together show what one row is
/// too noisy to show.
pub fn common_level(growth: &[[f64; LEVELS.len()]]) -> usize {
    let mean = |level: usize| {
        let each = growth.iter().map(|row| row[level].min(MOST_OF_ONE));
        each.sum::<f64>() / growth.len() as f64
    };
    let mut level = 0;
    for longer in 1..LEVELS.len() {
        if growth.len() >= ENOUGH_ROWS && mean(longer) > mean(level) * WORTH_IT {
            level = longer;
        }
    }
    level
}

/// The least number of rows that choose together.
const ENOUGH_ROWS: usize = 10;
/// The largest weight of one row.
const MOST_OF_ONE: f64 = 10.0;
/// Longer blocks must show at least this factor more variance, because there are fewer of them.
const WORTH_IT: f64 = 1.15;

/// The quantile of the normal distribution that one in twenty exceeds.
const ONE_IN_TWENTY: f64 = 1.645;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resamples_have_as_many_slices_as_there_are_and_the_same_every_time() {
        let draws = Draws::new(SEED);
        for level in 0..LEVELS.len() {
            let sums = draws.sums(level, &[1.0; SLICES]);
            assert!(sums.len() == RESAMPLES && sums.iter().all(|sum| *sum == SLICES as f64));
            let mut ends = [0.0; SLICES];
            ends[0] = 1.0;
            let mean = draws.sums(level, &ends).iter().sum::<f64>() / RESAMPLES as f64;
            assert!((mean - 1.0).abs() < 0.15, "{level}: {mean}");
        }
        assert_eq!(draws.times, Draws::new(SEED).times);
        assert_ne!(draws.times, Draws::new(SEED + 1).times);
    }

    #[test]
    fn blocks_grow_with_the_time_that_noise_lasts() {
        let degrees = |level| 2.0 * (blocks(level) - 1.0);
        let chosen = |lasts: usize| {
            let x: Vec<f64> = (0..SLICES)
                .map(|slice| [1.0, 4.0, 2.0, 9.0, 0.0, 5.0, 3.0, 7.0][slice / lasts % 8])
                .collect();
            let pulls = pulls(&x, &[10.0; SLICES]);
            assert!(pulls.iter().sum::<f64>().abs() < 1e-12);
            let variances = std::array::from_fn(|level| variance(&pulls, level));
            level(variances, degrees)
        };
        assert_eq!([1, 8].map(chosen), [0, 3]);
        assert_eq!(variance_of_steps(&[1.0, 1.0, -1.0, -1.0]), 4.0 / 2.0 * 4.0 / 3.0);
    }

    #[test]
    fn of_nothing_there_is_no_noise() {
        assert_eq!(pulls(&[1.0, 2.0], &[0.0, 0.0]), [0.0, 0.0]);
        assert_eq!(variance(&[0.0; SLICES], 2), 0.0);
    }
}
