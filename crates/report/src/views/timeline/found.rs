//! Finds change points: the moments from which on a row is at another level.

use rayon::prelude::*;
use serde::Serialize;

use super::Buckets;
use super::lines::{RowSeries, What};
use icecore_analysis::changes::{Change, Level, Rule, changes as changes_of};
use icecore_analysis::compare::estimate::p_of_counts;
use icecore_profile::named::Amount;

/// The highest probability that a file in which nothing changes shows any change.
const FALSE_ALARMS: f64 = 0.05;
/// A level lasts at least this many slices.
const SHORTEST: usize = 6;
/// Smaller changes of a share are useless.
const LEAST: f64 = 0.01;

/// A change.
#[derive(Debug, Serialize)]
pub(super) struct ChangeRow {
    /// The change point.
    pub(super) time_s: f64,
    #[serde(flatten)]
    pub(super) what: What,
    /// The meaning of `before` and `after`: `share` of everything in the meantime, or a rate, for everything.
    pub(super) measure: &'static str,
    pub(super) before: f64,
    pub(super) after: f64,
    pub(super) p: f64,
    /// The time after the change, up to the next change of this row.
    pub(super) slice: StretchRow,
    /// The time before the change, from the previous one on.
    pub(super) against: StretchRow,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct StretchRow {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
}

/// Finds the changes of everything and of each row, in the order of time. Slices of which a part is between sessions say nothing.
pub(super) fn changes(
    fine: Buckets,
    of_slices: &[Amount],
    rates: &[Option<f64>],
    rows: &[RowSeries],
    between_ns: &[(u64, u64)],
) -> Vec<ChangeRow> {
    let whole: Vec<Amount> = of_slices.chunks(fine.each as usize).map(added).collect();
    let rule = Rule { false_alarms: FALSE_ALARMS / (rows.len() + 1) as f64, shortest: SHORTEST };
    let mut found: Vec<ChangeRow> = rows.par_iter().flat_map(|row| of_row(fine, &whole, row, rule)).collect();
    found.extend(of_whole(fine, rates, rule, between_ns));
    found.sort_by(|a, b| {
        let size = |row: &ChangeRow| (row.after - row.before).abs();
        let time = a.time_s.total_cmp(&b.time_s);
        time.then_with(|| size(b).total_cmp(&size(a))).then_with(|| a.what.cmp(&b.what))
    });
    found
}

/// Finds the changes of a row's share. The weights of the row belong to the fine slices. Slices without samples say nothing about
/// shares.
fn of_row(fine: Buckets, whole: &[Amount], row: &RowSeries, rule: Rule) -> Vec<ChangeRow> {
    let own = &row.weights;
    let busy: Vec<usize> = (0..whole.len()).filter(|slice| whole[*slice].weight > 0).collect();
    let share = |slice: &usize| own[*slice] as f64 / whole[*slice].weight as f64;
    let shares: Vec<f64> = busy.iter().map(share).collect();
    let sum = |of: &dyn Fn(usize) -> u64| busy.iter().map(|slice| of(*slice) as f64).sum::<f64>();
    let mean = sum(&|slice| own[slice]) / sum(&|slice| whole[slice].weight).max(1.0);
    // The share of a slice is drawn from its samples: the fewer they are, the less is known.
    let error = |slice: &usize| (mean * (1.0 - mean) / whole[*slice].samples.max(1) as f64).max(0.0).sqrt();
    let errors: Vec<f64> = busy.iter().map(error).collect();
    let mut found = changes_of(&shares, Some(&errors), rule);
    let level = |level: Level| {
        let slices = &busy[level.begin..level.end];
        let own: f64 = slices.iter().map(|slice| own[*slice] as f64).sum();
        own / slices.iter().map(|slice| whole[*slice].weight as f64).sum::<f64>()
    };
    // Returns the samples of the row, and of everything.
    let counted = |of: Level| {
        let all: u64 = busy[of.begin..of.end].iter().map(|slice| whole[*slice].samples).sum();
        [level(of) * all as f64, all as f64]
    };
    let sampled: u64 = whole.iter().map(|sum| sum.samples).sum();
    drop_unclear(&mut found, rule.false_alarms, |before, after| {
        let levels = [before, after].map(counted);
        // Anywhere in the recording, a stretch as short as the shorter of both may show as much by chance.
        let stretches = sampled as f64 / levels[0][1].min(levels[1][1]).max(1.0);
        let is_of_use = (level(after) - level(before)).abs() >= LEAST;
        if is_of_use { p_of_levels(levels) * stretches } else { f64::INFINITY }
    });
    let row = |change: &Change| {
        let at = |position: usize| busy.get(position).copied().unwrap_or(whole.len());
        new(fine, &row.what, "share", change, at, (level(change.before), level(change.after)))
    };
    found.iter().map(row).collect()
}

/// Removes, one after the other, changes that the original values show less clearly than by `most`: removing the influence of
/// neighbours may create a step that does not exist. The levels on both sides become one.
fn drop_unclear(found: &mut Vec<Change>, most: f64, p: impl Fn(Level, Level) -> f64) {
    loop {
        let all = found.iter().map(|change| p(change.before, change.after)).enumerate();
        let Some((position, _)) = all.filter(|(_, p)| *p > most).max_by(|a, b| a.1.total_cmp(&b.1)) else {
            return;
        };
        let dropped = found.remove(position);
        if let Some(next) = found.get_mut(position) {
            next.before.begin = dropped.before.begin;
        }
        if let Some(last) = position.checked_sub(1).and_then(|last| found.get_mut(last)) {
            last.after.end = dropped.after.end;
        }
    }
}

/// Returns the probability that samples are distributed over two levels as unevenly, if a row has the same share in both: by the
/// samples of the row, or by all others if these say more.
fn p_of_levels(levels: [[f64; 2]; 2]) -> f64 {
    let wholes = levels.map(|[_, all]| all);
    let own = levels.map(|[own, _]| own.round() as u64);
    let others = levels.map(|[own, all]| (all - own).max(0.0).round() as u64);
    p_of_counts(own, wholes).min(p_of_counts(others, wholes))
}

/// Finds the changes of everything. The last slice may be too short to say anything.
fn of_whole(fine: Buckets, rates: &[Option<f64>], rule: Rule, between_ns: &[(u64, u64)]) -> Vec<ChangeRow> {
    let last = rates.len().saturating_sub(1);
    let is_short = fine.begin_ns(rates.len()).saturating_sub(fine.begin_ns(last)) < fine.each_ns() / 2;
    let len = if is_short { last } else { rates.len() };
    let is_between = |slice: usize| {
        let (begin, end) = (fine.begin_ns(slice), fine.begin_ns(slice + 1));
        between_ns.iter().any(|between| between.0 < end && begin < between.1)
    };
    let recorded: Vec<(usize, f64)> = (0..len)
        .filter(|slice| !is_between(*slice))
        .filter_map(|slice| Some((slice, rates[slice]?)))
        .collect();
    let values: Vec<f64> = recorded.iter().map(|(_, rate)| *rate).collect();
    let found = changes_of(&values, None, rule);
    let row = |change: &Change| {
        let at = |position: usize| recorded.get(position).map_or(len, |(slice, _)| *slice);
        new(fine, &What::All, "rate", change, at, (change.before.mean, change.after.mean))
    };
    found.iter().map(row).collect()
}

/// Makes a row of a change; `at` returns the slice of a position in the series.
fn new(
    fine: Buckets,
    what: &What,
    measure: &'static str,
    change: &Change,
    at: impl Fn(usize) -> usize,
    (before, after): (f64, f64),
) -> ChangeRow {
    let begin = |level: Level| fine.begin_s(at(level.begin));
    ChangeRow {
        time_s: begin(change.after),
        what: what.clone(),
        measure,
        before,
        after,
        p: change.p,
        slice: StretchRow { from_s: begin(change.after), to_s: fine.begin_s(at(change.after.end)) },
        against: StretchRow { from_s: begin(change.before), to_s: begin(change.after) },
    }
}

fn added(part: &[Amount]) -> Amount {
    let mut sum = Amount::default();
    part.iter().for_each(|amount| sum.add(*amount));
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_that_is_dropped_leaves_one_level() {
        let level = |begin: usize, end: usize| Level { begin, end, mean: 0.0 };
        let change = |bounds: [usize; 3]| Change {
            before: level(bounds[0], bounds[1]),
            after: level(bounds[1], bounds[2]),
            p: 0.0,
        };
        let mut found = vec![change([0, 10, 20]), change([10, 20, 21]), change([20, 21, 30])];
        drop_unclear(&mut found, 0.05, |before, after| {
            let shortest = (before.end - before.begin).min(after.end - after.begin);
            1.0 / shortest as f64 / 10.0
        });
        assert_eq!(found, [change([0, 10, 20]), change([10, 20, 30])]);
    }

    #[test]
    fn few_samples_tell_little() {
        let p = |before: [f64; 2], after: [f64; 2]| p_of_levels([before, after]);
        assert!(p([4.0, 28.0], [15.0, 1478.0]) > 1e-4);
        assert!(p([0.0, 28.0], [15.0, 28.0]) < 1e-4, "a row that was not there");
        assert!(p([28.0, 28.0], [1035.0, 1478.0]) < 1e-3, "a row that was alone");
        assert!(p([140.0, 280.0], [3000.0, 14780.0]) < 1e-9);
        assert!((p([20.0, 100.0], [200.0, 1000.0]) - 1.0).abs() < 0.2, "the same share");
        assert!((p([0.0, 0.0], [0.0, 0.0]) - 1.0).abs() < 1e-9, "nothing");
    }
}
