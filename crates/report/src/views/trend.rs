//! `trend`: shares of functions over many recordings.

mod csv;
mod order;
mod text;

use std::collections::BTreeSet;

use rayon::prelude::*;
use serde::Serialize;

use crate::cli::{self, Sort};
use crate::views::Result;
use icecore_analysis::changes::recordings::{Detectable, SHORTEST, Search};
use icecore_analysis::compare::{Point, SHOWN_AT};
use icecore_analysis::trend::By as TrendBy;
use icecore_analysis::trend::{Measured, TrendKey, TrendRow};
use icecore_profile::recording::filter::Moment;
use icecore_profile::recording::load::clean;
use icecore_text::path::shown;

/// The highest probability that recordings without a change show any change.
const FALSE_ALARMS: f64 = 0.05;
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
    /// The number of those that have enough samples.
    tested: u64,
    /// The least number of recordings of a level.
    shortest_level: usize,
    /// The changes that would be found in 8 of 10 cases, in rows of some shares.
    detectable: Vec<DetectableAt>,
    /// Names of several functions that some recordings tell apart and others do not.
    mixed_names: Vec<String>,
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
    /// The changes of this row that would be found in 8 of 10 cases; `None` if it has too few samples.
    detectable: Option<DetectableRow>,
    changes: Vec<TrendChange>,
}

/// What would be found in a row of some share.
#[derive(Debug, Serialize)]
struct DetectableAt {
    share: f64,
    /// `None` if there are too few recordings, or too few samples of such a row.
    #[serde(flatten)]
    detectable: Option<DetectableRow>,
}

/// The smallest changes that would be found in 8 of 10 cases.
#[derive(Debug, Clone, Copy, Serialize)]
struct DetectableRow {
    /// In the middle of the recordings.
    middle: f64,
    /// Shown by the last few recordings alone; `None` if no such change is found so often.
    end: Option<f64>,
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
    /// The probability that chance alone makes an equally clear change at any place of the row.
    p: f64,
}

impl Trend {
    /// Orders measured recordings, and puts them side by side.
    ///
    /// # Errors
    /// If the user orders them by a label that none of them has.
    pub fn new(mut recorded: Vec<Measured>, mixed_names: Vec<String>, options: &cli::Trend) -> Result<Self> {
        let label = order::order(&mut recorded, &options.order)?;
        let mut ranked = heaviest(&recorded, |row| row.is_wanted);
        let row_count = ranked.len() as u64;
        let most = if options.top > 0 { options.top.min(ranked.len()) } else { ranked.len() };
        // A row that became heavy only recently is not among the heaviest.
        ranked.truncate(most.max(SEARCHED));
        // Rows that are not shown tell how recordings differ, too.
        let mut telling = heaviest(&recorded, |row| row.is_heavy);
        telling.truncate(SEARCHED);
        let points = |ranked: &[(f64, &TrendKey)]| -> Vec<Vec<Point>> {
            ranked.iter().map(|(_, key)| points(key, &recorded)).collect()
        };
        let wanted = points(&ranked);
        let search = Search::new(&points(&telling), &wanted, FALSE_ALARMS);
        let rows = ranked.par_iter().zip(&wanted);
        let rows = rows.map(|((mean, key), points)| History::new((key, *mean), points, &recorded, &search));
        let mut rows: Vec<History> = rows.collect();
        let searched = rows.len() as u64;
        let mut position = 0..;
        rows.retain(|row| position.next() < Some(most) || !row.changes.is_empty());
        let detectable = SHOWN_AT.map(|share| DetectableAt {
            share,
            detectable: search.detectable_at(share).map(DetectableRow::new),
        });
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
            tested: search.tested as u64,
            shortest_level: SHORTEST,
            detectable: detectable.into(),
            mixed_names,
            rows,
            compared_by: compared_by(options),
        })
    }
}

/// Returns the rows that some recording has like this, by their mean share, the largest first.
fn heaviest(recorded: &[Measured], is_like_this: impl Fn(&TrendRow) -> bool) -> Vec<(f64, &TrendKey)> {
    let rows = recorded.iter().flat_map(|it| it.rows.iter().filter(|(_, row)| is_like_this(row)));
    let keys: BTreeSet<&TrendKey> = rows.map(|(key, _)| key).collect();
    let mean = |key: &TrendKey| {
        let sum: f64 = recorded.iter().filter_map(|it| it.rows.get(key)).map(|row| row.point.rate).sum();
        sum / recorded.len() as f64
    };
    let mut ranked: Vec<(f64, &TrendKey)> = keys.into_iter().map(|key| (mean(key), key)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    ranked
}

/// Returns a row in each recording.
fn points(key: &TrendKey, recorded: &[Measured]) -> Vec<Point> {
    recorded.iter().map(|it| it.rows.get(key).map_or(it.nothing, |row| row.point)).collect()
}

impl DetectableRow {
    fn new(detectable: Detectable) -> Self {
        Self { middle: detectable.middle, end: detectable.end }
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
    fn new((key, mean): (&TrendKey, f64), points: &[Point], recorded: &[Measured], search: &Search) -> Self {
        let found = search.find(points);
        let changes = found.steps.iter().map(|step| TrendChange {
            at: step.at,
            file: shown(&recorded[step.at].path),
            before: step.before,
            after: step.after,
            p: step.p,
        });
        // The name is that in the newest recording that has it.
        let newest = recorded.iter().rev().find_map(|it| it.rows.get(key));
        Self {
            name: newest.map_or_else(|| key.0.clone(), |row| row.name.clone()),
            image: newest.and_then(|row| row.image.clone()),
            mean,
            points: points.iter().map(|it| Share { share: it.rate, low: it.low, high: it.high }).collect(),
            detectable: found.detectable.map(DetectableRow::new),
            changes: changes.collect(),
        }
    }
}
