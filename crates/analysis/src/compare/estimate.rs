//! Estimates one row on both sides: its rates, their difference, and how far chance may move the difference.

use std::sync::Arc;

use statrs::distribution::{Binomial, DiscreteCDF};

use super::noise::{self, Draws, LEVELS, RESAMPLES, SLICES};
use super::series::GroupWeight;

/// The denominators of the rates of one recording, the same for all its rows.
#[derive(Debug, Clone)]
pub struct Base {
    /// The denominator of each slice: see [`noise`].
    of: Vec<f64>,
    /// The sum of the denominators.
    whole: f64,
    draws: Arc<Draws>,
    /// The sum of denominators in each resample, by level.
    of_sums: [Vec<f64>; LEVELS.len()],
    /// What one sample adds to a rate.
    per_sample: f64,
    /// Rates are shares of all samples: noise vanishes towards 1.
    is_share: bool,
}

impl Base {
    /// Prepares a recording with the denominators `of`; a sample weighs `weight`.
    pub fn new(of: Vec<f64>, draws: Arc<Draws>, weight: f64, is_share: bool) -> Self {
        let of_sums = std::array::from_fn(|level| draws.sums(level, &of));
        let whole: f64 = of.iter().sum();
        let per_sample = if whole > 0.0 { weight / whole } else { 0.0 };
        Self { of, whole, draws, of_sums, per_sample, is_share }
    }

    /// The rate of a weight.
    pub fn rate(&self, weight: f64) -> f64 {
        quotient(weight, self.whole)
    }

    /// Returns the number of samples at a rate of 1.
    pub(super) fn samples_of_one(&self) -> f64 {
        quotient(1.0, self.per_sample)
    }

    /// Returns the variance of a rate if sampling were the only noise.
    pub fn of_sampling_at(&self, rate: f64) -> f64 {
        let samples = if self.per_sample > 0.0 { rate / self.per_sample } else { 0.0 };
        self.of_sampling(samples as u64, rate)
    }

    /// Returns the variance from sampling alone if samples were independent. It counts one sample more, because zero samples do not
    /// prove a rate of zero.
    fn of_sampling(&self, samples: u64, rate: f64) -> f64 {
        let left = if self.is_share { (1.0 - rate).max(0.0) } else { 1.0 };
        (samples as f64 * left + 1.0) * self.per_sample.powi(2)
    }

    fn resampled(&self, level: usize, part: &[f64]) -> Vec<f64> {
        let parts = self.draws.sums(level, part);
        parts.into_iter().zip(&self.of_sums[level]).map(|(part, of)| quotient(part, *of)).collect()
    }
}

fn quotient(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 0.0 }
}

/// A row in one recording.
#[derive(Debug, Clone, Copy)]
pub struct RecordedRow<'a> {
    /// The recording.
    pub base: &'a Base,
    /// The row; empty if the recording does not have it.
    pub part: GroupWeight<'a>,
}

impl RecordedRow<'_> {
    /// Returns how much each slice moves the rate.
    pub(super) fn pulls(&self) -> Vec<f64> {
        noise::pulls(self.part.of_slices.unwrap_or(&[0.0; SLICES]), &self.base.of)
    }

    pub(super) fn samples(&self) -> u64 {
        self.part.amount.samples
    }

    pub(super) fn rate(&self) -> f64 {
        self.base.rate(self.part.amount.weight as f64)
    }

    pub(super) fn of_sampling(&self) -> f64 {
        self.base.of_sampling(self.samples(), self.rate())
    }
}

/// A difference and its noise.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Estimate {
    /// The mean rate of the recordings before.
    pub before: f64,
    /// The mean rate of the recordings after.
    pub after: f64,
    /// How far the middle 95 % of the resampled differences reach below and above the difference.
    pub spread: (f64, f64),
    /// The variance of the difference by chance within the recordings.
    pub variance: f64,
    /// The variance from sampling alone.
    pub of_sampling: f64,
    /// The probability of counts at least as different, if samples were independent. Few samples are not normally distributed.
    pub p_of_counts: f64,
    /// Samples of both sides.
    pub counts: [u64; 2],
    /// Samples that a rate of 1 would give, on both sides.
    pub wholes: [f64; 2],
    /// The degrees of freedom of `variance`.
    pub degrees: f64,
    /// Length of the blocks, a position in `noise::LEVELS`.
    pub level: usize,
    /// The factor by which the spread between recordings of one side exceeds what chance within them explains, and its degrees of
    /// freedom; `None` if each side has one recording.
    pub between: Option<(f64, f64)>,
}

impl Estimate {
    /// After minus before.
    pub fn delta(&self) -> f64 {
        self.after - self.before
    }
}

/// What a recording is a piece of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// A piece of something that continues: it has to show what is typical of the time before and after. Blocks are not shorter
    /// than this level.
    OfTime(usize),
    /// A whole run of a program. Its phases occur in every run and are no noise; only the changes from slice to slice are.
    WholeRun,
}

/// Estimates one row.
pub fn estimate(before: &[RecordedRow<'_>], after: &[RecordedRow<'_>], piece: Coverage) -> Estimate {
    let few = estimate_few(before, after);
    let (counts, wholes) = counts(before, after);
    let of_time = match piece {
        Coverage::OfTime(least_level) => of_blocks(before, after, least_level, &few),
        Coverage::WholeRun => of_steps(before, after),
    };
    Estimate {
        before: few.before,
        after: few.after,
        variance: of_time.variance.max(few.of_sampling),
        of_sampling: few.of_sampling,
        p_of_counts: p_of_counts(counts, wholes),
        counts,
        wholes,
        between: between(before, after),
        ..of_time
    }
}

/// Estimates one row that has too few samples for resampling.
pub fn estimate_few(before: &[RecordedRow<'_>], after: &[RecordedRow<'_>]) -> Estimate {
    let mean =
        |side: &[RecordedRow<'_>]| side.iter().map(|seen| seen.rate()).sum::<f64>() / side.len() as f64;
    let noise = |side: &[RecordedRow<'_>]| {
        side.iter().map(|seen| seen.of_sampling()).sum::<f64>() / (side.len() as f64).powi(2)
    };
    let (counts, wholes) = counts(before, after);
    let together = quotient((counts[0] + counts[1]) as f64, wholes[0] + wholes[1]);
    let at = |side: &[RecordedRow<'_>], rate: f64| {
        side.iter().map(|seen| seen.base.of_sampling_at(rate)).sum::<f64>() / (side.len() as f64).powi(2)
    };
    // If nothing changed, both sides have their common rate.
    let of_sampling = (noise(before) + noise(after)).max(at(before, together) + at(after, together));
    Estimate {
        before: mean(before),
        after: mean(after),
        variance: of_sampling,
        of_sampling,
        degrees: blocks_left(0),
        ..Estimate::default()
    }
}

/// Returns the samples of both sides, and how many a rate of 1 would give.
fn counts(before: &[RecordedRow<'_>], after: &[RecordedRow<'_>]) -> ([u64; 2], [f64; 2]) {
    let counts = [before, after].map(|side| side.iter().map(RecordedRow::samples).sum::<u64>());
    let wholes = [before, after].map(|side| side.iter().map(|seen| seen.base.samples_of_one()).sum::<f64>());
    (counts, wholes)
}

/// Returns the probability of counts at least as different, given their sum, if both sides have one rate.
pub fn p_of_counts(counts: [u64; 2], wholes: [f64; 2]) -> f64 {
    let share = quotient(wholes[1], wholes[0] + wholes[1]);
    let Ok(binomial) = Binomial::new(share, counts[0] + counts[1]) else { return 1.0 };
    let below = binomial.cdf(counts[1]);
    let above = counts[1].checked_sub(1).map_or(1.0, |less| binomial.sf(less));
    (2.0 * below.min(above)).min(1.0)
}

/// Estimates the noise by resampling blocks.
fn of_blocks(
    before: &[RecordedRow<'_>],
    after: &[RecordedRow<'_>],
    least_level: usize,
    few: &Estimate,
) -> Estimate {
    let pulls = pulls(before, after);
    let all = std::array::from_fn(|level| {
        together(&pulls, |pulls| noise::variance(pulls, level), blocks_left(level))
    });
    let level =
        noise::level(all.map(|(variance, _): (f64, f64)| variance), |level| all[level].1).max(least_level);
    let (of_level, degrees) = all[level];
    // Most rows have a difference near zero, and need no interval of their own shape.
    if few.delta().abs() < WORTH_RESAMPLING * of_level.max(few.of_sampling).sqrt() {
        return Estimate { variance: of_level, degrees, level, ..Estimate::default() };
    }
    let (spread, resampled) = spread(before, after, level, few.delta());
    // Drawing a finite number of blocks with replacement underestimates the variance.
    let blocks = noise::blocks(level);
    let variance = resampled * blocks / (blocks - 1.0);
    Estimate { spread, variance, degrees, level, ..Estimate::default() }
}

/// Smaller differences are not resampled, in standard errors.
const WORTH_RESAMPLING: f64 = 1.0;

/// Estimates the noise by the changes from each slice to the next.
fn of_steps(before: &[RecordedRow<'_>], after: &[RecordedRow<'_>]) -> Estimate {
    // Neighbouring differences share a slice: von Neumann 1941.
    let degrees = blocks_left(0) * 2.0 / 3.0;
    let (variance, degrees) = together(&pulls(before, after), noise::variance_of_steps, degrees);
    Estimate { variance, degrees, ..Estimate::default() }
}

fn blocks_left(level: usize) -> f64 {
    noise::blocks(level) - 1.0
}

/// Returns how the variance of a row grows with the length of blocks; `None` if it is zero.
pub fn growth(before: &[RecordedRow<'_>], after: &[RecordedRow<'_>]) -> Option<[f64; LEVELS.len()]> {
    let pulls = pulls(before, after);
    let of_level = |level| together(&pulls, |pulls| noise::variance(pulls, level), blocks_left(level)).0;
    let shortest = of_level(0);
    (shortest > 0.0).then(|| std::array::from_fn(|level| of_level(level) / shortest))
}

/// Returns how much each slice of each recording moves the difference.
fn pulls(before: &[RecordedRow<'_>], after: &[RecordedRow<'_>]) -> Vec<Vec<f64>> {
    let of_side = |side: &[RecordedRow<'_>]| {
        let scaled =
            |seen: &RecordedRow<'_>| seen.pulls().iter().map(|pull| pull / side.len() as f64).collect();
        side.iter().map(scaled).collect::<Vec<Vec<f64>>>()
    };
    [of_side(before), of_side(after)].concat()
}

/// Adds the variances of independent recordings, and returns the sum with its degrees of freedom.
///
/// # Source   Welch 1947, Satterthwaite 1946
fn together(pulls: &[Vec<f64>], variance: impl Fn(&[f64]) -> f64, degrees: f64) -> (f64, f64) {
    let (mut sum, mut squares) = (0.0, 0.0);
    for variance in pulls.iter().map(|pulls| variance(pulls)) {
        sum += variance;
        squares += variance.powi(2);
    }
    (sum, if squares > 0.0 { degrees * sum.powi(2) / squares } else { degrees })
}

/// Resamples the difference: returns how far the middle 95 % reach on both sides of it, and their variance.
fn spread(
    before: &[RecordedRow<'_>],
    after: &[RecordedRow<'_>],
    level: usize,
    delta: f64,
) -> ((f64, f64), f64) {
    let mut deltas = vec![0.0; RESAMPLES];
    for (side, sign) in [(before, -1.0), (after, 1.0)] {
        for seen in side {
            let Some(part) = seen.part.of_slices else { continue };
            let rates = seen.base.resampled(level, part);
            let scale = sign / side.len() as f64;
            deltas.iter_mut().zip(rates).for_each(|(delta, rate)| *delta += scale * rate);
        }
    }
    let mean = deltas.iter().sum::<f64>() / RESAMPLES as f64;
    let variance = deltas.iter().map(|delta| (delta - mean).powi(2)).sum::<f64>() / RESAMPLES as f64;
    deltas.sort_unstable_by(f64::total_cmp);
    let quantile = |share: f64| deltas[(share * (RESAMPLES - 1) as f64).round() as usize];
    (((delta - quantile(0.025)).max(0.0), (quantile(0.975) - delta).max(0.0)), variance)
}

/// Compares the spread between the recordings of each side with the spread expected from each recording alone.
fn between(before: &[RecordedRow<'_>], after: &[RecordedRow<'_>]) -> Option<(f64, f64)> {
    let (mut squares, mut expected, mut degrees) = (0.0, 0.0, 0.0);
    for side in [before, after] {
        let rates: Vec<f64> = side.iter().map(RecordedRow::rate).collect();
        let mean = rates.iter().sum::<f64>() / rates.len() as f64;
        let free = rates.len() as f64 - 1.0;
        squares += rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
        expected += free * side.iter().map(RecordedRow::of_sampling).sum::<f64>() / rates.len() as f64;
        degrees += free;
    }
    (degrees > 0.0 && expected > 0.0).then(|| (squares / expected, degrees))
}
