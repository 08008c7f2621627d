//! Commands that tell how deep, and when.

use clap::{Args, ValueEnum};

use super::Source;

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
