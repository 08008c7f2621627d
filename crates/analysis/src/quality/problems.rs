//! Describes each problem of a recording in a sentence, with a remedy.

use icecore_format::limits::MAX_FRAMES;
use icecore_format::records::{EmbedMode, RateCause, WalkEnd};
use icecore_symbolize::Reason;

use super::counts::{Break, share_error};
use super::runtimes::Runtime;
use super::{
    AUDIT_MISLEADS, AUDIT_SHOWS, GUESSED_SHOWS, IMPOSSIBLE_MISLEADS, IMPOSSIBLE_SHOWS, IN_STEP_MISLEADS,
    IN_STEP_SHOWS, LOST_MISLEADS, LOST_SHOWS, NAMED_MISLEADS, NAMED_SHOWS, ROOTED_MISLEADS, ROOTED_SHOWS,
    SAMPLES_SHOW, SUSPECT_SHOWS, UNREAD_MISLEADS, UNREAD_SHOWS, Verdict,
};
use crate::account::{Account, Disagreement};
use crate::audit::Audit;
use crate::interpreted::Interpreted;
use crate::settings::Settings;
use icecore_profile::stacks::calls::{FoundBy, ImpossibleRow};
use icecore_text::quantity::ratio;
use icecore_text::quantity::{count, duration, percent, things};

/// The facts on which the verdict is based.
#[derive(Debug, Clone, Copy)]
pub(super) struct Facts<'a> {
    pub(super) samples: u64,
    /// They are drawn at a rate, so that few of them say little.
    pub(super) is_drawn: bool,
    /// The facts are those of a filtered recording.
    pub(super) is_filtered: bool,
    pub(super) settings: Settings,
    /// Why the recorder sampled more rarely than requested, or paused; `None` if it did not.
    pub(super) thinned: Option<RateCause>,
    /// Samples have user stacks.
    pub(super) has_stacks: bool,
    /// Copies of stacks were shortened.
    pub(super) is_shortened: bool,
    /// A thread or process that was sampled too often or too rarely.
    pub(super) in_step: Option<InStep<'a>>,
    /// Share of the weight that was lost, and of the number of samples.
    pub(super) lost_share: f64,
    pub(super) lost_share_of_samples: f64,
    /// Why most of the lost samples were lost, if a lower rate would not have helped.
    pub(super) lost_to: Option<&'static str>,
    /// Processes that should have been recorded, but were not; and those that were.
    pub(super) unfollowed: u64,
    pub(super) followed: u64,
    /// Processes with missing mappings.
    pub(super) crowded: &'a [String],
    pub(super) named_share: Option<f64>,
    pub(super) rooted_share: Option<f64>,
    /// Share of user stacks: walks of two frames or more that ended at a frame pointer of 0, which alone proves no root.
    pub(super) unproven_share: f64,
    /// Share of user stacks with a guessed frame.
    pub(super) guessed_share: f64,
    /// Share of user stacks that lack callers without another sign of it.
    pub(super) suspect_share: f64,
    /// The image that most of them pass through.
    pub(super) skipping: Option<&'a str>,
    /// Most incomplete stacks lack a function that a signal interrupted.
    pub(super) is_of_signals: bool,
    /// Share of user stacks that hold a call that the code does not make.
    pub(super) impossible_share: f64,
    /// The row with most of these calls.
    pub(super) worst_edges: Option<&'a ImpossibleRow>,
    /// What is known of walks by unwind tables in the kernel.
    pub(super) audit: Option<&'a Audit>,
    pub(super) interpreted: Option<Interpreted>,
    /// Where most of the stacks end that do not reach a root.
    pub(super) broken: Option<&'a Break>,
    /// The recorder did not copy stacks.
    pub(super) is_walked_only: bool,
    /// The reason why most of the unnamed frames have no name.
    pub(super) worst: Option<Reason>,
    /// The runtime that made most of the unnamed code, if it provided no names.
    pub(super) runtime: Option<Runtime>,
    /// Ranges of the file that are damaged.
    pub(super) damage: u64,
    /// Sessions of a closed file without an end of their own: another program closed the file.
    pub(super) endless: u64,
    /// Blocks of names, stacks or mappings that were missing when the file was repaired or merged.
    pub(super) lost_blocks: u64,
    /// The recording, quoted for a shell.
    pub(super) file: &'a str,
}

/// What a problem limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limits {
    /// What was sampled, and the stacks.
    Stacks,
    /// The names of frames; the stacks may be right.
    Names,
}

/// A problem of a recording.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    pub(super) verdict: Verdict,
    pub(super) limits: Limits,
    pub(super) text: String,
}

/// Lists the problems, worst first.
pub(super) fn problems(facts: Facts<'_>) -> Vec<Problem> {
    let mut all = of_names(&facts);
    let stacks = of_stacks(&facts).into_iter();
    all.extend(stacks.map(|(verdict, text)| Problem { verdict, limits: Limits::Stacks, text }));
    all.retain(|problem| problem.verdict != Verdict::Good);
    all.sort_by_key(|problem| (std::cmp::Reverse(problem.verdict), problem.limits == Limits::Names));
    all
}

fn graded(misleads: bool, shows: bool) -> Verdict {
    match (misleads, shows) {
        (true, _) => Verdict::Misleading,
        (_, true) => Verdict::Usable,
        _ => Verdict::Good,
    }
}

/// Frames without names are a problem of the stacks if they lie nowhere.
fn of_names(facts: &Facts<'_>) -> Vec<Problem> {
    let problem = |named: f64| {
        let remedy = facts.worst.map(|worst| remedy(worst, facts)).unwrap_or_default();
        let is_nowhere = matches!(facts.worst, Some(Reason::Unmapped | Reason::StackLost));
        Problem {
            verdict: graded(named < NAMED_MISLEADS, named < NAMED_SHOWS),
            limits: if is_nowhere { Limits::Stacks } else { Limits::Names },
            text: format!("only {} of the frames of a sample have a name{remedy}", percent(named)),
        }
    };
    facts.named_share.map(problem).into_iter().collect()
}

/// Says what share was lost, in numbers as well if that differs.
fn lost_text(of_weight: f64, of_samples: f64) -> String {
    match [of_weight, of_samples].map(percent) {
        [weight, samples] if weight == samples => format!("{samples} of the samples were lost"),
        [weight, samples] => format!("{weight} of the weight was lost ({samples} of the samples)"),
    }
}

fn of_stacks(facts: &Facts<'_>) -> Vec<(Verdict, String)> {
    let mut problems = Vec::new();
    match facts.samples {
        0 => problems.push((Verdict::Misleading, "there are no samples".to_owned())),
        few if facts.is_drawn => problems.push((graded(false, few < SAMPLES_SHOW), too_few(facts))),
        _ => {}
    }
    let lost = facts.lost_share;
    // Lost samples are missing from the time of whatever ran then.
    if let Some(in_step) = facts.in_step.filter(|_| lost <= LOST_SHOWS) {
        let share = in_step.share;
        problems
            .push((graded(share > IN_STEP_MISLEADS, share > IN_STEP_SHOWS), in_step.text(facts.settings)));
    }
    let why = facts.lost_to.unwrap_or(facts.settings.fewer_samples());
    problems.push((
        graded(lost > LOST_MISLEADS, lost > LOST_SHOWS),
        format!("{}, and not evenly: {why}", lost_text(lost, facts.lost_share_of_samples)),
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
    if let Some(rooted) = facts.rooted_share {
        let so = "self times hold, callers and totals are incomplete";
        let unproven = match facts.unproven_share {
            0.0 => String::new(),
            share => {
                format!(", {} more end at a frame pointer of 0, which alone proves none", percent(share))
            }
        };
        let prove = || facts.settings.unwind_more(facts.is_walked_only).map(|remedy| format!("; {remedy}"));
        let prove = if facts.unproven_share > 0.0 { prove() } else { None };
        let remedy = facts.broken.map(|broken| repair(broken, facts)).or(prove).unwrap_or_default();
        problems.push((
            graded(rooted + facts.unproven_share < ROOTED_MISLEADS, rooted < ROOTED_SHOWS),
            format!("only {} of the user stacks reach a root{unproven}: {so}{remedy}", percent(rooted)),
        ));
    }
    if facts.settings.copies_nothing && facts.has_stacks {
        let text = "the kernel that was recorded takes user stacks itself: 127 frames at most, no copies, and no word of how they \
                    ended; where code has no frame pointers callers are missing or wrong";
        problems.push((Verdict::Usable, text.to_owned()));
    }
    // The kernel's walks are most of the stacks: their own ends are unknown.
    if facts.settings.has_no_programs && facts.has_stacks && facts.rooted_share.is_none() {
        let text = "without privileges the kernel has walked most user stacks (beyond 16 KiB of them, or all with --unwind fp): 127 frames at \
                    most, and no word of how they ended; where code has no frame pointers callers are missing or wrong";
        problems.push((Verdict::Usable, text.to_owned()));
    }
    problems.push((graded(false, facts.suspect_share > SUSPECT_SHOWS), skipped(facts)));
    problems.push((
        graded(false, facts.guessed_share > GUESSED_SHOWS),
        format!(
            "{} of the user stacks hold a frame that was found by a guess: the code in front of it has no unwind tables, as JIT \
             code; their callers may be wrong (marked with ?)",
            percent(facts.guessed_share)
        ),
    ));
    let impossible = facts.impossible_share;
    problems
        .push((graded(impossible > IMPOSSIBLE_MISLEADS, impossible > IMPOSSIBLE_SHOWS), not_called(facts)));
    if let Some(audit) = facts.audit {
        let share = audit.differ_share();
        problems.push((graded(share > AUDIT_MISLEADS, share > AUDIT_SHOWS), disagrees(audit)));
    }
    if let Some(interpreted) = facts.interpreted {
        let lacking = 1.0 - interpreted.agree_share();
        let text = format!("functions of an interpreter are missing: {}", interpreted.text());
        problems.push((graded(lacking > UNREAD_MISLEADS, lacking > UNREAD_SHOWS), text));
    }
    if facts.endless > 0 {
        let sessions = things(facts.endless, "session");
        let text =
            format!("the end of {sessions} is missing: the recorder was stopped, or the file was truncated");
        problems.push((Verdict::Usable, text));
    }
    if facts.damage > 0 {
        let text = format!("{} of the file were damaged and are skipped", things(facts.damage, "part"));
        problems.push((Verdict::Usable, text));
    }
    if facts.lost_blocks > 0 {
        let blocks = things(facts.lost_blocks, "block");
        let text = format!("{blocks} of names, stacks or mappings were lost before this file was written");
        problems.push((Verdict::Usable, text));
    }
    problems
}

/// Suggests a remedy for the most frequent reason.
fn remedy(reason: Reason, facts: &Facts<'_>) -> String {
    let file = facts.file;
    let missing = format!("`icecore-report missing {file}` says which");
    match reason {
        Reason::Unmapped => {
            ": most addresses lie in no mapping, as when code without frame pointers is walked".to_owned()
        }
        Reason::ImageMissing | Reason::BuildIdMismatch | Reason::ImageChanged | Reason::ImageUnproven => {
            format!(": the files that ran are not here; {missing}, and how to get them")
        }
        Reason::ImageUnknown => {
            format!(": nobody knows whether the files here are those that ran; {missing}, and --trust PATH takes them for that")
        }
        Reason::ImageDenied => {
            ": files may not be opened, as those on FUSE without allow_other or NFS with root_squash; read the recording as the user who \
             may, or give copies with --symbols"
                .to_owned()
        }
        Reason::NoAnswer => {
            format!(": file systems did not answer in time; {missing}; give copies with --symbols")
        }
        Reason::ImageUnreadable | Reason::NotAFile => format!(": files cannot be read here; {missing}"),
        Reason::NoSymbol => format!(": debug files are not here (-dbgsym, -debuginfo); {missing}"),
        Reason::Jit => match facts.runtime.and_then(Runtime::remedy) {
            _ if facts.settings.embed == EmbedMode::NONE => {
                ": most of them are JIT code, of which --embed none takes no names".to_owned()
            }
            Some(remedy) => format!(": most of them are JIT code; to have its names, {remedy}"),
            None => ": most of them are JIT code".to_owned(),
        },
        Reason::KernelSymbolMissing if facts.settings.is_foreign => {
            ": files of perf have no kernel names, those of icecore-record have".to_owned()
        }
        Reason::KernelSymbolMissing if facts.settings.is_kernel_hidden => {
            ": the kernel hid its addresses: record as root, with kernel.kptr_restrict at most 1".to_owned()
        }
        Reason::KernelSymbolMissing => {
            ": most of them are code of the kernel that its list of symbols does not have".to_owned()
        }
        Reason::CodeGone => ": the code was gone, or could not be proven, when its name was read".to_owned(),
        Reason::Vdso | Reason::Special | Reason::StackLost => String::new(),
    }
}

fn too_few(facts: &Facts<'_>) -> String {
    let samples = things(facts.samples, "sample");
    let points = share_error(facts.samples) * 100.0;
    let remedy = match facts.thinned {
        _ if facts.is_filtered => "loosen the filters",
        Some(RateCause::DUTY) => "record for longer, or a larger part of each period (--duty)",
        Some(RateCause::CPU | RateCause::MEMORY | RateCause::DISK) => {
            "record for longer, or with a larger --budget, which made the recorder sample more rarely"
        }
        Some(RateCause::CONTROL) => "record for longer, or at a higher rate: somebody asked for a lower one",
        _ => facts.settings.more_samples(),
    };
    format!("there are only {samples}: shares are right to ±{points:.0} points; {remedy}")
}

/// A thread or process that was sampled more often or more rarely than chance explains.
#[derive(Debug, Clone, Copy)]
pub(super) struct InStep<'a> {
    pub(super) disagreement: &'a Disagreement,
    /// The difference, as a share of all CPU time.
    pub(super) share: f64,
}

impl<'a> InStep<'a> {
    pub(super) fn of(account: &'a Account) -> Option<Self> {
        let disagreement = account.disagrees.as_ref()?;
        let difference = disagreement.kernel_ns.abs_diff(disagreement.sampled_ns);
        let whole = account.kernel_ns.max(account.sampled_ns);
        Some(Self { disagreement, share: ratio(difference as f64, whole as f64) })
    }

    fn text(self, settings: Settings) -> String {
        let Disagreement { who, kernel_ns, sampled_ns } = self.disagreement;
        let (ran, sampled) = (duration(*kernel_ns), duration(*sampled_ns));
        let remedy = if settings.is_exact {
            "record with -F, which jitters the sampling interval"
        } else {
            "record with another -F and compare"
        };
        // Kernels that measure interrupts do not charge them to the interrupted thread. While the kernel switches threads, the
        // timer waits, and hits the next thread.
        let or = if sampled_ns > kernel_ns {
            "interrupts took its time, or it ran next to threads that give up the CPU all the time"
        } else {
            "it gives up the CPU so often that samples hit who is next, or the machine did not run meanwhile"
        };
        format!(
            "{who} ran {ran} by the kernel's account, and {sampled} by samples: sampling ran in step with it, {or}; {remedy}"
        )
    }
}

/// Says where most stacks end, with a remedy.
fn repair(broken: &Break, facts: &Facts<'_>) -> String {
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
                facts.settings.deeper(facts.is_walked_only)
            )
        }
        WalkEnd::MAPPINGS_LOST if !facts.crowded.is_empty() => format!(
            "; {share} were taken while mappings were missing, since {} mapped code faster than is followed, or more of it, or \
             had mappings that were not read: nobody can tell what of them is code",
            facts.crowded.join(", ")
        ),
        WalkEnd::MAPPINGS_LOST => format!(
            "; {share} were taken while reports of mappings were lost, of this process or of a neighbour that maps code all \
             the time: nobody can tell what of them is code"
        ),
        WalkEnd::NOT_COPIED => {
            format!(
                "; {share} reach beyond the copied part of the stack: {}",
                facts.settings.copy_more(facts.is_shortened)
            )
        }
        WalkEnd::NO_RULES if !broken.image.as_deref().is_some_and(is_file) => {
            format!("; {share} end in {image}, for which there are no unwind tables")
        }
        WalkEnd::NO_RULES => {
            format!(
                "; {share} end in {image}, in code for which no unwind tables are here: it has none, as assembly and 32-bit code, or \
                 its file is missing: then give it with --symbols"
            )
        }
        WalkEnd::BAD_RULES | WalkEnd::NO_RETURN_ADDRESS => {
            format!("; {share} end in {image}, whose unwind tables do not fit")
        }
        WalkEnd::NOT_EXAMINED => format!(
            "; {share} were neither unwound nor checked: they have more frames than a file of this size is worth; select fewer with \
             --from and --to, or --tid"
        ),
        _ if facts.is_walked_only => {
            let remedy = facts.settings.unwind_more(true).map(|remedy| format!(": {remedy}"));
            format!("; {share} break in {image}, which has no frame pointers{}", remedy.unwrap_or_default())
        }
        _ => format!("; {share} break in {image}"),
    }
}

/// Returns true if the path of an image is that of a file.
fn is_file(path: &str) -> bool {
    path.starts_with('/') && !path.starts_with("//")
}

/// Says how many stacks lack callers without a sign of it, with a remedy.
fn skipped(facts: &Facts<'_>) -> String {
    let share = percent(facts.suspect_share);
    let most = facts.skipping.map(|image| format!(", most of them through `{image}`")).unwrap_or_default();
    if facts.is_of_signals {
        return format!(
            "{share} of the user stacks lack what a signal has interrupted: its handler ran on a stack of its own, and let the \
             signal come again, so that nothing proves that it was still running"
        );
    }
    let remedy = facts.settings.unwind_more(facts.is_walked_only).map(|remedy| format!(": {remedy}"));
    format!(
        "{share} of the user stacks pass through code without frame pointers{most}, and lack callers there{}",
        remedy.unwrap_or_default()
    )
}

/// Says how many walks by unwind tables differ from what their copies show, with a remedy.
fn disagrees(audit: &Audit) -> String {
    let (share, checked) = (percent(audit.differ_share()), count(audit.checked));
    let worst = audit.by_image.first().filter(|row| row.differ > 0);
    let image = worst
        .map(|row| row.image.as_deref().map_or("code in no file".to_owned(), |path| format!("`{path}`")));
    let image = image.map(|image| format!(", most often in {image}")).unwrap_or_default();
    format!(
        "{share} of the {checked} walks by unwind tables in the kernel that were checked differ from a copy of the stack{image}; the \
         others are wrong as often: record with --unwind dwarf, which copies each stack"
    )
}

/// Says how many stacks hold a call that the code does not make, with a remedy.
fn not_called(facts: &Facts<'_>) -> String {
    let share = percent(facts.impossible_share);
    let image = facts.worst_edges.and_then(|row| row.image.as_deref());
    let image = image.map_or_else(|| "code in no file".to_owned(), |path| format!("`{path}`"));
    let by = facts.worst_edges.map(|row| row.by);
    let remedy = match by {
        Some(FoundBy::FramePointers) if facts.is_walked_only => facts.settings.unwind_more(true),
        _ => Some(
            "it has no unwind tables that fit; build it with -fasynchronous-unwind-tables or with frame pointers",
        ),
    };
    let remedy = remedy.map(|remedy| format!(": {remedy}")).unwrap_or_default();
    format!(
        "at least {share} of the user stacks are wrong: they hold a call that the code does not make, most often of {image}{remedy}"
    )
}
