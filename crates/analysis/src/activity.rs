//! Sums the weight of groups of samples, slice by slice.

use icecore_profile::map::Map;
use icecore_profile::named::{Amount, Profile};
use icecore_profile::recording::spans::Slices;
use icecore_profile::stacks::hits::Cell;

/// What assigns a sample to groups; groups are numbers.
#[derive(Debug, Clone, Copy)]
pub enum Grouping<'a> {
    /// The thread: for each of [`Profile::threads`] its group.
    Thread(&'a [u32]),
    /// The innermost frame: for each of [`Profile::stacks`] its group.
    Leaf(&'a [u32]),
    /// Every frame: for each of [`Profile::stacks`] the group of its innermost frame. A group counts once per stack.
    Stack(&'a [u32]),
}

/// Returns samples and weight of all samples in each slice.
pub fn whole(profile: &Profile, slices: Slices) -> Vec<Amount> {
    let mut sums = vec![Amount::default(); slices.number as usize];
    let amount = |cell: &Cell| Amount { samples: cell.samples.into(), weight: cell.weight };
    profile.cells.iter().for_each(|cell| sums[cell.slice as usize].add(amount(cell)));
    sums
}

/// Returns the weight of each requested group in buckets of `each` slices.
///
/// # Cost
/// O(cells); for whole stacks O(cells + stacks) for every 64 groups
pub fn weights(
    profile: &Profile,
    slices: Slices,
    each: u32,
    grouping: Grouping<'_>,
    wanted: &[u32],
) -> Vec<Vec<u64>> {
    let mut sums = vec![vec![0u64; slices.number.div_ceil(each) as usize]; wanted.len()];
    if let Grouping::Stack(groups) = grouping {
        for (chunk, sums) in wanted.chunks(64).zip(sums.chunks_mut(64)) {
            add_stacks(profile, each, groups, chunk, sums);
        }
        return sums;
    }
    let positions: Map<u32, usize> =
        wanted.iter().enumerate().map(|(position, group)| (*group, position)).collect();
    for cell in &profile.cells {
        let row = &profile.rows[cell.row as usize];
        let group = match grouping {
            Grouping::Thread(groups) => groups[row.thread as usize],
            Grouping::Leaf(groups) | Grouping::Stack(groups) => groups[row.stack as usize],
        };
        // The empty stack has no frame, so it is in no group.
        let is_empty = matches!(grouping, Grouping::Leaf(_)) && row.stack == 0;
        if let Some(position) = positions.get(&group).filter(|_| !is_empty) {
            let sum = &mut sums[*position][(cell.slice / each) as usize];
            *sum = sum.saturating_add(cell.weight);
        }
    }
    sums
}

/// Adds up at most 64 groups, with a bit for each.
fn add_stacks(profile: &Profile, each: u32, groups: &[u32], wanted: &[u32], sums: &mut [Vec<u64>]) {
    let bits: Map<u32, u64> = (0..).zip(wanted).map(|(bit, group): (u32, _)| (*group, 1 << bit)).collect();
    let mut has = vec![0u64; profile.stacks.len()];
    for (position, stack) in profile.stacks.iter().enumerate().skip(1) {
        has[position] = has[stack.caller as usize] | bits.get(&groups[position]).copied().unwrap_or_default();
    }
    for cell in &profile.cells {
        let mut left = has[profile.rows[cell.row as usize].stack as usize];
        while left != 0 {
            let sum = &mut sums[left.trailing_zeros() as usize][(cell.slice / each) as usize];
            *sum = sum.saturating_add(cell.weight);
            left &= left - 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::fixture;

    #[test]
    fn groups_are_added_up_slice_by_slice() {
        let mut profile = fixture::profile(&[("main;f;g;f", 3), ("main;g", 2), ("main", 1)]);
        (0..).zip(&mut profile.cells).for_each(|(slice, cell)| cell.slice = slice);
        let slices = Slices { begin_ns: 0, len_ns: 1, number: 3 };
        let of_stack = profile.stacks.iter().map(|stack| match stack.frame {
            u32::MAX => 0,
            _ => profile.function_id(*stack),
        });
        let of_stack: Vec<u32> = of_stack.collect();
        assert_eq!(
            weights(&profile, slices, 1, Grouping::Leaf(&of_stack), &[1, 2]),
            [[30, 0, 0], [0, 20, 0]]
        );
        let all = [[30, 20, 10], [30, 0, 0], [30, 20, 0]];
        assert_eq!(weights(&profile, slices, 1, Grouping::Stack(&of_stack), &[0, 1, 2]), all);
        let many: Vec<u32> = (3..70).chain([2]).collect();
        assert_eq!(weights(&profile, slices, 1, Grouping::Stack(&of_stack), &many)[67], all[2]);
        assert_eq!(weights(&profile, slices, 1, Grouping::Thread(&[5]), &[5]), [[30, 20, 10]]);
        assert_eq!(weights(&profile, slices, 2, Grouping::Stack(&of_stack), &[0, 1]), [[50, 10], [30, 0]]);
        assert_eq!(whole(&profile, slices).iter().map(|sum| sum.samples).collect::<Vec<_>>(), [3, 2, 1]);
    }
}
