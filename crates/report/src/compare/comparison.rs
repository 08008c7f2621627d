//! Two sides of one or more recordings, compared row by row.

use std::collections::BTreeMap;
use std::sync::Arc;

use rayon::prelude::*;

use super::estimate::{Base, Estimate, Piece, Seen, estimate};
use super::facts::{Facts, facts};
use super::judge::{BETWEEN_RUNS, FALSE_DISCOVERIES, Judged, judge};
use super::metric::{Judge, Summary, is_diluted};
use super::noise::{Draws, LEVELS, SEED, SLICES};
use super::renames;
use super::rows::{Key, Local, Rows, Sided};
use super::series::{Metric, Series, whole};
use super::unit::Unit;
use crate::cli::DiffBy as By;
use crate::views::summary::ratio;

/// How recordings are compared.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// What a row is.
    pub by: By,
    /// What rates are rates of.
    pub unit: Unit,
    /// What was inlined into a function counts for it.
    pub physical: bool,
    /// Share of the rows called changed that may be so by chance.
    pub false_discoveries: f64,
    /// Both sides are stretches of one recording: runs of a program differ by more than that.
    pub is_one_run: bool,
}

/// One of both sides.
#[derive(Debug, Clone, Default)]
pub struct Side {
    /// Its recordings.
    pub recordings: Vec<Facts>,
    /// Rate of everything, the mean of the recordings.
    pub rate: f64,
}

/// A metric of a row.
#[derive(Debug, Clone, Copy)]
pub struct Compared {
    /// Rates and noise.
    pub estimate: Estimate,
    /// What is to be said of it.
    pub judged: Judged,
    /// Samples before and after.
    pub samples: (u64, u64),
}

/// What became of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No change that chance does not explain.
    Same,
    /// More than before.
    Grew,
    /// Less than before.
    Shrank,
    /// It is there after only.
    Added,
    /// It was there before only.
    Removed,
    /// It has another name, and the same callers and callees.
    Renamed,
    /// Its share changed as that of most others did, because a few took more or less.
    Diluted,
}

/// One row.
#[derive(Debug, Clone)]
pub struct Row {
    /// How it is called before, and after.
    pub keys: [Option<Key>; 2],
    /// The weight of itself.
    pub own: Compared,
    /// The weight of all that went through it.
    pub total: Compared,
    /// How alike callers and callees are, of a row that was renamed.
    pub likeness: Option<f64>,
}

/// The result.
#[derive(Debug)]
pub struct Comparison {
    /// Before and after.
    pub sides: [Side; 2],
    /// What rates are rates of.
    pub unit: Unit,
    /// Unit of the weights.
    pub weight_unit: String,
    /// Each row, in no order that means anything.
    pub rows: Vec<Row>,
    /// What was said of all rows together: self, total.
    pub judgements: [Summary; 2],
    /// Everything, compared.
    pub whole: Compared,
    /// All recordings are whole runs.
    pub whole_runs: bool,
    /// Length of the shortest blocks, ns: the mean of all recordings.
    pub block_ns: [u64; 2],
}

/// A recording, ready to be compared.
pub(super) struct Run {
    pub(super) side: usize,
    groups: Vec<Option<u32>>,
    series: Series,
    pub(super) base: Base,
    whole: Vec<f64>,
}

impl Run {
    fn seen(&self, row: usize, metric: Metric) -> Seen<'_> {
        let group = self.groups.get(row).copied().flatten();
        let (part, samples) = match group {
            Some(group) => {
                let (part, samples) = self.series.of(group as usize, metric);
                (Some(part), samples)
            }
            None => (None, 0),
        };
        Seen { base: &self.base, part, samples }
    }
}

/// Compares recordings; at least one on each side, counted by thread and by [`SLICES`] slices.
pub fn compare(reports: &[Sided<'_>], options: Options) -> Comparison {
    let mut rows = Rows::new(reports, options.by, options.physical);
    let likeness = match options.by {
        By::Function => renames::join(&mut rows, reports),
        _ => BTreeMap::new(),
    };
    let facts: Vec<Facts> = reports.iter().map(|(report, _)| facts(report)).collect();
    let number = |position: usize| (position, reports[position], &rows.of[position], &facts[position]);
    let runs = (0..reports.len()).into_par_iter().map(number);
    let runs: Vec<Run> = runs
        .map(|(number, sided, local, facts)| run(number, sided, local, facts, rows.keys.len(), options))
        .collect();
    let (before, after): (Vec<&Run>, Vec<&Run>) = runs.iter().partition(|run| run.side == 0);
    let whole_runs = facts.iter().all(|facts| facts.is_whole_run);
    let metrics = [Metric::Own, Metric::Total].map(|metric| {
        let of_row = |row| [seen(&before, row, metric), seen(&after, row, metric)];
        let seen: Vec<[Vec<Seen<'_>>; 2]> = (0..rows.keys.len()).map(of_row).collect();
        Judge::new(&seen, whole_runs, options)
    });
    let whole = everything(&runs, &facts, whole_runs);
    let sides = [0, 1].map(|side| Side {
        recordings: reports
            .iter()
            .zip(&facts)
            .filter(|((_, of), _)| *of == side)
            .map(|(_, facts)| facts.clone())
            .collect(),
        rate: mean_rate(&runs, side),
    });
    let judgements = metrics.each_ref().map(|judge| judge.summary(&runs, &sides, options.unit));
    let slice_ns =
        facts.iter().map(|facts| facts.span_ns).sum::<u64>() / (reports.len().max(1) * SLICES) as u64;
    let block_ns = metrics.each_ref().map(|judge| slice_ns * LEVELS[judge.level] as u64);
    let [own, total] = metrics;
    let row = |(position, keys): (usize, [Option<Key>; 2])| Row {
        keys,
        own: own.compared(position),
        total: total.compared(position),
        likeness: likeness.get(&(position as u32)).copied(),
    };
    let is_hit = |row: &Row| row.total.samples != (0, 0);
    let weight_unit = reports.first().map_or_else(String::new, |(report, _)| report.profile.unit.clone());
    let rows = rows.keys.into_iter().enumerate().map(row).filter(is_hit).collect();
    Comparison { sides, unit: options.unit, weight_unit, rows, judgements, whole, whole_runs, block_ns }
}

/// A row as the recordings of a side have it.
fn seen<'a>(runs: &[&'a Run], row: usize, metric: Metric) -> Vec<Seen<'a>> {
    runs.iter().map(|run| run.seen(row, metric)).collect()
}

fn run(
    number: usize,
    (report, side): Sided<'_>,
    local: &Local,
    facts: &Facts,
    rows: usize,
    options: Options,
) -> Run {
    let profile = &report.profile;
    let mut groups = vec![None; rows];
    (0u32..).zip(&local.row).for_each(|(group, row)| groups[*row as usize] = Some(group));
    let count = local.row.len();
    let series = match options.by {
        By::Process | By::Thread => {
            let of_row = |row: usize| local.group[profile.rows[row].thread as usize];
            Series::of_rows(profile, SLICES, of_row, count)
        }
        _ => Series::of_code(profile, SLICES, &local.group, count),
    };
    let whole = whole(profile, SLICES);
    let seen = 1.0 - facts.lost_share;
    let divisors = options.unit.divisors(&whole, facts.span_ns, seen, side == 0);
    let base = base(number, divisors, facts, options.unit == Unit::Share);
    Run { side, groups, series, base, whole }
}

fn base(number: usize, divisors: Vec<f64>, facts: &Facts, is_share: bool) -> Base {
    let draws = Arc::new(Draws::new(SEED + number as u64));
    Base::new(divisors, draws, ratio(facts.weight as f64, facts.samples as f64), is_share)
}

/// Compares how much was sampled per second of wall time.
fn everything(runs: &[Run], facts: &[Facts], whole_runs: bool) -> Compared {
    let bases: Vec<Base> = (0..runs.len())
        .map(|number| {
            let (facts, run) = (&facts[number], &runs[number]);
            let divisors =
                Unit::PerSecond.divisors(&run.whole, facts.span_ns, 1.0 - facts.lost_share, run.side == 0);
            base(number, divisors, facts, false)
        })
        .collect();
    let seen = |side: usize| -> Vec<Seen<'_>> {
        let of_side = (0..runs.len()).filter(|number| runs[*number].side == side);
        of_side
            .map(|number| Seen {
                base: &bases[number],
                part: Some(&runs[number].whole),
                samples: facts[number].samples,
            })
            .collect()
    };
    let seen = [[seen(0), seen(1)]];
    let samples = [0, 1].map(|side| seen[0][side].iter().map(|seen| seen.samples).sum::<u64>());
    let piece = if whole_runs { Piece::WholeRun } else { Piece::OfTime(0) };
    let estimate = estimate(&seen[0][0], &seen[0][1], piece);
    let judged = judge(&[estimate], &[true], FALSE_DISCOVERIES, BETWEEN_RUNS).rows[0];
    Compared { estimate, judged, samples: (samples[0], samples[1]) }
}

fn mean_rate(runs: &[Run], side: usize) -> f64 {
    let rates: Vec<f64> =
        runs.iter().filter(|run| run.side == side).map(|run| run.base.rate(&run.whole)).collect();
    ratio(rates.iter().sum(), rates.len() as f64)
}

impl Comparison {
    /// What is said of all rows of a metric.
    pub fn summary(&self, metric: Metric) -> &Summary {
        &self.judgements[metric as usize]
    }

    /// What became of a row.
    pub fn status(&self, row: &Row, metric: Metric) -> Status {
        let compared = row.of(metric);
        let (before, after) = compared.samples;
        if row.likeness.is_some() && (before, after) != (0, 0) {
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

impl Row {
    /// A metric of it.
    pub fn of(&self, metric: Metric) -> &Compared {
        match metric {
            Metric::Own => &self.own,
            Metric::Total => &self.total,
        }
    }
}
