//! Intervals laid over each other: which one is on top at an address, at any moment.
//!
//! ```text
//! version   3        ┌──C──┐
//!           2  ┌─────B─────┐          find(x, version 3) = C
//!           1  ┌──────────A───────┐   find(x, version 2) = B
//!                        x
//! ```
//!
//! A segment tree over the distinct bounds; each of its nodes lists the layers that cover it, oldest
//! first. No version of the whole picture is ever built, so memory is O(n log n) even for a program
//! that maps a million pieces of code over each other.

use icecore_elf::Avma;

/// Half-open intervals of addresses, numbered in the order they were laid.
#[derive(Debug, Default)]
pub(super) struct Layers {
    bounds: Vec<Avma>,
    /// Node `i` has the children `2i` and `2i + 1`; the leaves begin at `bounds.len()`.
    covering: Vec<Vec<u32>>,
}

impl Layers {
    /// Lays intervals (first address, address behind the last), oldest first.
    pub(super) fn new(intervals: &[(Avma, Avma)]) -> Self {
        let mut bounds: Vec<Avma> = intervals.iter().flat_map(|(start, end)| [*start, *end]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let leaves = bounds.len();
        let mut covering = vec![Vec::new(); leaves * 2];
        for (number, (start, end)) in (0u32..).zip(intervals) {
            let mut left = leaves + bounds.partition_point(|b| b < start);
            let mut right = leaves + bounds.partition_point(|b| b < end);
            while left < right {
                if left % 2 == 1 {
                    covering[left].push(number);
                    left += 1;
                }
                if right % 2 == 1 {
                    right -= 1;
                    covering[right].push(number);
                }
                left /= 2;
                right /= 2;
            }
        }
        Self { bounds, covering }
    }

    /// Finds the newest of the first `version` intervals that holds `address`.
    ///
    /// # Cost
    /// O(log² n)
    pub(super) fn find(&self, address: Avma, version: u32) -> Option<u32> {
        let leaf = self.bounds.partition_point(|bound| *bound <= address).checked_sub(1)?;
        let mut node = self.bounds.len() + leaf;
        let mut newest = None;
        while node > 0 {
            let below = self.covering[node].partition_point(|number| *number < version);
            newest = newest.max(self.covering[node][..below].last().copied());
            node /= 2;
        }
        newest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newest_layer_of_the_version_is_on_top() {
        let layers =
            Layers::new(&[(10, 50), (20, 30), (25, 40)].map(|(start, end)| (Avma(start), Avma(end))));
        assert_eq!(layers.find(Avma(27), 3), Some(2));
        assert_eq!(layers.find(Avma(27), 2), Some(1));
        assert_eq!(layers.find(Avma(27), 1), Some(0));
        assert_eq!(layers.find(Avma(27), 0), None);
        assert_eq!([9, 50, u64::MAX].map(|x| layers.find(Avma(x), 3)), [None; 3]);
        assert_eq!(Layers::default().find(Avma(5), 9), None);
    }

    #[test]
    fn agrees_with_looking_at_every_interval() {
        let mut seed = 1u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % below
        };
        for count in 0..40u32 {
            let intervals: Vec<(Avma, Avma)> = (0..count)
                .map(|_| {
                    let start = next(50);
                    (Avma(start), Avma(start + next(12)))
                })
                .collect();
            let layers = Layers::new(&intervals);
            for address in (0..70).map(Avma) {
                for version in 0..=count {
                    let slow = (0..version).rev().find(|n| {
                        let (start, end) = intervals[*n as usize];
                        (start..end).contains(&address)
                    });
                    assert_eq!(layers.find(address, version), slow);
                }
            }
        }
    }
}
