//! Sums the weight of every row of one recording in each slice of time.

use icecore_profile::named::{Amount, Profile, Sum, depth_first, sums};
use icecore_profile::stacks::hits::Cell;

/// Weights of groups of code or threads: slice by slice for kept groups, and in sum for all.
///
/// # Shape   one row per group that is kept, one column per slice
/// # Units   the weight of the profile's event
#[derive(Debug, Clone, Default)]
pub struct Series {
    slices: usize,
    sums: Vec<Sum>,
    /// The row of each group.
    rows: Vec<Option<u32>>,
    /// Weight of the group itself.
    own: Vec<f64>,
    /// Weight of all samples that passed through the group, each counted once.
    total: Vec<f64>,
}

/// The weight of a group: in sum and, if kept, slice by slice.
#[derive(Debug, Clone, Copy, Default)]
pub struct GroupWeight<'a> {
    /// The sum.
    pub amount: Amount,
    /// The weight in each slice.
    pub of_slices: Option<&'a [f64]>,
}

impl Series {
    /// Adds up groups of code: `of_stack` names the group of each stack's innermost frame. The empty stack is in no group. No group
    /// is kept slice by slice before [`Self::keep`].
    pub fn of_code(profile: &Profile, of_stack: &[u32], groups: usize) -> Self {
        Self { sums: sums(profile, of_stack, groups), rows: vec![None; groups], ..Self::default() }
    }

    /// Adds up some of the groups of code slice by slice.
    ///
    /// # Cost
    /// O(stacks + cells × kept groups in one stack)
    pub fn keep(
        &mut self,
        profile: &Profile,
        slices: usize,
        of_stack: &[u32],
        is_kept: impl Fn(usize, &Sum) -> bool,
    ) {
        self.make_room(slices, is_kept);
        let up = self.counted(profile, of_stack);
        let of_row = |cell: &Cell| profile.rows[cell.row as usize];
        let cells = profile.cells.iter().map(|cell| (of_row(cell), cell));
        for (row, cell) in cells.filter(|(row, _)| row.stack != 0) {
            let (slice, weight) = (cell.slice as usize, cell.weight as f64);
            if let Some(start) = self.start(of_stack[row.stack as usize] as usize) {
                self.own[start + slice] += weight;
            }
            let mut at = up[row.stack as usize];
            while at != 0 {
                let Some(start) = self.start(of_stack[at as usize] as usize) else { break };
                self.total[start + slice] += weight;
                at = up[profile.stacks[at as usize].caller as usize];
            }
        }
    }

    /// Adds up groups of rows, such as the threads of one name, slice by slice; `of_row` names the group of each.
    pub fn of_rows(profile: &Profile, slices: usize, of_row: impl Fn(usize) -> u32, groups: usize) -> Self {
        let mut series = Self { sums: vec![Sum::default(); groups], ..Self::default() };
        series.make_room(slices, |_, _| true);
        for (position, row) in profile.rows.iter().enumerate() {
            let group = of_row(position) as usize;
            series.sums[group].own.add(row.amount());
        }
        for cell in &profile.cells {
            let group = of_row(cell.row as usize) as usize;
            series.own[group * slices + cell.slice as usize] += cell.weight as f64;
        }
        series.total.clone_from(&series.own);
        series.sums.iter_mut().for_each(|sum| sum.total = sum.own);
        series
    }

    fn make_room(&mut self, slices: usize, is_kept: impl Fn(usize, &Sum) -> bool) {
        let mut kept = 0..;
        let row = |(group, sum)| if is_kept(group, sum) { kept.next() } else { None };
        self.rows = self.sums.iter().enumerate().map(row).collect();
        // Writing at once saves page faults: pages that are read first, as a sum does, are mapped twice.
        let room = || std::iter::repeat_n(0.0, kept.start as usize * slices).collect();
        (self.slices, self.own, self.total) = (slices, room(), room());
    }

    /// Returns where the slices of a group begin.
    fn start(&self, group: usize) -> Option<usize> {
        self.rows[group].map(|row| row as usize * self.slices)
    }

    /// For each stack, returns the innermost frame of each kept group: recursion counts once.
    fn counted(&self, profile: &Profile, of_stack: &[u32]) -> Vec<u32> {
        let mut up = vec![0u32; profile.stacks.len()];
        let mut on_path = vec![0u32; self.sums.len()];
        depth_first(profile, |stack, enters| {
            let group = of_stack[stack as usize] as usize;
            if !enters {
                on_path[group] -= 1;
                return;
            }
            let counts = on_path[group] == 0 && self.rows[group].is_some();
            let caller = profile.stacks[stack as usize].caller as usize;
            up[stack as usize] = if counts { stack } else { up[caller] };
            on_path[group] += 1;
        });
        up
    }

    /// Returns one metric of a group.
    pub fn of(&self, group: usize, metric: Metric) -> GroupWeight<'_> {
        let sum = self.sums[group];
        let (amount, weights) = match metric {
            Metric::Own => (sum.own, &self.own),
            Metric::Total => (sum.total, &self.total),
        };
        GroupWeight { amount, of_slices: self.start(group).map(|start| &weights[start..start + self.slices]) }
    }
}

/// A weight of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Where the group is the leaf.
    Own,
    /// Where the group is anywhere in the stack.
    Total,
}

/// Returns the weight of all samples in each slice.
pub fn whole(profile: &Profile, slices: usize) -> Vec<f64> {
    let mut whole = vec![0.0; slices];
    profile.cells.iter().for_each(|cell| whole[cell.slice as usize] += cell.weight as f64);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::{fixture, groups};

    #[test]
    fn weights_fall_into_their_slices_and_recursion_counts_once() {
        let mut profile = fixture::profile(&[("main;f;f", 3), ("main;f", 2), ("main", 1)]);
        profile.cells[1].slice = 1;
        let of_frame: Vec<u32> = profile.names.frames.iter().map(|frame| frame.function).collect();
        let of_stack = groups(&profile, &of_frame, |_| true);
        let count = profile.names.functions.len();
        let group = |name: &str| {
            profile.names.functions.iter().position(|f| &*f.name == name).expect("a function of the profile")
        };
        let series_of = |is_kept: &dyn Fn(usize, &Sum) -> bool| {
            let mut series = Series::of_code(&profile, &of_stack, count);
            series.keep(&profile, 2, &of_stack, is_kept);
            series
        };
        let of = |series: &Series, name: &str, metric| {
            let GroupWeight { amount, of_slices } = series.of(group(name), metric);
            (amount.weight, amount.samples, of_slices.map(<[f64]>::to_vec))
        };
        let all = series_of(&|_, _| true);
        assert_eq!(of(&all, "main", Metric::Own), (10, 1, Some(vec![10.0, 0.0])));
        assert_eq!(of(&all, "main", Metric::Total), (60, 6, Some(vec![40.0, 20.0])));
        assert_eq!(of(&all, "f", Metric::Own), (50, 5, Some(vec![30.0, 20.0])));
        assert_eq!(of(&all, "f", Metric::Total), (50, 5, Some(vec![30.0, 20.0])));
        let few = series_of(&|kept, _| kept == group("main"));
        assert_eq!(of(&few, "main", Metric::Total), of(&all, "main", Metric::Total));
        assert_eq!(of(&few, "f", Metric::Total), (50, 5, None), "the sum alone");
        assert_eq!(whole(&profile, 2), [40.0, 20.0]);
        let of_threads = Series::of_rows(&profile, 2, |_| 0, 1);
        assert_eq!(of(&of_threads, "main", Metric::Total), (60, 6, Some(vec![40.0, 20.0])));
    }
}
