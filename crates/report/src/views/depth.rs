//! `depth`: how deep stacks are, and what recurs in them.

mod groups;
mod rows;
mod text;

use serde::Serialize;

use crate::analysis::depths::{Depths, entries, recursing};
use crate::cli::{self, Owner};
use crate::profile::pipeline::Report;
use crate::views::owners::Owners;
use rows::{GroupRow, InterpreterRow, RecursionRow};

/// The document.
#[derive(Debug, Serialize)]
pub struct Depth {
    schema: &'static str,
    by: &'static str,
    samples: u64,
    filter: Option<String>,
    /// Groups there are; `groups` may hold fewer.
    group_count: u64,
    groups: Vec<GroupRow>,
    recursion_count: u64,
    recursion: Vec<RecursionRow>,
    interpreter_count: u64,
    interpreters: Vec<InterpreterRow>,
}

impl Depth {
    /// Measures the stacks of a profile whose events are apart.
    pub fn new(report: &Report<'_>, options: &cli::Depth) -> Self {
        let profile = &report.profile;
        let depths = Depths::new(profile);
        let owners = Owners::new(report, options.by);
        let samples = profile.whole().samples;
        let most = if options.rows > 0 { options.rows } else { usize::MAX };
        let groups = groups::groups(profile, &depths, &owners);
        let found = recursing(profile, &depths);
        let interpreters = groups::interpreters(profile, &depths, &owners, &entries(profile));
        Self {
            schema: "icecore.depth/1",
            by: if options.by == Owner::Process { "process" } else { "thread" },
            samples,
            filter: report.filtered.clone(),
            group_count: groups.len() as u64,
            groups: groups.iter().take(most).map(|group| GroupRow::new(report, &owners, group)).collect(),
            recursion_count: found.len() as u64,
            recursion: found.iter().take(most).map(|row| RecursionRow::new(profile, row, samples)).collect(),
            interpreter_count: interpreters.len() as u64,
            interpreters: interpreters
                .iter()
                .take(most)
                .map(|row| InterpreterRow::new(&owners, row))
                .collect(),
        }
    }
}
