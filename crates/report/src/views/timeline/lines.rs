//! Adds up the rows: processes, threads, functions or images, the heaviest first.

use std::cmp::Reverse;

use serde::Serialize;

use super::drawn::peak;
use super::{Args, Buckets, TimelineBy};
use crate::cli::{self, Sort};
use crate::views::owners::{OwnerName, Owners};
use icecore_analysis::activity::{Grouping, weights};
use icecore_profile::map::Interned;
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Amount, Profile, groups, sums};

/// The number of functions that follow the processes.
const FUNCTIONS: usize = 5;
/// The number of rows of each kind in which changes are searched: the heaviest, though the view shows fewer.
const SEARCHED: usize = 100;

/// A row.
#[derive(Debug, Serialize)]
pub(super) struct Line {
    #[serde(flatten)]
    pub(super) what: What,
    pub(super) total: u64,
    pub(super) total_share: f64,
    pub(super) peak: f64,
    pub(super) values: Vec<Option<f64>>,
}

/// What a row stands for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(super) enum What {
    /// All samples.
    All,
    Process(OwnerName),
    Thread(OwnerName),
    /// All processes with one name.
    #[serde(rename = "process")]
    Processes {
        comm: Box<str>,
    },
    /// All threads with one name.
    #[serde(rename = "thread")]
    Threads {
        comm: Box<str>,
    },
    Function {
        name: String,
        image: Option<String>,
    },
    Image {
        name: String,
    },
    Field {
        name: String,
    },
}

/// A row before it is drawn: its weight in each bucket of time.
pub(super) struct RowSeries {
    pub(super) what: What,
    pub(super) total: Amount,
    pub(super) weights: Vec<u64>,
}

impl Line {
    pub(super) fn new(
        series: &RowSeries,
        (shown, sampled): (Buckets, &[f64]),
        unit: &str,
        whole: Amount,
    ) -> Self {
        let values = shown.rates(&series.weights, unit, sampled);
        Self {
            what: series.what.clone(),
            total: series.total.weight,
            total_share: series.total.share_of(whole),
            peak: peak(&values, sampled),
            values,
        }
    }
}

/// Adds up the heaviest rows of the requested kind.
pub(super) fn series(report: &Report<'_>, options: &Args, time: Buckets) -> Vec<RowSeries> {
    let profile = &report.profile;
    let most = if options.rows > 0 { options.rows } else { usize::MAX };
    match options.by {
        TimelineBy::Process => {
            let functions = most.min(FUNCTIONS);
            let mut all = of_owners(report, cli::Owner::Process, time, most);
            all.extend(of_code(profile, TimelineBy::Function, options.sort, time, functions));
            all
        }
        TimelineBy::Thread => of_owners(report, cli::Owner::Thread, time, most),
        TimelineBy::Field => of_fields(profile, time, most),
        by => of_code(profile, by, options.sort, time, most),
    }
}

/// Adds up the rows in which changes are searched. They are more than the view shows, and processes and threads go by name, as in
/// `diff`.
pub(super) fn searched(report: &Report<'_>, options: &Args, time: Buckets) -> Vec<RowSeries> {
    let profile = &report.profile;
    let most = if options.rows > 0 { options.rows.max(SEARCHED) } else { usize::MAX };
    match options.by {
        TimelineBy::Process => {
            let mut all = of_names(report, cli::Owner::Process, time, most);
            all.extend(of_code(profile, TimelineBy::Function, options.sort, time, SEARCHED));
            all
        }
        TimelineBy::Thread => of_names(report, cli::Owner::Thread, time, most),
        // `diff`, which shows the reasons for changes, compares no fields.
        TimelineBy::Field => Vec::new(),
        by => of_code(profile, by, options.sort, time, most),
    }
}

fn of_names(report: &Report<'_>, by: cli::Owner, time: Buckets, most: usize) -> Vec<RowSeries> {
    let (profile, owners) = (&report.profile, Owners::new(report, by));
    let mut names: Interned<Box<str>> = Interned::new();
    let of_owner: Vec<u32> = owners.keys.iter().map(|owner| names.intern(owner.comm.clone())).collect();
    let of_thread: Vec<u32> = owners.of_thread.iter().map(|owner| of_owner[*owner as usize]).collect();
    let names = names.into_items();
    let what = |group: u32| {
        let comm = names[group as usize].clone();
        if by == cli::Owner::Process { What::Processes { comm } } else { What::Threads { comm } }
    };
    of_threads(profile, time, &of_thread, names.len(), what, most)
}

fn of_owners(report: &Report<'_>, by: cli::Owner, time: Buckets, most: usize) -> Vec<RowSeries> {
    let (profile, owners) = (&report.profile, Owners::new(report, by));
    let what = |group: u32| {
        let owner = owners.keys[group as usize].clone();
        if by == cli::Owner::Process { What::Process(owner) } else { What::Thread(owner) }
    };
    of_threads(profile, time, &owners.of_thread, owners.keys.len(), what, most)
}

fn of_fields(profile: &Profile, time: Buckets, most: usize) -> Vec<RowSeries> {
    let mut names: Interned<String> = Interned::new();
    let of_thread: Vec<u32> =
        profile.threads.iter().map(|thread| names.intern(thread.field_name())).collect();
    let names = names.into_items();
    let what = |group: u32| What::Field { name: names[group as usize].clone() };
    of_threads(profile, time, &of_thread, names.len(), what, most)
}

/// Adds up the heaviest groups of threads.
fn of_threads(
    profile: &Profile,
    time: Buckets,
    of_thread: &[u32],
    groups: usize,
    what: impl Fn(u32) -> What,
    most: usize,
) -> Vec<RowSeries> {
    let mut totals = vec![Amount::default(); groups];
    profile.rows.iter().for_each(|row| totals[of_thread[row.thread as usize] as usize].add(row.amount()));
    heaviest(profile, time, Grouping::Thread(of_thread), &totals, what, most)
}

fn of_code(profile: &Profile, by: TimelineBy, sort: Sort, time: Buckets, most: usize) -> Vec<RowSeries> {
    let names = &profile.names;
    let mut keys: Interned<Option<u32>> = Interned::new();
    let frames = names.frames.iter().map(|frame| match by {
        TimelineBy::Image => keys.intern(names.functions[frame.function as usize].image),
        _ => keys.intern(Some(frame.function)),
    });
    let of_frame: Vec<u32> = frames.collect();
    let of_stack = groups(profile, &of_frame, |_| false);
    let sums = sums(profile, &of_stack, keys.len());
    let totals: Vec<Amount> =
        sums.iter().map(|sum| if sort == Sort::Own { sum.own } else { sum.total }).collect();
    let keys = keys.into_items();
    let image = |image: Option<u32>| image.map(|image| names.images[image as usize].path.to_string());
    let what = |group: u32| match keys[group as usize] {
        key if by == TimelineBy::Image => {
            What::Image { name: image(key).unwrap_or_else(|| "[no image]".into()) }
        }
        key => {
            let function = key.map(|function| &names.functions[function as usize]);
            let name = function.map_or_else(String::new, |function| function.name.to_string());
            What::Function { name, image: image(function.and_then(|function| function.image)) }
        }
    };
    let grouping = if sort == Sort::Own { Grouping::Leaf(&of_stack) } else { Grouping::Stack(&of_stack) };
    heaviest(profile, time, grouping, &totals, what, most)
}

/// Adds up the heaviest groups bucket by bucket; of equally heavy ones it takes the first names.
fn heaviest(
    profile: &Profile,
    time: Buckets,
    grouping: Grouping<'_>,
    totals: &[Amount],
    what: impl Fn(u32) -> What,
    most: usize,
) -> Vec<RowSeries> {
    let mut ranked: Vec<u32> =
        (0..totals.len() as u32).filter(|group| totals[*group as usize].weight > 0).collect();
    let weight = |group: &u32| Reverse(totals[*group as usize].weight);
    ranked.sort_by_key(weight);
    // All groups that may be among the first get names; the others need none.
    let least = ranked.get(most.saturating_sub(1)).map(weight);
    let mut named: Vec<(u32, What)> = ranked
        .into_iter()
        .take_while(|group| least.is_none_or(|least| weight(group) <= least))
        .map(|group| (group, what(group)))
        .collect();
    named.sort_by(|(a, of_a), (b, of_b)| weight(a).cmp(&weight(b)).then_with(|| of_a.cmp(of_b)));
    named.truncate(most);
    let wanted: Vec<u32> = named.iter().map(|(group, _)| *group).collect();
    let weights = weights(profile, time.slices, time.each, grouping, &wanted);
    let series = |((group, what), weights)| RowSeries { what, total: totals[group as usize], weights };
    named.into_iter().zip(weights).map(series).collect()
}
