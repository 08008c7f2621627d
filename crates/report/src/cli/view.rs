//! Commands that show samples.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::Source;
use crate::profile::tree::Root;

/// `summary`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report summary [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report summary demo.icecore
  icecore-report demo.icecore --comm cc1        the same, of one program
  icecore-report demo.icecore --json | jq .verdict

The verdict: misleading if more than 10% of the samples were lost, or fewer than 50% of the frames \
have a name; usable if more than 1% were lost, or fewer than 90% of the frames have a name, or of the \
user stacks reach a root, or if the file is damaged; else good.")]
pub struct Summary {
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// `top`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report top [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report top demo.icecore                         functions by self time
  icecore-report top demo.icecore --sort total -n 50      with everything they call
  icecore-report top demo.icecore --by line --comm cc1    source lines of one program
  icecore-report top demo.icecore --by process
  icecore-report top demo.icecore --by cgroup             services and containers
  icecore-report top demo.icecore --by inlined            the compiler's inlining undone

Self is the time in the function itself, total the time in it and in what it calls; a function that \
occurs several times in one stack is counted once. What was inlined into a function counts for it, \
as in perf; --by inlined shows every inlined function as a row of its own.")]
pub struct Top {
    /// What a row is: function, inlined, line, image, process, thread, cgroup or host
    #[arg(long, value_name = "WHAT", default_value = "function", hide_possible_values = true)]
    pub by: By,
    /// What the rows are ordered by: self or total
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
    /// How many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// What a row of `top` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum By {
    /// Functions of an image; what was inlined into one counts for it.
    Function,
    /// Functions as they are written: inlined ones apart.
    Inlined,
    /// Source lines.
    Line,
    /// Executable files.
    Image,
    /// Processes.
    Process,
    /// Threads.
    Thread,
    /// Control groups.
    Cgroup,
    /// Hosts.
    Host,
}

/// What the rows of `top` are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function itself.
    #[value(name = "self")]
    Own,
    /// Time in the function and in what it calls.
    Total,
}

/// `tree`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report tree [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report tree demo.icecore                            from main down to the leaves
  icecore-report tree demo.icecore --callers                  from the hottest leaves up to main
  icecore-report tree demo.icecore --callers --focus '^memcpy$' --min-percent 0.1")]
pub struct Tree {
    /// Begin at the leaves: who called them?
    #[arg(long)]
    pub callers: bool,
    /// Begin at the root: what did it call? (the default)
    #[arg(long, conflicts_with = "callers")]
    pub callees: bool,
    /// Leave out branches below this share of the total
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = percent)]
    pub min_percent: f64,
    /// Cut branches at this depth
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub max_depth: u32,
    /// What the callees begin with: the name of the process, the thread, or none
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub root: Root,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// `flame`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report flame [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report flame demo.icecore                       writes demo.svg
  icecore-report flame demo.icecore -o - --comm cc1 > cc1.svg
  icecore-report flame demo.icecore --from 2 --to 3.5     one and a half seconds of it

User frames are red, kernel frames orange, inlined ones aqua, unnamed ones grey. Click zooms, \
Ctrl-F searches.")]
pub struct Flame {
    /// Where to write the SVG; `-`: stdout [default: the recording's name with .svg]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// What widths mean: samples or period (their weight)
    #[arg(long, value_name = "WHAT", default_value = "samples", hide_possible_values = true)]
    pub weight: Weight,
    /// What the stacks begin with: the name of the process, the thread, or none
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub root: Root,
    /// Title of the graph
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// `folded`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report folded [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report folded demo.icecore > demo.folded
  icecore-report folded demo.icecore | inferno-flamegraph > demo.svg

A line is `process;outermost;…;innermost count`. Kernel frames end with _[k], inlined ones with _[i].")]
pub struct Folded {
    /// What is counted: samples or period (their weight)
    #[arg(long, value_name = "WHAT", default_value = "samples", hide_possible_values = true)]
    pub weight: Weight,
    /// What the stacks begin with: the name of the process, the thread, or none
    #[arg(long, value_name = "WHAT", default_value = "process", hide_possible_values = true)]
    pub root: Root,
    /// Leave out the marks behind names of kernel frames and of inlined ones
    #[arg(long)]
    pub no_annotations: bool,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// What a stack counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Weight {
    /// One per sample.
    Samples,
    /// The period of the sample, in the event's unit.
    Period,
}

words!(Root { Process: "process", Thread: "thread", None: "none" });

/// `samples`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report samples [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report samples demo.icecore --pid 4711 --to 100ms
  icecore-report samples demo.icecore --json | jq -r .comm | sort | uniq -c

Times are seconds after the start of the session. Frames are listed leaf first.")]
pub struct Samples {
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// `health`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report health [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report health demo.icecore
  icecore-report health demo.icecore --strict || exit 1    in a script: only if the data is good
  icecore-report health demo.icecore --json | jq -r '.advice[]'

The verdict is that of summary, by the same thresholds. A stack is rooted if it was unwound to the outermost \
frame, if the walk along frame pointers ended there, or if it holds the entry point of a program or thread.")]
pub struct Health {
    /// Exit with 1 unless the verdict is good
    #[arg(long)]
    pub strict: bool,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

/// `missing`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report missing [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report missing demo.icecore
  icecore-report missing demo.icecore --symbols ~/binaries    what is still missing with these
  icecore-report missing demo.icecore --json | jq -r '.names[].build_id'

First the images without which frames have no name, by the share of the samples that have such a frame; then \
those that have names, and whose debug files would add source lines and inlined functions.")]
pub struct Missing {
    /// How many images of each kind; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 10)]
    pub rows: usize,
    /// List every path that was tried
    #[arg(short, long)]
    pub paths: bool,
    /// The recording, and which samples of it.
    #[command(flatten)]
    pub source: Source,
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("must lie between 0 and 100".to_owned()),
    }
}
