//! Measures the share of each row over many recordings.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use crate::compare::estimate::{Base, Coverage, RecordedRow};
use crate::compare::noise::{Draws, SEED, SLICES};
use crate::compare::series::{GroupWeight, Series, whole};
use crate::compare::{Metric, Point, RecordingFacts, facts, point};
use crate::matching::{self, twins};
use icecore_profile::map::Interned;
use icecore_profile::named::names::{Function, Names};
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Amount, NamePattern, groups};

/// Lighter rows are skipped, unless requested by name.
const LEAST_SHARE: f64 = 0.0005;

/// The identity of a row in all recordings: name and image.
pub type TrendKey = (String, String);

/// What a row of a trend is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Functions.
    Function,
    /// Images.
    Image,
    /// Processes by name.
    Process,
    /// Threads by name.
    Thread,
}

/// How each recording is measured.
#[derive(Debug, Clone)]
pub struct Options {
    /// What is measured as a row.
    pub by: By,
    /// Which weight is measured.
    pub metric: Metric,
    /// Inlined functions count for the function into which they were inlined.
    pub physical: bool,
    /// Only rows whose name matches.
    pub function: Option<NamePattern>,
}

/// One measured recording.
#[derive(Debug)]
pub struct Measured {
    /// The file.
    pub path: PathBuf,
    /// Start of sampling, ns since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// Labels of the first session.
    pub labels: BTreeMap<String, String>,
    /// Samples that the filters keep.
    pub samples: u64,
    /// Whether these are waits, and whether they are of other events.
    pub kinds: (bool, bool),
    /// Ranges of the file that are damaged.
    pub damaged: u64,
    /// The point of a row that the recording does not have.
    pub nothing: Point,
    /// Each row that has samples: as people know it, and its share.
    pub rows: BTreeMap<TrendKey, TrendRow>,
}

/// A row of one recording.
#[derive(Debug)]
pub struct TrendRow {
    /// Its name in this recording.
    pub name: String,
    /// Path of the image.
    pub image: Option<String>,
    /// Its share.
    pub point: Point,
    /// It is not among the lightest.
    pub is_heavy: bool,
    /// The user wants to see it.
    pub is_wanted: bool,
}

/// How people know a row.
struct Shown {
    name: String,
    image: Option<String>,
    is_requested: bool,
}

/// Measures the rows of a recording that was counted by [`SLICES`] slices.
pub fn measure(report: &Report<'_>, options: &Options) -> Measured {
    let facts: RecordingFacts = facts(report);
    let (profile, tables) = (&report.profile, &report.loaded.tables);
    let mut keys: Interned<TrendKey> = Interned::new();
    let mut shown: Vec<Shown> = Vec::new();
    let mut intern = |key: TrendKey, name: &str, image: Option<&str>, is_requested: bool| {
        let row = keys.intern(key);
        if shown.len() <= row as usize {
            shown.push(Shown { name: name.to_owned(), image: image.map(str::to_owned), is_requested });
        }
        shown[row as usize].is_requested |= is_requested;
        row
    };
    let names = &profile.names;
    let whole_weight = facts.weight as f64;
    let is_heavy = |amount: Amount| amount.weight as f64 >= LEAST_SHARE * whole_weight;
    let pattern = options.function.as_ref();
    let is_requested = |name: &str| pattern.is_some_and(|pattern| pattern.fits(name));
    let series = match options.by {
        By::Function | By::Image => {
            let images: Vec<String> =
                names.images.iter().map(|image| matching::image(&image.path).into_owned()).collect();
            let marks = twins::marks(names, &images);
            let none = || vec![false; names.functions.len()];
            let are_requested = pattern.map_or_else(none, |pattern| pattern.of(names));
            let of_function: Vec<u32> = (0..names.functions.len())
                .map(|function| {
                    let (it, image) = called(names, function);
                    let path = image.unwrap_or("[no image]");
                    let key = || {
                        let key = matching::function(it.own_name());
                        marks[function]
                            .as_ref()
                            .map_or_else(|| key.to_string(), |mark| twins::marked(&key, mark))
                    };
                    match options.by {
                        By::Image => {
                            let key = (matching::image(path).into_owned(), String::new());
                            intern(key, path, image, is_requested(path))
                        }
                        _ => {
                            let key = (key(), matching::image(path).into_owned());
                            intern(key, &it.name, image, are_requested[function])
                        }
                    }
                })
                .collect();
            let of_frame: Vec<u32> =
                names.frames.iter().map(|frame| of_function[frame.function as usize]).collect();
            let of_stack = groups(profile, &of_frame, |_| !options.physical);
            let mut series = Series::of_code(profile, &of_stack, shown.len());
            series.keep(profile, SLICES, &of_stack, |group, sum| {
                is_heavy(sum.total) || shown[group].is_requested
            });
            series
        }
        By::Process | By::Thread => {
            let of_thread: Vec<u32> = profile
                .threads
                .iter()
                .map(|thread| {
                    let name = if options.by == By::Process { &thread.process } else { &thread.comm };
                    intern((name.to_string(), String::new()), name, None, is_requested(name))
                })
                .collect();
            let of_row = |row: usize| of_thread[profile.rows[row].thread as usize];
            Series::of_rows(profile, SLICES, of_row, shown.len())
        }
    };
    let weight = facts.weight as f64 / facts.samples.max(1) as f64;
    let base = Base::new(whole(profile, SLICES), Arc::new(Draws::new(SEED)), weight, true);
    let piece = if facts.is_whole_run { Coverage::WholeRun } else { Coverage::OfTime(0) };
    let rows = keys.into_items().into_iter().zip(shown).enumerate().filter_map(|(group, (key, shown))| {
        let Shown { name, image, is_requested } = shown;
        let part = series.of(group, options.metric);
        let is_heavy = is_heavy(part.amount);
        let is_wanted = is_requested || (is_heavy && options.function.is_none());
        let row = || {
            let point = point(RecordedRow { base: &base, part }, piece);
            (key, TrendRow { name, image, point, is_heavy, is_wanted })
        };
        (part.amount.samples > 0).then(row)
    });
    let labels = tables.session.labels.iter().map(|label| (label.key.clone(), label.value.clone()));
    Measured {
        path: facts.path,
        start_unix_ns: tables.parts.start_unix_ns(),
        labels: labels.collect(),
        samples: facts.samples,
        kinds: report.loaded.events.kinds(tables.parts.events()),
        damaged: facts.damaged,
        nothing: point(RecordedRow { base: &base, part: GroupWeight::default() }, piece),
        rows: rows.collect(),
    }
}

fn called(names: &Names, function: usize) -> (&Function, Option<&str>) {
    let function = &names.functions[function];
    (function, names.image(function).map(|image| &*image.path))
}
