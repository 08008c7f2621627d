//! Estimates and judges one metric of all rows, and summarizes them.

use std::ops::Range;

use rayon::prelude::*;

use super::compared::{Compared, ComparedSide, Options, Run};
use super::estimate::{Coverage, Estimate, RecordedRow, estimate, estimate_few, growth};
use super::judge::{BETWEEN_RUNS, FEWEST_SAMPLES, Judged, Judgement, judge};
use super::noise::{LEVELS, common_level};
use super::pieces::{Pieces, SideRuns};
use super::series::Metric;
use super::totals::CPU_NOISE;
use super::unit::Unit;

/// The summary of all rows for one metric.
#[derive(Debug, Clone, Copy)]
pub struct MetricSummary {
    /// Rows that were tested.
    pub tested: usize,
    /// Rows that changed.
    pub changed: usize,
    /// The factor by which noise was raised because rows differ more than chance within recordings explains.
    pub widened: f64,
    /// The probability below which a row is called changed.
    pub threshold: f64,
    /// The smallest detectable change of rows with a share of one in a thousand, one in a hundred and one in ten.
    pub detectable: [f64; 3],
    /// The factor by which the shares of most rows changed.
    pub common: Option<f64>,
}

/// Shares of [`MetricSummary::detectable`].
pub const SHOWN_AT: [f64; 3] = [0.001, 0.01, 0.1];

/// One metric of all rows.
pub(super) struct MetricJudge {
    estimates: Vec<Estimate>,
    samples: Vec<(u64, u64)>,
    is_tested: Vec<bool>,
    judgement: Judgement,
    /// The length of the shortest blocks, a level.
    pub(super) level: usize,
}

/// A metric that is being estimated.
struct Begun {
    metric: Metric,
    samples: Vec<(u64, u64)>,
    is_tested: Vec<bool>,
    growth: Vec<[f64; LEVELS.len()]>,
    level: usize,
    estimates: Vec<Estimate>,
}

/// Judges both metrics of all rows: self, total.
pub(super) fn judges(
    pieces: &mut Pieces<'_>,
    rows: usize,
    whole_runs: bool,
    options: Options,
) -> [MetricJudge; 2] {
    let mut metrics = [Metric::Own, Metric::Total].map(|metric| Begun::new(metric, &pieces.sides(), rows));
    // Phases of whole runs are no noise, whatever their length.
    if !whole_runs {
        pieces.each(|sides, range| metrics.iter_mut().for_each(|metric| metric.grow(sides, range.clone())));
        metrics.iter_mut().for_each(|metric| metric.level = common_level(&metric.growth));
    }
    pieces.each(|sides, range| {
        for metric in &mut metrics {
            let piece = if whole_runs { Coverage::WholeRun } else { Coverage::OfTime(metric.level) };
            metric.estimate(sides, range.clone(), piece, options.unit);
        }
    });
    metrics.map(|metric| metric.judged(options))
}

impl Begun {
    fn new(metric: Metric, sides: &SideRuns<'_>, rows: usize) -> Self {
        let samples = |side: &[RecordedRow<'_>]| side.iter().map(RecordedRow::samples).sum::<u64>();
        let of_row = |row| {
            let [before, after] = seen(sides, row, metric);
            (samples(&before), samples(&after))
        };
        let samples: Vec<(u64, u64)> = (0..rows).into_par_iter().map(of_row).collect();
        let is_tested = |(before, after): &(u64, u64)| before.saturating_add(*after) >= FEWEST_SAMPLES;
        let is_tested = samples.iter().map(is_tested).collect();
        let (growth, level) = Default::default();
        Self { metric, samples, is_tested, growth, level, estimates: Vec::with_capacity(rows) }
    }

    /// Learns how the variances of rows grow with the length of blocks.
    fn grow(&mut self, sides: &SideRuns<'_>, rows: Range<usize>) {
        let tested = rows.into_par_iter().filter(|row| self.is_tested[*row]);
        let grown = tested.filter_map(|row| {
            let [before, after] = seen(sides, row, self.metric);
            growth(&before, &after)
        });
        self.growth.append(&mut grown.collect());
    }

    /// Estimates the next rows.
    fn estimate(&mut self, sides: &SideRuns<'_>, rows: Range<usize>, piece: Coverage, unit: Unit) {
        let estimate = |row: usize| {
            let [before, after] = seen(sides, row, self.metric);
            let estimate = if self.is_tested[row] {
                estimate(&before, &after, piece)
            } else {
                estimate_few(&before, &after)
            };
            if unit == Unit::PerRun { with_runs(estimate) } else { estimate }
        };
        let mut estimates = rows.into_par_iter().map(estimate).collect();
        self.estimates.append(&mut estimates);
    }

    fn judged(self, options: Options) -> MetricJudge {
        let Self { estimates, samples, is_tested, level, .. } = self;
        let least = if options.is_one_run { 1.0 } else { BETWEEN_RUNS };
        let judgement = judge(&estimates, &is_tested, options.false_discoveries, least);
        MetricJudge { estimates, samples, is_tested, judgement, level }
    }
}

/// Returns a row in the recordings of both sides.
fn seen<'a>(sides: &SideRuns<'a>, row: usize, metric: Metric) -> [Vec<RecordedRow<'a>>; 2] {
    sides.each_ref().map(|runs| runs.iter().map(|run| run.seen(row, metric)).collect())
}

impl MetricJudge {
    /// Counts the rows that have samples.
    pub(super) fn hits(&self) -> usize {
        self.samples.iter().filter(|samples| **samples != (0, 0)).count()
    }

    pub(super) fn compared(&self, row: usize) -> Compared {
        Compared {
            estimate: self.estimates[row],
            judged: self.judgement.rows[row],
            samples: self.samples[row],
        }
    }

    pub(super) fn summary(&self, runs: &[Run], sides: &[ComparedSide; 2], unit: Unit) -> MetricSummary {
        let detectable = SHOWN_AT.map(|share| {
            let rate = share * (sides[0].rate + sides[1].rate) / 2.0;
            let of_side = |side: usize| {
                let of_side = runs.iter().filter(|run| run.side == side);
                let each: Vec<f64> = of_side.map(|run| run.base.of_sampling_at(rate)).collect();
                each.iter().sum::<f64>() / (each.len() as f64).powi(2)
            };
            self.judgement.detectable(of_side(0) + of_side(1))
        });
        MetricSummary {
            tested: self.judgement.tested,
            changed: self.judgement.rows.iter().filter(|row| row.significant).count(),
            widened: self.judgement.widened,
            threshold: self.judgement.threshold,
            detectable,
            common: (unit == Unit::Share).then(|| self.common()).flatten(),
        }
    }

    /// Returns the factor by which the shares of most rows changed, if they changed because other rows did: one factor explains
    /// most of what both sides have, and it is not 1.
    fn common(&self) -> Option<f64> {
        let rows = (0..self.estimates.len()).filter(|row| self.is_tested[*row]);
        let both = rows.filter(|row| self.estimates[*row].before > 0.0 && self.estimates[*row].after > 0.0);
        let mut factors: Vec<(f64, f64, usize)> = both
            .map(|row| {
                let Estimate { before, after, .. } = self.estimates[row];
                // The precision of a row grows with the root of its samples.
                (after / before, before.min(after).sqrt(), row)
            })
            .collect();
        factors.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.2.cmp(&b.2)));
        let whole: f64 = factors.iter().map(|(_, weight, _)| weight).sum();
        let mut below = 0.0;
        let middle = factors.iter().find(|(_, weight, _)| {
            below += weight;
            below >= whole / 2.0
        });
        let fits = |row: usize, factor: f64, errors: f64| {
            is_explained(&self.estimates[row], &self.judgement.rows[row], factor, errors)
        };
        let near = middle?.0;
        let (mut before, mut after) = (0.0, 0.0);
        for (_, _, row) in factors.iter().filter(|(_, _, row)| fits(*row, near, 2.0 * EXPLAINED)) {
            before += self.estimates[*row].before;
            after += self.estimates[*row].after;
        }
        let factor = after / before;
        let fits = |row: usize| fits(row, factor, EXPLAINED);
        let errors = factors
            .iter()
            .filter(|(_, _, row)| fits(*row))
            .map(|(_, _, row)| self.judgement.rows[*row].error.powi(2));
        let is_other_than_one = (after - before).abs() > EXPLAINED * errors.sum::<f64>().sqrt();
        let fitting: Vec<&(f64, f64, usize)> = factors.iter().filter(|(_, _, row)| fits(*row)).collect();
        let covered: f64 = fitting.iter().map(|(_, weight, _)| weight).sum();
        (is_other_than_one && fitting.len() >= FEWEST_FITTING && covered > MOST_OF_ALL * whole)
            .then_some(factor)
    }
}

/// Adds the spread of CPU time between single runs, which affects all rows together and cancels out in shares.
fn with_runs(estimate: Estimate) -> Estimate {
    let Estimate { before, after, variance, between, .. } = estimate;
    let of_runs = CPU_NOISE.powi(2) * (before.powi(2) + after.powi(2));
    Estimate { variance: if between.is_none() { variance + of_runs } else { variance }, ..estimate }
}

/// A factor is common if it explains at least so many rows.
const FEWEST_FITTING: usize = 3;
/// A factor is common if the rows that it explains hold at least this share of the information on rows of both sides.
const MOST_OF_ALL: f64 = 0.5;

/// Returns true if a row changed as all others did: chance explains the rest.
fn is_explained(estimate: &Estimate, judged: &Judged, factor: f64, errors: f64) -> bool {
    (estimate.after - factor * estimate.before).abs() <= errors * judged.error
}

/// So many standard errors may be chance.
const EXPLAINED: f64 = 3.0;

/// Returns true if a row changed only as all others did: what the factor leaves unexplained may be chance, and is small beside what
/// it explains.
pub(super) fn is_diluted(compared: &Compared, factor: f64) -> bool {
    let Estimate { before, after, .. } = compared.estimate;
    is_explained(&compared.estimate, &compared.judged, factor, EXPLAINED)
        && (after - factor * before).abs() < 0.5 * (after - before).abs()
}
