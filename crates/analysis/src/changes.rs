//! Finds change points: where the level of a series of noisy values changes.
//!
//! A step counts as a change if hardly any shuffling of the same values shows as clear a step. Neighbouring values of real series
//! are correlated; such noise drifts, which looks like steps. So the module first removes the first-order autocorrelation from the
//! series. It is pure, and gives the same result for the same input: the seed is fixed.
//!
//! # Source
//! Seeded intervals: Kovács, Bühlmann, Li, Munk, "Seeded binary segmentation" (2023). Narrowest interval that shows a change:
//! Baranowski, Chen, Fryzlewicz, "Narrowest-over-threshold detection" (2019). Removing autocorrelation: Chakar, Lebarbier,
//! Lévy-Leduc, Robin, "A robust approach for estimating change-points in the mean of an AR(1) process" (2017).

mod noise;
mod period;
pub mod recordings;
mod scan;

use noise::Whitened;
use scan::{ClearStep, Scan};

/// The shortest level of a periodic series, in periods.
const PERIODS: usize = 2;

/// What counts as a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The highest accepted probability of finding any change in a series that has none.
    pub false_alarms: f64,
    /// The least number of values of a level.
    pub shortest: usize,
}

/// A level of a series: the values from `begin` to `end`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The first value.
    pub begin: usize,
    /// The position after the last value.
    pub end: usize,
    /// The mean; weighted by the errors if these are given.
    pub mean: f64,
}

/// A change from one level to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The level before.
    pub before: Level,
    /// The level after; its first value is the first after the change.
    pub after: Level,
    /// The share of shuffled series that show a change that is as clear or clearer.
    pub p: f64,
}

/// Finds the change points of a series, in order. `errors` are standard errors of the values, if these differ.
///
/// # Cost
/// O(n log n) for each of at most 4 / `false_alarms` shuffled series; for few of them if there is no change
pub fn changes(values: &[f64], errors: Option<&[f64]>, rule: Rule) -> Vec<Change> {
    let shortest = rule.shortest.max(1);
    if values.len() < 2 * shortest + 1 || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let (white, shortest) = match period::period(values) {
        // A level needs whole periods.
        Some(period) => (Whitened::of_periods(values, errors, period), shortest.max(PERIODS * period)),
        None => (Whitened::new(values, errors), shortest),
    };
    let mut found: Vec<ClearStep> = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((begin, end)) = open.pop() {
        let scan = Scan::new(&white.values[begin..end], &white.weights[begin..end], shortest);
        if let Some(inside) = scan.change(rule.false_alarms) {
            let at = begin + inside.at;
            found.push(ClearStep { at, ..inside });
            open.extend([(begin, at), (at, end)]);
        }
    }
    found.sort_by_key(|found| found.at);
    settle(&white, &mut found, shortest);
    let bounds: Vec<usize> =
        [0].into_iter().chain(found.iter().map(|found| found.at)).chain([values.len()]).collect();
    let level = |bounds: &[usize]| level(values, &white.weights, bounds[0], bounds[1]);
    let levels: Vec<Level> = bounds.windows(2).map(level).collect();
    let pairs = levels.windows(2).zip(found);
    pairs.map(|(pair, found)| Change { before: pair[0], after: pair[1], p: found.p }).collect()
}

/// Moves each change to where it is clearest between its neighbours, and removes changes that another one explains: a change that
/// was found too early leaves a second one after it.
fn settle(white: &Whitened, found: &mut Vec<ClearStep>, shortest: usize) {
    loop {
        let mut weakest: Option<(f64, usize)> = None;
        for position in 0..found.len() {
            let begin = position.checked_sub(1).map_or(0, |before: usize| found[before].at);
            let end = found.get(position + 1).map_or(white.values.len(), |after| after.at);
            let step = Scan::new(&white.values[begin..end], &white.weights[begin..end], shortest).clearest();
            let change = &mut found[position];
            if step.clear > 0.0 {
                change.at = begin + step.at;
            }
            if step.clear <= change.threshold && weakest.is_none_or(|(clear, _)| step.clear < clear) {
                weakest = Some((step.clear, position));
            }
        }
        let Some((_, position)) = weakest else { return };
        found.remove(position);
    }
}

fn level(values: &[f64], weights: &[f64], begin: usize, end: usize) -> Level {
    let weight: f64 = weights[begin..end].iter().sum();
    let sum: f64 =
        values[begin..end].iter().zip(&weights[begin..end]).map(|(value, weight)| value * weight).sum();
    Level { begin, end, mean: sum / weight }
}

#[cfg(test)]
mod tests;
