//! What the recorder keeps on disk: unwind tables.

use std::io::{self, Write as _};

use anyhow::Context as _;
use icecore_text::door::{Door, Kind};
use icecore_text::quantity::{bytes, things};

use crate::cli::cache::Args;
use crate::frame_pointers::kept::{Kept, MAX_BYTES};

/// Prints what there is, or removes it and prints what there was. Returns the exit code.
///
/// # Errors
/// If the folder cannot be read, belongs to somebody else, or a file in it cannot be removed.
pub fn cache(args: &Args) -> anyhow::Result<u8> {
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
