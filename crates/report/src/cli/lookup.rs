//! Options that say where images and debug files are searched.

use std::path::PathBuf;

use clap::Args;

use icecore_symbolize::debuginfod::Budget;
use icecore_symbolize::image::PathMap;

/// All arguments of [`Lookup`].
pub(super) const LOOKUP: [&str; 9] = [
    "symbols",
    "debug_dir",
    "sysroot",
    "map",
    "trust",
    "no_cache",
    "debuginfod",
    "no_debuginfod",
    "debuginfod_budget",
];

/// Where images and debug files are found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
#[command(next_help_heading = "Names")]
pub struct Lookup {
    /// Look for images and debug files anywhere below this directory, by build-id; may be repeated
    #[arg(long, value_name = "DIR")]
    pub symbols: Vec<PathBuf>,
    /// Also look for debug files below this directory, which has a .build-id folder; may be repeated
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// Look up recorded paths below this directory and nowhere else
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// Replace FROM at the beginning of recorded paths by TO; may be repeated, the first that fits counts
    #[arg(long, value_name = "FROM=TO")]
    pub map: Vec<PathMap>,
    /// Believe that what lies at this recorded path, a file or a folder of files, is what ran, where nothing proves or disproves it; views mark its names as (trusted); may be repeated
    #[arg(long, value_name = "PATH")]
    pub trust: Vec<PathBuf>,
    /// Neither read nor write the cache of earlier reports
    #[arg(long)]
    pub no_cache: bool,
    /// Download missing files from this server [default: those of $DEBUGINFOD_URLS]; may be repeated
    #[arg(long, value_name = "URL")]
    pub debuginfod: Vec<String>,
    /// Download nothing, whatever the environment says
    #[arg(long, conflicts_with = "debuginfod")]
    pub no_debuginfod: bool,
    /// Limit all downloads together: bytes, time, or both
    #[arg(long, value_name = "BUDGET", default_value_t)]
    pub debuginfod_budget: Budget,
}
