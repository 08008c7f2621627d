//! `timeline`: how much time rows took when, and when that changed.

mod counters;
mod csv;
mod found;
mod heat;
mod lines;
mod text;

use serde::Serialize;

use super::buckets::Buckets;
use super::drawn::{self, peak};
use super::rates::RateSummary;
use super::summary::gaps::GapRow;
use super::{Error, Needs, Result, Screen, Shown, View};
use crate::cli::{Select, Sort};
use found::ChangeRow;
use heat::Heat;
use icecore_analysis::activity;
use icecore_profile::named::{Amount, Measure};
use icecore_profile::recording::filter::Moment;
use icecore_profile::recording::rates::Rates;
use icecore_profile::recording::spans::{Slices, Slicing, Spans};
use icecore_profile::stacks::hits::Apart;
use lines::{Line, RowSeries};

/// The arguments of `timeline`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report timeline [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report timeline demo.icecore
  icecore-report timeline demo.icecore --by function --comm cc1 --from 10 --to 20
  icecore-report timeline demo.icecore --heatmap          what comes in bursts
  icecore-report timeline demo.icecore --resolution 100ms --csv > demo.csv

Of twenty recordings in which nothing changes, at most one shows a change. A share of a row is its share of everything \
at that time; a level lasts at least six of the slices in which timeline searches changes. It searches the 100 \
heaviest rows of each kind but fields, shown or not; processes and threads with one name count as one, as in diff.")]
pub struct Args {
    /// Show rows of this kind: process (with the heaviest functions), thread, function, image, or field (of a tracepoint)
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub by: TimelineBy,
    /// Show self or total of functions and images
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
    /// Show this many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// Divide the time into this many parts [default: as many as fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub buckets: Option<u32>,
    /// Divide the time into parts of this length: 100ms, 1s (longer if there would be more than 262,144), and search changes in
    /// these
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with = "buckets")]
    pub resolution: Option<Moment>,
    /// Draw a map: seconds from left to right, the time within each from bottom to top
    #[arg(long, conflicts_with_all = ["buckets", "resolution"])]
    pub heatmap: bool,
    /// Print comma-separated values instead of text
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
}

impl View for Args {
    fn needs(&self, select: &Select, width: u32) -> Needs {
        Needs {
            apart: Apart {
                threads: self.by == TimelineBy::Thread,
                fields: self.by == TimelineBy::Field,
                slices: Some(slicing(self, width)),
                spreads_waits: true,
                // A heat map shows no functions, and a second of it has more slices than the whole of other views.
                no_stacks: self.heatmap && !select.has_patterns(),
                ..Apart::default()
            },
            tells_quality: self.heatmap,
            is_no_page: self.csv,
            ..Needs::default()
        }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let timeline = Timeline::new(shown, self)?;
        if self.csv {
            timeline.csv(screen.out)?;
        } else {
            screen.emit(&timeline, |page| timeline.text(shown.report, page))?;
        }
        Ok(true)
    }
}

fn length(text: &str) -> Result<Moment, String> {
    let length: Moment = text.parse()?;
    (length.ns > 0).then_some(length).ok_or_else(|| "must be longer than nothing".to_owned())
}

/// What a row of `timeline` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TimelineBy {
    /// Processes, and after them the heaviest functions.
    Process,
    /// Threads.
    Thread,
    /// Functions of an image; what was inlined into one counts for it.
    Function,
    /// Executable files.
    Image,
    /// Fields of tracepoints.
    Field,
}

impl TimelineBy {
    /// The name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Function => "function",
            Self::Image => "image",
            Self::Field => "field",
        }
    }
}

/// The number of slices in which changes are searched, if the user gives no resolution.
const FINE: u32 = 288;
/// Says why no changes are searched.
const UNEVEN: &str = "samples weigh very differently, so that chance cannot be told from changes";
/// The most slices that are counted apart.
const MOST: u32 = 1 << 18;
/// The columns beside the drawn lines.
const BESIDE: u32 = 40;

/// The document.
#[derive(Debug, Serialize)]
pub struct Timeline {
    schema: &'static str,
    by: &'static str,
    sort: &'static str,
    unit: String,
    /// The unit of `values` and `peak`: `cpus`; `threads` that ran or waited if weights are other times; else that of weights per second.
    value_unit: String,
    total_weight: u64,
    total_samples: u64,
    filter: Option<String>,
    begin_s: f64,
    end_s: f64,
    bucket_s: f64,
    bucket_count: u64,
    values: Vec<Option<f64>>,
    peak: f64,
    /// The share of each bucket in which any session ran; empty if that is all of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sampled: Vec<f64>,
    /// The mean share of the requested sampling rate in each bucket; empty if it did not change.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    rates: Vec<Option<f64>>,
    rows: Vec<Line>,
    /// The time between the sessions of a host that nobody recorded.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gaps: Vec<GapRow>,
    /// Counters of machines, cgroups and of the processes that need most; empty if the recording has none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    counters: Vec<counters::Owner>,
    #[serde(skip_serializing_if = "Option::is_none")]
    heatmap: Option<Heat>,
    /// The length of the slices in which changes were searched.
    change_resolution_s: f64,
    changes: Vec<ChangeRow>,
    /// Why no changes were searched.
    #[serde(skip_serializing_if = "Option::is_none")]
    changes_unknown: Option<&'static str>,
    #[serde(skip)]
    width: u32,
    /// How the sampling rate changed, and pauses.
    #[serde(skip)]
    rate: Option<RateSummary>,
    /// The filters as options, for commands.
    #[serde(skip)]
    select: String,
}

/// Chooses the slices of time for a timeline that is as wide as the terminal.
pub fn slicing(options: &Args, width: u32) -> Slicing {
    match (options.heatmap, options.resolution) {
        (true, _) => Slicing::Length(MOST, heat::STEP_NS),
        (_, Some(resolution)) => Slicing::Length(MOST, resolution.ns),
        _ => {
            let buckets = buckets(options, width);
            Slicing::Number((buckets * per_bucket(buckets)).min(MOST))
        }
    }
}

fn buckets(options: &Args, width: u32) -> u32 {
    options.buckets.unwrap_or_else(|| drawn(width))
}

/// Returns how many characters a line has.
fn drawn(width: u32) -> u32 {
    width.saturating_sub(BESIDE).max(20)
}

/// Returns the slices of a bucket: changes are searched in smaller stretches than the line shows.
fn per_bucket(buckets: u32) -> u32 {
    (FINE / buckets.max(1)).max(1)
}

impl Timeline {
    /// Adds up a profile whose slices are counted apart as [`slicing`] says.
    ///
    /// # Errors
    /// If the time is too long for a heat map.
    pub fn new(&Shown { report, select, width, .. }: &Shown<'_>, options: &Args) -> Result<Self> {
        let (profile, tables) = (&report.profile, &report.loaded.tables);
        let none = Slices { begin_ns: 0, len_ns: 1, number: 1 };
        let slices = report.loaded.hits.slices.unwrap_or(none);
        if options.heatmap && slices.number > 1 && slices.len_ns != heat::STEP_NS {
            let most = u64::from(MOST) * heat::STEP_NS / 3_600_000_000_000;
            let why =
                format!("cannot draw a heat map of more than {most} hours: narrow it with --from and --to");
            return Err(Error::Refused(why));
        }
        let spans = Spans::new(tables, &report.loaded.filter);
        let (_, end_ns) = spans.hull_ns();
        let each = match options.resolution {
            Some(_) => 1,
            None => per_bucket(buckets(options, width)),
        };
        let zero_ns = tables.parts.zero_ns();
        let shown =
            Buckets { slices, each: if options.heatmap { heat::STEPS } else { each }, end_ns, zero_ns };
        let of_slices = activity::whole(profile, slices);
        let whole: Vec<u64> = of_slices.iter().map(|sum| sum.weight).collect();
        let ran_ns = spans.ran_apart_ns();
        let sampled_of = |time: Buckets| if ran_ns.is_empty() { Vec::new() } else { time.shares(&ran_ns) };
        let sampled = sampled_of(shown);
        let values = shown.rates(&whole, &profile.measure.unit, &sampled);
        let rates = Rates::new(tables, &report.loaded.filter);
        let edges: Vec<u64> = (0..=shown.len()).map(|bucket| shown.begin_ns(bucket)).collect();
        let means = if rates.has_changed() { rates.means(&edges) } else { Vec::new() };
        let rates = means.into_iter().zip(&values).map(|(mean, value)| mean.filter(|_| value.is_some()));
        let rates: Vec<Option<f64>> = rates.collect();
        let all = profile.whole();
        // A heat map shows only the whole.
        let series: Vec<RowSeries> = if options.heatmap {
            Vec::new()
        } else {
            lines::series(report, options, Buckets { each: 1, ..shown })
        };
        let counters = if options.heatmap {
            Vec::new()
        } else {
            let most = if options.rows > 0 { options.rows } else { usize::MAX };
            counters::owners(report, shown, most)
        };
        let fine = Buckets { each: slices.number.div_ceil(2 * FINE).max(1), ..shown };
        let changes_unknown = profile.measure.is_uneven.then_some(UNEVEN);
        let changes = if options.heatmap || changes_unknown.is_some() {
            Vec::new()
        } else {
            let searched = lines::searched(report, options, fine);
            let rates = fine.rates(&whole, &profile.measure.unit, &sampled_of(fine));
            found::changes(fine, &of_slices, &rates, &searched, &spans.between_ns())
        };
        let sort = if options.sort == Sort::Own { "self" } else { "total" };
        Ok(Self {
            schema: "icecore.timeline/1",
            by: options.by.name(),
            sort,
            unit: profile.measure.unit.clone(),
            value_unit: match &profile.measure {
                Measure { is_cpu_time: true, .. } => "cpus".into(),
                measure if measure.is_time() => "threads".into(),
                measure => format!("{}/s", measure.unit),
            },
            total_weight: all.weight,
            total_samples: all.samples,
            filter: report.filtered.clone(),
            begin_s: shown.begin_s(0),
            end_s: shown.begin_s(shown.len()),
            bucket_s: shown.each_ns() as f64 / 1e9,
            bucket_count: shown.len() as u64,
            peak: peak(&values, &sampled),
            values,
            rows: series
                .iter()
                .map(|row| Line::new(row, (shown, &sampled), &profile.measure.unit, all))
                .collect(),
            sampled,
            rates,
            rate: RateSummary::new(tables, &report.loaded.filter),
            gaps: GapRow::list(tables, &report.loaded.filter),
            counters,
            heatmap: options.heatmap.then(|| {
                let cells = Buckets { each: 1, ..shown };
                let sampled = sampled_of(cells);
                Heat::new(shown, &cells.rates(&whole, &profile.measure.unit, &sampled), &sampled)
            }),
            change_resolution_s: fine.each_ns() as f64 / 1e9,
            changes,
            changes_unknown,
            width: drawn(width),
            select: select.words(),
        })
    }

    fn whole(&self) -> Amount {
        Amount { samples: self.total_samples, weight: self.total_weight }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_looked_for_in_smaller_slices_than_are_shown() {
        assert_eq!([20, 40, 96, 288, 1000].map(per_bucket), [14, 7, 3, 1, 1]);
        assert_eq!((drawn(80), drawn(10)), (40, 20));
    }
}
