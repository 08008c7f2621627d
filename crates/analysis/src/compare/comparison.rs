//! Two sides of one or more recordings, compared row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::compared::{Compared, ComparedSide, Options, Run};
use super::estimate::{Base, Coverage, Estimate, RecordedRow, estimate};
use super::facts::{RecordingFacts, facts};
use super::functions::{Functions, whole_image};
use super::judge::{BETWEEN_RUNS, FALSE_DISCOVERIES, judge};
use super::metric::{MetricSummary, is_diluted, judges};
use super::noise::{Draws, LEVELS, SEED, SLICES};
use super::pieces::Pieces;
use super::renames;
use super::row::{By, RowKey, Sided};
use super::rows::{Local, Rows};
use super::series::{GroupWeight, Metric, Series, whole};
use super::totals::{Totals, Weights, totals};
use super::unit::Unit;
use icecore_profile::named::{Amount, Measure};
use icecore_text::quantity::ratio;

/// The least share that is reported.
const WORTH_TELLING: f64 = 0.01;

/// The status of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No change that chance does not explain.
    Same,
    /// More than before.
    Grew,
    /// The row shrank.
    Shrank,
    /// The row exists only after.
    Added,
    /// The row existed only before.
    Removed,
    /// The function has another name, and the same callers and callees.
    Renamed,
    /// Its share changed in proportion to most others, because a few rows took more or less.
    Diluted,
}

impl Status {
    /// Returns true if a row of this status changed by itself, and by more than chance, or was renamed.
    pub fn is_shown(self) -> bool {
        !matches!(self, Self::Same | Self::Diluted)
    }

    /// Returns its name, as `diff --json` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Grew => "grew",
            Self::Shrank => "shrank",
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Renamed => "renamed",
            Self::Diluted => "diluted",
        }
    }
}

/// One row.
#[derive(Debug, Clone)]
pub struct ComparedRow {
    /// Its key before, and after.
    pub keys: [Option<RowKey>; 2],
    /// The weight of itself.
    pub own: Compared,
    /// The weight of all samples that passed through it.
    pub total: Compared,
    /// The similarity of callers and callees, if the row was renamed.
    pub likeness: Option<f64>,
}

/// The result.
#[derive(Debug)]
pub struct Comparison {
    /// Before and after.
    pub sides: [ComparedSide; 2],
    /// The denominator of rates.
    pub unit: Unit,
    /// Unit of the weights.
    pub weight_unit: String,
    /// The weights are CPU time. Those in ns can also be time of threads that wait.
    pub is_cpu_time: bool,
    /// The rows, in no particular order.
    pub rows: Vec<ComparedRow>,
    /// Judgements of all rows together: self, total.
    pub judgements: [MetricSummary; 2],
    /// Everything, and its denominator: that of `cpu_time`, or units of work.
    pub whole: (Compared, Unit),
    /// CPU time, or the weight of another event: per run for whole runs, else per second of wall time.
    pub cpu_time: (Compared, Unit),
    /// CPU time and wall time per run, for whole runs.
    pub totals: Option<Totals>,
    /// All recordings are whole runs.
    pub whole_runs: bool,
    /// Length of the shortest blocks, ns: the mean of all recordings.
    pub block_ns: [u64; 2],
    /// The functions of all recordings.
    functions: Functions,
}

/// Compares recordings; at least one on each side, counted by thread and by [`SLICES`] slices.
pub fn compare(reports: &[Sided<'_>], options: Options) -> Comparison {
    let mut rows = Rows::new(reports, options.by, options.physical);
    let likeness = match options.by {
        By::Function if !options.is_one_run => renames::join(&mut rows, reports),
        _ => BTreeMap::new(),
    };
    let facts: Vec<RecordingFacts> = reports.iter().map(|(report, _)| facts(report)).collect();
    let runs = runs(reports, &rows, &facts, options);
    let whole_runs = facts.iter().all(|facts| facts.is_whole_run);
    let mut pieces = Pieces::new(reports, &rows, runs, options);
    let metrics = judges(&mut pieces, rows.keys.len(), whole_runs, options);
    let runs = pieces.runs();
    let side_of: Vec<usize> = reports.iter().map(|(_, side)| *side).collect();
    let all = |which: fn(&Measure) -> bool| reports.iter().all(|(report, _)| which(&report.profile.measure));
    let weights = Weights { are_times: all(Measure::is_time), are_cpu_times: all(|it| it.is_cpu_time) };
    let totals = whole_runs.then(|| totals(&facts, &side_of, weights));
    let cpu_time = match totals {
        Some(totals) => (totals.cpu, Unit::PerRun),
        None => (everything(runs, &facts, whole_runs, Unit::PerSecond), Unit::PerSecond),
    };
    // One run is the unit of work, unless the user named another one.
    let whole = match options.unit {
        Unit::PerWork(_) => (everything(runs, &facts, whole_runs, options.unit), options.unit),
        _ => cpu_time,
    };
    let sides = [0, 1].map(|side| ComparedSide {
        recordings: reports
            .iter()
            .zip(&facts)
            .filter(|((_, of), _)| *of == side)
            .map(|(_, facts)| facts.clone())
            .collect(),
        rate: mean_rate(runs, side),
    });
    let mut judgements = metrics.each_ref().map(|judge| judge.summary(runs, &sides, options.unit));
    // In totals, the rows at the root hide that all other rows follow from a few.
    judgements[1].common = judgements[0].common.or(judgements[1].common);
    let slice_ns = facts.iter().fold(0, |sum: u64, facts| sum.saturating_add(facts.span_ns))
        / (reports.len().max(1) * SLICES) as u64;
    let block_ns = metrics.each_ref().map(|judge| slice_ns.saturating_mul(LEVELS[judge.level] as u64));
    // The result is as large as its inputs: rows are counted first, and slices dropped.
    drop(pieces);
    let [own, total] = metrics;
    let hits = total.hits();
    let row = |(position, keys): (usize, [Option<RowKey>; 2])| ComparedRow {
        keys,
        own: own.compared(position).bounded(options.unit),
        total: total.compared(position).bounded(options.unit),
        likeness: likeness.get(&(position as u32)).copied(),
    };
    let is_hit = |row: &ComparedRow| row.total.samples != (0, 0);
    let weight_unit =
        reports.first().map_or_else(String::new, |(report, _)| report.profile.measure.unit.clone());
    let functions = rows.functions;
    let mut hit = Vec::with_capacity(hits);
    hit.extend(rows.keys.into_iter().enumerate().map(row).filter(is_hit));
    let unit = options.unit;
    Comparison {
        sides,
        unit,
        weight_unit,
        is_cpu_time: weights.are_cpu_times,
        rows: hit,
        judgements,
        whole,
        cpu_time,
        totals,
        whole_runs,
        block_ns,
        functions,
    }
}

/// Counts the rows of every recording.
fn runs(reports: &[Sided<'_>], rows: &Rows, facts: &[RecordingFacts], options: Options) -> Vec<Run> {
    let of_report = |number: usize| {
        let profile = &reports[number].0.profile;
        let Local { row, group } = &rows.of[number];
        let series = match options.by {
            By::Process | By::Thread => {
                let of_row = |row: usize| group[profile.rows[row].thread as usize];
                Series::of_rows(profile, SLICES, of_row, row.len())
            }
            _ => Series::of_code(profile, group, row.len()),
        };
        run(number, reports[number], series, &facts[number], options, groups(row, rows.keys.len()))
    };
    (0..reports.len()).into_par_iter().map(of_report).collect()
}

/// Returns the group of each row.
fn groups(row_of: &[u32], rows: usize) -> Vec<Option<u32>> {
    let mut groups = vec![None; rows];
    (0u32..).zip(row_of).for_each(|(group, row)| groups[*row as usize] = Some(group));
    groups
}

fn run(
    number: usize,
    (report, side): Sided<'_>,
    series: Series,
    facts: &RecordingFacts,
    options: Options,
    groups: Vec<Option<u32>>,
) -> Run {
    let whole = whole(&report.profile, SLICES);
    let divisors = options.unit.divisors(&whole, facts, side == 0);
    let base = base(number, divisors, facts, options.unit == Unit::Share);
    Run { side, groups, series, base, whole }
}

fn base(number: usize, divisors: Vec<f64>, facts: &RecordingFacts, is_share: bool) -> Base {
    let draws = Arc::new(Draws::new(SEED + number as u64));
    Base::new(divisors, draws, ratio(facts.weight as f64, facts.samples as f64), is_share)
}

/// Compares how much was sampled in all: per unit of work, or per second of wall time, since the share of everything is always 1.
fn everything(runs: &[Run], facts: &[RecordingFacts], whole_runs: bool, unit: Unit) -> Compared {
    let bases: Vec<Base> = (0..runs.len())
        .map(|number| {
            let (facts, run) = (&facts[number], &runs[number]);
            let divisors = unit.divisors(&run.whole, facts, run.side == 0);
            base(number, divisors, facts, false)
        })
        .collect();
    let seen = |side: usize| -> Vec<RecordedRow<'_>> {
        let of_side = (0..runs.len()).filter(|number| runs[*number].side == side);
        of_side
            .map(|number| {
                let RecordingFacts { samples, weight, .. } = facts[number];
                let amount = Amount { samples, weight };
                RecordedRow {
                    base: &bases[number],
                    part: GroupWeight { amount, of_slices: Some(&runs[number].whole) },
                }
            })
            .collect()
    };
    let seen = [[seen(0), seen(1)]];
    let samples = [0, 1].map(|side| seen[0][side].iter().map(RecordedRow::samples).sum::<u64>());
    let piece = if whole_runs { Coverage::WholeRun } else { Coverage::OfTime(0) };
    let estimate = estimate(&seen[0][0], &seen[0][1], piece);
    let judged = judge(&[estimate], &[true], FALSE_DISCOVERIES, BETWEEN_RUNS).rows[0];
    Compared { estimate, judged, samples: (samples[0], samples[1]) }
}

fn mean_rate(runs: &[Run], side: usize) -> f64 {
    let rates: Vec<f64> =
        runs.iter().filter(|run| run.side == side).map(|run| run.base.rate(run.whole.iter().sum())).collect();
    ratio(rates.iter().sum(), rates.len() as f64)
}

impl Comparison {
    /// Returns the name after of a function of a recording; the name before if the function is gone. Both arguments are positions.
    pub fn called(&self, recording: usize, function: u32) -> &str {
        self.functions.name(self.functions.of[recording][function as usize], 1)
    }

    /// Returns two counts: functions that share a name with others and have rows of their own; names whose functions share one row,
    /// because nothing distinguishes them on both sides.
    pub fn told_apart(&self) -> (u64, u64) {
        self.functions.told_apart
    }

    /// Returns the images whose functions are all one row because one side has no names for them, if that row has any weight.
    pub fn images_without_names(&self) -> Vec<String> {
        let is_heavy = |row: &ComparedRow| {
            let Estimate { before, after, .. } = row.total.estimate;
            ratio(before, self.sides[0].rate).max(ratio(after, self.sides[1].rate)) >= WORTH_TELLING
        };
        let keys = self.rows.iter().filter(|row| is_heavy(row)).filter_map(|row| row.keys[1].as_ref());
        let mut images: Vec<String> =
            keys.filter_map(|key| Some(whole_image(&key.name)?.to_owned())).collect();
        images.sort();
        images
    }

    /// Returns the judgement of all rows for a metric.
    pub fn summary(&self, metric: Metric) -> &MetricSummary {
        &self.judgements[metric as usize]
    }

    /// Returns the status of a row.
    pub fn status(&self, row: &ComparedRow, metric: Metric) -> Status {
        let compared = row.of(metric);
        let (before, after) = compared.samples;
        if row.likeness.is_some() && compared.judged.tested {
            return Status::Renamed;
        }
        if !compared.judged.significant {
            return Status::Same;
        }
        let is_diluted = |factor: &f64| is_diluted(compared, *factor);
        match (before, after) {
            (0, _) => Status::Added,
            (_, 0) => Status::Removed,
            _ if self.summary(metric).common.as_ref().is_some_and(is_diluted) => Status::Diluted,
            _ if compared.estimate.delta() > 0.0 => Status::Grew,
            _ => Status::Shrank,
        }
    }
}

impl ComparedRow {
    /// A metric of it.
    pub fn of(&self, metric: Metric) -> &Compared {
        match metric {
            Metric::Own => &self.own,
            Metric::Total => &self.total,
        }
    }
}
