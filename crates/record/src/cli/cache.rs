//! `icecore-record cache`: what the recorder keeps on disk.

use std::ffi::OsString;
use std::io::{self, Write as _};

use anyhow::Context as _;
use icecore_text::door::{Door, Kind};
use icecore_text::quantity::{bytes, things};

use super::args;
use crate::frame_pointers::kept::{Kept, MAX_BYTES};

/// The first argument of this command. `icecore-record -- cache` records a program of this name.
pub const NAME: &str = "cache";

/// Lists or removes the unwind tables that the recorder keeps on disk
///
/// Unwind tables that took 10 ms or longer to compile are kept, so that the next recording need not compile them: 256 MiB at most, those
/// that were used last. They lie in $XDG_CACHE_HOME/icecore-record, /var/cache/icecore-record (root) or ~/.cache/icecore-record, and count
/// only for a file with the same unwind information (SHA-256), and for the same icecore-record.
#[derive(Debug, clap::Parser)]
#[command(name = "icecore-record cache", max_term_width = 100)]
struct Args {
    /// Remove them
    #[arg(long)]
    clear: bool,
}

/// Carries out the command, and prints what there is, or was. Returns the exit code.
///
/// # Errors
/// If the folder cannot be read, belongs to somebody else, or a file in it cannot be removed.
pub fn run(args: impl Iterator<Item = OsString>) -> anyhow::Result<u8> {
    let args: Args = match args::parsed(args) {
        Ok(args) => args,
        Err(code) => return Ok(code),
    };
    let kept = Kept::of_user().context("no folder for a cache: set XDG_CACHE_HOME or HOME")?;
    let folder = kept.folder().display().to_string();
    let (files, size_bytes) = kept.size().with_context(|| format!("cannot list {folder}"))?;
    if args.clear {
        kept.clear().with_context(|| format!("cannot remove what is in {folder}"))?;
    }
    let (tables, size) = (things(files as u64, "file"), bytes(size_bytes));
    let text = if args.clear {
        format!("{folder}: removed the unwind tables of {tables}, {size}\n")
    } else {
        format!("{folder}: the unwind tables of {tables}, {size} of {} at most\n", bytes(MAX_BYTES))
    };
    Door::new(io::stdout(), Kind::Plain).write_all(text.as_bytes()).context("cannot write to stdout")?;
    Ok(0)
}
