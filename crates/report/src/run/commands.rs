//! Lists the commands, and the options before them.

use clap::{Parser, Subcommand};

use super::{Streams, archive, diff, edit, export, file, follow, html, parquet, samples, serve, ship, trend};
use crate::cli::{self, Global, Source};
use crate::views::{self, Typed};

/// Reads icecore recordings, on any machine: where time went, and how good the data is.
#[derive(Debug, Parser)]
#[command(name = "icecore-report", version, subcommand_negates_reqs = true, after_help = EXAMPLES)]
#[command(
    override_usage = "icecore-report [OPTIONS] [FILE]...\n       icecore-report <COMMAND> [OPTIONS] [FILE]..."
)]
pub(super) struct Cli {
    /// Options of every command.
    #[command(flatten)]
    pub global: Global,
    /// The view.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Without a command: the recording whose summary is shown.
    #[command(flatten)]
    pub source: Source,
}

const EXAMPLES: &str = "\
Examples:
  icecore-report demo.icecore                             the first screen
  icecore-report                                          the same for the newest recording here
  icecore-report rotated/                                 for the newest recording in a folder
  icecore-report timeline rotated/r-20261130T1*.icecore   several recordings as one
  icecore-report top demo.icecore --comm rustc            the hottest functions of rustc
  icecore-report tree demo.icecore --callers --focus memcpy
  icecore-report html demo.icecore                        a page for a browser
  icecore-report annotate demo.icecore parse              its source lines and instructions
  icecore-report top demo.icecore --json | jq '.rows[0]'
  ssh HOST icecore-record -a -d 10 -o - | icecore-report -

Exit codes: 0 done, 1 a requested check failed (verify, health --strict, diff --fail-on), 2 the command failed. A closed pipe (| head) is no failure.";

/// Makes the commands of a list: help text, name, arguments, and the function that runs it.
macro_rules! commands {
    ($($(#[$help:meta])+ $name:ident: $args:ty => $run:path),+ $(,)?) => {
        /// A command and its arguments.
        #[derive(Debug, Subcommand)]
        pub(super) enum Command {
            $($(#[$help])+ $name($args)),+
        }

        impl Command {
            /// Returns true if the arguments of a view of an archive request JSON.
            pub(super) fn prints_json(&self) -> bool {
                matches!(self, Self::Archive(typed) if archive::prints_json(&typed.action))
            }

            /// Runs the command; returns the exit code.
            pub(super) fn execute(&self, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
                match self {
                    $(Self::$name(args) => $run(args, global, streams)),+
                }
            }
        }
    };
}

commands! {
    /// The first screen: what was recorded, how good the data is, where time went
    Summary: Typed<views::summary::Args> => samples::show,
    /// The hottest functions, lines, images, processes, threads or cgroups
    Top: Typed<views::top::Args> => samples::show,
    /// The source lines and instructions of a function, with their samples
    Annotate: Typed<views::annotate::Args> => samples::annotate,
    /// Who calls whom, as an indented tree
    Tree: Typed<views::tree::Args> => samples::show,
    /// Explore a recording on the terminal: filters, tables, trees, time; or follow one that is being written
    Tui: Typed<views::tui::Args> => follow::tui,
    /// A flame graph as SVG
    Flame: Typed<views::flame::Args> => samples::show,
    /// One page for a browser, to explore one recording or compare two, without network
    Html: cli::Html => html::html,
    /// The same page on 127.0.0.1 with all code, and a link that opens the recording in the Firefox Profiler
    Serve: cli::Serve => serve::serve,
    /// Folded stacks, one per line, for flame graph tools
    Folded: Typed<views::folded::Args> => samples::show,
    /// Every sample with its stack, like perf script
    Samples: Typed<views::samples::Args> => samples::show,
    /// How deep stacks are, and which functions recur in them
    Depth: Typed<views::depth::Args> => samples::show,
    /// What changed between two recordings, and whether that can be chance
    Diff: cli::Diff => diff::diff,
    /// When time was spent on what, and when that changed
    Timeline: Typed<views::timeline::Args> => samples::show,
    /// Shares of functions over many recordings, and when they changed
    Trend: cli::Trend => trend::trend,
    /// How good the data is, and how to improve it
    Health: Typed<views::health::Args> => samples::show,
    /// Which files would name more frames, and how to get them
    Missing: Typed<views::missing::Args> => samples::show,
    /// What is in the file: session, blocks, cost, damage
    Info: cli::Info => file::info,
    /// Check everything in the file
    Verify: cli::Verify => file::verify,
    /// Write a complete recording from the intact blocks of a damaged one
    Repair: cli::Repair => edit::repair::run,
    /// Write several recordings, of one or many hosts, into one file
    Merge: cli::Merge => edit::merge::run,
    /// Write a recording with only the samples that the filters select
    Cut: cli::Cut => edit::cut::run,
    /// Write the recording with the names, inlined functions and source lines that this machine knows
    Pack: cli::Pack => edit::pack::run,
    /// Write the recording with unwound stacks instead of registers and stack memory
    Compact: cli::Compact => edit::compact::run,
    /// Keep recordings of hosts and years in a folder: add, list, search, and every view of many
    Archive: cli::Archive => archive::archive,
    /// Hand finished recordings to an archive: a folder, a bucket, another host
    Ship: cli::Ship => ship::ship,
    /// Write recordings as tables for DuckDB, ClickHouse, Spark and others
    Parquet: cli::Parquet => parquet::parquet,
    /// Write the samples for another tool: pprof, the Firefox Profiler, speedscope, KCachegrind, Perfetto and more
    Export: cli::Export => export::export,
    /// Write a recording from a file of `perf record`, or from a profile of another tool
    Import: cli::Import => edit::import::run,
    /// Show or clear the cache that makes repeated reports fast
    Cache: cli::Cache => file::cache,
}

#[cfg(test)]
mod tests;
