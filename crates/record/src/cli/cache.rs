//! The command line of `icecore-record cache`.

use std::ffi::OsString;

use super::args::command;

/// The first argument of this command. `icecore-record -- cache` records a program of this name.
const NAME: &str = "cache";

/// Lists or removes the unwind tables that the recorder keeps on disk
///
/// Unwind tables that took 10 ms or longer to compile are kept, so that the next recording need not compile them: 256 MiB at most, those
/// that were used last. They lie in $XDG_CACHE_HOME/icecore-record, /var/cache/icecore-record (root) or ~/.cache/icecore-record, and count
/// only for a file with the same unwind information (SHA-256), and for the same icecore-record.
#[derive(Debug, clap::Parser)]
#[command(name = "icecore-record cache", max_term_width = 100)]
pub struct Args {
    /// Remove them
    #[arg(long)]
    pub clear: bool,
}

/// Parses the command line if it is that of this command; prints help, version or the error if it cannot be parsed.
///
/// # Errors
/// The exit code: 2, or 0 for `--help`.
pub fn parse(args: impl Iterator<Item = OsString>) -> Option<Result<Args, u8>> {
    command(NAME, args)
}
