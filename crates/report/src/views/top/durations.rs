//! How the times of functions are distributed: sums alone hide the one call that took long.

use serde::Serialize;

use super::Ranked;
use crate::views::Shown;
use crate::views::samples::weights_of_leaves;
use icecore_profile::recording::events::Meaning;
use icecore_profile::stacks::hits::SeenEvent;
use icecore_text::quantity::duration;

/// The most columns of a histogram in text.
const MOST_COLUMNS: usize = 32;

/// The distribution of the times that the samples of one row weigh; each time is exact.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in crate::views) struct Durations {
    /// The percentiles, by nearest rank, and the extremes, ns.
    min: u64,
    pub(super) p50: u64,
    p90: u64,
    pub(super) p99: u64,
    pub(super) max: u64,
    /// How many are in each range; ranges double, and only those that are not empty are there.
    histogram: Vec<Range>,
}

/// A range of a histogram, ns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Range {
    from: u64,
    /// The first time beyond it.
    to: u64,
    count: u64,
}

impl Durations {
    /// Computes the figures of times; `None` if there are none.
    fn new(mut times: Vec<u64>) -> Option<Self> {
        times.sort_unstable();
        let (min, max) = (*times.first()?, *times.last()?);
        let rank = |percent: usize| times[(times.len() * percent).div_ceil(100).max(1) - 1];
        let mut histogram: Vec<Range> = Vec::new();
        for time in &times {
            match histogram.last_mut() {
                Some(last) if *time < last.to => last.count += 1,
                _ => {
                    let from = if *time == 0 { 0 } else { 1 << time.ilog2() };
                    histogram.push(Range { from, to: from.saturating_mul(2).max(1), count: 1 });
                }
            }
        }
        Some(Self { min, p50: rank(50), p90: rank(90), p99: rank(99), max, histogram })
    }
}

/// Adds the distribution to rows of functions, if all samples are times of functions; returns that of all samples. At a return the
/// stack ends in the caller of the function that took the time.
pub(super) fn add(rows: &mut [Ranked], shown: &Shown<'_>, physical: bool) -> Option<Durations> {
    let report = shown.report;
    let events = report.loaded.tables.parts.events();
    let seen = &report.loaded.hits.seen.events;
    let is_duration = |seen: &SeenEvent| {
        events.get(usize::from(seen.event)).is_some_and(|it| Meaning::of(it) == Meaning::Duration)
    };
    if seen.is_empty() || !seen.iter().all(is_duration) {
        return None;
    }
    let mut of_function = weights_of_leaves(shown, physical);
    let all = Durations::new(of_function.values().flatten().copied().collect());
    for row in rows {
        let times = of_function.remove(&(row.name.clone(), row.image.clone()));
        row.durations = times.and_then(Durations::new);
    }
    all
}

impl Durations {
    /// Writes the figures.
    pub(super) fn text(&self) -> String {
        let [p50, p90, p99, max] = [self.p50, self.p90, self.p99, self.max].map(duration);
        format!("of all: p50 {p50}, p90 {p90}, p99 {p99}, the longest {max}")
    }
}

/// Draws the histograms of rows side by side, and says what their columns are; `None` if no row has one.
pub(super) fn drawn(rows: &[Ranked]) -> Option<(Vec<String>, String)> {
    let ranges = || rows.iter().flat_map(|row| row.durations.iter().flat_map(|it| &it.histogram));
    let column = |range: &Range| range.from.checked_ilog2().map_or(0, |power| power as usize + 1);
    let (least, most) = (ranges().map(column).min()?, ranges().map(column).max()?);
    let most = most.min(least + MOST_COLUMNS - 1);
    let draw = |row: &Ranked| {
        let mut counts = vec![0.0; most - least + 1];
        for range in row.durations.iter().flat_map(|it| &it.histogram) {
            counts[column(range).min(most) - least] += range.count as f64;
        }
        let peak = counts.iter().copied().fold(0.0, f64::max);
        icecore_text::chart::chart(&counts, peak, 1).pop().unwrap_or_default()
    };
    let begin = ranges().map(|range| range.from).min()?;
    let says = format!(
        "histograms begin at {}, and each column is twice as long as the one before",
        duration(begin)
    );
    Some((rows.iter().map(draw).collect(), says))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_exact_and_ranges_double() {
        let of = |times: &[u64]| Durations::new(times.to_vec());
        assert_eq!(of(&[]), None);
        let hundred: Vec<u64> = (1..=100).rev().collect();
        let it = of(&hundred).expect("times");
        assert_eq!((it.min, it.p50, it.p90, it.p99, it.max), (1, 50, 90, 99, 100));
        let ranges: Vec<_> = it.histogram.iter().map(|it| (it.from, it.to, it.count)).collect();
        assert_eq!(
            ranges,
            [(1, 2, 1), (2, 4, 2), (4, 8, 4), (8, 16, 8), (16, 32, 16), (32, 64, 32), (64, 128, 37)]
        );
        let it = of(&[0, 7, u64::MAX]).expect("times");
        let ranges: Vec<_> = it.histogram.iter().map(|it| (it.from, it.to, it.count)).collect();
        assert_eq!(ranges, [(0, 1, 1), (4, 8, 1), (1 << 63, u64::MAX, 1)]);
        assert_eq!((it.p50, it.p99), (7, u64::MAX));
    }
}
