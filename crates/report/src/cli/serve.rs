//! The arguments of `serve`, which takes one recording or two.

use std::path::PathBuf;

use clap::Args;

use super::{Select, folder};

/// `serve`
#[derive(Debug, Args)]
#[command(
    override_usage = "icecore-report serve [OPTIONS] <FILE>\n       icecore-report serve [OPTIONS] <BEFORE> <AFTER>"
)]
#[command(after_help = "\
Examples:
  icecore-report serve demo.icecore                       prints two links
  icecore-report serve before.icecore after.icecore
  ssh -L 8000:127.0.0.1:8000 HOST icecore-report serve demo.icecore --port 8000

The page is that of html, but it has the source and the instructions of every function: it asks for them. The Firefox Profiler \
gets the samples with addresses, and asks for names, source files and instructions (/symbolicate/v5, /source/v1, /asm/v1).

Only this machine can connect (127.0.0.1), and only who knows the random token in the links gets an answer. Files are looked up \
as by every other command; no request names a path that is opened. Ctrl-C ends the server.")]
pub struct Serve {
    /// One recording, or two to compare; of a folder the newest; `-`: stdin
    #[arg(required = true, num_args = 1..=2, value_name = "FILE", help_heading = "Arguments")]
    pub files: Vec<PathBuf>,
    /// The port of 127.0.0.1; 0: any that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,
    /// The Firefox Profiler that may ask: another address, if you run your own
    #[arg(long, value_name = "URL", default_value = "https://profiler.firefox.com")]
    pub profiler: String,
    /// Title of the page
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,
    /// Look for source files below this directory first; may be repeated
    #[arg(long, value_name = "DIR", value_parser = folder)]
    pub source_dir: Vec<PathBuf>,
    /// Which samples of the recordings, and where names are found.
    #[command(flatten)]
    pub select: Select,
}
