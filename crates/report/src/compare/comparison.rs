//! Two sides of one or more recordings, compared row by row.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use rayon::prelude::*;

use super::estimate::{Base, Estimate, Piece, Seen, estimate, estimate_few, growth};
use super::judge::{BETWEEN_RUNS, FALSE_DISCOVERIES, FEWEST_SAMPLES, Judged, Judgement, judge};
use super::noise::{Draws, LEVELS, SEED, SLICES, common_level};
use super::renames;
use super::rows::{Key, Local, Rows, Sided};
use super::series::{Metric, Series, whole};
use super::unit::Unit;
use crate::cli::DiffBy as By;
use crate::pipeline::Report;
use crate::spans::Spans;
use crate::views::summary::{lost, ratio};

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

/// One recording of a side.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The file.
    pub path: PathBuf,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Samples that the filters keep.
    pub samples: u64,
    /// Their weight, in the unit of the event.
    pub weight: u64,
    /// Wall time in which they were taken, ns.
    pub span_ns: u64,
    /// Share of all samples that were lost while recording.
    pub lost_share: f64,
    /// Stretches of the file that could not be used.
    pub damaged: u64,
    /// What the filters keep, for people.
    pub filter: Option<String>,
    /// It is a whole run of a command.
    pub is_whole_run: bool,
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

/// What is said of all rows of one metric.
#[derive(Debug, Clone, Copy)]
pub struct Summary {
    /// Rows that were tested.
    pub tested: usize,
    /// Rows that changed.
    pub changed: usize,
    /// By how much noise was raised because rows differ by more than chance inside recordings explains.
    pub widened: f64,
    /// The probability below which a row is called changed.
    pub threshold: f64,
    /// The smallest change that could have been shown by rows of one in a thousand, one in a hundred and one in ten.
    pub detectable: [f64; 3],
    /// By what the shares of most rows were multiplied.
    pub common: Option<f64>,
}

/// Shares of [`Summary::detectable`].
pub const SHOWN_AT: [f64; 3] = [0.001, 0.01, 0.1];

/// A recording, ready to be compared.
struct Run {
    side: usize,
    groups: Vec<Option<u32>>,
    series: Series,
    base: Base,
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

/// Describes a recording.
pub fn facts(report: &Report<'_>) -> Facts {
    let loaded = report.loaded;
    let (tables, filter) = (&loaded.tables, &loaded.filter);
    let whole = report.profile.whole();
    let in_file: u64 = tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum();
    let lost = lost(tables);
    let ended = |by: &String| by == "command";
    let ran =
        tables.parts.iter().all(|part| part.receipt.as_ref().is_some_and(|it| it.ended_by.iter().any(ended)));
    let is_command = tables.parts.iter().all(|part| part.session.target == "command");
    Facts {
        path: loaded.path.to_owned(),
        hosts: tables.parts.hosts().to_vec(),
        samples: whole.samples,
        weight: whole.weight,
        span_ns: Spans::new(tables, filter).together_ns(),
        lost_share: ratio(lost as f64, in_file.saturating_add(lost) as f64),
        filter: report.filtered.clone(),
        damaged: tables.damage.len() as u64,
        is_whole_run: ran && is_command && filter.from.is_none() && filter.to.is_none(),
    }
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

/// One metric of all rows.
struct Judge {
    estimates: Vec<Estimate>,
    samples: Vec<(u64, u64)>,
    is_tested: Vec<bool>,
    judgement: Judgement,
    level: usize,
}

impl Judge {
    fn new(seen: &[[Vec<Seen<'_>>; 2]], whole_runs: bool, options: Options) -> Self {
        let samples = |side: &[Seen<'_>]| side.iter().map(|seen| seen.samples).sum::<u64>();
        let samples: Vec<(u64, u64)> =
            seen.iter().map(|[before, after]| (samples(before), samples(after))).collect();
        let is_tested: Vec<bool> =
            samples.iter().map(|(before, after)| before.saturating_add(*after) >= FEWEST_SAMPLES).collect();
        let level = if whole_runs {
            0
        } else {
            let tested = seen.par_iter().zip(&is_tested).filter(|(_, is_tested)| **is_tested);
            common_level(&tested.filter_map(|([before, after], _)| growth(before, after)).collect::<Vec<_>>())
        };
        let piece = if whole_runs { Piece::WholeRun } else { Piece::OfTime(level) };
        let estimates: Vec<Estimate> = seen
            .par_iter()
            .zip(&is_tested)
            .map(|([before, after], is_tested)| match is_tested {
                true => estimate(before, after, piece),
                false => estimate_few(before, after),
            })
            .collect();
        let least = if options.is_one_run { 1.0 } else { BETWEEN_RUNS };
        let judgement = judge(&estimates, &is_tested, options.false_discoveries, least);
        Self { estimates, samples, is_tested, judgement, level }
    }

    fn compared(&self, row: usize) -> Compared {
        Compared {
            estimate: self.estimates[row],
            judged: self.judgement.rows[row],
            samples: self.samples[row],
        }
    }

    fn summary(&self, runs: &[Run], sides: &[Side; 2], unit: Unit) -> Summary {
        let detectable = SHOWN_AT.map(|share| {
            let rate = share * (sides[0].rate + sides[1].rate) / 2.0;
            let of_side = |side: usize| {
                let of_side = runs.iter().filter(|run| run.side == side);
                let each: Vec<f64> = of_side.map(|run| run.base.of_sampling_at(rate)).collect();
                each.iter().sum::<f64>() / (each.len() as f64).powi(2)
            };
            self.judgement.detectable(of_side(0) + of_side(1))
        });
        Summary {
            tested: self.judgement.tested,
            changed: self.judgement.rows.iter().filter(|row| row.significant).count(),
            widened: self.judgement.widened,
            threshold: self.judgement.threshold,
            detectable,
            common: (unit == Unit::Share).then(|| self.common()).flatten(),
        }
    }

    /// By what the shares of most rows were multiplied, if that is what shares do when others change: one factor explains
    /// most of what is there on both sides, and it is not 1.
    fn common(&self) -> Option<f64> {
        let rows = (0..self.estimates.len()).filter(|row| self.is_tested[*row]);
        let both = rows.filter(|row| self.estimates[*row].before > 0.0 && self.estimates[*row].after > 0.0);
        let mut factors: Vec<(f64, f64, usize)> = both
            .map(|row| {
                let Estimate { before, after, .. } = self.estimates[row];
                // How precisely a row is known grows with the root of its samples.
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

/// A factor is common if it explains so many rows,
const FEWEST_FITTING: usize = 3;
/// and so much of all that is known of the rows that are there on both sides.
const MOST_OF_ALL: f64 = 0.5;

/// Tells whether a row changed as all others did: chance explains the rest.
fn is_explained(estimate: &Estimate, judged: &Judged, factor: f64, errors: f64) -> bool {
    (estimate.after - factor * estimate.before).abs() <= errors * judged.error
}

/// Standard errors that are no surprise.
const EXPLAINED: f64 = 3.0;

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
        // What the factor leaves unexplained is little beside what it explains.
        let is_diluted = |factor: &f64| {
            let Estimate { before, after, .. } = compared.estimate;
            is_explained(&compared.estimate, &compared.judged, *factor, EXPLAINED)
                && (after - factor * before).abs() < 0.5 * (after - before).abs()
        };
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
