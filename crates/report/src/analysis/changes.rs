//! Change-points: where a series of noisy values goes over to another level.
//!
//! A step is believed if hardly any shuffling of the same values shows one as clear. Neighbouring values of real series
//! resemble each other, and such noise wanders, which looks like steps; so what a value says about the next is taken out
//! of the series first. Pure, and the same for the same input: the seed is fixed.
//!
//! # Source
//! Seeded intervals: Kovács, Bühlmann, Li, Munk, "Seeded binary segmentation" (2023). Narrowest interval that shows a
//! change: Baranowski, Chen, Fryzlewicz, "Narrowest-over-threshold detection" (2019). Taking out what one value says about
//! the next: Chakar, Lebarbier, Lévy-Leduc, Robin, "A robust approach for estimating change-points in the mean of an AR(1)
//! process" (2017).

mod noise;
mod period;
mod scan;

use noise::Whitened;
use scan::{Found, Scan};

/// A level of a series that goes up and down in periods has at least so many of these.
const PERIODS: usize = 2;

/// What is taken for a change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rule {
    /// The probability of any change in a series that has none, at most.
    pub false_alarms: f64,
    /// A level has at least so many values.
    pub shortest: usize,
}

/// A level of a series: values from a position up to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Level {
    /// The first value.
    pub begin: usize,
    /// Behind the last.
    pub end: usize,
    /// The mean; if errors are given, weighted by them.
    pub mean: f64,
}

/// A change from one level to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The level before.
    pub before: Level,
    /// The level after; its first value is the first after the change.
    pub after: Level,
    /// The share of shuffled series that show as clear a change, or clearer.
    pub p: f64,
}

/// Finds changes of the level of a series, in order. `errors` are standard errors of the values, if these differ.
///
/// # Cost
/// O(n log n) for each of at most 4 / `false_alarms` shuffled series, few if there is no change
pub fn changes(values: &[f64], errors: Option<&[f64]>, rule: Rule) -> Vec<Change> {
    let shortest = rule.shortest.max(1);
    if values.len() < 2 * shortest + 1 || values.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let (white, shortest) = match period::period(values) {
        // Less than whole periods are no levels.
        Some(period) => (Whitened::of_periods(values, errors, period), shortest.max(PERIODS * period)),
        None => (Whitened::new(values, errors), shortest),
    };
    let mut found: Vec<Found> = Vec::new();
    let mut open = vec![(0, values.len())];
    while let Some((begin, end)) = open.pop() {
        let scan = Scan::new(&white.values[begin..end], &white.weights[begin..end], shortest);
        if let Some(inside) = scan.change(rule.false_alarms) {
            let at = begin + inside.at;
            found.push(Found { at, ..inside });
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

/// Moves each change to where it is clearest between its neighbours, and takes out what another explains: a change that
/// was found too early leaves a second one to be found behind it.
fn settle(white: &Whitened, found: &mut Vec<Found>, shortest: usize) {
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
