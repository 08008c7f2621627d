//! The arguments of `html`, which takes one recording or two.

use std::path::PathBuf;

use clap::Args;

use super::{Select, folder};

/// The number of functions of which a page has the code.
pub const CODE: usize = 32;

/// `html`
#[derive(Debug, Args)]
#[command(
    override_usage = "icecore-report html [OPTIONS] <FILE>\n       icecore-report html [OPTIONS] <BEFORE> <AFTER>"
)]
#[command(after_help = "\
Examples:
  icecore-report html demo.icecore                        writes demo.html
  icecore-report html before.icecore after.icecore -o change.html
  icecore-report html demo.icecore --comm cc1 -o cc1.html

The page is one file: it holds all samples, their names and the program that shows them, loads nothing, and needs \
no network and no server. It has flame graphs (also by callers and in the order of time), functions with callers and \
callees, a tree, threads and waits over time, and a map of every second; choosing a stretch of time, a process, a thread, an \
image or a function in one view filters all of them. Of the hottest functions it has the instructions, and those source texts that \
the recording has, that are proven to be what was compiled, or that lie below a --source-dir, because people pass pages on. Two recordings are compared as diff compares them.

A page holds 10 million samples one by one. Of longer recordings it adds up neighbouring samples of the same stack, and says so.")]
pub struct Html {
    /// One recording, or two to compare; of a folder the newest; `-`: stdin
    #[arg(required = true, num_args = 1..=2, value_name = "FILE", help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// Where to write the page; `-`: stdout [default: the recording's name with .html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Include source lines and instructions of the N hottest functions; 0: of none
    #[arg(long, value_name = "N", default_value_t = CODE)]
    pub code: usize,
    /// Look for source files below this directory first, and show them even if nothing proves that they were compiled; may be repeated
    #[arg(long, value_name = "DIR", value_parser = folder)]
    pub source_dir: Vec<PathBuf>,
    /// Which samples of the recordings, and where names are found.
    #[command(flatten)]
    pub select: Select,
}
