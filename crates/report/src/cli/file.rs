//! The arguments of commands about the file itself.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use icecore_edit::compact::Redact;

use super::lookup::LOOKUP;
use super::{Lookup, Which, folder};

/// `info`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report info [OPTIONS] [FILE]...")]
#[command(after_help = "\
Examples:
  icecore-report info demo.icecore
  icecore-report info demo.icecore --blocks
  icecore-report info demo.icecore --sizes
  icecore-report info demo.icecore --symbol-source

Without options only headers, sessions, receipts and losses are read, so this takes milliseconds whatever the size. \
Use verify to check the rest of the file.")]
// The search for files of images is needed only to show their sources.
#[command(group = ArgGroup::new("looked_for").args(LOOKUP).multiple(true).requires("symbol_source"))]
pub struct Info {
    /// The recording; several are shown as one, of a folder the newest; `-`: stdin [default: the newest *.icecore in this folder]
    #[arg(value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// List every block
    #[arg(long)]
    pub blocks: bool,
    /// Show the bytes of each kind of block and column; this reads everything
    #[arg(long, conflicts_with = "blocks")]
    pub sizes: bool,
    /// Show the sources of each image's names: the recording, or files that exist now
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
  icecore-report summary whole.icecore                    counts what was lost

repair copies every whole block as it is, and closes the new file. It counts samples of blocks that it cannot read as \
lost, with the cause `damaged`, and gives a session without a receipt one that says `repaired`. If FILE needs no \
repair, OUT is a copy. repair never changes FILE.")]
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

merge copies every block and loses nothing: each recording stays a session of its own, with its host, its processes, \
its kernel and its clock. Times count from the earliest start. Merged files can be merged again. If a file is damaged, \
merge takes the rest, and counts what is missing as lost.")]
pub struct Merge {
    /// The recordings; `-`: stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
}

/// The recording that a command writes.
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

A report on the new file equals one on the old file with these filters, and times stay the same. cut also removes the \
names, images, mappings and stacks that only other samples needed. It keeps sessions, losses and receipts, and notes \
in the session what it cut.")]
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
  icecore-report pack build.icecore -o with-source.icecore --source --source-dir ~/src/app
  icecore-report pack build.icecore -o archive.icecore --source --code

OUT is the whole recording, with the name, inlined functions and source lines of every location in its stacks. Reports \
on OUT need no image and no debug file, wherever and whenever they run. If an earlier pack has found more about a \
location, its answer stays.

--source also stores the whole source files of these lines, up to 16 MiB each and 128 MiB together, for annotate. It stores only files that an MD5 in the debug information proves to be what was compiled, and files below a --source-dir, because a program can name any file of this machine as its source. It lists those that it leaves out, and those below a --source-dir that are not proven.

--code also stores the code of every function in its stacks, with the source lines, inlined functions and called functions of its \
instructions: annotate, html and serve show the same instructions where no file is. A function takes at most 1 MiB, and all of \
them 64 MiB before compression; pack lists what it leaves out, by reason. Code of the kernel and of JIT compilers is never stored.")]
pub struct Pack {
    /// The recording; `-`: stdin
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
    /// Also store the source files of the lines that samples hit
    #[arg(long)]
    pub source: bool,
    /// Also store the code of the functions that samples hit
    #[arg(long)]
    pub code: bool,
    /// Look for source files below this directory first: by the whole path, then without its leading folders; may be repeated
    #[arg(long, value_name = "DIR", value_parser = folder, requires = "source")]
    pub source_dir: Vec<PathBuf>,
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

compact unwinds the stacks now, with the unwind tables in the recording or in files on this machine. Then it removes \
registers and stack memory: no report needs them any more, and every report on OUT equals one on FILE.

--redact replaces texts by pseudonyms: equal texts have equal pseudonyms in every recording, so that comparisons hold. \
Whoever guesses a text can check the guess, unless you give --redact-key. Names of functions stay; reports find names \
from files by build-id, or in OUT if FILE was packed before.")]
pub struct Compact {
    /// The recording; `-`: stdin
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
    /// What is replaced by pseudonyms.
    #[command(flatten)]
    pub redacted: Redacted,
    /// Where images and debug files are found.
    #[command(flatten)]
    pub lookup: Lookup,
}

/// Which texts are replaced by pseudonyms.
#[derive(Debug, Default, Args)]
pub struct Redacted {
    /// Replace texts by pseudonyms: args, paths, comm (names of threads and processes), labels, host
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = redact(), hide_possible_values = true)]
    pub redact: Vec<Redact>,
    /// Derive the pseudonyms from the content of this file, which must stay secret
    #[arg(long, value_name = "FILE", requires = "redact")]
    pub redact_key: Option<PathBuf>,
}

words!(redact: Redact { Args: "args", Paths: "paths", Comm: "comm", Labels: "labels", Host: "host" });

/// `import`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report import [OPTIONS] <FILE> -o <OUT>")]
#[command(after_help = "\
Examples:
  perf record -g --buildid-mmap -- make && icecore-report import perf.data -o build.icecore
  perf record --call-graph dwarf,65528 --buildid-mmap -- make
  icecore-report import perf.data -o build.icecore
  ssh HOST perf record -a -g --buildid-mmap -o - sleep 10 | icecore-report import - -o host.icecore
  icecore-report import perf.data -o build.icecore --kallsyms ~/.debug    of perf archive
  curl -s HOST:6060/debug/pprof/profile | icecore-report import - -o go.icecore
  icecore-report import java.collapsed -o java.icecore    folded stacks
  icecore-report import profile.json.gz -o page.icecore   of the Firefox Profiler, or samply

FILE is a perf.data file, pprof, folded stacks, a processed profile of the Firefox Profiler, or what simpleperf report-sample \
--protobuf writes; its content says which. All but perf.data have names, which a report believes, and may be compressed with gzip. \
docs/IMPORT.md says what each format brings.

Of perf.data import makes a recording of samples, call chains, mappings, build-ids and names of tasks. From `--call-graph dwarf` it \
keeps registers and stacks as the recorder does, only their addresses, and every report unwinds them. perf.data has no \
names of kernel functions. If the file is truncated, import takes it up to its end. It reports what is missing, and \
what a recording cannot hold.

With --buildid-mmap perf records the build-ids of all files; without it, only of files that contain the leaf of a \
sample. import recognizes other files only on the recorded machine, and only if they have not changed; of others nobody knows whether \
they ran, and views take them only with --trust PATH.")]
pub struct Import {
    /// The file of another tool, or the folder of perf record --threads; `-`: stdin
    pub file: PathBuf,
    /// Where to write
    #[command(flatten)]
    pub output: Output,
    /// Name functions of the kernel by this copy of /proc/kallsyms of the recorded machine, or by this folder that perf archive packed
    #[arg(long, value_name = "PATH")]
    pub kallsyms: Option<PathBuf>,
}

/// `cache`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report cache [--clear]")]
#[command(after_help = "\
Examples:
  icecore-report cache                   where it is, how many images and recordings, how large
  icecore-report cache --clear
  icecore-report top demo.icecore --no-cache

A report caches what it finds out about the code of an image, and the stacks of a recording that it has unwound, so that \
the next report need not search and unwind again. The cache is in $XDG_CACHE_HOME/icecore, or ~/.cache/icecore. Cached \
names are valid as long as the files from which they came stay as they are, or are gone; names from files that a \
recording brings are not cached. Cached stacks are valid as long as the \
recording and all files of its images stay as they are. Reports ignore a broken file there, and write it anew.")]
pub struct Cache {
    /// List the cache (the default)
    #[arg(long)]
    pub stats: bool,
    /// Remove the cache
    #[arg(long, conflicts_with = "stats")]
    pub clear: bool,
}
