//! Finds steps in the shares of rows over recordings, of which each knows its own samples.
//!
//! Recordings are few and differ in length, so that shuffling them proves little: ten have 210 divisions into six and four. But
//! samples are counted, and many rows together show how much recordings differ by more than their samples. The variance of a share
//! is modelled as
//!
//! ```text
//! φ · (p (1 − p) / samples + κ p²)      φ: of the row, moderated by all rows      κ: between recordings, the same for all rows
//! ```
//!
//! A step counts if neither the spread of the recordings (Student's t) nor their samples (normal, and the exact binomial test)
//! explain it, after correction for all places in a row and for all rows. By the same model, [`sides`] compares recordings that follow no
//! order: one host with the others. Nothing in this module is random but the simulation of
//! what residuals look like, whose seed is fixed.
//!
//! # Source
//! Moderated variances: Smyth, "Linear models and empirical Bayes methods" (2004). Variance between recordings: DerSimonian and
//! Laird, "Meta-analysis in clinical trials" (1986).

pub mod sides;

use std::ops::Range;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{RngCore as _, SeedableRng as _};
use statrs::distribution::{ContinuousCDF as _, Normal};
use statrs::function::gamma::digamma;

use super::noise::carried;
use super::scan::intervals;
use crate::compare::Point;
use crate::compare::estimate::{Estimate, p_of_counts};
use crate::compare::few::Few;
use crate::compare::judge::{FEWEST_SAMPLES, POWER, student};

/// The least number of recordings of a level.
pub const SHORTEST: usize = 3;
/// The least number of recordings that show how they differ.
pub const FEWEST: usize = 5;

/// A row shows how recordings differ if each has so many samples of it on average: fewer are too uneven.
const TELLING: u64 = 5;
/// Simulated rows that show what residuals look like.
const SIMULATED: usize = 400;
/// The seed of these.
const SEED: u64 = 0x1ce_7e4d;
/// Lengths differ if the longest recording has so many times the samples of the shortest.
const UNEQUAL: f64 = 2.0;
/// The most degrees of freedom that all rows together give to the variance of one.
const MOST_DEGREES: f64 = 1_000.0;
/// Fewer standard errors are never a step: their probability is not computed.
const WORTH_TESTING: f64 = 2.0;

/// A step from one level to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// The position of the first recording after it.
    pub at: usize,
    /// The share before.
    pub before: f64,
    /// The share after.
    pub after: f64,
    /// The probability that chance makes as clear a step at any place of a row.
    pub p: f64,
}

/// The smallest steps that are found with probability [`POWER`], as shares.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Detectable {
    /// If the step lies in the middle.
    pub middle: f64,
    /// If only the last [`SHORTEST`] recordings are after it; `None` if no such step is found so often.
    pub end: Option<f64>,
}

/// One row: what was found, and what could have been.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What would have been found; `None` if the row has too few samples, so that it was not tested.
    pub detectable: Option<Detectable>,
}

/// The search for steps in rows over the same recordings.
#[derive(Debug)]
pub struct Search {
    /// The highest accepted probability for one row.
    level: f64,
    /// Places at which a row may have a step.
    places: f64,
    /// The relative variance between recordings.
    between: f64,
    /// What the variance of a row is by all rows, and how many degrees of freedom that has.
    usual: (f64, f64),
    /// Samples of each recording.
    wholes: Vec<f64>,
    /// Rows that were tested.
    pub tested: usize,
}

/// A row over all recordings.
#[derive(Clone, Copy)]
struct Row<'a> {
    points: &'a [Point],
    /// The variance between recordings, in variances of one sample.
    between: f64,
    /// The factor by which neighbours that resemble each other raise the variance of a mean.
    drift: f64,
}

/// A row over some consecutive recordings.
struct Piece {
    len: usize,
    /// Sums before each position: weights, weighted shares, weighted squares, weights squared over samples, samples of the row, all,
    /// weights squared.
    sums: Vec<[f64; 7]>,
    /// The variance of one sample.
    of_sample: f64,
    /// The factor by which samples are noisier than independent ones.
    excess: f64,
    drift: f64,
}

/// The noise of a difference of two levels.
struct Noise {
    /// By how the recordings spread.
    of_spread: f64,
    degrees: f64,
    /// By samples alone.
    of_samples: f64,
}

impl Search {
    /// Prepares a search in `rows`; `all` rows show how recordings differ. Each row has one point for each recording. `false_alarms` is
    /// the highest accepted probability that any row shows a step if none has one.
    pub fn new(all: &[Vec<Point>], rows: &[Vec<Point>], false_alarms: f64) -> Self {
        let tested = rows.iter().filter(|row| is_tested(row)).count();
        let wholes: Vec<f64> =
            all.first().map(|row| row.iter().map(|point| point.whole).collect()).unwrap_or_default();
        let len = wholes.len();
        let places: usize =
            intervals(len, 2 * SHORTEST).into_iter().map(|(begin, end)| splits(begin..end).len()).sum();
        let mut search = Self {
            level: false_alarms / tested.max(1) as f64,
            places: places as f64,
            between: 0.0,
            usual: (1.0, 0.0),
            wholes,
            tested,
        };
        if len >= FEWEST {
            let telling = all.iter().map(Vec::as_slice).filter(|row| counted(row) >= TELLING * len as u64);
            let telling: Vec<&[Point]> = telling.collect();
            search.between = search.between(&telling);
            search.usual = search.usual(&telling);
        }
        search
    }

    /// Returns true if there are enough recordings for any step.
    pub fn is_possible(&self) -> bool {
        self.places > 0.0
    }

    /// Finds the steps of one of the rows.
    pub fn find(&self, row: &[Point]) -> Found {
        if !self.is_possible() || !is_tested(row) {
            return Found { steps: Vec::new(), detectable: None };
        }
        let row = Row::new(row, self.between);
        let mut at: Vec<usize> = Vec::new();
        let mut open = vec![(0, row.len())];
        while let Some((begin, end)) = open.pop() {
            let step = self.clearest(row, begin..end, &intervals(end - begin, 2 * SHORTEST));
            if let Some((found, _)) = step.filter(|(_, p)| *p <= self.level) {
                at.push(found);
                open.extend([(begin, found), (found, end)]);
            }
        }
        at.sort_unstable();
        let p = self.settle(row, &mut at);
        let bounds: Vec<usize> = [0].into_iter().chain(at.iter().copied()).chain([row.len()]).collect();
        let pieces: Vec<Piece> = bounds.windows(2).map(|pair| Piece::new(row, pair[0]..pair[1])).collect();
        let mean = |piece: &Piece| piece.mean(0..piece.len);
        let steps = pieces.windows(2).zip(at).zip(p);
        let steps =
            steps.map(|((pair, at), p)| Step { at, before: mean(&pair[0]), after: mean(&pair[1]), p });
        Found { detectable: self.detectable(row, &pieces), steps: steps.collect() }
    }

    /// Returns what is found in a row of this share whose recordings differ as those of most rows do.
    pub fn detectable_at(&self, share: f64) -> Option<Detectable> {
        let point =
            |whole: &f64| Point { rate: share, samples: (share * whole).round() as u64, ..alike(*whole) };
        let row: Vec<Point> = self.wholes.iter().map(point).collect();
        let is_enough = row.iter().map(|point| share * point.whole).sum::<f64>() >= FEWEST_SAMPLES as f64;
        let piece = Piece::whole(Row::steady(&row, self.between));
        let squares = self.usual.0 * piece.of_sample * row.len().saturating_sub(2) as f64;
        (self.is_possible() && is_enough).then(|| self.detectable_with(&piece, squares, 2)).flatten()
    }

    fn detectable(&self, row: Row<'_>, levels: &[Piece]) -> Option<Detectable> {
        // The steps that were found are no noise.
        let squares: f64 = levels.iter().map(|piece| piece.squares(0..piece.len) / piece.of_sample).sum();
        let piece = Piece::whole(row);
        self.detectable_with(&piece, squares * piece.of_sample, levels.len().max(2))
    }

    /// `squares` are those around so many levels.
    fn detectable_with(&self, piece: &Piece, squares: f64, levels: usize) -> Option<Detectable> {
        let (spread, degrees) = self.moderated(squares, levels, piece);
        let len = piece.len;
        let share = piece.mean(0..len);
        let tail = self.level / self.places / 2.0;
        let beyond = normal().inverse_cdf(POWER);
        let (of_spread, of_samples) =
            (-student(degrees).inverse_cdf(tail) + beyond, -normal().inverse_cdf(tail) + beyond);
        let smallest = |at: usize| {
            let spread = spread * piece.of_spread(0..at, at..len);
            let samples = piece.of_samples(0..at) + piece.of_samples(at..len);
            let mut step = 0.0;
            // A row that grew has more noise.
            for _ in 0..ITERATIONS {
                let more = of_one(share + step / 2.0) / of_one(share);
                step = (of_spread * (spread * more).sqrt()).max(of_samples * (samples * more).sqrt());
            }
            step
        };
        // No share is more than everything.
        let possible = |step: f64| (share + step <= 1.0).then_some(step);
        let found = possible(smallest(len / 2))
            .map(|middle| Detectable { middle, end: possible(smallest(len - SHORTEST)) });
        found.filter(|_| degrees > 0.0)
    }

    /// Returns the clearest step in intervals of a piece of a row, as position and probability.
    fn clearest(&self, row: Row<'_>, of: Range<usize>, intervals: &[(usize, usize)]) -> Option<(usize, f64)> {
        let piece = Piece::new(row, of.clone());
        let steps = intervals.iter().flat_map(|(begin, end)| {
            let piece = &piece;
            splits(*begin..*end).map(move |at| (of.start + at, self.p(piece, *begin..at, at..*end)))
        });
        steps.min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))
    }

    /// Moves each step to where it is clearest between its neighbours, and removes steps that another one explains. Returns the
    /// probability of each.
    fn settle(&self, row: Row<'_>, steps: &mut Vec<usize>) -> Vec<f64> {
        loop {
            let mut probabilities = Vec::new();
            for position in 0..steps.len() {
                let begin = position.checked_sub(1).map_or(0, |before: usize| steps[before]);
                let end = steps.get(position + 1).copied().unwrap_or(row.len());
                let clearest = self.clearest(row, begin..end, &[(0, end - begin)]);
                let (at, p) = clearest.unwrap_or((steps[position], 1.0));
                steps[position] = at;
                probabilities.push(p);
            }
            let weakest = (0..steps.len()).max_by(|a, b| probabilities[*a].total_cmp(&probabilities[*b]));
            match weakest.filter(|position| probabilities[*position] > self.level) {
                Some(position) => drop(steps.remove(position)),
                None => return probabilities,
            }
        }
    }

    /// Returns the probability that chance makes a step from `left` to `right` as clear as this one, at any place.
    fn p(&self, piece: &Piece, left: Range<usize>, right: Range<usize>) -> f64 {
        let noise = self.noise(piece, &left, &right);
        Self::p_here(piece, left, right, noise) * self.places
    }

    /// Returns the probability that chance makes as clear a step at this place.
    fn p_here(piece: &Piece, left: Range<usize>, right: Range<usize>, noise: Noise) -> f64 {
        let difference = piece.mean(right.clone()) - piece.mean(left.clone());
        let Noise { of_spread, degrees, of_samples } = noise;
        if difference.abs() < WORTH_TESTING * of_spread.max(of_samples).sqrt() || degrees <= 0.0 {
            return 1.0;
        }
        let counted =
            |part: Range<usize>| [4, 5].map(|sum| piece.sums[part.end][sum] - piece.sums[part.start][sum]);
        let [left, right] = [left, right].map(counted);
        let estimate = Estimate {
            counts: [left[0] as u64, right[0] as u64],
            wholes: [left[1], right[1]],
            of_sampling: of_samples / piece.excess,
            ..Estimate::default()
        };
        let exact = p_of_counts(estimate.counts, estimate.wholes);
        let by_samples = two_sided(|score| normal().sf(score), difference / of_samples.sqrt());
        let by_spread = |score: f64| two_sided(|score| student(degrees).sf(score), score);
        let p = match Few::of(&estimate, of_spread.max(of_samples).sqrt()) {
            // Few samples are not normally distributed.
            Some(few) => by_spread(-normal().inverse_cdf((few.p() / 2.0).max(f64::MIN_POSITIVE))),
            None => by_spread(difference / of_spread.sqrt()).max(by_samples),
        };
        p.max(exact)
    }

    fn noise(&self, piece: &Piece, left: &Range<usize>, right: &Range<usize>) -> Noise {
        let len = piece.len;
        let parts = [0..left.start, left.clone(), right.clone(), right.end..len];
        let levels = parts.iter().filter(|part| !part.is_empty()).count();
        let squares = parts.iter().map(|part| piece.squares(part.clone())).sum();
        let (spread, degrees) = self.moderated(squares, levels, piece);
        let of_samples = piece.of_samples(left.clone()) + piece.of_samples(right.clone());
        Noise { of_spread: spread * piece.of_spread(left.clone(), right.clone()), degrees, of_samples }
    }

    /// Combines the spread of a row around its levels with that of all rows; returns the variance at a weight of 1, and its degrees of
    /// freedom.
    fn moderated(&self, squares: f64, levels: usize, piece: &Piece) -> (f64, f64) {
        let (usual, of_usual) = self.usual;
        let own = squares / (piece.len.saturating_sub(levels).max(1)) as f64;
        let degrees = (piece.effective() - levels as f64).max(0.0) / piece.drift;
        let all = of_usual + degrees;
        let variance = (of_usual * usual * piece.of_sample + degrees * own) / all.max(f64::MIN_POSITIVE);
        (variance * piece.drift, all)
    }

    /// Estimates the variance between recordings that does not shrink with their length: the median of all rows.
    fn between(&self, rows: &[&[Point]]) -> f64 {
        let longest = self.wholes.iter().copied().fold(0.0, f64::max);
        let shortest = self.wholes.iter().copied().fold(f64::INFINITY, f64::min);
        if longest < UNEQUAL * shortest {
            return 0.0;
        }
        let left = self.simulated(0.0).iter().sum::<f64>() / SIMULATED as f64;
        let of_row = |row: &&[Point]| {
            let piece = Piece::whole(Row::steady(row, 0.0));
            let (at, squares) = piece.two_levels();
            let lever = |part: Range<usize>| {
                let squared: f64 = row[part.clone()].iter().map(|point| point.whole * point.whole).sum();
                piece.weight(part.clone()) - squared / piece.weight(part)
            };
            let levels = lever(0..at) + lever(at..piece.len);
            let lever = levels * left / (piece.len - 2) as f64 * Row::steady(row, 1.0).between;
            (((squares / piece.of_sample - piece.excess * left) / lever).max(0.0), lever)
        };
        let mut all: Vec<(f64, f64)> = rows.iter().map(of_row).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let half = all.iter().map(|(_, lever)| lever).sum::<f64>() / 2.0;
        let mut below = 0.0;
        let median = all.iter().find(|(_, lever)| {
            below += lever;
            below >= half
        });
        median.map_or(0.0, |(between, _)| *between)
    }

    /// Simulates rows without a step; returns the squares that the best division into two levels leaves: it takes away a part of the
    /// noise. `between` is the variance between recordings, in variances of one sample.
    fn simulated(&self, between: f64) -> Vec<f64> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(SEED);
        let simulated = (0..SIMULATED).map(|_| {
            let mut rate = |whole: f64| score(&mut random) * (1.0 / whole.max(1.0) + between).sqrt();
            let points = self.wholes.iter().map(|whole| Point { rate: rate(*whole), ..alike(*whole) });
            let points: Vec<Point> = points.collect();
            Piece::whole(Row { points: &points, between, drift: 1.0 }).two_levels().1
        });
        simulated.collect()
    }

    /// Estimates the variance that rows have in common, and how alike they are in it, as degrees of freedom.
    fn usual(&self, rows: &[&[Point]]) -> (f64, f64) {
        let degrees = self.wholes.len() as f64 - 2.0;
        let logarithm = |squares: f64| (squares / degrees).max(f64::MIN_POSITIVE).ln();
        let rows: Vec<Row<'_>> = rows.iter().map(|row| Row::steady(row, self.between)).collect();
        let Some(between) = median(rows.iter().map(|row| row.between).collect()).filter(|_| rows.len() > 1)
        else {
            return (1.0, 0.0);
        };
        let left = |row: &Row<'_>| {
            let piece = Piece::whole(*row);
            logarithm(piece.two_levels().1 / piece.of_sample)
        };
        let seen: Vec<f64> = rows.iter().map(left).collect();
        let simulated: Vec<f64> = self.simulated(between).into_iter().map(logarithm).collect();
        let (own_mean, own_variance) = moments(&simulated);
        let (mean, variance) = moments(&seen);
        // A few rows do not prove that they are alike.
        let doubt = 1.0 + (2.0 / (seen.len() as f64 - 1.0)).sqrt();
        let apart = (variance * doubt - own_variance).max(2.0 / MOST_DEGREES);
        let of_usual = 2.0 / apart;
        let correction = digamma(of_usual / 2.0) - (of_usual / 2.0).ln();
        ((mean - own_mean + correction).exp(), of_usual)
    }
}

impl<'a> Row<'a> {
    /// Measures whether the row drifts; too few recordings do not show it.
    fn new(points: &'a [Point], between: f64) -> Self {
        let row = Self::steady(points, between);
        let rates: Vec<f64> = points.iter().map(|point| point.rate).collect();
        let variances: Vec<f64> = points.iter().map(|point| row.variance(point)).collect();
        let carried = carried(&rates, &variances);
        Self { drift: (1.0 + carried) / (1.0 - carried), ..row }
    }

    /// Takes neighbours as independent. `between` is the relative variance between recordings.
    fn steady(points: &'a [Point], between: f64) -> Self {
        let whole: f64 = points.iter().map(|point| point.whole).sum();
        let share = (counted(points) as f64 / whole).min(0.5);
        Self { points, between: between * share / (1.0 - share), drift: 1.0 }
    }

    fn len(self) -> usize {
        self.points.len()
    }

    /// Returns the variance of a share, in variances of one sample.
    fn variance(self, point: &Point) -> f64 {
        1.0 / point.whole.max(1.0) + self.between
    }
}

impl Piece {
    /// Prepares all recordings.
    fn whole(row: Row<'_>) -> Self {
        Self::new(row, 0..row.len())
    }

    /// Prepares consecutive recordings.
    fn new(row: Row<'_>, of: Range<usize>) -> Self {
        let mut sums = vec![[0.0; 7]];
        let mut sum = [0.0; 7];
        let (mut noise, mut of_sampling) = (0.0, 0.0);
        for point in &row.points[of.clone()] {
            let weight = row.variance(point).recip();
            let (rate, own) = (point.rate, point.samples as f64);
            let added = [
                weight,
                weight * rate,
                weight * rate * rate,
                weight * weight / point.whole.max(1.0),
                own,
                point.whole,
                weight * weight,
            ];
            sum.iter_mut().zip(added).for_each(|(sum, added)| *sum += added);
            sums.push(sum);
            noise += point.excess * (own + 1.0);
            of_sampling += own + 1.0;
        }
        let of_sample = of_one((sum[4] + 1.0) / (sum[5] + 2.0));
        let excess = (noise / of_sampling).max(1.0);
        Self { len: of.len(), sums, of_sample, excess, drift: row.drift }
    }

    fn sum(&self, which: usize, part: Range<usize>) -> f64 {
        self.sums[part.end][which] - self.sums[part.start][which]
    }

    fn weight(&self, part: Range<usize>) -> f64 {
        self.sum(0, part)
    }

    fn mean(&self, part: Range<usize>) -> f64 {
        self.sum(1, part.clone()) / self.weight(part).max(f64::MIN_POSITIVE)
    }

    /// Returns the weighted squares of the deviations from the mean.
    fn squares(&self, part: Range<usize>) -> f64 {
        let (weight, sum, squares) =
            (self.sum(0, part.clone()), self.sum(1, part.clone()), self.sum(2, part));
        if weight > 0.0 { (squares - sum * sum / weight).max(0.0) } else { 0.0 }
    }

    /// Returns the variance of the mean by samples alone.
    fn of_samples(&self, part: Range<usize>) -> f64 {
        self.excess * self.of_sample * self.sum(3, part.clone()) / self.weight(part).powi(2)
    }

    /// Returns the variance of the difference of two means, for a variance of 1 at a weight of 1: the larger one of those that follow
    /// if recordings differ as they are weighted, and if all differ alike.
    fn of_spread(&self, left: Range<usize>, right: Range<usize>) -> f64 {
        let weighted = |part: Range<usize>| self.weight(part).recip();
        let alike = |part: Range<usize>| self.sum(6, part.clone()) / self.weight(part).powi(2);
        let mean = self.weight(0..self.len) / self.len as f64;
        let all_alike = (alike(left.clone()) + alike(right.clone())) / mean;
        (weighted(left) + weighted(right)).max(all_alike)
    }

    /// Returns how many recordings of equal weight know as much.
    fn effective(&self) -> f64 {
        self.weight(0..self.len).powi(2) / self.sum(6, 0..self.len)
    }

    /// Returns where two levels fit best, and the squares that they leave.
    fn two_levels(&self) -> (usize, f64) {
        let len = self.len;
        let left = |at: usize| (at, self.squares(0..at) + self.squares(at..len));
        let best = splits(0..len).map(left).min_by(|a, b| a.1.total_cmp(&b.1));
        best.unwrap_or((0, self.squares(0..len)))
    }
}

/// How often the size of a detectable step is corrected.
const ITERATIONS: usize = 6;

/// Returns a point of a recording whose samples are independent.
fn alike(whole: f64) -> Point {
    Point { rate: 0.0, error: 0.0, low: 0.0, high: 0.0, samples: 0, whole, excess: 1.0 }
}

/// Returns the positions at which an interval may have a step.
fn splits(of: Range<usize>) -> Range<usize> {
    of.start + SHORTEST..(of.end + 1).saturating_sub(SHORTEST).max(of.start + SHORTEST)
}

fn counted(row: &[Point]) -> u64 {
    row.iter().fold(0, |sum, point| sum + point.samples)
}

fn is_tested(row: &[Point]) -> bool {
    counted(row) >= FEWEST_SAMPLES
}

/// Returns the variance of one sample of a row of this share.
fn of_one(share: f64) -> f64 {
    let share = share.clamp(0.0, 1.0);
    (share * (1.0 - share)).max(f64::MIN_POSITIVE)
}

fn two_sided(tail: impl Fn(f64) -> f64, score: f64) -> f64 {
    (2.0 * tail(score.abs())).min(1.0)
}

fn normal() -> Normal {
    Normal::new(0.0, 1.0).expect("bug: the standard normal distribution")
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Returns mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (mean, squares / (values.len() as f64 - 1.0))
}

/// Draws from the standard normal distribution (Box and Muller).
fn score(random: &mut Xoshiro256PlusPlus) -> f64 {
    let mut even = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    (-2.0 * (1.0 - even()).ln()).sqrt() * (std::f64::consts::TAU * even()).cos()
}

#[cfg(test)]
mod tests;
