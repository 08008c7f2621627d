//! Commands that tell how deep, and when.

use clap::{Args, ValueEnum};

use super::{Sort, Source};
use crate::recording::filter::Moment;

/// `depth`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report depth [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report depth demo.icecore
  icecore-report depth demo.icecore --by thread --user
  icecore-report depth demo.icecore --json | jq '.groups[0].max'     like max(len(ustack)) of bpftrace

A depth is a number of frames as the machine has them: inlined functions have none. A stack that was cut is \
deeper than it seems: a figure that this may change says (cut), and is a least value. INCOMPLETE is the share \
of stacks that end elsewhere than at a root, for other reasons: these are deeper, too. Recursion is told of \
functions that call themselves, and once of functions that call each other.")]
pub struct Depth {
    /// What a row is: process or thread (with its event, and the user or the kernel side)
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub by: Owner,
    /// How many rows of each table; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// Whose stacks are taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Owner {
    /// Those of a process.
    Process,
    /// Those of a thread.
    Thread,
}

/// `timeline`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report timeline [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report timeline demo.icecore
  icecore-report timeline demo.icecore --by function --comm cc1 --from 10 --to 20
  icecore-report timeline demo.icecore --heatmap          tenths of seconds: what comes in bursts, or every second
  icecore-report timeline demo.icecore --resolution 100ms --csv > demo.csv

Changes are listed if chance makes any in at most one of twenty recordings in which nothing changes. Shares \
are those of what was spent at that time; a level lasts at least six of the slices in which changes are looked for. They are looked for in the 100 heaviest \
rows of each kind, shown or not; processes and threads of one name count as one, as in diff.")]
pub struct Timeline {
    /// What a row is: process (with the heaviest functions), thread, function or image
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub by: TimelineBy,
    /// What of functions and images is shown: self or total
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
    /// How many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// Divide the time into so many parts [default: as many as fit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub buckets: Option<u32>,
    /// Divide the time into parts of this length: 100ms, 1s (longer if these were more than 262,144); changes are looked for in
    /// these
    #[arg(long, value_name = "TIME", value_parser = length, conflicts_with = "buckets")]
    pub resolution: Option<Moment>,
    /// A map of seconds from left to right, and of the time within each from bottom to top
    #[arg(long, conflicts_with_all = ["buckets", "resolution"])]
    pub heatmap: bool,
    /// Print comma-separated values instead of text
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

fn length(text: &str) -> Result<Moment, String> {
    let length: Moment = text.parse()?;
    (length.ns > 0).then_some(length).ok_or_else(|| "must be longer than nothing".to_owned())
}

/// What a row of `timeline` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TimelineBy {
    /// Processes, and behind them the heaviest functions.
    Process,
    /// Threads.
    Thread,
    /// Functions of an image; what was inlined into one counts for it.
    Function,
    /// Executable files.
    Image,
}

impl TimelineBy {
    /// The name, as it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
            Self::Function => "function",
            Self::Image => "image",
        }
    }
}
