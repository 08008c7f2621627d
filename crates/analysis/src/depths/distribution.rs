//! Counts whole numbers: exact percentiles, and buckets for people.

use std::collections::BTreeMap;

/// The most buckets of a histogram, if powers of two suffice.
const BUCKETS: u64 = 16;

/// How many samples have which value. For a truncated stack the value is a lower bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    values: BTreeMap<u32, Samples>,
    all: Samples,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Samples {
    whole: u64,
    cut: u64,
}

/// A value, and whether it is exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figure {
    /// The value.
    pub value: u32,
    /// A lower bound: a truncated stack would make it larger, or might.
    pub at_least: bool,
}

/// Samples with values from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    /// The least value.
    pub from: u32,
    /// The largest.
    pub to: u32,
    /// Number of samples.
    pub count: u64,
}

impl Samples {
    fn add(&mut self, other: Self) {
        self.whole = self.whole.saturating_add(other.whole);
        self.cut = self.cut.saturating_add(other.cut);
    }

    fn count(self) -> u64 {
        self.whole.saturating_add(self.cut)
    }
}

impl Distribution {
    /// Adds samples with a value.
    pub fn add(&mut self, value: u32, samples: u64, is_cut: bool) {
        let samples =
            if is_cut { Samples { whole: 0, cut: samples } } else { Samples { whole: samples, cut: 0 } };
        self.values.entry(value).or_default().add(samples);
        self.all.add(samples);
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.all.count()
    }

    /// Returns the number of samples whose stack was truncated.
    pub fn cut(&self) -> u64 {
        self.all.cut
    }

    /// Returns the number of samples with at least this value.
    pub fn count_from(&self, value: u32) -> u64 {
        self.values.range(value..).fold(0, |sum: u64, (_, samples)| sum.saturating_add(samples.count()))
    }

    /// Returns the smallest value; `None` without samples.
    pub fn min(&self) -> Option<Figure> {
        let (value, samples) = self.values.first_key_value()?;
        Some(Figure { value: *value, at_least: samples.whole == 0 })
    }

    /// Returns the largest value; `None` without samples.
    pub fn max(&self) -> Option<Figure> {
        let (value, _) = self.values.last_key_value()?;
        Some(Figure { value: *value, at_least: self.all.cut > 0 })
    }

    /// Returns the mean; 0 without samples.
    pub fn mean(&self) -> f64 {
        let sum: f64 =
            self.values.iter().map(|(value, samples)| f64::from(*value) * samples.count() as f64).sum();
        if self.count() == 0 { 0.0 } else { sum / self.count() as f64 }
    }

    /// Returns a percentile by nearest rank: the least value that so many percent of the samples do not exceed. It is exact if so
    /// many samples are known not to exceed it.
    pub fn percentile(&self, percent: u8) -> Option<Figure> {
        let rank = (u128::from(self.count()) * u128::from(percent)).div_ceil(100).max(1);
        let (mut below, mut known) = (0u128, 0u128);
        self.values.iter().find_map(|(value, samples)| {
            below += u128::from(samples.count());
            known += u128::from(samples.whole);
            (below >= rank).then_some(Figure { value: *value, at_least: known < rank })
        })
    }

    /// Divides the values into neighbouring buckets from the smallest to the largest: one for each value if there are few, else
    /// eighths, quarters, halves or wholes of powers of two.
    pub fn buckets(&self) -> Vec<Bucket> {
        let (Some(min), Some(max)) = (self.min(), self.max()) else { return Vec::new() };
        let edges = |bits: u32| {
            let first = edges_around(min.value, bits);
            std::iter::successors(Some(first), move |(_, to)| Some(edges_around(to.checked_add(1)?, bits)))
                .take_while(move |(from, _)| *from <= max.value)
        };
        let is_short = |bits: &u32| edges(*bits).take(BUCKETS as usize + 1).count() as u64 <= BUCKETS;
        let bits = [31, 3, 2, 1].into_iter().find(is_short).unwrap_or(0);
        let count = |(from, to): (u32, u32)| {
            let inside = self.values.range(from..=to);
            inside.fold(0, |sum: u64, (_, samples)| sum.saturating_add(samples.count()))
        };
        edges(bits).map(|(from, to)| Bucket { from, to, count: count((from, to)) }).collect()
    }
}

/// Returns the bucket of a value if each power of two has 2 to the `bits` buckets.
fn edges_around(value: u32, bits: u32) -> (u32, u32) {
    let shift = value.max(1).ilog2().saturating_sub(bits);
    let from = value >> shift << shift;
    (from, from | ((1 << shift) - 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(values: &[(u32, u64, bool)]) -> Distribution {
        let mut distribution = Distribution::default();
        values.iter().for_each(|(value, samples, is_cut)| distribution.add(*value, *samples, *is_cut));
        distribution
    }

    fn fact(value: u32) -> Option<Figure> {
        Some(Figure { value, at_least: false })
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let tens = of(&(1..=10).map(|n| (n * 10, 1, false)).collect::<Vec<_>>());
        assert_eq!([50, 90, 99, 100].map(|p| tens.percentile(p)), [50, 90, 100, 100].map(fact));
        assert_eq!((tens.min(), tens.max(), tens.mean()), (fact(10), fact(100), 55.0));
        assert_eq!(tens.count_from(90), 2);
        let one = of(&[(7, 1, false)]);
        assert_eq!([0, 1, 50].map(|p| one.percentile(p)), [7, 7, 7].map(fact));
        assert_eq!((Distribution::default().percentile(50), Distribution::default().max()), (None, None));
    }

    #[test]
    fn figures_that_cut_stacks_can_change_are_no_facts() {
        // 89 whole stacks of 10 frames, 1 of 64, and 10 that were truncated at 64.
        let limited = of(&[(10, 89, false), (64, 1, false), (64, 10, true)]);
        assert_eq!((limited.percentile(50), limited.percentile(90)), (fact(10), fact(64)));
        let least = Some(Figure { value: 64, at_least: true });
        assert_eq!((limited.percentile(91), limited.max()), (least, least));
        assert_eq!((limited.min(), limited.cut()), (fact(10), 10));
        assert_eq!(of(&[(64, 2, true), (70, 1, false)]).min(), least);
    }

    #[test]
    fn buckets_are_as_fine_as_the_range_allows() {
        let ranges = |values: &[(u32, u64, bool)]| -> Vec<(u32, u32, u64)> {
            of(values).buckets().into_iter().map(|b| (b.from, b.to, b.count)).collect()
        };
        assert_eq!(
            ranges(&[(500, 1, false), (502, 2, false)]),
            [(500, 500, 1), (501, 501, 0), (502, 502, 2)]
        );
        let wide = ranges(&[(1, 1, false), (2, 1, false), (3, 2, false), (1024, 4, true)]);
        assert_eq!(
            (&wide[..2], wide.last(), wide.len()),
            (&[(1, 1, 1), (2, 3, 3)][..], Some(&(1024, 2047, 4)), 11)
        );
        assert_eq!(ranges(&[(33, 1, false), (90, 1, false)])[..2], [(32, 35, 1), (36, 39, 0)]);
        assert!(ranges(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn buckets_hold_every_sample_once(values in prop::collection::vec((any::<u32>(), 1u64..9, any::<bool>()), 1..50)) {
            let distribution = of(&values);
            let buckets = distribution.buckets();
            prop_assert_eq!(buckets.iter().map(|b| b.count).sum::<u64>(), distribution.count());
            prop_assert!(buckets.windows(2).all(|pair| u64::from(pair[0].to) + 1 == u64::from(pair[1].from)));
        }
    }
}
