//! What a recording is, as far as comparing needs to know.

use std::path::PathBuf;

use crate::pipeline::Report;
use crate::spans::Spans;
use crate::views::summary::{lost, ratio};

/// One recording of a side.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The file.
    pub path: PathBuf,
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Samples that the filters keep.
    pub samples: u64,
    /// Their weight, in the unit of the event.
    pub weight: u64,
    /// Wall time in which they were taken, ns.
    pub span_ns: u64,
    /// Share of all samples that were lost while recording.
    pub lost_share: f64,
    /// Stretches of the file that could not be used.
    pub damaged: u64,
    /// What the filters keep, for people.
    pub filter: Option<String>,
    /// It is a whole run of a command.
    pub is_whole_run: bool,
}

/// Describes a recording.
pub fn facts(report: &Report<'_>) -> Facts {
    let loaded = report.loaded;
    let (tables, filter) = (&loaded.tables, &loaded.filter);
    let whole = report.profile.whole();
    let in_file: u64 = tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum();
    let lost = lost(tables);
    // `cut` adds what it cut off.
    let ran =
        tables.parts.iter().all(|part| part.receipt.as_ref().is_some_and(|it| it.ended_by == ["command"]));
    let is_command = tables.parts.iter().all(|part| part.session.target == "command");
    Facts {
        path: loaded.path.to_owned(),
        hosts: tables.parts.hosts().to_vec(),
        samples: whole.samples,
        weight: whole.weight,
        span_ns: Spans::new(tables, filter).together_ns(),
        lost_share: ratio(lost as f64, in_file.saturating_add(lost) as f64),
        filter: report.filtered.clone(),
        damaged: tables.damage.len() as u64,
        is_whole_run: ran && is_command && filter.from.is_none() && filter.to.is_none(),
    }
}
