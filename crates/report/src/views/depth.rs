//! `depth`: how deep stacks are, and what recurs in them.

mod groups;
mod rows;
mod text;

use serde::Serialize;

use super::{Needs, Result, Screen, Shown, View};
use crate::cli::{Owner, Select};
use crate::views::owners::Owners;
use icecore_analysis::depths::{Depths, entries};
use icecore_profile::named::pipeline::Report;
use icecore_profile::stacks::hits::Apart;
use rows::{GroupRow, InterpreterRow, RecursionRow};

/// The arguments of `depth`.
#[derive(Debug, clap::Args)]
#[command(override_usage = "icecore-report depth [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report depth demo.icecore
  icecore-report depth demo.icecore --by thread --user
  icecore-report depth demo.icecore --event 'uprobe:*'    each probe by itself
  icecore-report depth demo.icecore --json | jq '.groups[0].max'   max(len(ustack))

A depth is a number of frames as the machine has them: inlined functions have none. A stack that was cut is \
deeper than it seems: a figure that this affects is marked (cut), and is a least value. INCOMPLETE is the share \
of stacks that end elsewhere than at a root, for other reasons: these are deeper, too. Recursion is listed \
for functions that call themselves, and once for functions that call each other.")]
pub struct Args {
    /// Show rows of this kind: process or thread (with its event, and the user or the kernel side)
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub by: Owner,
    /// Show this many rows of each table; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
}

impl View for Args {
    fn needs(&self, _: &Select, _: u32) -> Needs {
        let threads = self.by == Owner::Thread;
        Needs { apart: Apart { threads, events: true, ..Apart::default() }, ..Needs::default() }
    }

    fn show(&self, shown: &Shown<'_>, screen: &mut Screen<'_>) -> Result<bool> {
        let depth = Depth::new(shown.report, self);
        screen.emit(&depth, |page| depth.text(shown.report, page))?;
        Ok(true)
    }
}

/// The document.
#[derive(Debug, Serialize)]
pub struct Depth {
    schema: &'static str,
    by: &'static str,
    samples: u64,
    filter: Option<String>,
    /// The number of all groups; `groups` may have fewer.
    group_count: u64,
    groups: Vec<GroupRow>,
    recursion_count: u64,
    recursion: Vec<RecursionRow>,
    interpreter_count: u64,
    interpreters: Vec<InterpreterRow>,
}

impl Depth {
    /// Measures the stacks of a profile whose events are counted apart.
    pub fn new(report: &Report<'_>, options: &Args) -> Self {
        let profile = &report.profile;
        let depths = Depths::new(profile);
        let owners = Owners::new(report, options.by);
        let samples = profile.whole().samples;
        let most = if options.rows > 0 { options.rows } else { usize::MAX };
        let groups = groups::groups(profile, &depths, &owners);
        let found = groups::recursion(profile, &depths);
        let interpreters = groups::interpreters(profile, &depths, &owners, &entries(profile));
        Self {
            schema: "icecore.depth/1",
            by: if options.by == Owner::Process { "process" } else { "thread" },
            samples,
            filter: report.filtered.clone(),
            group_count: groups.len() as u64,
            groups: groups.iter().take(most).map(|group| GroupRow::new(report, &owners, group)).collect(),
            recursion_count: found.len() as u64,
            recursion: found.iter().take(most).map(|row| RecursionRow::new(report, row)).collect(),
            interpreter_count: interpreters.len() as u64,
            interpreters: interpreters
                .iter()
                .take(most)
                .map(|row| InterpreterRow::new(&owners, row))
                .collect(),
        }
    }
}
