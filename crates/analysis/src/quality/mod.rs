//! Judges how good a recording is: one verdict by a simple rule, and each problem as a sentence.

mod counts;
mod problems;
pub mod runtimes;

use std::collections::BTreeMap;

use icecore_format::records::{Cause, WalkEnd};
use icecore_symbolize::Reason;
use serde::Serialize;

use super::account::{self, Account};
use super::audit::Audit;
use super::clock::is_drawn_evenly;
use super::interpreted::Interpreted;
use super::settings::{Settings, restrictions};
pub use counts::{Break, breaks, count};
use counts::{
    Unnamed, agreement, endless, followed, lost_to, moved, refused_of, share_error, unnamed, unproven,
    unsampled_ns,
};
use icecore_profile::named::Taken;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::losses::Lost;
use icecore_profile::recording::rates::Rates;
use icecore_profile::stacks::calls::Impossible;
use icecore_profile::stacks::repair::Suspects;
use icecore_text::quantity::ratio;
use problems::{Facts, InStep, Limits, problems};

/// A larger share of lost samples misleads: samples are lost when the machine is busiest.
pub(crate) const LOST_MISLEADS: f64 = 0.10;
/// A larger share of lost samples is reported.
pub(crate) const LOST_SHOWS: f64 = 0.01;
/// A smaller share of named frames hides where time went.
pub(crate) const NAMED_MISLEADS: f64 = 0.50;
/// A smaller share of named frames is reported.
pub(crate) const NAMED_SHOWS: f64 = 0.90;
/// A smaller share of stacks that reach a root makes totals and callers wrong without a sign of it.
pub(crate) const ROOTED_MISLEADS: f64 = 0.50;
/// A smaller share of stacks that reach a root is reported. The others may be whole, but nothing proves it.
pub(crate) const ROOTED_SHOWS: f64 = 0.90;

/// A larger share of stacks that lack callers is reported.
pub(crate) const SUSPECT_SHOWS: f64 = 0.10;

/// With fewer samples, shares say little: with a hundred, a share of a half is right to ±10 points in 19 of 20 recordings.
pub(crate) const SAMPLES_SHOW: u64 = 100;
/// A larger share of CPU time that samples misstate misleads.
pub(crate) const IN_STEP_MISLEADS: f64 = 0.25;
/// A larger share of CPU time that samples misstate is reported.
pub(crate) const IN_STEP_SHOWS: f64 = 0.05;
/// A larger share of stacks with a call that the code does not make is reported: more stacks are wrong than these.
pub(crate) const IMPOSSIBLE_SHOWS: f64 = 0.01;
/// A larger share of such stacks makes callers and totals wrong without a sign of it.
pub(crate) const IMPOSSIBLE_MISLEADS: f64 = 0.10;

/// A larger share of checked walks by unwind tables that differ from unwound copies is reported: the others are wrong as often.
pub(crate) const AUDIT_SHOWS: f64 = 0.005;
/// Stacks of interpreters without all of their functions: the first tenths of a second of a program may lack them.
pub(crate) const UNREAD_MISLEADS: f64 = 0.5;
pub(crate) const UNREAD_SHOWS: f64 = 0.1;
/// A larger share of such walks makes callers and totals wrong without a sign of it.
pub(crate) const AUDIT_MISLEADS: f64 = 0.10;

/// A larger share of stacks with a guessed frame is reported.
pub(crate) const GUESSED_SHOWS: f64 = 0.10;

/// Whether the recording supports conclusions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Good,
    /// It does, if the problems are kept in mind.
    Usable,
    /// It does not until the problems are solved.
    Misleading,
}

impl Verdict {
    /// Returns its name, as `--json` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Usable => "usable",
            Self::Misleading => "misleading",
        }
    }
}

/// How good the data is.
#[derive(Debug, Serialize)]
pub struct Quality {
    /// The worst of the problems.
    pub verdict: Verdict,
    /// The worst of those of what was sampled, and of the stacks.
    pub stacks_verdict: Verdict,
    /// The worst of those of names: right stacks may lack names.
    pub names_verdict: Verdict,
    /// Each problem, one sentence, worst first.
    pub problems: Vec<String>,
    /// The error of a share of a half, 0 to 1, in 19 of 20 recordings; `None` without samples, and if samples are not drawn at a
    /// rate, as those of probes and waits.
    pub share_error: Option<f64>,
    /// What the recorder or the report was asked to exclude: no share contains it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restrictions: Vec<String>,
    /// How long all recorded threads ran without a sample, if the recorder had no privileges: in the kernel, or for less than the interval
    /// between samples; `None` if it had them, or if it is unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ns_not_sampled: Option<u64>,
    /// Processes with missing mappings, by name and id: they mapped code too fast, or too much.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mappings_refused_of: Vec<String>,
    /// CPU time by samples, divided by the kernel's own account; `None` if they cannot be compared.
    pub cpu_time_agreement: Option<f64>,
    /// The comparison, or why there is none.
    #[serde(skip)]
    pub cpu_time: Result<Account, &'static str>,
    /// Share of user stacks whose outermost frame is a proven start; `None` if no walk states how it ended.
    pub rooted_share: Option<f64>,
    /// Share of user stacks whose outermost frame is not a proven start: they may lack callers.
    pub incomplete_share: Option<f64>,
    /// Share of user stacks that were truncated by the depth limit.
    pub cut_share: Option<f64>,
    /// Share of user stacks whose walk came to a root, but passed a function without a frame pointer: its caller is missing. `None`
    /// without unwind tables.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_share: Option<f64>,
    /// Share of user stacks with a guessed frame.
    pub guessed_share: Option<f64>,
    /// Share of user stacks whose innermost function lies in code that its program has moved; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved_share: Option<f64>,
    /// Share of user stacks with an impossible edge: a return address that no call of the callee precedes. At least so many stacks
    /// are wrong. `None` if no code is available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible_share: Option<f64>,
    /// The result of checking the edges of user stacks; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible: Option<Impossible>,
    /// Walks by unwind tables in the kernel, and what copies of their stacks show; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit: Option<Audit>,
    /// Whether the functions that interpreters run agree with the machine frames; `None` if no interpreter ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpreted: Option<Interpreted>,
    /// Share of frames with a name, each counted once per sample; `None` if there are no frames.
    pub named_share: Option<f64>,
    /// The share of its frames that have a name, on average over the samples: a deep stack counts as much as a shallow one. The verdict
    /// follows from it.
    pub named_share_of_samples: Option<f64>,
    /// Share of all frames, by the reason why they have no name.
    pub unnamed: BTreeMap<&'static str, f64>,
    /// Samples, by how the walk of the user stack ended.
    pub user_ends: BTreeMap<&'static str, u64>,
    /// No stack was unwound: walks that seem whole may have followed registers that were no frame pointers.
    #[serde(skip)]
    pub is_walked_only: bool,
    /// What is missing.
    #[serde(skip)]
    pub lost: Lost,
}

impl Quality {
    /// Judges a recording.
    pub fn new(report: &Report<'_>) -> Self {
        let is_unwound = report.profile.taken(Taken::is_unwound).samples > 0;
        let audit = Audit::new(report.loaded);
        // If stacks were unwound, each sample says which part of its stack was walked.
        let impossible = report.located.map(|located| report.loaded.impossible(located));
        if is_unwound {
            Self::with(report, &Default::default(), (impossible, audit))
        } else {
            Self::with(report, report.loaded.suspects(), (impossible, audit))
        }
    }

    fn with(
        report: &Report<'_>,
        (suspects, skipping): &(Suspects, Option<String>),
        (impossible, audit): (Option<Impossible>, Option<Audit>),
    ) -> Self {
        let taken = |which: fn(Taken) -> bool| report.profile.taken(which).samples;
        let samples = report.profile.whole().samples;
        let is_drawn = is_drawn_evenly(report);
        let cpu_time = account::compare(report.loaded);
        let session = &report.loaded.tables.session;
        let ns_not_sampled = unsampled_ns(&report.loaded.tables);
        let mut restrictions = restrictions(session, ns_not_sampled);
        restrictions.extend(report.profile.names.doubt());
        restrictions.extend(report.filtered.iter().map(|filter| format!("filtered: {filter}")));
        let walked = taken(Taken::is_walked);
        // Includes the kernel's own walks, which do not state how they ended.
        let with_user = taken(|taken| taken.end != WalkEnd::NONE);
        let impossible = impossible.filter(|found| found.calls > 0);
        let stacks = report.loaded.hits.rows.iter().filter(|hit| hit.key.user != 0);
        let stacks: u64 = stacks.map(|hit| hit.samples).sum();
        // The walks that state how they ended represent only themselves.
        let of_walked =
            |n: u64| (walked > 0 && 2 * walked >= with_user).then(|| ratio(n as f64, walked as f64));
        let Unnamed { frames, by_frame, by_sample } = unnamed(&report.profile);
        let of_frames = |n: u64| ratio(n as f64, frames as f64);
        let nameless: u64 = by_frame.values().sum();
        let worst = by_sample.iter().max_by(|a, b| a.1.total_cmp(b.1)).map(|(reason, _)| *reason);
        let named = (frames > 0).then(|| (1.0 - by_sample.values().sum::<f64>()).max(0.0));
        let judged = suspects.judged + taken(|taken| taken.repair.is_judged());
        let suspect = suspects.samples + taken(|taken| taken.repair.is_suspect());
        let signals = report.loaded.hits.rows.iter().filter(|hit| hit.key.repair.is_suspect());
        let signals = signals.filter(|hit| report.loaded.skips_interrupted(&hit.key));
        let signals: u64 = signals.map(|hit| hit.samples).sum();
        let mut user_ends = BTreeMap::new();
        for row in &report.profile.rows {
            *user_ends.entry(row.taken.end.name()).or_default() += row.samples;
        }
        let mut quality = Self {
            verdict: Verdict::Good,
            stacks_verdict: Verdict::Good,
            names_verdict: Verdict::Good,
            problems: Vec::new(),
            share_error: (samples > 0 && is_drawn).then(|| share_error(samples)),
            restrictions,
            ns_not_sampled,
            mappings_refused_of: refused_of(&report.loaded.tables),
            cpu_time_agreement: agreement(&cpu_time),
            cpu_time,
            rooted_share: of_walked(taken(|taken| taken.is_walked() && taken.rooted)),
            incomplete_share: of_walked(taken(|taken| taken.is_walked() && !taken.rooted)),
            cut_share: of_walked(taken(|taken| taken.end == WalkEnd::DEPTH)),
            suspect_share: (judged > 0).then(|| ratio(suspect as f64, with_user as f64)),
            guessed_share: of_walked(taken(|taken| taken.is_walked() && taken.guessed)),
            moved_share: Some(ratio(moved(report) as f64, with_user as f64)).filter(|share| *share > 0.0),
            impossible_share: impossible
                .as_ref()
                .filter(|found| found.checked > 0)
                .map(|found| ratio(found.samples as f64, stacks as f64)),
            impossible,
            audit,
            interpreted: Interpreted::new(report.loaded),
            named_share: (frames > 0).then(|| 1.0 - of_frames(nameless)),
            named_share_of_samples: named,
            unnamed: by_frame.into_iter().map(|(reason, n)| (reason.code(), of_frames(n))).collect(),
            user_ends,
            is_walked_only: taken(Taken::is_unwound) == 0,
            lost: report.loaded.lost(),
        };
        let breaks = breaks(&report.profile);
        let problems = problems(Facts {
            broken: breaks.iter().find(|broken| broken.end != WalkEnd::ROOT),
            is_walked_only: quality.is_walked_only,
            samples,
            is_drawn,
            is_filtered: report.filtered.is_some(),
            settings: Settings::of(session),
            thinned: Rates::new(&report.loaded.tables, &report.loaded.filter).thinned(),
            has_stacks: with_user > 0,
            is_shortened: count(report, Cause::STACK_SHORTENED) > 0,
            in_step: quality.cpu_time.as_ref().ok().and_then(InStep::of),
            lost_share: quality.lost.share_of_weight,
            lost_share_of_samples: quality.lost.share,
            lost_to: lost_to(report, quality.lost.samples),
            unfollowed: count(report, Cause::TARGETS_FULL),
            followed: followed(&report.loaded.tables),
            crowded: &quality.mappings_refused_of,
            named_share: named,
            rooted_share: quality.rooted_share,
            unproven_share: of_walked(unproven(report)).unwrap_or_default(),
            suspect_share: quality.suspect_share.unwrap_or_default(),
            guessed_share: quality.guessed_share.unwrap_or_default(),
            is_of_signals: 2 * signals > suspect,
            skipping: skipping.as_deref(),
            impossible_share: quality.impossible_share.unwrap_or_default(),
            worst_edges: quality.impossible.as_ref().and_then(|found| found.images.first()),
            audit: quality.audit.as_ref(),
            interpreted: quality.interpreted,
            worst,
            runtime: (worst == Some(Reason::Jit)).then(|| runtimes::nameless(report)).flatten(),
            damage: report.loaded.tables.damage.len() as u64,
            endless: if report.loaded.recording.is_closed() { endless(report) } else { 0 },
            lost_blocks: count(report, Cause::BLOCKS_DAMAGED),
            file: &report.loaded.words(),
        });
        let worst = |limits: Limits| {
            let own = problems.iter().filter(|problem| problem.limits == limits);
            own.map(|problem| problem.verdict).max().unwrap_or(Verdict::Good)
        };
        (quality.stacks_verdict, quality.names_verdict) = (worst(Limits::Stacks), worst(Limits::Names));
        quality.verdict = quality.stacks_verdict.max(quality.names_verdict);
        quality.problems = problems.into_iter().map(|problem| problem.text).collect();
        quality
    }

    /// Says how good the data is, in words: first the stacks, then the names if these are a problem of their own.
    pub fn said(&self) -> String {
        let stacks = self.stacks_verdict.name();
        let but = if self.stacks_verdict == Verdict::Good { "but" } else { "and" };
        match self.names_verdict {
            Verdict::Good => stacks.to_owned(),
            Verdict::Usable => format!("{stacks}, {but} some names are missing"),
            Verdict::Misleading => format!("{stacks}, {but} most names are missing"),
        }
    }

    /// Names the processes with missing mappings.
    pub fn refused(&self) -> Option<String> {
        let names = self.mappings_refused_of.join(", ");
        (!names.is_empty()).then(|| format!("mappings of {names}: they were too many, or came too fast"))
    }
}

/// Returns the warning to print before views that do not judge the data themselves: only if it misleads, or lacks most names.
pub fn warning(report: &Report<'_>) -> Option<String> {
    // Finding suspects and impossible edges takes time, and so does the audit.
    let quality = Quality::with(report, &Default::default(), (None, None));
    let misleads = quality.verdict == Verdict::Misleading && report.profile.whole().samples > 0;
    let first = quality.problems.first().filter(|_| misleads)?;
    // Right stacks without names mislead nobody.
    let what = match quality.stacks_verdict {
        Verdict::Misleading => "this data misleads",
        _ => "most names are missing",
    };
    Some(format!("{what}: {first} (more: icecore-report health {})", report.loaded.words()))
}

#[cfg(test)]
mod tests;
