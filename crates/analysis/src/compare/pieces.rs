//! Counts the rows of all recordings slice by slice for one range of rows after the other: all rows at once would take a kilobyte
//! for each row and recording.

use std::ops::Range;

use rayon::prelude::*;

use super::compared::{Options, Run};
use super::judge::FEWEST_SAMPLES;
use super::noise::SLICES;
use super::row::{By, Sided};
use super::rows::Rows;
use super::series::Metric;

/// How many rows are counted slice by slice at a time: 64 MiB for each recording.
const ROWS_AT_ONCE: usize = 64 << 10;

/// The recordings of both sides.
pub(super) type SideRuns<'a> = [Vec<&'a Run>; 2];

/// Recordings with the sums of all rows; slices are counted on demand.
pub(super) struct Pieces<'a> {
    reports: &'a [Sided<'a>],
    rows: &'a Rows,
    runs: Vec<Run>,
    by: By,
    /// Samples of each row in all recordings.
    samples: Vec<u64>,
    ranges: Vec<Range<usize>>,
    /// The range that is counted slice by slice.
    kept: Option<usize>,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(reports: &'a [Sided<'a>], rows: &'a Rows, runs: Vec<Run>, options: Options) -> Self {
        let mut samples = vec![0u64; rows.keys.len()];
        for (run, local) in runs.iter().zip(&rows.of) {
            for (group, row) in local.row.iter().enumerate() {
                samples[*row as usize] += run.series.of(group, Metric::Total).amount.samples;
            }
        }
        let ranges = ranges(&samples, ROWS_AT_ONCE);
        Self { reports, rows, runs, by: options.by, samples, ranges, kept: None }
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns both sides; only the sums are complete.
    pub(super) fn sides(&self) -> SideRuns<'_> {
        let (before, after) = self.runs.iter().partition(|run| run.side == 0);
        [before, after]
    }

    /// Passes one range of rows after the other to `work`, in order. During the call, rows of the range with enough samples in all
    /// recordings together are counted slice by slice.
    pub(super) fn each(&mut self, mut work: impl FnMut(&SideRuns<'_>, Range<usize>)) {
        for (piece, range) in self.ranges.clone().into_iter().enumerate() {
            // There are few processes and threads: they are counted completely.
            if self.kept != Some(piece) && !matches!(self.by, By::Process | By::Thread) {
                self.keep(&range);
                self.kept = Some(piece);
            }
            work(&self.sides(), range);
        }
    }

    fn keep(&mut self, range: &Range<usize>) {
        let Self { reports, rows, samples, runs, .. } = self;
        runs.par_iter_mut().enumerate().for_each(|(number, run)| {
            let local = &rows.of[number];
            let is_kept = |group: usize| {
                let row = local.row[group] as usize;
                range.contains(&row) && samples[row] >= FEWEST_SAMPLES
            };
            run.series.keep(&reports[number].0.profile, SLICES, &local.group, |group, _| is_kept(group));
        });
    }
}

/// Divides rows into ranges with at most `at_once` rows that have enough samples; returns at least one range.
fn ranges(samples: &[u64], at_once: usize) -> Vec<Range<usize>> {
    let enough = (0..samples.len()).filter(|row| samples[*row] >= FEWEST_SAMPLES);
    // Rows before the first of these have too few.
    let begins: Vec<usize> = [0].into_iter().chain(enough.step_by(at_once).skip(1)).collect();
    let ends = begins.iter().skip(1).copied().chain([samples.len()]);
    begins.iter().zip(ends).map(|(begin, end)| *begin..end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_every_row_once() {
        assert_eq!(ranges(&[], 2), vec![0..0; 1]);
        assert_eq!(ranges(&[1, 1], 2), vec![0..2; 1]);
        assert_eq!(ranges(&[1, 20, 20, 1, 20], 2), [0..4, 4..5]);
        assert_eq!(ranges(&[20, 20, 20, 20], 1), [0..1, 1..2, 2..3, 3..4]);
    }
}
