//! The most memory that processes had.

use std::cmp::Reverse;
use std::collections::HashSet;

use icecore_format::records::Counter;
use serde::Serialize;

use icecore_analysis::counters::{Counted, Of, counted};
use icecore_profile::named::pipeline::Report;
use icecore_text::quantity::bytes;

/// The number of processes that are listed.
const PROCESSES: usize = 5;
/// The number of them that the page shows.
const SHOWN: usize = 3;

/// The most memory of a process.
#[derive(Debug, Serialize)]
pub(super) struct Peak {
    /// Present if there are several hosts.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    tgid: u32,
    comm: String,
    bytes: u64,
    /// `mark`: the kernel's high-water mark, since the process began, also before the recording. `reading`: the largest reading; between
    /// two readings the process may have had more.
    source: &'static str,
}

/// Ranks the processes that the filters admit; empty if the recording has no counters.
pub(super) fn peaks(report: &Report<'_>) -> Vec<Peak> {
    let loaded = report.loaded;
    let parts = &loaded.tables.parts;
    let peak = |counted: &Counted| {
        let Of::Process { tgid, comm } = &counted.of else { return None };
        let mark = counted.most(Counter::MEMORY_PEAK);
        let bytes = mark.max(counted.most(Counter::MEMORY))?;
        Some(Peak {
            host: parts.host_among(counted.part).map(str::to_owned),
            tgid: *tgid,
            comm: comm.clone(),
            bytes,
            source: if mark == Some(bytes) { "mark" } else { "reading" },
        })
    };
    let mut peaks: Vec<Peak> = counted(&loaded.selection()).iter().filter_map(peak).collect();
    peaks.retain(|peak| peak.bytes > 0);
    peaks.sort_by_key(|peak| (Reverse(peak.bytes), peak.tgid));
    // Behind a gap, nobody knows whether it is the same process: as in other views, one number and one name are one.
    let mut known = HashSet::new();
    peaks.retain(|peak| known.insert((peak.host.clone(), peak.tgid, peak.comm.clone())));
    peaks.truncate(PROCESSES);
    peaks
}

/// Says what the first processes had, and how that is known.
pub(super) fn text(peaks: &[Peak]) -> Option<String> {
    let shown = &peaks[..peaks.len().min(SHOWN)];
    let each = |peak: &Peak| {
        let host = peak.host.as_ref().map(|host| format!("{host}:")).unwrap_or_default();
        let reading = if peak.source == "reading" { " (a reading)" } else { "" };
        format!("{} {host}{} {}{reading}", bytes(peak.bytes), peak.comm, peak.tgid)
    };
    let shown: Vec<String> = shown.iter().map(each).collect();
    let has_marks = peaks.iter().take(SHOWN).any(|peak| peak.source == "mark");
    let how = if has_marks { " · peak resident memory" } else { "" };
    (!shown.is_empty()).then(|| format!("{}{how}", shown.join(", ")))
}
