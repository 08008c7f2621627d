//! Describes a recording, as far as a comparison needs it.

use std::path::PathBuf;

use icecore_format::records::{EndReason, TargetKind};

use crate::account;
use icecore_profile::named::pipeline::Report;
use icecore_profile::recording::counted::is_whole;
use icecore_profile::recording::spans::Spans;

/// One recording of a side.
#[derive(Debug, Clone)]
pub struct RecordingFacts {
    /// The file.
    pub path: PathBuf,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Samples that the filters keep.
    pub samples: u64,
    /// Their weight, in the unit of the event.
    pub weight: u64,
    /// The weight is a time, in ns.
    pub are_times: bool,
    /// Wall time in which they were taken, ns.
    pub span_ns: u64,
    /// The sum of the wall times of all sessions, ns; more than `span_ns` if sessions overlap.
    pub ran_ns: u64,
    /// Share of the weight of its events that was lost with samples.
    pub lost_share: f64,
    /// Ranges of the file that are damaged.
    pub damaged: u64,
    /// What the filters keep, for people.
    pub filter: Option<String>,
    /// The recording is a whole run of a command, or several.
    pub is_whole_run: bool,
    /// The number of runs: its sessions.
    pub runs: u64,
    /// CPU time by the kernel's account, ns, if it covers everything that the filters keep.
    pub exact_ns: Option<u64>,
}

/// Describes a recording.
pub fn facts(report: &Report<'_>) -> RecordingFacts {
    let loaded = report.loaded;
    let (tables, filter) = (&loaded.tables, &loaded.filter);
    let whole = report.profile.whole();
    let lost = loaded.lost();
    // `cut` notes what it cut off. Whether the recorder sees the end of the command or of its processes first depends on the
    // machine.
    let ran = tables.parts.iter().all(|part| {
        part.receipt.as_ref().is_some_and(|receipt| {
            [EndReason::COMMAND, EndReason::TARGETS_GONE].contains(&receipt.end_reason) && is_whole(receipt)
        })
    });
    let is_command = tables.parts.iter().all(|part| part.session.target == TargetKind::COMMAND);
    let spans = Spans::new(tables, filter);
    RecordingFacts {
        path: loaded.path.to_owned(),
        hosts: tables.parts.hosts().to_vec(),
        samples: whole.samples,
        weight: whole.weight,
        are_times: report.profile.measure.is_time(),
        span_ns: spans.together_ns(),
        ran_ns: spans.sum_ns(),
        lost_share: lost.share_of_weight,
        filter: report.filtered.clone(),
        damaged: tables.damage.len() as u64,
        is_whole_run: ran
            && is_command
            && spans.pauses().is_empty()
            && filter.from.is_none()
            && filter.to.is_none(),
        runs: tables.parts.iter().count() as u64,
        // With lost samples, rows of the account may be lost, too. An account that lacks half of the sampled time is unusable.
        exact_ns: if lost.samples == 0 && report.profile.measure.is_cpu_time {
            account::kernel_ns(loaded).ok()
        } else {
            None
        }
        .filter(|ns| ns.saturating_mul(2) >= whole.weight),
    }
}
