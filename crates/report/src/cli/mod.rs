//! What was typed, and what is said if it makes no sense. The only room that knows clap.

/// Names the values of an enum of another room as they are typed.
macro_rules! words {
    ($type:ty { $($value:ident: $word:literal),+ $(,)? }) => {
        impl clap::ValueEnum for $type {
            fn value_variants<'a>() -> &'a [Self] {
                &[$(Self::$value),+]
            }

            fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
                Some(clap::builder::PossibleValue::new(match self {
                    $(Self::$value => $word),+
                }))
            }
        }
    };
}

mod diff;
mod file;
mod lookup;
mod source;
mod time;
mod trend;
pub mod usage;
mod view;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub use diff::{Condition, Diff, DiffUnit, Measure, Stretch};
pub use file::{Cache, Compact, Cut, Import, Info, Merge, Output, Pack, Redact, Repair, Verify};
pub use lookup::Lookup;
pub use source::{Select, Source, Which};
pub use time::{Depth, Owner, Timeline, TimelineBy};
pub use trend::{Order, Trend};
pub use view::{By, Flame, Folded, Health, Missing, Samples, Sort, Summary, Top, Tree, Weight};

/// Reads icecore recordings, on any machine: where time went, and how good the data is.
#[derive(Debug, Parser)]
#[command(name = "icecore-report", version, subcommand_negates_reqs = true, after_help = EXAMPLES)]
#[command(
    override_usage = "icecore-report [OPTIONS] <FILE>\n       icecore-report <COMMAND> [OPTIONS] <FILE>"
)]
pub struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The view.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// A recording without a command: its summary.
    #[command(flatten)]
    pub source: Option<Source>,
}

const EXAMPLES: &str = "\
Examples:
  icecore-report demo.icecore                             the first screen: what, how good, where
  icecore-report top demo.icecore --comm rustc            the hottest functions of rustc
  icecore-report tree demo.icecore --callers --focus memcpy
  icecore-report flame demo.icecore -o demo.svg           a flame graph for the browser
  icecore-report top demo.icecore --json | jq '.rows[0]'
  ssh HOST icecore-record -a -d 10 -o - | icecore-report -

Exit codes: 0 done, 1 what was to be checked is not well (verify, health --strict, diff --fail-on), 2 failed. A reader that goes away (| head) is no failure.";

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Print JSON instead of text; docs/JSON.md has the keys
    #[arg(long, global = true, display_order = 100)]
    pub json: bool,
    /// Worker threads; the output does not depend on it [default: one per CPU]
    #[arg(long, global = true, display_order = 101, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub threads: Option<u16>,
    /// Color the text: auto, always or never
    #[arg(
        long,
        global = true,
        display_order = 101,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: When,
    /// Show no progress
    #[arg(short, long, global = true, display_order = 102)]
    pub quiet: bool,
}

/// When to color.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// If the output is a terminal.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// The views.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What this is, how good it is, where time went
    Summary(Summary),
    /// The hottest functions, lines, images, processes, threads or cgroups
    Top(Top),
    /// Who calls whom, as an indented tree
    Tree(Tree),
    /// A flame graph as SVG
    Flame(Flame),
    /// Folded stacks, one per line, for flame graph tools
    Folded(Folded),
    /// Every sample with its stack, like perf script
    Samples(Samples),
    /// How deep stacks are, and what recurs in them
    Depth(Depth),
    /// What changed between two recordings, and whether that can be chance
    Diff(Diff),
    /// What was spent when, and when that changed
    Timeline(Timeline),
    /// Shares of functions over many recordings, and when they changed
    Trend(Trend),
    /// How good the data is, and what makes it better
    Health(Health),
    /// Which files would name more, and how to get them
    Missing(Missing),
    /// What is in the file: session, blocks, cost, damage
    Info(Info),
    /// Check everything in the file
    Verify(Verify),
    /// Make a whole recording of what is whole in a damaged one
    Repair(Repair),
    /// Several recordings, of one or of many hosts, in one file
    Merge(Merge),
    /// A recording with only the samples that the filters keep
    Cut(Cut),
    /// The same recording with the names, inlined functions and source lines that are found here
    Pack(Pack),
    /// The same recording with its stacks unwound, without registers and stack memory
    Compact(Compact),
    /// A recording made of a file of `perf record`
    Import(Import),
    /// What is kept of earlier reports, so that the next one is fast
    Cache(Cache),
}

#[cfg(test)]
mod tests;
