//! What everything in one recording weighs in each slice of time.

use crate::profile::Profile;

/// Weights of groups of code or threads, slice by slice.
///
/// # Shape   one row per group, one column per slice
/// # Units   the weight of the profile's event
#[derive(Debug, Clone, Default)]
pub struct Series {
    slices: usize,
    /// Weight of the group itself.
    own: Vec<f64>,
    /// Weight of all that went through it, each sample once.
    total: Vec<f64>,
    /// Samples of the group itself, and of all that went through it.
    samples: Vec<(u64, u64)>,
}

impl Series {
    fn new(groups: usize, slices: usize) -> Self {
        let none = vec![0.0; groups * slices];
        Self { slices, own: none.clone(), total: none, samples: vec![(0, 0); groups] }
    }

    /// Adds up groups of code: `of_stack` names the group of each stack's innermost frame. The empty stack is in no group.
    ///
    /// # Cost
    /// O(frames of distinct stacks + rows × groups in one stack)
    pub fn of_code(profile: &Profile, slices: usize, of_stack: &[u32], groups: usize) -> Self {
        let mut series = Self::new(groups, slices);
        let mut rows: Vec<usize> = (0..profile.rows.len()).collect();
        rows.sort_by_key(|row| profile.rows[*row].stack);
        let mut seen_in = vec![u32::MAX; groups];
        let mut on_path: Vec<u32> = Vec::new();
        let mut at = 0;
        for row in rows.into_iter().map(|row| &profile.rows[row]).filter(|row| row.stack != 0) {
            if row.stack != at {
                at = row.stack;
                on_path.clear();
                let mut next = at;
                while next != 0 {
                    let group = of_stack[next as usize];
                    if seen_in[group as usize] != at {
                        seen_in[group as usize] = at;
                        on_path.push(group);
                    }
                    next = profile.stacks[next as usize].caller;
                }
            }
            let (slice, weight) = (row.slice as usize, row.weight as f64);
            let leaf = of_stack[at as usize] as usize;
            series.own[leaf * slices + slice] += weight;
            series.samples[leaf].0 += row.samples;
            for group in &on_path {
                series.total[*group as usize * slices + slice] += weight;
                series.samples[*group as usize].1 += row.samples;
            }
        }
        series
    }

    /// Adds up groups of rows, such as the threads of one name; `of_row` names the group of each.
    pub fn of_rows(profile: &Profile, slices: usize, of_row: impl Fn(usize) -> u32, groups: usize) -> Self {
        let mut series = Self::new(groups, slices);
        for (position, row) in profile.rows.iter().enumerate() {
            let group = of_row(position) as usize;
            series.own[group * slices + row.slice as usize] += row.weight as f64;
            series.samples[group].0 += row.samples;
        }
        series.total.clone_from(&series.own);
        series.samples.iter_mut().for_each(|samples| samples.1 = samples.0);
        series
    }

    /// What one metric of a group weighs in each slice, and its samples.
    pub fn of(&self, group: usize, metric: Metric) -> (&[f64], u64) {
        let range = group * self.slices..(group + 1) * self.slices;
        match metric {
            Metric::Own => (&self.own[range], self.samples[group].0),
            Metric::Total => (&self.total[range], self.samples[group].1),
        }
    }
}

/// Which weight of a group is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Where it is the leaf.
    Own,
    /// Where it is anywhere in the stack.
    Total,
}

/// The weight of everything in each slice.
pub fn whole(profile: &Profile, slices: usize) -> Vec<f64> {
    let mut whole = vec![0.0; slices];
    profile.rows.iter().for_each(|row| whole[row.slice as usize] += row.weight as f64);
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{fixture, groups};

    #[test]
    fn weights_fall_into_their_slices_and_recursion_counts_once() {
        let mut profile = fixture::profile(&[("main;f;f", 3), ("main;f", 2), ("main", 1)]);
        profile.rows[1].slice = 1;
        let of_frame: Vec<u32> = profile.names.frames.iter().map(|frame| frame.function).collect();
        let of_stack = groups(&profile, &of_frame, |_| true);
        let series = Series::of_code(&profile, 2, &of_stack, profile.names.functions.len());
        let group = |name: &str| {
            profile.names.functions.iter().position(|f| &*f.name == name).expect("a function of the profile")
        };
        assert_eq!(series.of(group("main"), Metric::Own), (&[10.0, 0.0][..], 1));
        assert_eq!(series.of(group("main"), Metric::Total), (&[40.0, 20.0][..], 6));
        assert_eq!(series.of(group("f"), Metric::Own), (&[30.0, 20.0][..], 5));
        assert_eq!(series.of(group("f"), Metric::Total), (&[30.0, 20.0][..], 5));
        assert_eq!(whole(&profile, 2), [40.0, 20.0]);
        let of_threads = Series::of_rows(&profile, 2, |_| 0, 1);
        assert_eq!(of_threads.of(0, Metric::Total), (&[40.0, 20.0][..], 6));
    }
}
