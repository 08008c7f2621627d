//! Counts the facts on which the verdict is based.

use std::collections::BTreeMap;

use icecore_format::records::{
    Cause, Change, EndReason, EventV1, MissingFeature, Origin, ReceiptV1, WalkEnd,
};
use icecore_symbolize::Reason;

use crate::account::Account;
use icecore_profile::named::pipeline::Report;
use icecore_profile::named::{Profile, through};
use icecore_profile::recording::load::Tables;
use icecore_profile::stacks::hits::{Hit, Key};
use icecore_profile::stacks::locate::{Locator, machine_steps};
use icecore_text::quantity::ratio;

/// Counts walks that ended at a frame pointer of 0 and are not known to be whole. Walks of a single frame do not count: if code
/// uses the frame pointer for other data, every walk ends there.
pub(super) fn unproven(report: &Report<'_>) -> u64 {
    let samples = report.profile.taken(|taken| !taken.rooted && taken.end == WalkEnd::ROOT).samples;
    let tables = &report.loaded.tables;
    let is_lone = |hit: &&Hit| {
        let Key { user, end, .. } = hit.key;
        user != 0 && end == WalkEnd::ROOT && machine_steps(tables, user).nth(1).is_none()
    };
    let lone: u64 = report.loaded.hits.rows.iter().filter(is_lone).map(|hit| hit.samples).sum();
    samples.saturating_sub(lone)
}

/// Counts user stacks whose innermost function lies in code that its program has moved.
pub(super) fn moved(report: &Report<'_>) -> u64 {
    let tables = &report.loaded.tables;
    if tables.mappings.iter().all(|mapping| mapping.origin != Origin::MOVED) {
        return 0;
    }
    let locator = Locator::new(tables, &report.loaded.spaces);
    let is_moved = |Key { user, space, .. }: &Key| {
        machine_steps(tables, *user).next().is_some_and(|leaf| locator.is_moved(*space, leaf))
    };
    report.loaded.hits.rows.iter().filter(|hit| is_moved(&hit.key)).map(|hit| hit.samples).sum()
}

/// Counts the sessions whose recorder did not finish, or whose end was truncated.
pub(super) fn endless(report: &Report<'_>) -> u64 {
    let was_ended = |receipt: &ReceiptV1| receipt.end_reason != EndReason::REPAIRED;
    let parts = report.loaded.tables.parts.iter();
    parts.filter(|part| !part.receipt.as_ref().is_some_and(was_ended)).count() as u64
}

/// Returns why most lost samples were lost, unless the recorder could not keep up.
pub(super) fn lost_to(report: &Report<'_>, lost: u64) -> Option<&'static str> {
    let causes = [
        (Cause::DAMAGED, "the file was damaged"),
        (Cause::WRITE_FAILED, "the disk or pipe did not take them"),
    ];
    causes.into_iter().find(|(cause, _)| count(report, *cause) > lost / 2).map(|(_, why)| why)
}

/// The most processes that are named for mapping code too fast.
const NAMED_AT_MOST: usize = 5;

/// Names the processes whose mappings were refused.
pub(super) fn refused_of(tables: &Tables) -> Vec<String> {
    let refused = tables.lifecycle.iter().filter(|row| row.change == Change::MAPPINGS_REFUSED);
    let refused: BTreeMap<u32, u32> = refused.map(|row| (row.tgid, row.comm)).collect();
    let name = |(tgid, comm): (&u32, &u32)| match tables.text(*comm) {
        "" => format!("process {tgid}"),
        comm => format!("`{comm}` (process {tgid})"),
    };
    let more = refused.len().saturating_sub(NAMED_AT_MOST);
    let more = (more > 0).then(|| format!("{more} more"));
    refused.iter().take(NAMED_AT_MOST).map(name).chain(more).collect()
}

/// Counts the processes that started while they were recorded.
pub(super) fn followed(tables: &Tables) -> u64 {
    tables.lifecycle.iter().filter(|row| row.change == Change::FORK && row.parent_tgid != row.tgid).count()
        as u64
}

/// Adds up the losses of one cause.
pub fn count(report: &Report<'_>, cause: Cause) -> u64 {
    let losses = report.loaded.tables.losses.iter().filter(|loss| loss.cause == cause);
    losses.fold(0, |sum: u64, loss| sum.saturating_add(loss.count))
}

/// Returns how long threads ran without a sample where a recorder had no privileges: in the kernel, or for less than the interval; `None` if that is unknown: the events of
/// a session like that count no time.
pub(super) fn unsampled_ns(tables: &Tables) -> Option<u64> {
    let mut bare = tables.parts.iter().filter(|part| part.session.lacks(MissingFeature::PROGRAMS)).peekable();
    let counts_time = |event: &EventV1| event.unit == "ns";
    bare.peek()?;
    let is_known = bare.all(|part| part.session.events.iter().any(counts_time));
    let losses = tables.losses.iter().filter(|loss| loss.cause == Cause::NOT_SAMPLED);
    is_known.then(|| losses.fold(0, |sum: u64, loss| sum.saturating_add(loss.weight)))
}

/// Where user stacks end that do not reach a root.
#[derive(Debug, Clone, PartialEq)]
pub struct Break {
    /// The image of their outermost frame; `None` if it is in no image.
    pub image: Option<String>,
    /// How their walks ended.
    pub end: WalkEnd,
    /// The number of samples.
    pub samples: u64,
    /// Their share of all user stacks.
    pub share: f64,
}

/// Returns half the width of the interval that contains a share of a half in 19 of 20 recordings: two standard deviations.
pub(super) fn share_error(samples: u64) -> f64 {
    1.0 / (samples as f64).sqrt()
}

pub(super) fn agreement(compared: &Result<Account, &'static str>) -> Option<f64> {
    let account = compared.as_ref().ok().filter(|account| account.kernel_ns > 0)?;
    Some(account.sampled_ns as f64 / account.kernel_ns as f64)
}

/// Lists where user stacks end that do not reach a root, the most frequent first.
pub fn breaks(profile: &Profile) -> Vec<Break> {
    let mut sums: BTreeMap<(Option<u32>, WalkEnd), u64> = BTreeMap::new();
    let mut walked = 0;
    for row in profile.rows.iter().filter(|row| row.taken.is_walked()) {
        walked += row.samples;
        if !row.taken.rooted {
            let outermost = profile.walk(row.stack).last().map(|stack| profile.function(stack));
            *sums.entry((outermost.and_then(|function| function.image), row.taken.end)).or_default() +=
                row.samples;
        }
    }
    let image = |image: u32| profile.names.images[image as usize].path.to_string();
    let row = |((of, end), samples): ((Option<u32>, WalkEnd), u64)| Break {
        image: of.map(image),
        end,
        samples,
        share: ratio(samples as f64, walked as f64),
    };
    let mut breaks: Vec<Break> = sums.into_iter().map(row).collect();
    breaks.sort_by_key(|row| std::cmp::Reverse(row.samples));
    breaks
}

/// Frames without names.
pub(super) struct Unnamed {
    /// All frames, each counted once per sample.
    pub(super) frames: u64,
    /// Those without a name.
    pub(super) by_frame: BTreeMap<Reason, u64>,
    /// Their share of the frames of a sample, on average over the samples.
    pub(super) by_sample: BTreeMap<Reason, f64>,
}

/// Counts frames as `samples` lists them, including inlined ones, and unnamed frames by reason.
pub(super) fn unnamed(profile: &Profile) -> Unnamed {
    let of_samples = profile.at_stacks();
    let is_marker = |stack: usize| profile.function(profile.stacks[stack]).is_marker();
    // What separates the stacks of wakers is no code. Callers come before the stacks that extend them.
    let mut depth = vec![0u32; profile.stacks.len()];
    for stack in 1..profile.stacks.len() {
        let caller = profile.stacks[stack].caller as usize;
        depth[stack] = depth[caller] + u32::from(!is_marker(stack));
    }
    let mut shares: Vec<f64> = of_samples
        .iter()
        .zip(&depth)
        .map(|(amount, depth)| ratio(amount.samples as f64, f64::from(*depth)))
        .collect();
    let with_frames: u64 =
        of_samples.iter().zip(&depth).filter(|(_, depth)| **depth > 0).map(|(it, _)| it.samples).sum();
    for stack in (1..profile.stacks.len()).rev() {
        let caller = profile.stacks[stack].caller as usize;
        shares[caller] += shares[stack];
    }
    let through = through(profile, of_samples);
    let mut all = Unnamed { frames: 0, by_frame: BTreeMap::new(), by_sample: BTreeMap::new() };
    for stack in 1..profile.stacks.len() {
        // Filters by name leave stacks without samples.
        let samples = through[stack].samples;
        if samples == 0 || is_marker(stack) {
            continue;
        }
        all.frames = all.frames.saturating_add(samples);
        if let Some(reason) = profile.function(profile.stacks[stack]).reason {
            let sum = all.by_frame.entry(reason).or_default();
            *sum = sum.saturating_add(samples);
            *all.by_sample.entry(reason).or_default() += ratio(shares[stack], with_frames as f64);
        }
    }
    all
}
