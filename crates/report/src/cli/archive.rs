//! The arguments of `archive`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use icecore_archive::select::{Moment, Stretch};

use super::{Lookup, Redacted, Sort};

/// `archive`
#[derive(Debug, Args)]
#[command(
    override_usage = "icecore-report archive <DIR> <ACTION>\n       icecore-report archive <DIR> <VIEW> [SELECTION] [OPTIONS]"
)]
#[command(after_help = "\
Examples:
  icecore-report archive DIR add /var/tmp/*.icecore            the first add makes the archive
  ssh HOST icecore-record -a -d 10 -o - | icecore-report archive DIR add -
  icecore-report archive DIR list 'host=web* release=1.4.*' --last 7d
  icecore-report archive DIR search 'service=web' --function 'parse*'
  icecore-report archive DIR top 'host=web-03' --last 1d --by inlined
  icecore-report archive DIR diff 'service=web' --last 7d      against the week before
  icecore-report archive DIR diff release=1.4.2 release=1.5.0
  icecore-report archive DIR trend 'service=web' --since 2026-09-01
  icecore-report archive DIR outliers 'service=web' --last 30d
  icecore-report archive DIR regressions --since 1.5.0
  icecore-report archive DIR trend --by night service=web      functions over nights, by the tables
  icecore-report archive DIR trend --by quality                since when stacks are worse
  icecore-report archive DIR health --last 1d --baseline 'began>=2026-09-01'
  icecore-report archive DIR get 4908e572 -o one.icecore
  icecore-report archive DIR serve                             for a browser

A SELECTION is one argument of terms, all of which must hold: KEY=PATTERN or KEY!=PATTERN, where KEY is host, service, kernel, arch, \
verdict, uuid, label:NAME or the name of a label (`icecore-record --label release=1.4.2`) and PATTERN may have * and ?; began>=MOMENT, \
began<MOMENT; or the first six digits or more of a UUID. Without one, all recordings are selected. --last, --since and --until also \
select by when a recording began; UTC.

A VIEW is any command that shows recordings: summary, top, tree, flame, html, diff, trend, health and so on. SELECTION follows \
it, then the options of the view. A view of several recordings shows them merged, as `merge` does; at most 1,024 sessions. \
`diff` takes two selections, or one with --last, and compares the last stretch of time with the one before.

The folder holds plain files that never change: recordings/, compacted; names/, which they share; and the six tables of `parquet`, \
which SQL engines read (docs/FLEET.md). Only their owner can read them. Several may add, list and read at the same time, also \
over NFS; what `add` confirmed survives a crash.

DIR may be s3://BUCKET/PREFIX, in any store that speaks the protocol of Amazon S3 and knows If-None-Match. The variables of its own tools say where and who: AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN.")]
pub struct Archive {
    /// The folder of the archive, or s3://BUCKET/PREFIX
    #[arg(value_name = "DIR", help_heading = "Arguments")]
    pub folder: PathBuf,
    /// What to do.
    #[command(subcommand)]
    pub action: Action,
}

/// What to do with an archive.
#[derive(Debug, Subcommand)]
#[command(subcommand_value_name = "ACTION", subcommand_help_heading = "Actions")]
pub enum Action {
    /// Add recordings: files, all *.icecore below folders, or `-` for stdin
    Add(Add),
    /// List recordings
    List(Chosen),
    /// Show what is known of recordings, and of the selection as a whole
    Show(Chosen),
    /// Copy recordings out: each stands alone again
    Get(Get),
    /// Find the recordings that have a function or an image
    Search(Search),
    /// Check every file, and that the tables say what the recordings say
    Verify(Verify),
    /// Write the tables of recordings anew
    Reindex(Reindex),
    /// Merge the tables of each day and service, and let recordings share names: faster, and smaller
    Compact,
    /// Remove recordings by age, size or selection; daily sums of their functions stay
    Prune(Prune),
    /// Remove what interrupted writers have left, and names that nobody needs
    Gc,
    /// Copy recordings into another archive, here or on another host
    Push(Moving),
    /// Copy recordings from another archive into this one
    Pull(Moving),
    /// What `pull` starts on the other host
    #[command(hide = true)]
    Send(Chosen),
    /// What `push` starts there
    #[command(hide = true)]
    Receive,
    /// Name the hosts that differ from the others of their service, and by which functions
    Outliers(Outliers),
    /// Name the functions that cost more since a release, and since when
    Regressions(Regressions),
    /// `trend --by quality`
    #[command(hide = true)]
    Quality(QualityTrend),
    /// `trend --by night`
    #[command(hide = true)]
    Nights(NightTrend),
    /// `health --baseline`
    #[command(hide = true)]
    Baseline(Baseline),
    /// Serve the archive to a browser on this machine: lists, searches, plots, and the page of any selection or difference
    Serve(ServeArchive),
    /// A view of selected recordings
    #[command(external_subcommand)]
    View(Vec<OsString>),
}

/// Which recordings.
#[derive(Debug, Default, Args)]
pub struct Chosen {
    /// Which: 'host=web* release=1.4.*', or digits of a UUID [default: all]
    pub selection: Option<String>,
    /// When they began.
    #[command(flatten)]
    pub began: Began,
}

/// When recordings began.
#[derive(Debug, Default, Args)]
pub struct Began {
    /// Only those that began in the last stretch of time, up to now or --until: 90m, 12h, 7d, 4w
    #[arg(long, value_name = "TIME", conflicts_with = "since")]
    pub last: Option<Stretch>,
    /// Only those that began then or later: 2026-09-01, 2026-09-01T03:00; UTC
    #[arg(long, value_name = "MOMENT")]
    pub since: Option<Moment>,
    /// Only those that began before
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Moment>,
}

/// `archive add`
#[derive(Debug, Default, Args)]
#[command(override_usage = "icecore-report archive <DIR> add [OPTIONS] <FILE>...")]
#[command(after_help = "\
Each recording gets the names, inlined functions and source lines that this machine knows (as `pack` does), then loses registers and \
stack memory (as `compact` does). It keeps its UUID, so that adding it again changes nothing. If a file cannot be added, add goes on \
with the others, names it, and exits with 2; if there is no room left, it stops.")]
pub struct Add {
    /// Recordings, folders of recordings, or `-` for stdin
    #[arg(required = true, value_name = "FILE", help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// Add what is intact of damaged recordings, and of those that were not closed; else they are refused
    #[arg(long)]
    pub repair: bool,
    /// What is replaced by pseudonyms, as `compact` does.
    #[command(flatten)]
    pub redacted: Redacted,
    /// Where images and debug files are found.
    #[command(flatten)]
    pub lookup: Lookup,
}

/// `archive get`
#[derive(Debug, Args)]
pub struct Get {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The new file, or for several recordings a folder
    #[arg(short, long, value_name = "OUT")]
    pub output: PathBuf,
    /// Replace files that exist
    #[arg(long)]
    pub force: bool,
}

/// `archive search`
#[derive(Debug, Args)]
pub struct Search {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Functions of this name; * and ? stand for others
    #[arg(long, value_name = "PATTERN", required_unless_present_any = ["image", "build_id"])]
    pub function: Option<String>,
    /// Images of this path
    #[arg(long, value_name = "PATTERN")]
    pub image: Option<String>,
    /// Images of this build-id
    #[arg(long, value_name = "PATTERN")]
    pub build_id: Option<String>,
    /// Show this many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
}

/// `archive verify`
#[derive(Debug, Args)]
pub struct Verify {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
}

/// `archive prune`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  icecore-report archive DIR prune --older-than 90d
  icecore-report archive DIR prune 'keep!=yes' --older-than 30d --dry-run
  icecore-report archive DIR prune service=web --max-size 10G
  icecore-report archive DIR prune 4908e572 --without-sums     only its UUID stays

What the functions of a day, a service, a release and a kernel took stays in the table `daily`, and `regressions` goes on to see it. \
A recording that was pruned is not added again; the archive keeps its UUID. A recording goes only if all its sessions are selected.")]
pub struct Prune {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Remove those that began longer ago: 12h, 90d, 52w
    #[arg(long, value_name = "TIME", conflicts_with_all = ["last", "since"])]
    pub older_than: Option<Stretch>,
    /// Remove the oldest until those that are selected take at most this much: 500M, 10G
    #[arg(long, value_name = "SIZE", value_parser = icecore_text::quantity::size)]
    pub max_size: Option<u64>,
    /// Remove what they sum up to as well
    #[arg(long)]
    pub without_sums: bool,
    /// Only say what would be removed
    #[arg(long)]
    pub dry_run: bool,
}

/// `archive push` and `archive pull`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  icecore-report archive DIR push /mnt/backup/archive --last 7d
  icecore-report archive DIR push archive-host:/var/lib/icecore 'service=web'
  icecore-report archive DIR pull ssh://web-07:2222/var/lib/icecore
  icecore-report archive DIR push s3://profiles/fleet

Only what the other archive lacks is copied, and not what was pruned there. The receiver checks each recording, stores it and \
writes its tables before it confirms it; if the connection ends, run the command again. Daily sums of pruned recordings stay where they are. \
On another host, icecore-report must be installed; only whole recordings are copied.")]
pub struct Moving {
    /// The other archive: a folder, s3://BUCKET/PREFIX, HOST:PATH, or ssh://HOST:PORT/PATH
    #[arg(value_name = "ARCHIVE", help_heading = "Arguments")]
    pub other: String,
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The program that runs commands on other hosts, and its options
    #[arg(long, value_name = "COMMAND", default_value = "ssh")]
    pub rsh: String,
    /// The program on the other host
    #[arg(long, value_name = "PROGRAM", default_value = "icecore-report")]
    pub remote_program: String,
}

/// `archive serve`
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  icecore-report archive DIR serve                        prints a link
  icecore-report archive DIR serve 'service=web' --last 30d
  ssh -L 8000:127.0.0.1:8000 HOST icecore-report archive DIR serve --port 8000

What is selected is what the first page shows; each page has a field for another selection. Only this machine can connect (127.0.0.1), \
and only who knows the random token in the link gets an answer. The server reads the archive anew for each answer, and changes \
nothing in it. Ctrl-C ends it.")]
pub struct ServeArchive {
    /// Which recordings the first page shows.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The port of 127.0.0.1; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
}

/// `archive reindex`
#[derive(Debug, Args)]
pub struct Reindex {
    /// Write the tables of all recordings, not only of those that have none
    #[arg(long)]
    pub all: bool,
}

/// `archive outliers`
#[derive(Debug, Args)]
#[command(after_help = "\
Members are compared by service: all recordings of a host together with those of each other host. A member is named if its share of a \
function differs from the others by more than they differ among themselves, and more than its samples explain. All members and all \
functions are judged together: of those that are named, --false-discoveries may be so by chance. It takes five members.

Shares are those of `top`, by the tables: no recording is opened.")]
pub struct Outliers {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Compare host, recording, kernel, or the values of a label
    #[arg(long, value_name = "KEY", default_value = "host")]
    pub by: String,
    /// Compare samples of this event [default: the one that most recordings have, but no waits]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Compare self or total
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
    /// Let at most this many percent of what is named be chance
    #[arg(long, value_name = "P", default_value_t = super::diff::FALSE_DISCOVERIES, value_parser = super::diff::level)]
    pub false_discoveries: f64,
    /// Show this many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// Exit with 1 if anybody is named
    #[arg(long)]
    pub strict: bool,
}

/// What is followed over nights.
#[derive(Debug, Args)]
pub struct Followed {
    /// Follow samples of this event [default: the one that most recordings have, but no waits]
    #[arg(long, value_name = "NAME")]
    pub event: Option<String>,
    /// Follow self or total
    #[arg(long, value_name = "WHICH", default_value = "self", hide_possible_values = true)]
    pub sort: Sort,
}

/// `archive regressions`
#[derive(Debug, Args)]
#[command(after_help = "\
The recordings of a service that began on one day, with one value of the label `release`, count as one night: what hosts have in common, \
such as traffic, is in all of them. A function is listed if its share steps up from one night to the next by more than nights differ, and \
more than samples explain, and stays so for three nights. Shares are of all that was sampled: what shrinks makes the rest grow.

With --since, only steps from the first night of that release on, or from that moment on. All nights before it are the measure.")]
pub struct Regressions {
    /// Which: 'host=web* service=web' [default: all]
    pub selection: Option<String>,
    /// Only those that began with this release or later (label `release`), or at this moment or later
    #[arg(long, value_name = "RELEASE|MOMENT")]
    pub since: Option<String>,
    /// Only recordings that began before
    #[arg(long, value_name = "MOMENT")]
    pub until: Option<Moment>,
    /// What is followed.
    #[command(flatten)]
    pub followed: Followed,
    /// Show this many rows; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// Exit with 1 if anything costs more
    #[arg(long)]
    pub strict: bool,
}

/// `archive trend --by quality`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report archive <DIR> trend --by quality [SELECTION] [OPTIONS]")]
pub struct QualityTrend {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// Exit with 1 if anything got worse
    #[arg(long)]
    pub strict: bool,
}

/// `archive trend --by night`
#[derive(Debug, Args)]
#[command(override_usage = "icecore-report archive <DIR> trend --by night [SELECTION] [OPTIONS]")]
#[command(after_help = "\
The recordings of a service that began on one day, with one value of the label `release`, are one night, as for `regressions`. Shares \
are those of `top`, by the tables: no recording is opened, and nights whose recordings were pruned are there.")]
pub struct NightTrend {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// What is followed.
    #[command(flatten)]
    pub followed: Followed,
    /// Show this many rows, and those that changed; 0: all
    #[arg(short = 'n', long = "rows", value_name = "N", default_value_t = 25)]
    pub rows: usize,
    /// Exit with 1 if anything costs more
    #[arg(long)]
    pub strict: bool,
}

/// `archive health --baseline`
#[derive(Debug, Args)]
#[command(
    override_usage = "icecore-report archive <DIR> health [SELECTION] --baseline <SELECTION> [OPTIONS]"
)]
pub struct Baseline {
    /// Which recordings.
    #[command(flatten)]
    pub chosen: Chosen,
    /// The recordings with which they are compared; those that are selected themselves are left out
    #[arg(long, value_name = "SELECTION")]
    pub baseline: String,
    /// Exit with 1 also if there are too few recordings to tell
    #[arg(long)]
    pub strict: bool,
}
