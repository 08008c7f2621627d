//! `trend`: shares of functions over many recordings.

mod csv;
mod order;
mod text;

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{self, Sort};
use crate::views::Result;
use icecore_analysis::changes::{Rule, changes};
use icecore_analysis::compare::Point;
use icecore_analysis::trend::By as TrendBy;
use icecore_analysis::trend::{Measured, TrendKey};
use icecore_profile::recording::filter::Moment;
use icecore_profile::recording::load::clean;
use icecore_text::path::shown;

/// The highest probability that recordings without a change show any change.
const FALSE_ALARMS: f64 = 0.05;
/// A level has at least this many recordings.
const SHORTEST: usize = 3;
/// The number of rows in which changes are searched: the heaviest, though the view shows fewer.
const SEARCHED: usize = 200;

/// The document.
#[derive(Debug, Serialize)]
pub struct Trend {
    schema: &'static str,
    by: &'static str,
    sort: &'static str,
    unit: &'static str,
    /// In the order of the trend.
    recordings: Vec<RecordingRow>,
    /// The number of all rows; `rows` may have fewer.
    row_count: u64,
    /// The number of rows in which changes were searched: the heaviest.
    searched: u64,
    /// The rows that are shown, and those that changed.
    rows: Vec<History>,
    /// The options that a comparison of these rows needs.
    #[serde(skip)]
    compared_by: String,
}

/// One recording.
#[derive(Debug, Serialize)]
struct RecordingRow {
    file: String,
    start_unix_ns: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    samples: u64,
}

/// One row.
#[derive(Debug, Serialize)]
struct History {
    name: String,
    image: Option<String>,
    mean: f64,
    points: Vec<Share>,
    changes: Vec<TrendChange>,
}

/// A share and its 95 % confidence interval.
#[derive(Debug, Serialize)]
struct Share {
    share: f64,
    low: f64,
    high: f64,
}

/// A change point.
#[derive(Debug, Serialize)]
struct TrendChange {
    /// The position of the first recording that shows it.
    at: usize,
    /// That recording.
    file: String,
    /// The mean shares of the levels on both sides.
    before: f64,
    after: f64,
    /// The share of shuffled series that show an equally clear change.
    p: f64,
}

impl Trend {
    /// Orders measured recordings, and puts them side by side.
    ///
    /// # Errors
    /// If the user orders them by a label that none of them has.
    pub fn new(mut recorded: Vec<Measured>, options: &cli::Trend) -> Result<Self> {
        let label = order::order(&mut recorded, &options.order)?;
        let keys: BTreeSet<&TrendKey> = recorded.iter().flat_map(|it| it.rows.keys()).collect();
        let mean = |key: &TrendKey| {
            let sum: f64 = recorded.iter().filter_map(|it| it.rows.get(key)).map(|row| row.point.rate).sum();
            sum / recorded.len() as f64
        };
        let mut ranked: Vec<(f64, &TrendKey)> = keys.into_iter().map(|key| (mean(key), key)).collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
        let row_count = ranked.len() as u64;
        let most = if options.top > 0 { options.top.min(ranked.len()) } else { ranked.len() };
        // A row that became heavy only recently is not among the heaviest.
        ranked.truncate(most.max(SEARCHED));
        let rule = Rule { false_alarms: FALSE_ALARMS / ranked.len().max(1) as f64, shortest: SHORTEST };
        let rows = ranked.par_iter().map(|(mean, key)| History::new(key, *mean, &recorded, rule));
        let mut rows: Vec<History> = rows.collect();
        let searched = rows.len() as u64;
        let mut position = 0..;
        rows.retain(|row| position.next() < Some(most) || !row.changes.is_empty());
        let recordings = recorded.iter().map(|it| RecordingRow {
            file: shown(&it.path),
            start_unix_ns: it.start_unix_ns,
            label: label
                .as_ref()
                .and_then(|key| it.labels.get(key))
                .map(|value| clean(value.as_bytes()).into()),
            samples: it.samples,
        });
        Ok(Self {
            schema: "icecore.trend/1",
            by: match options.by {
                TrendBy::Function => "function",
                TrendBy::Image => "image",
                TrendBy::Process => "process",
                TrendBy::Thread => "thread",
            },
            sort: if options.sort == Sort::Own { "self" } else { "total" },
            unit: "share",
            recordings: recordings.collect(),
            row_count,
            searched,
            rows,
            compared_by: compared_by(options),
        })
    }
}

/// Returns how `diff` compares the same rows.
fn compared_by(options: &cli::Trend) -> String {
    let by = match options.by {
        TrendBy::Function => "",
        TrendBy::Image => " --by image",
        TrendBy::Process => " --by process",
        TrendBy::Thread => " --by thread",
    };
    let sort = if options.sort == Sort::Own { "" } else { " --sort total" };
    let physical = if options.physical { " --physical" } else { "" };
    let which = &options.select.which;
    let seconds = |at: Moment| at.ns as f64 / 1e9;
    let time = |name: &str, at: Option<Moment>| {
        at.map_or_else(String::new, |at| format!(" --{name} {}", seconds(at)))
    };
    let times = [time("from", which.from), time("to", which.to)].concat();
    [by, sort, physical, &options.select.words(), &times].concat()
}

impl History {
    fn new(key: &TrendKey, mean: f64, recorded: &[Measured], rule: Rule) -> Self {
        let points: Vec<Point> =
            recorded.iter().map(|it| it.rows.get(key).map_or(it.nothing, |row| row.point)).collect();
        let rates: Vec<f64> = points.iter().map(|point| point.rate).collect();
        let errors: Vec<f64> = points.iter().map(|point| point.error).collect();
        let found = changes(&rates, Some(&errors), rule).into_iter().map(|change| TrendChange {
            at: change.after.begin,
            file: shown(&recorded[change.after.begin].path),
            before: change.before.mean,
            after: change.after.mean,
            p: change.p,
        });
        // The name is that in the newest recording that has it.
        let newest = recorded.iter().rev().find_map(|it| it.rows.get(key));
        Self {
            name: newest.map_or_else(|| key.0.clone(), |row| row.name.clone()),
            image: newest.and_then(|row| row.image.clone()),
            mean,
            points: points.iter().map(|it| Share { share: it.rate, low: it.low, high: it.high }).collect(),
            changes: found.collect(),
        }
    }
}
