//! What is compared, and how: recordings, sides, metrics of rows.

use super::estimate::{Base, Estimate, RecordedRow};
use super::facts::RecordingFacts;
use super::judge::Judged;
use super::row::By;
use super::series::{GroupWeight, Metric, Series};
use super::unit::Unit;

/// How recordings are compared.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What is compared as a row.
    pub by: By,
    /// The denominator of rates.
    pub unit: Unit,
    /// Inlined functions count for the function into which they were inlined.
    pub physical: bool,
    /// The share of the rows called changed that may be so by chance.
    pub false_discoveries: f64,
    /// Both sides are parts of one recording, so the noise between runs does not apply.
    pub is_one_run: bool,
}

/// One side of the comparison.
#[derive(Debug, Clone, Default)]
pub struct ComparedSide {
    /// Its recordings.
    pub recordings: Vec<RecordingFacts>,
    /// The rate of everything, the mean of the recordings.
    pub rate: f64,
}

/// A metric of a row.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    /// Rates and noise.
    pub estimate: Estimate,
    /// The judgement.
    pub judged: Judged,
    /// Samples before and after.
    pub samples: (u64, u64),
}

/// A recording, prepared for comparison.
pub(super) struct Run {
    pub(super) side: usize,
    pub(super) groups: Vec<Option<u32>>,
    pub(super) series: Series,
    pub(super) base: Base,
    pub(super) whole: Vec<f64>,
}

impl Run {
    pub(super) fn seen(&self, row: usize, metric: Metric) -> RecordedRow<'_> {
        let group = self.groups.get(row).copied().flatten();
        let part = group.map_or_else(GroupWeight::default, |group| self.series.of(group as usize, metric));
        RecordedRow { base: &self.base, part }
    }
}

impl Compared {
    /// Limits the noise of a share: it can change by at most 1.
    pub(super) fn bounded(mut self, unit: Unit) -> Self {
        if unit == Unit::Share {
            (self.judged.low, self.judged.high) = (self.judged.low.max(-1.0), self.judged.high.min(1.0));
        }
        self
    }
}
