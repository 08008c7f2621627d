//! The rows of the JSON document.

use serde::Serialize;

use super::groups::{DepthGroup, EventRecursion, Interpreted};
use crate::views::owners::{OwnerName, Owners};
use icecore_analysis::depths::{Bucket, Distribution, Figure, folded, path};
use icecore_profile::named::Profile;
use icecore_profile::named::names::Side;
use icecore_profile::named::pipeline::Report;
use icecore_text::quantity::ratio;

/// The stacks of one process or thread, event and side.
#[derive(Debug, Serialize)]
pub(super) struct GroupRow {
    #[serde(flatten)]
    pub(super) owner: OwnerName,
    pub(super) event: String,
    pub(super) side: &'static str,
    pub(super) count: u64,
    #[serde(flatten)]
    pub(super) figures: Figures,
    pub(super) cut_share: f64,
    /// The share of those that end with the copy of the stack.
    pub(super) not_copied_share: f64,
    pub(super) incomplete_share: Option<f64>,
    pub(super) histogram: Vec<Range>,
    pub(super) deepest: Deepest,
}

/// The figures of a distribution.
#[derive(Debug, Serialize)]
pub(super) struct Figures {
    pub(super) min: u32,
    pub(super) mean: f64,
    pub(super) p50: u32,
    pub(super) p90: u32,
    pub(super) p99: u32,
    pub(super) max: u32,
    /// The names of the figures that are least values, because stacks were cut.
    pub(super) at_least: Vec<&'static str>,
}

/// A bucket of a histogram.
#[derive(Debug, Serialize)]
pub(super) struct Range {
    pub(super) from: u32,
    pub(super) to: u32,
    pub(super) count: u64,
}

/// The deepest stack of a group, root first.
#[derive(Debug, Serialize)]
pub(super) struct Deepest {
    pub(super) depth: u32,
    pub(super) samples: u64,
    pub(super) stack: Vec<LinkRow>,
}

/// A sequence of functions, and how often it repeats.
#[derive(Debug, Serialize)]
pub(super) struct LinkRow {
    pub(super) functions: Vec<String>,
    pub(super) times: u32,
}

/// A function that recurs, or several that call each other.
#[derive(Debug, Serialize)]
pub(super) struct RecursionRow {
    pub(super) name: String,
    pub(super) image: Option<String>,
    pub(super) event: String,
    pub(super) side: &'static str,
    pub(super) kind: &'static str,
    pub(super) max_repeats: u32,
    pub(super) samples: u64,
    pub(super) samples_share: f64,
    pub(super) repeats: Figures,
    pub(super) cycle: Vec<String>,
    pub(super) function_count: u32,
}

/// How often the interpreters of one language were entered again.
#[derive(Debug, Serialize)]
pub(super) struct InterpreterRow {
    #[serde(flatten)]
    pub(super) owner: OwnerName,
    pub(super) language: &'static str,
    pub(super) samples: u64,
    pub(super) reentered_samples: u64,
    pub(super) reentries: Figures,
    pub(super) histogram: Vec<Range>,
}

impl Figures {
    /// Computes the figures of a distribution that is not empty.
    fn new(of: &Distribution) -> Self {
        let none = Figure { value: 0, at_least: false };
        let [min, max] = [of.min(), of.max()].map(|figure| figure.unwrap_or(none));
        let [p50, p90, p99] = [50, 90, 99].map(|percent| of.percentile(percent).unwrap_or(none));
        let mean = ("mean", of.cut() > 0);
        let figures =
            [("p50", p50), ("p90", p90), ("p99", p99), ("max", max)].map(|(name, f)| (name, f.at_least));
        let all = [("min", min.at_least), mean].into_iter().chain(figures);
        Self {
            min: min.value,
            mean: of.mean(),
            p50: p50.value,
            p90: p90.value,
            p99: p99.value,
            max: max.value,
            at_least: all.filter(|(_, at_least)| *at_least).map(|(name, _)| name).collect(),
        }
    }
}

fn ranges(of: &Distribution) -> Vec<Range> {
    of.buckets().into_iter().map(|Bucket { from, to, count }| Range { from, to, count }).collect()
}

fn side(side: Side) -> &'static str {
    if side == Side::User { "user" } else { "kernel" }
}

fn name(profile: &Profile, function: u32) -> String {
    profile.names.functions[function as usize].name.to_string()
}

fn event(report: &Report<'_>, event: u8) -> String {
    let events = report.loaded.tables.parts.events();
    events.get(usize::from(event)).map_or_else(|| "?".into(), |event| event.name.clone())
}

impl GroupRow {
    pub(super) fn new(report: &Report<'_>, owners: &Owners, group: &DepthGroup) -> Self {
        let profile = &report.profile;
        let count = group.depths.count();
        let (depth, samples, deepest) = group.deepest;
        let links = folded(&path(profile, deepest, group.side)).into_iter().map(|link| LinkRow {
            functions: link.functions.iter().map(|function| name(profile, *function)).collect(),
            times: link.times,
        });
        Self {
            owner: owners.keys[group.owner as usize].clone(),
            event: event(report, group.event),
            side: side(group.side),
            count,
            figures: Figures::new(&group.depths),
            cut_share: ratio(group.depths.cut() as f64, count as f64),
            not_copied_share: ratio(group.not_copied as f64, count as f64),
            incomplete_share: (group.told > 0).then(|| ratio(group.broken as f64, count as f64)),
            histogram: ranges(&group.depths),
            deepest: Deepest { depth, samples, stack: links.collect() },
        }
    }
}

impl RecursionRow {
    pub(super) fn new(report: &Report<'_>, of: &EventRecursion) -> Self {
        let (profile, row) = (&report.profile, &of.found);
        let function = &profile.names.functions[row.function as usize];
        let repeats = Figures::new(&row.repeats);
        Self {
            name: function.name.to_string(),
            image: profile.names.image(function).map(|image| image.path.to_string()),
            event: event(report, of.event),
            side: side(function.side),
            kind: if row.functions == 1 { "direct" } else { "mutual" },
            max_repeats: repeats.max,
            samples: row.repeats.count(),
            samples_share: ratio(row.repeats.count() as f64, of.samples as f64),
            repeats,
            cycle: row.cycle.iter().map(|function| name(profile, *function)).collect(),
            function_count: row.functions,
        }
    }
}

impl InterpreterRow {
    pub(super) fn new(owners: &Owners, row: &Interpreted) -> Self {
        Self {
            owner: owners.keys[row.owner as usize].clone(),
            language: row.language,
            samples: row.again.count(),
            reentered_samples: row.again.count_from(1),
            reentries: Figures::new(&row.again),
            histogram: ranges(&row.again),
        }
    }
}
