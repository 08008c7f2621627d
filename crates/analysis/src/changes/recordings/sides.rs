//! Compares recordings that follow no order: some with the others, and each with the rest.
//!
//! [`Sides::outliers`] takes the recording that differs most from the rest, then the one that differs most from those that are left, and
//! so on: two that are alike would hide each other. A later one that is no chance makes those before it none either. [`accepted`] then
//! judges all rows together.
//!
//! # Source
//! Rosner, "Percentage points for a generalized ESD many-outlier procedure" (1983); Benjamini and Hochberg 1995 over rows and recordings.

use super::{FEWEST, Piece, Row, Search, alike, is_tested, normal};
use crate::compare::Point;
use crate::compare::judge::{POWER, student, threshold};
use statrs::distribution::ContinuousCDF as _;

/// At most one recording in so many is an outlier: if there are more, nothing says who is the exception.
const RARE: usize = 4;
/// The most outliers of a row.
const MOST: usize = 20;

/// How some recordings differ from others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Difference {
    /// The share of the others.
    pub others: f64,
    /// The share.
    pub share: f64,
    /// The probability that chance alone makes as large a difference.
    pub p: f64,
    /// The standard error of the difference, and its degrees of freedom.
    pub error: (f64, f64),
}

/// A recording that may differ from the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// Its position.
    pub at: usize,
    /// How it differs.
    pub difference: Difference,
}

/// Which of many differences are more than chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accepted {
    /// The largest accepted probability.
    pub threshold: f64,
    /// Differences that were tested.
    pub tested: u64,
}

impl Accepted {
    /// Returns true if a difference is more than chance.
    pub fn has(&self, difference: &Difference) -> bool {
        let (low, high) = self.interval(difference);
        difference.p <= self.threshold && (low > 0.0 || high < 0.0)
    }

    /// Returns the interval of an accepted difference: of all those intervals, only the accepted share of false discoveries may miss the
    /// true value (Benjamini and Yekutieli 2005).
    pub fn interval(&self, difference: &Difference) -> (f64, f64) {
        let (error, degrees) = difference.error;
        let reach = -student(degrees).inverse_cdf(self.threshold / 2.0) * error;
        let delta = difference.share - difference.others;
        (delta - reach, delta + reach)
    }
}

/// Judges differences together: of those that are accepted, a share of at most `level` is expected to be chance. `p` are their
/// probabilities; those of `tested - p.len()` others are taken as 1.
pub fn accepted(mut p: Vec<f64>, tested: u64, level: f64) -> Accepted {
    p.resize(p.len().max(usize::try_from(tested).unwrap_or(usize::MAX)), 1.0);
    Accepted { threshold: threshold(p, level), tested }
}

/// Rows over the same recordings, ready to be compared.
///
/// A difference counts if it is no chance on both scales, of shares and of their logarithms: hosts differ by factors, so that the largest of
/// many shares lies far out where chance alone has put it; and small shares lie far out on the scale of logarithms.
#[derive(Debug)]
pub struct Sides {
    rows: Vec<[Vec<Point>; 2]>,
    scales: [Search; 2],
}

impl Sides {
    /// Prepares rows. Each has one point for each recording.
    pub fn new(rows: Vec<Vec<Point>>) -> Self {
        let logarithms: Vec<Vec<Point>> = rows.iter().map(|row| logarithms(row)).collect();
        let scales = [&rows, &logarithms].map(|rows| Search::new(rows, rows, 1.0));
        Self { rows: rows.into_iter().zip(logarithms).map(|(row, other)| [row, other]).collect(), scales }
    }

    /// Returns true if there are enough recordings to compare one with the others.
    pub fn is_possible(&self) -> bool {
        self.scales[0].wholes.len() >= FEWEST
    }

    /// Returns how many comparisons of one recording with the others there are.
    pub fn tested(&self) -> u64 {
        let recordings = self.scales[0].wholes.len() as u64;
        if self.is_possible() { self.scales[0].tested as u64 * recordings } else { 0 }
    }

    /// Compares the recordings at some positions of a row with the others; `None` if there are too few recordings, or too few samples.
    pub fn difference(&self, row: usize, is_one: impl Fn(usize) -> bool) -> Option<Difference> {
        let (ones, others): (Vec<usize>, Vec<usize>) =
            (0..self.scales[0].wholes.len()).partition(|at| is_one(*at));
        let is_enough = !ones.is_empty() && others.len() + 1 >= FEWEST;
        (is_enough && is_tested(&self.rows[row][0])).then(|| self.compared(row, &others, &ones))
    }

    /// Returns the recordings of a row that may differ from the others, and how; the clearest first.
    pub fn outliers(&self, row: usize) -> Vec<Outlier> {
        let mut rest: Vec<usize> = (0..self.scales[0].wholes.len()).collect();
        let mut found: Vec<Outlier> = Vec::new();
        if !self.is_possible() || !is_tested(&self.rows[row][0]) {
            return found;
        }
        let most = (rest.len() / RARE).min(MOST);
        while found.len() < most {
            let Some(position) = self.farthest(row, &rest) else { break };
            let at = rest.remove(position);
            found.push(Outlier { at, difference: self.compared(row, &rest, &[at]) });
        }
        // If a later one is no chance, the others are those that are left after it.
        for position in (1..found.len()).rev() {
            let Outlier { at, difference } = found[position];
            let before = found[position - 1];
            if difference.p < before.difference.p {
                let again = self.compared(row, &rest, &[before.at]);
                found[position - 1].difference = Difference { p: difference.p, ..again };
            } else {
                rest.push(at);
            }
        }
        found
    }

    /// Returns the smallest difference of one recording that is found with probability [`POWER`] in a row of this share, if all have as many
    /// samples, and differ as those of most rows do. `None` if there are too few recordings, or too few samples of such a row, or if
    /// no difference is found so often.
    pub fn detectable(&self, share: f64, threshold: f64) -> Option<f64> {
        let [shares, logarithms] =
            self.scales.each_ref().map(|search| search.detectable_outlier(share, threshold));
        let difference = shares?.max(share * (logarithms? / share).exp_m1());
        // No share is more than everything.
        (share + difference <= 1.0).then_some(difference)
    }

    /// Returns the position in `rest` of the recording that is farthest from the mean of all, in its own standard errors.
    fn farthest(&self, row: usize, rest: &[usize]) -> Option<usize> {
        let points: Vec<Point> = rest.iter().map(|at| self.rows[row][1][*at]).collect();
        let of_rest = Row::steady(&points, self.scales[1].between);
        let mean = Piece::whole(of_rest).mean(0..points.len());
        let far = |point: &Point| (point.rate - mean).abs() / of_rest.variance(point).sqrt();
        let farthest = points.iter().enumerate().max_by(|a, b| far(a.1).total_cmp(&far(b.1)));
        farthest.map(|(position, _)| position)
    }

    fn compared(&self, row: usize, others: &[usize], ones: &[usize]) -> Difference {
        let of_scale = |scale: usize| self.scales[scale].compared(&self.rows[row][scale], others, ones);
        let (shares, logarithms) = (of_scale(0), of_scale(1));
        Difference { p: shares.p.max(logarithms.p), ..shares }
    }
}

/// Puts the logarithms of shares in their place, stretched so that small differences keep their size.
fn logarithms(row: &[Point]) -> Vec<Point> {
    let whole: f64 = row.iter().map(|point| point.whole).sum();
    let mean = (row.iter().map(|point| point.samples as f64).sum::<f64>() + 0.5) / whole.max(1.0);
    // No sample does not prove a share of zero.
    let share = |point: &Point| point.rate + 0.5 / point.whole.max(1.0);
    let logarithm = |point: &Point| Point { rate: mean + mean * (share(point) / mean).ln(), ..*point };
    row.iter().map(logarithm).collect()
}

impl Search {
    fn detectable_outlier(&self, share: f64, threshold: f64) -> Option<f64> {
        let point =
            |whole: &f64| Point { rate: share, samples: (share * whole).round() as u64, ..alike(*whole) };
        let row: Vec<Point> = self.wholes.iter().map(point).collect();
        if row.len() < FEWEST || !is_tested(&row) {
            return None;
        }
        let piece = Piece::whole(Row::steady(&row, self.between));
        let (left, right) = (0..row.len() - 1, row.len() - 1..row.len());
        let squares = self.usual.0 * piece.of_sample * (row.len() - 2) as f64;
        let (variance, degrees) = self.moderated(squares, 2, &piece);
        let spread = variance * piece.of_spread(left.clone(), right.clone());
        let samples = piece.of_samples(left) + piece.of_samples(right);
        let reach = -student(degrees).inverse_cdf(threshold / 2.0) + normal().inverse_cdf(POWER);
        Some(reach * spread.max(samples).sqrt())
    }

    fn compared(&self, row: &[Point], others: &[usize], ones: &[usize]) -> Difference {
        let points: Vec<Point> = others.iter().chain(ones).map(|at| row[*at]).collect();
        let piece = Piece::whole(Row::steady(&points, self.between));
        let (left, right) = (0..others.len(), others.len()..points.len());
        let noise = self.noise(&piece, &left, &right);
        let error = (noise.of_spread.max(noise.of_samples).sqrt(), noise.degrees);
        let (others, share) = (piece.mean(left.clone()), piece.mean(right.clone()));
        Difference { others, share, p: Self::p_here(&piece, left, right, noise), error }
    }
}

#[cfg(test)]
mod tests;
