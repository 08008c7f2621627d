//! How good a recording is: one verdict by a simple rule, and each problem as a sentence.

pub(crate) mod runtimes;

use std::collections::BTreeMap;

use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{Cause, Change, Mending, ReceiptV1, WalkEnd};
use serde::Serialize;

use crate::analysis::account::{self, Account, Disagreement};
use crate::analysis::asked::{Asked, restrictions};
use crate::base::ratio;
use crate::base::term::path::quoted;
use crate::base::term::quantity::{duration, percent, things};
use crate::profile::pipeline::Report;
use crate::profile::{Profile, Taken, through};
use crate::recording::load::Tables;
use crate::recording::losses::lost;
use crate::stacks::calls::{FoundBy, Impossible, ImpossibleRow};
use crate::stacks::hits::{Hit, Key};
use crate::stacks::locate::steps;
use crate::stacks::mend::Suspects;
use icecore_symbolize::Reason;
use runtimes::Runtime;

/// A larger share of lost samples misleads: they are lost when the machine is busiest.
pub(crate) const LOST_MISLEADS: f64 = 0.10;
/// A larger share of lost samples is worth knowing.
pub(crate) const LOST_SHOWS: f64 = 0.01;
/// A smaller share of named frames hides where time went.
pub(crate) const NAMED_MISLEADS: f64 = 0.50;
/// A smaller share of named frames is worth knowing.
pub(crate) const NAMED_SHOWS: f64 = 0.90;
/// A smaller share of stacks that reach a root makes totals and callers wrong in a way that looks right.
pub(crate) const ROOTED_MISLEADS: f64 = 0.50;
/// A smaller share of stacks that reach a root is worth knowing. It may be that they are whole without our knowing it.
pub(crate) const ROOTED_SHOWS: f64 = 0.90;

/// A larger share of stacks that lack callers is worth knowing.
pub(crate) const SUSPECT_SHOWS: f64 = 0.10;

/// With fewer samples shares say little: of a hundred, a share of a half is right to ±10 points in 19 of 20 recordings.
pub(crate) const SAMPLES_SHOW: u64 = 100;
/// CPU time that samples tell wrongly misleads if it is a larger part of all.
pub(crate) const IN_STEP_MISLEADS: f64 = 0.25;
/// It is worth knowing if it is a larger part of all.
pub(crate) const IN_STEP_SHOWS: f64 = 0.05;
/// A larger share of stacks with a call that the code does not make is worth knowing: more of them are wrong.
pub(crate) const IMPOSSIBLE_SHOWS: f64 = 0.01;
/// A larger share of them makes callers and totals wrong in a way that looks right.
pub(crate) const IMPOSSIBLE_MISLEADS: f64 = 0.10;

/// A larger share of stacks with a frame that was found by a guess is worth knowing.
pub(crate) const GUESSED_SHOWS: f64 = 0.10;

/// Whether conclusions can be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Without reservations.
    Good,
    /// With the problems in mind.
    Usable,
    /// Not before the problems are solved.
    Misleading,
}

/// How good the data is.
#[derive(Debug, Serialize)]
pub struct Quality {
    /// The worst of the problems.
    pub verdict: Verdict,
    /// Each problem, one sentence, worst first.
    pub problems: Vec<String>,
    /// How many points a share of a half may be off, 0 to 1, in 19 of 20 recordings; `None` without samples.
    pub share_error: Option<f64>,
    /// What was not to be sampled, or is not to be shown: nothing of it is in any share.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restrictions: Vec<String>,
    /// Processes of which not every mapping is in the recording, by name and number: they mapped code too fast, or too much.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mappings_refused_of: Vec<String>,
    /// CPU time by samples divided by that of the kernel's own account; `None` if they cannot be compared.
    pub cpu_time_agreement: Option<f64>,
    /// What is compared, or why nothing is.
    #[serde(skip)]
    pub cpu_time: Result<Account, &'static str>,
    /// User stacks whose outermost frame is a proven start; `None` if no walk says how it ended.
    pub rooted_share: Option<f64>,
    /// User stacks whose outermost frame is not a proven start: they may lack callers.
    pub incomplete_share: Option<f64>,
    /// User stacks that were cut by the depth limit.
    pub cut_share: Option<f64>,
    /// User stacks that are believed because the walk came to a root, and that pass through a function without a frame
    /// pointer: its caller is missing. `None` if no unwind rules tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspect_share: Option<f64>,
    /// User stacks that hold a frame that was found by a guess.
    pub guessed_share: Option<f64>,
    /// User stacks with an impossible edge: a return address in front of which no call of the callee is. So many stacks are wrong
    /// at least. `None` if no code is at hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible_share: Option<f64>,
    /// The edges of user stacks, and what came of checking them; `None` if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub impossible: Option<Impossible>,
    /// Frames that have a name, each counted once per sample; `None` if there are no frames.
    pub named_share: Option<f64>,
    /// Share of all frames by why they have no name.
    pub unnamed: BTreeMap<&'static str, f64>,
    /// Samples by how the walk of the user stack ended.
    pub user_ends: BTreeMap<&'static str, u64>,
    /// No stack was unwound: those that seem whole were walked along what may be no frame pointers.
    #[serde(skip)]
    pub is_walked_only: bool,
}

impl Quality {
    pub(crate) fn new(report: &Report<'_>, samples_in_file: u64, lost: u64) -> Self {
        let is_unwound = report.profile.taken(|taken| taken.mending != Mending::NONE).samples > 0;
        // Where stacks were unwound, samples tell what of them is walked.
        let impossible = report.located.map(|located| report.loaded.impossible(located));
        match is_unwound {
            true => Self::with(report, samples_in_file, lost, &Default::default(), impossible),
            false => Self::with(report, samples_in_file, lost, report.loaded.suspects(), impossible),
        }
    }

    fn with(
        report: &Report<'_>,
        samples_in_file: u64,
        lost: u64,
        (suspects, skipping): &(Suspects, Option<String>),
        impossible: Option<Impossible>,
    ) -> Self {
        let taken = |which: fn(Taken) -> bool| report.profile.taken(which).samples;
        let samples = report.profile.whole().samples;
        let cpu_time = account::compare(report.loaded);
        let session = &report.loaded.tables.session;
        let mut restrictions = restrictions(session);
        restrictions.extend(report.filtered.iter().map(|filter| format!("filtered: {filter}")));
        let walked = taken(Taken::is_walked);
        // Also of the kernel's own walks, which do not say how they ended.
        let with_user = taken(|taken| taken.end != WalkEnd::NONE);
        let impossible = impossible.filter(|found| found.calls > 0);
        let stacks = report.loaded.hits.rows.iter().filter(|hit| hit.key.user != 0);
        let stacks: u64 = stacks.map(|hit| hit.samples).sum();
        // A few that say how they ended stand for themselves.
        let of_walked =
            |n: u64| (walked > 0 && 2 * walked >= with_user).then(|| ratio(n as f64, walked as f64));
        let (frames, unnamed) = unnamed(&report.profile);
        let of_frames = |n: u64| ratio(n as f64, frames as f64);
        let nameless: u64 = unnamed.values().sum();
        let worst = unnamed.iter().max_by_key(|(_, n)| **n).map(|(reason, _)| *reason);
        let judged = suspects.judged + taken(|taken| taken.mending.is_judged());
        let suspect = suspects.samples + taken(|taken| taken.mending.is_suspect());
        let signals = report.loaded.hits.rows.iter().filter(|hit| hit.key.mending.is_suspect());
        let signals = signals.filter(|hit| report.loaded.skips_interrupted(&hit.key));
        let signals: u64 = signals.map(|hit| hit.samples).sum();
        let mut user_ends = BTreeMap::new();
        for row in &report.profile.rows {
            *user_ends.entry(row.taken.end.name()).or_default() += row.samples;
        }
        let mut quality = Self {
            verdict: Verdict::Good,
            problems: Vec::new(),
            share_error: (samples > 0).then(|| share_error(samples)),
            restrictions,
            mappings_refused_of: refused_of(&report.loaded.tables),
            cpu_time_agreement: agreement(&cpu_time),
            cpu_time,
            rooted_share: of_walked(taken(|taken| taken.rooted)),
            incomplete_share: of_walked(taken(|taken| taken.is_walked() && !taken.rooted)),
            cut_share: of_walked(taken(|taken| taken.end == WalkEnd::DEPTH)),
            suspect_share: (judged > 0).then(|| ratio(suspect as f64, with_user as f64)),
            guessed_share: of_walked(taken(|taken| taken.guessed)),
            impossible_share: impossible
                .as_ref()
                .filter(|found| found.checked > 0)
                .map(|found| ratio(found.samples as f64, stacks as f64)),
            impossible,
            named_share: (frames > 0).then(|| 1.0 - of_frames(nameless)),
            unnamed: unnamed.into_iter().map(|(reason, n)| (reason.code(), of_frames(n))).collect(),
            user_ends,
            is_walked_only: taken(|taken| taken.mending != Mending::NONE) == 0,
        };
        let breaks = breaks(&report.profile);
        let problems = problems(Facts {
            broken: breaks.iter().find(|broken| broken.end != WalkEnd::ROOT),
            is_walked_only: quality.is_walked_only,
            samples,
            is_filtered: report.filtered.is_some(),
            asked: Asked::of(session),
            has_stacks: with_user > 0,
            is_shortened: count(report, Cause::STACK_SHORTENED) > 0,
            in_step: quality.cpu_time.as_ref().ok().and_then(InStep::of),
            lost_share: ratio(lost as f64, samples_in_file.saturating_add(lost) as f64),
            lost_to: lost_to(report, lost),
            unfollowed: count(report, Cause::TARGETS_FULL),
            followed: followed(&report.loaded.tables),
            crowded: &quality.mappings_refused_of,
            named_share: quality.named_share,
            rooted_share: quality.rooted_share,
            unproven_share: of_walked(unproven(report)).unwrap_or_default(),
            suspect_share: quality.suspect_share.unwrap_or_default(),
            guessed_share: quality.guessed_share.unwrap_or_default(),
            is_of_signals: 2 * signals > suspect,
            skipping: skipping.as_deref(),
            impossible_share: quality.impossible_share.unwrap_or_default(),
            worst_edges: quality.impossible.as_ref().and_then(|found| found.images.first()),
            worst,
            runtime: (worst == Some(Reason::Jit)).then(|| runtimes::nameless(report)).flatten(),
            damage: report.loaded.tables.damage.len() as u64,
            endless: if report.loaded.recording.is_closed() { endless(report) } else { 0 },
            lost_blocks: count(report, Cause::BLOCKS_DAMAGED),
            file: &quoted(report.loaded.path),
        });
        quality.verdict = problems.first().map_or(Verdict::Good, |(verdict, _)| *verdict);
        quality.problems = problems.into_iter().map(|(_, text)| text).collect();
        quality
    }

    /// Names whose mappings are not all there.
    pub(crate) fn refused(&self) -> Option<String> {
        let names = self.mappings_refused_of.join(", ");
        (!names.is_empty()).then(|| format!("mappings of {names}: they were too many, or came too fast"))
    }
}

/// Counts walks that ended at a frame pointer of 0 and are not known to be whole. Those of a single frame are not counted: where the
/// frame pointer is not used, every walk ends there.
fn unproven(report: &Report<'_>) -> u64 {
    let samples = report.profile.taken(|taken| !taken.rooted && taken.end == WalkEnd::ROOT).samples;
    let tables = &report.loaded.tables;
    let is_lone = |hit: &&Hit| {
        let Key { user, end, .. } = hit.key;
        user != 0 && end == WalkEnd::ROOT && steps(tables, user).nth(1).is_none()
    };
    let lone: u64 = report.loaded.hits.rows.iter().filter(is_lone).map(|hit| hit.samples).sum();
    samples.saturating_sub(lone)
}

/// What is to be said in front of a view that does not tell how good the data is: nothing unless it misleads.
pub(crate) fn warning(report: &Report<'_>) -> Option<String> {
    let tables = &report.loaded.tables;
    let in_file = tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum();
    // To find suspects and impossible edges takes time.
    let quality = Quality::with(report, in_file, lost(tables), &Default::default(), None);
    let misleads = quality.verdict == Verdict::Misleading && report.profile.whole().samples > 0;
    let first = quality.problems.first().filter(|_| misleads)?;
    Some(format!("this data misleads: {first} (more: icecore-report health {})", quoted(report.loaded.path)))
}

/// Counts the sessions whose recorder never came to their end, or whose end was cut off.
fn endless(report: &Report<'_>) -> u64 {
    let was_ended =
        |receipt: &ReceiptV1| !receipt.ended_by.iter().any(|by| by == crate::recording::counted::REPAIRED);
    let parts = report.loaded.tables.parts.iter();
    parts.filter(|part| !part.receipt.as_ref().is_some_and(was_ended)).count() as u64
}

/// Tells why most lost samples are lost, if it was not that the recorder could not keep up.
fn lost_to(report: &Report<'_>, lost: u64) -> Option<&'static str> {
    let causes = [
        (Cause::DAMAGED, "the file was damaged"),
        (Cause::WRITE_FAILED, "the disk or pipe did not take them"),
    ];
    causes.into_iter().find(|(cause, _)| count(report, *cause) > lost / 2).map(|(_, why)| why)
}

/// How many processes are named that mapped code too fast.
const NAMED_AT_MOST: usize = 5;

/// Names the processes of which mappings were refused.
fn refused_of(tables: &Tables) -> Vec<String> {
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

/// Counts the processes that were started while they were recorded.
fn followed(tables: &Tables) -> u64 {
    tables.lifecycle.iter().filter(|row| row.change == Change::FORK && row.parent_tgid != row.tgid).count()
        as u64
}

/// Adds up the losses of one cause.
pub(crate) fn count(report: &Report<'_>, cause: Cause) -> u64 {
    let losses = report.loaded.tables.losses.iter().filter(|loss| loss.cause == cause);
    losses.fold(0, |sum: u64, loss| sum.saturating_add(loss.count))
}

/// What the verdict is made of.
#[derive(Debug, Clone, Copy)]
struct Facts<'a> {
    samples: u64,
    /// Filters have left these.
    is_filtered: bool,
    asked: Asked,
    /// Samples have user stacks.
    has_stacks: bool,
    /// Copies of stacks were shortened.
    is_shortened: bool,
    /// Who was sampled too often or too rarely.
    in_step: Option<InStep<'a>>,
    lost_share: f64,
    /// Why most of the lost samples are lost, if a lower rate would not have helped.
    lost_to: Option<&'static str>,
    /// Processes that were to be recorded, and were not; and that were.
    unfollowed: u64,
    followed: u64,
    /// Processes of which not every mapping is there.
    crowded: &'a [String],
    named_share: Option<f64>,
    rooted_share: Option<f64>,
    /// Of user stacks: walks of two frames or more that ended at a frame pointer of 0, which alone proves no root.
    unproven_share: f64,
    /// Of user stacks: with a frame that was found by a guess.
    guessed_share: f64,
    /// Of user stacks: callers were skipped, and nothing else shows it.
    suspect_share: f64,
    /// The image in which most of them were.
    skipping: Option<&'a str>,
    /// Most of those that lack callers lack what a signal has interrupted.
    is_of_signals: bool,
    /// Of user stacks: they hold a call that the code does not make.
    impossible_share: f64,
    /// Where most of these calls are.
    worst_edges: Option<&'a ImpossibleRow>,
    /// Where most of the stacks end that reach no root.
    broken: Option<&'a Break>,
    /// Stacks were not copied when this was recorded.
    is_walked_only: bool,
    /// Why most of the unnamed frames have no name.
    worst: Option<Reason>,
    /// Who made most of the code that has no name, if it told none.
    runtime: Option<Runtime>,
    /// Stretches of the file that could not be used.
    damage: u64,
    /// Sessions of a closed file that have no end of their own: it was closed by another program.
    endless: u64,
    /// Blocks of names, stacks or mappings that were gone when the file was repaired or merged.
    lost_blocks: u64,
    /// The recording, as a word for a shell.
    file: &'a str,
}

/// Applies the rule: the problems, worst first.
fn problems(facts: Facts<'_>) -> Vec<(Verdict, String)> {
    let graded = |misleads: bool, shows: bool| match (misleads, shows) {
        (true, _) => Verdict::Misleading,
        (_, true) => Verdict::Usable,
        _ => Verdict::Good,
    };
    let mut problems = Vec::new();
    match facts.samples {
        0 => problems.push((Verdict::Misleading, "there are no samples".to_owned())),
        few => problems.push((graded(false, few < SAMPLES_SHOW), too_few(&facts))),
    }
    let lost = facts.lost_share;
    // What was lost is missing in the time of whoever ran then.
    if let Some(in_step) = facts.in_step.filter(|_| lost <= LOST_SHOWS) {
        let share = in_step.share;
        problems.push((graded(share > IN_STEP_MISLEADS, share > IN_STEP_SHOWS), in_step.text(facts.asked)));
    }
    let why = facts.lost_to.unwrap_or(facts.asked.fewer_samples());
    problems.push((
        graded(lost > LOST_MISLEADS, lost > LOST_SHOWS),
        format!("{} of the samples were lost, and not evenly: {why}", percent(lost)),
    ));
    if facts.unfollowed > 0 {
        let share = ratio(facts.unfollowed as f64, facts.unfollowed.saturating_add(facts.followed) as f64);
        let text = format!(
            "{} of the processes that were started were not followed, and none of their samples is here: too many were there at \
             one time; record everything with -a",
            percent(share)
        );
        problems.push((graded(share > LOST_MISLEADS, true), text));
    }
    if let Some(named) = facts.named_share {
        let remedy = facts.worst.map(|worst| remedy(worst, &facts)).unwrap_or_default();
        problems.push((
            graded(named < NAMED_MISLEADS, named < NAMED_SHOWS),
            format!("only {} of the frames have a name{remedy}", percent(named)),
        ));
    }
    if let Some(rooted) = facts.rooted_share {
        let so = "self times hold, callers and totals are incomplete";
        let unproven = match facts.unproven_share {
            0.0 => String::new(),
            share => {
                format!(", {} more end at a frame pointer of 0, which alone proves none", percent(share))
            }
        };
        let prove = || facts.asked.unwind_more(facts.is_walked_only).map(|remedy| format!("; {remedy}"));
        let prove = if facts.unproven_share > 0.0 { prove() } else { None };
        let remedy = facts.broken.map(|broken| mending(broken, &facts)).or(prove).unwrap_or_default();
        problems.push((
            graded(rooted + facts.unproven_share < ROOTED_MISLEADS, rooted < ROOTED_SHOWS),
            format!("only {} of the user stacks reach a root{unproven}: {so}{remedy}", percent(rooted)),
        ));
    }
    if facts.asked.copies_nothing && facts.has_stacks {
        let text = "the kernel that was recorded takes user stacks itself: 127 frames at most, no copies, and no word of how they \
                    ended; where code has no frame pointers callers are missing or wrong";
        problems.push((Verdict::Usable, text.to_owned()));
    }
    problems.push((graded(false, facts.suspect_share > SUSPECT_SHOWS), skipped(&facts)));
    problems.push((
        graded(false, facts.guessed_share > GUESSED_SHOWS),
        format!(
            "{} of the user stacks hold a frame that was found by a guess: the code in front of it has no unwind rules, as code \
             made at run time; their callers may be wrong (marked in samples)",
            percent(facts.guessed_share)
        ),
    ));
    let impossible = facts.impossible_share;
    problems
        .push((graded(impossible > IMPOSSIBLE_MISLEADS, impossible > IMPOSSIBLE_SHOWS), not_called(&facts)));
    if facts.endless > 0 {
        let sessions = things(facts.endless, "session");
        let text =
            format!("the end of {sessions} is missing: the recorder was stopped, or the file was cut off");
        problems.push((Verdict::Usable, text));
    }
    if facts.damage > 0 {
        let text = format!("{} of the file were damaged and are left out", things(facts.damage, "part"));
        problems.push((Verdict::Usable, text));
    }
    if facts.lost_blocks > 0 {
        let blocks = things(facts.lost_blocks, "block");
        let text = format!("{blocks} of names, stacks or mappings were lost before this file was written");
        problems.push((Verdict::Usable, text));
    }
    problems.retain(|(verdict, _)| *verdict != Verdict::Good);
    problems.sort_by_key(|(verdict, _)| std::cmp::Reverse(*verdict));
    problems
}

/// What helps against the most frequent reason.
fn remedy(reason: Reason, facts: &Facts<'_>) -> String {
    let file = facts.file;
    let missing = format!("`icecore-report missing {file}` says which");
    match reason {
        Reason::Unmapped => {
            ": most addresses lie in no mapping, as when code without frame pointers is walked".to_owned()
        }
        Reason::ImageMissing | Reason::BuildIdMismatch | Reason::ImageChanged => {
            format!(": the files that ran are not here; {missing}, and how to get them")
        }
        Reason::ImageUnreadable | Reason::NotAFile => format!(": files cannot be read here; {missing}"),
        Reason::NoSymbol => format!(": debug files are not here (-dbgsym, -debuginfo); {missing}"),
        Reason::Jit => match facts.runtime {
            _ if facts.asked.embeds_none => {
                ": most of them are code made at run time, of which --embed none takes no names".to_owned()
            }
            Some(runtime) => {
                format!(": most of them are code made at run time; to have its names, {}", runtime.remedy())
            }
            None => ": most of them are code made at run time".to_owned(),
        },
        Reason::KernelSymbolMissing if facts.asked.is_foreign => {
            ": files of perf have no kernel names, those of icecore-record have".to_owned()
        }
        Reason::KernelSymbolMissing if facts.asked.is_kernel_hidden => {
            ": the kernel hid its addresses: record as root, with kernel.kptr_restrict at most 1".to_owned()
        }
        Reason::KernelSymbolMissing => {
            ": most of them are code of the kernel that its list of symbols does not have".to_owned()
        }
        Reason::Vdso | Reason::Special | Reason::StackLost => String::new(),
    }
}

/// Where user stacks end that reach no root.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Break {
    /// The image of their outermost frame; `None` if that is in none.
    pub(crate) image: Option<String>,
    pub(crate) end: WalkEnd,
    pub(crate) samples: u64,
    /// Of all user stacks.
    pub(crate) share: f64,
}

/// The half of the interval that holds a share of a half in 19 of 20 recordings: two standard deviations.
fn share_error(samples: u64) -> f64 {
    1.0 / (samples as f64).sqrt()
}

fn too_few(facts: &Facts<'_>) -> String {
    let samples = things(facts.samples, "sample");
    let points = share_error(facts.samples) * 100.0;
    let remedy = if facts.is_filtered { "loosen the filters" } else { facts.asked.more_samples() };
    format!("there are only {samples}: shares are right to ±{points:.0} points; {remedy}")
}

fn agreement(compared: &Result<Account, &'static str>) -> Option<f64> {
    let account = compared.as_ref().ok().filter(|account| account.kernel_ns > 0)?;
    Some(account.sampled_ns as f64 / account.kernel_ns as f64)
}

/// Who was sampled more often or more rarely than chance explains.
#[derive(Debug, Clone, Copy)]
struct InStep<'a> {
    disagreement: &'a Disagreement,
    /// The difference, of all CPU time.
    share: f64,
}

impl<'a> InStep<'a> {
    fn of(account: &'a Account) -> Option<Self> {
        let disagreement = account.disagrees.as_ref()?;
        let difference = disagreement.kernel_ns.abs_diff(disagreement.sampled_ns);
        let whole = account.kernel_ns.max(account.sampled_ns);
        Some(Self { disagreement, share: ratio(difference as f64, whole as f64) })
    }

    fn text(self, asked: Asked) -> String {
        let Disagreement { who, kernel_ns, sampled_ns } = self.disagreement;
        let (ran, sampled) = (duration(*kernel_ns), duration(*sampled_ns));
        let remedy = match asked.is_exact {
            true => "record with -F, which varies the distance of samples",
            false => "record with another -F and compare",
        };
        // What interrupts take is not charged to whom they interrupt, on kernels that measure it. While the kernel switches threads the
        // timer waits, and hits whoever is next.
        let or = match sampled_ns > kernel_ns {
            true => "interrupts took its time, or it ran next to threads that give up the CPU all the time",
            false => {
                "it gives up the CPU so often that samples hit who is next, or the machine did not run meanwhile"
            }
        };
        format!(
            "{who} ran {ran} by the kernel's account, and {sampled} by samples: sampling ran in step with it, {or}; {remedy}"
        )
    }
}

/// Lists where user stacks end that reach no root, the most frequent first.
pub(crate) fn breaks(profile: &Profile) -> Vec<Break> {
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

/// Where most stacks end, and what helps against it.
fn mending(broken: &Break, facts: &Facts<'_>) -> String {
    let share = percent(broken.share);
    let image =
        broken.image.as_deref().map_or_else(|| "code in no file".to_owned(), |path| format!("`{path}`"));
    match broken.end {
        WalkEnd::DEPTH if !facts.is_walked_only => {
            format!("; {share} have more frames than the {} of the longest stack that is kept", MAX_FRAMES)
        }
        WalkEnd::DEPTH => {
            format!(
                "; {share} have more frames than were taken: {}",
                facts.asked.deeper(facts.is_walked_only)
            )
        }
        WalkEnd::MAPPINGS_LOST if !facts.crowded.is_empty() => format!(
            "; {share} were taken while mappings were missing, since {} mapped code faster than is followed, or more of it: nobody \
             can tell what of them is code",
            facts.crowded.join(", ")
        ),
        WalkEnd::MAPPINGS_LOST => format!(
            "; {share} were taken while reports of mappings were lost, of this process or of a neighbour that maps code all \
             the time: nobody can tell what of them is code"
        ),
        WalkEnd::NOT_COPIED => {
            format!(
                "; {share} reach behind what was copied of the stack: {}",
                facts.asked.copy_more(facts.is_shortened)
            )
        }
        WalkEnd::NO_RULES if !broken.image.as_deref().is_some_and(is_file) => {
            format!("; {share} end in {image}, for which there are no unwind rules")
        }
        WalkEnd::NO_RULES => {
            format!(
                "; {share} end in {image}, for which no unwind rules are here: give its file with --symbols"
            )
        }
        WalkEnd::BAD_RULES | WalkEnd::NO_RETURN_ADDRESS => {
            format!("; {share} end in {image}, whose unwind rules do not fit")
        }
        _ if facts.is_walked_only => {
            let remedy = facts.asked.unwind_more(true).map(|remedy| format!(": {remedy}"));
            format!("; {share} break in {image}, which has no frame pointers{}", remedy.unwrap_or_default())
        }
        _ => format!("; {share} break in {image}"),
    }
}

/// Returns true if an image is a file, by its path.
fn is_file(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

/// How many stacks lack callers without showing it, and what helps against it.
fn skipped(facts: &Facts<'_>) -> String {
    let share = percent(facts.suspect_share);
    let most = facts.skipping.map(|image| format!(", most of them through `{image}`")).unwrap_or_default();
    if facts.is_of_signals {
        return format!(
            "{share} of the user stacks lack what a signal has interrupted: its handler ran on a stack of its own, and let the \
             signal come again, so that nothing proves that it was still running"
        );
    }
    let remedy = facts.asked.unwind_more(facts.is_walked_only).map(|remedy| format!(": {remedy}"));
    format!(
        "{share} of the user stacks pass through code without frame pointers{most}, and lack callers there{}",
        remedy.unwrap_or_default()
    )
}

/// How many stacks hold a call that the code does not make, and what helps against it.
fn not_called(facts: &Facts<'_>) -> String {
    let share = percent(facts.impossible_share);
    let image = facts.worst_edges.and_then(|row| row.image.as_deref());
    let image = image.map_or_else(|| "code in no file".to_owned(), |path| format!("`{path}`"));
    let by = facts.worst_edges.map(|row| row.by);
    let remedy = match by {
        Some(FoundBy::FramePointers) if facts.is_walked_only => facts.asked.unwind_more(true),
        Some(FoundBy::Completed) => facts.asked.unwind_more(false),
        _ => Some(
            "it has no unwind rules that fit; build it with -fasynchronous-unwind-tables or with frame pointers",
        ),
    };
    let remedy = remedy.map(|remedy| format!(": {remedy}")).unwrap_or_default();
    format!(
        "at least {share} of the user stacks are wrong: they hold a call that the code does not make, most often of {image}{remedy}"
    )
}

/// Counts frames as `samples` lists them, inlined ones as well, and those without a name by reason.
fn unnamed(profile: &Profile) -> (u64, BTreeMap<Reason, u64>) {
    let through = through(profile, profile.at_stacks());
    let mut frames = 0u64;
    let mut unnamed: BTreeMap<Reason, u64> = BTreeMap::new();
    for (stack, amount) in profile.stacks.iter().zip(through).skip(1) {
        // Filters by name leave stacks that nobody hit.
        if amount.samples == 0 {
            continue;
        }
        frames = frames.saturating_add(amount.samples);
        if let Some(reason) = profile.function(*stack).reason {
            let sum = unnamed.entry(reason).or_default();
            *sum = sum.saturating_add(amount.samples);
        }
    }
    (frames, unnamed)
}

#[cfg(test)]
mod tests;
