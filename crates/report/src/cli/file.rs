//! Commands about the file itself.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::lookup::LOOKUP;
use super::{Lookup, Which};

/// `info`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report info [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report info demo.icecore
  icecore-report info demo.icecore --blocks
  icecore-report info demo.icecore --sizes
  icecore-report info demo.icecore --symbol-source

Without options only headers, sessions, receipts and losses are read, so this takes milliseconds whatever the size. \
Use verify to check the rest of the file.")]
// Files of images are looked for only if their sources are to be shown.
#[command(group = ArgGroup::new("looked_for").args(LOOKUP).multiple(true).requires("symbol_source"))]
pub struct Info {
    /// The recording; `-`: stdin
    pub file: PathBuf,
    /// List every block
    #[arg(long)]
    pub blocks: bool,
    /// Show where the bytes go, by kind of block and column; this reads everything
    #[arg(long, conflicts_with = "blocks")]
    pub sizes: bool,
    /// Show where the names of each image come from: the recording, or files that are found now
    #[arg(long, conflicts_with_all = ["blocks", "sizes"])]
    pub symbol_source: bool,
    /// Where images and debug files are found.
    #[command(flatten)]
    pub lookup: Lookup,
}

/// `verify`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report verify [OPTIONS] <FILE>")]
#[command(after_help = "\
Examples:
  icecore-report verify demo.icecore && echo whole
  icecore-report verify demo.icecore --json | jq '.problems[0]'

verify checks headers, index and tail, the checksum and the rows of every block, and their times. It also checks that whatever a \
block refers to is stored before it. Blocks that a newer version wrote are reported, but are not errors.

Exit codes: 0 all is well; 1 something is wrong, or the recording was not closed; 2 the file cannot be opened.")]
pub struct Verify {
    /// The recording; `-`: stdin
    pub file: PathBuf,
}

/// `repair`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report repair [OPTIONS] <FILE> -o <OUT>")]
#[command(after_help = "\
Examples:
  icecore-report repair torn.icecore -o whole.icecore
  icecore-report summary whole.icecore                    what was lost is counted there

Every whole block is copied as it is, and the new file is closed. Samples of blocks that cannot be read are noted \
in it as lost, with the cause `damaged`; a session without a receipt gets one that says `repaired`. Of a file \
that needs no repair OUT is a copy. FILE is never changed.")]
pub struct Repair {
    /// The recording; `-`: stdin
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
}

/// `merge`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report merge [OPTIONS] <FILE>... -o <OUT>")]
#[command(after_help = "\
Examples:
  icecore-report merge web1.icecore web2.icecore db.icecore -o fleet.icecore
  icecore-report top fleet.icecore --by host
  icecore-report flame fleet.icecore --host web1

Nothing is decoded or lost: every block is copied, and each recording stays a session of its own, with its \
host, its processes, its kernel and its clock. Times count from the earliest start. Files that were merged \
can be merged again. Of a damaged file the rest is merged, and what is missing is noted in it as lost.")]
pub struct Merge {
    /// The recordings; `-`: stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
}

/// Where a recording is written.
#[derive(Debug, Args)]
pub struct Output {
    /// The new recording
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Replace OUT if it exists
    #[arg(long)]
    pub force: bool,
}

/// `cut`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report cut [OPTIONS] <FILE> -o <OUT>")]
#[command(after_help = "\
Examples:
  icecore-report cut day.icecore -o incident.icecore --from 600 --to 660
  icecore-report cut build.icecore -o cc1.icecore --comm cc1
  icecore-report cut fleet.icecore -o web1.icecore --host web1

A report on the new file equals one on the old file with these filters, and times stay the same. With the \
samples go the names, images, mappings and stacks that only others needed; sessions, losses and receipts stay. \
What was cut is noted in the session.")]
pub struct Cut {
    /// The recording; `-`: stdin
    #[arg(help_heading = "Arguments")]
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
    /// What is kept.
    #[command(flatten)]
    pub which: Which,
}

/// `pack`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report pack [OPTIONS] <FILE> -o <OUT>")]
#[command(after_help = "\
Examples:
  icecore-report pack build.icecore -o build-packed.icecore
  icecore-report pack old.icecore -o packed.icecore --debug-dir symbols

OUT is the whole recording, and the name, inlined functions and source lines of every place that its stacks hold. It \
needs no image and no debug file any more, wherever and whenever it is read. What an earlier pack has found stays, \
wherever less is found now.")]
pub struct Pack {
    /// The recording; `-`: stdin
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
    /// Where images and debug files are found.
    #[command(flatten)]
    pub lookup: Lookup,
}

/// `compact`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report compact [OPTIONS] <FILE> -o <OUT>")]
#[command(after_help = "\
Examples:
  icecore-report compact build.icecore -o build-compact.icecore
  icecore-report compact prod.icecore -o share.icecore --redact args,paths,comm,labels,host

Stacks are unwound here and now, with the unwind tables that the recording has or that are found here. Then registers \
and stack memory are left out: no report needs them any more, and every report on OUT equals one on FILE.

What is redacted has pseudonyms in OUT: equal texts have equal ones in every recording, so that comparisons hold. \
Whoever guesses a text can check the guess, unless --redact-key is given. Names of functions stay; names that come \
from files are found by build-id, or are in OUT if FILE was packed before.")]
pub struct Compact {
    /// The recording; `-`: stdin
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
    /// Replace texts by pseudonyms: args, paths, comm (names of threads and processes), labels, host
    #[arg(long, value_name = "WHAT", value_delimiter = ',', hide_possible_values = true)]
    pub redact: Vec<Redact>,
    /// Make the pseudonyms with the content of this file, which nobody else knows
    #[arg(long, value_name = "FILE", requires = "redact")]
    pub redact_key: Option<PathBuf>,
    /// Where images and debug files are found.
    #[command(flatten)]
    pub lookup: Lookup,
}

/// What nobody is to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Redact {
    /// Arguments of the command that was recorded, and of the recorder.
    Args,
    /// Paths of images, cgroups and source files.
    Paths,
    /// Names of threads and processes.
    Comm,
    /// Values of labels.
    Labels,
    /// The name of the host.
    Host,
}

impl Redact {
    /// As it is typed.
    pub fn name(self) -> &'static str {
        match self {
            Self::Args => "args",
            Self::Paths => "paths",
            Self::Comm => "comm",
            Self::Labels => "labels",
            Self::Host => "host",
        }
    }
}

/// `import`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report import [OPTIONS] <FILE> -o <OUT>")]
#[command(after_help = "\
Examples:
  perf record -g --buildid-mmap -- make && icecore-report import perf.data -o build.icecore
  perf record --call-graph dwarf,65528 --buildid-mmap -- make
  icecore-report import perf.data -o build.icecore
  ssh HOST perf record -a -g --buildid-mmap -o - -- sleep 10 | icecore-report import - -o host.icecore

Samples, call chains, mappings, build-ids and names of tasks become a recording. Of `--call-graph dwarf`, registers and \
stacks are kept as a recorder keeps them, addresses alone, and every report unwinds them. perf.data has no names of \
kernel functions. A truncated file is imported up to where it ends; the command reports what is missing, and what a recording cannot hold.

With --buildid-mmap perf notes the build-ids of all files; without it, of those alone that a sample's leaf is in. Other \
files are recognised only where the recording was made, as long as they are unchanged.")]
pub struct Import {
    /// The perf.data file; `-`: stdin
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
}

/// `cache`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report cache [--clear]")]
#[command(after_help = "\
Examples:
  icecore-report cache                   where it is, how many images, how large
  icecore-report cache --clear
  icecore-report top demo.icecore --no-cache

A report keeps what it finds out about the code of an image, so that the next report need not search again. \
It is kept in $XDG_CACHE_HOME/icecore, or ~/.cache/icecore, by build-id (else by path, size and time), as long as the \
files that told it stay as they are, or are gone. A broken file there is ignored and written anew.")]
pub struct Cache {
    /// Say what is there (the default)
    #[arg(long)]
    pub stats: bool,
    /// Remove it
    #[arg(long, conflicts_with = "stats")]
    pub clear: bool,
}
