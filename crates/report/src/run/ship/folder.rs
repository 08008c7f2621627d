//! Ships into a folder of this machine, or into a bucket.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::SystemTime;

use anyhow::{Context as _, bail, ensure};
use icecore_archive::archive::{GRACE, OpenError};
use icecore_archive::folder::Local;
use icecore_archive::{Archive, Folder};

use super::super::{Streams, archive};
use super::{ITSELF, Source};

/// Returns true if the file was there before. Recordings are added to an archive, and kept as they are anywhere else.
pub(super) fn take(typed: &Path, source: &Source<'_>, streams: &Streams<'_>) -> anyhow::Result<bool> {
    match Archive::open(Folder::of(typed)?) {
        Ok(there) => archive::add_one(&there, source.path, streams).map(|is_new| !is_new),
        Err(OpenError::None(_)) => keep(&Folder::of_others(typed)?, source),
        Err(error) => Err(error.into()),
    }
}

fn keep(folder: &Folder, source: &Source<'_>) -> anyhow::Result<bool> {
    if is_there(folder, source)? {
        return Ok(true);
    }
    // What shippers have left that were killed.
    for left in folder.unfinished().unwrap_or_default() {
        if SystemTime::now().duration_since(left.modified).is_ok_and(|age| age > GRACE) {
            let _ = folder.remove(&left.name);
        }
    }
    let root = folder.root().display();
    match folder.take(&source.file, source.name) {
        Ok(true) => Ok(false),
        // A neighbour was faster, or the answer to an earlier request is lost.
        Ok(false) if is_there(folder, source)? => Ok(true),
        Ok(false) => bail!("a file of this name was there, and is gone: try again"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            bail!("there is no folder `{root}`: make it, or mount what it is on")
        }
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            bail!(
                "cannot write into `{root}`: let this user write there; files are shipped without privileges"
            )
        }
        Err(error) => Err(error).with_context(|| format!("cannot write into `{root}`")),
    }
}

/// Returns true if a file of this name is there.
///
/// # Errors
/// If it has other bytes.
fn is_there(folder: &Folder, source: &Source<'_>) -> anyhow::Result<bool> {
    let root = folder.root().display();
    let cannot = || format!("cannot look at `{}` in `{root}`", source.name.display());
    match folder.tail(source.name, 1) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(cannot),
        Ok(tail) => {
            // Another size is told without reading it.
            source.has_size(tail.size)?;
            let there = folder.local(source.name)?;
            if let Local::Itself(path) = &there {
                // The same folder may have several paths, also through a network.
                let made = folder.temporary()?;
                source.is_elsewhere(made.path().file_name().unwrap_or_default())?;
                let inode = |meta: &Metadata| (meta.dev(), meta.ino());
                ensure!(inode(&path.metadata()?) != inode(&source.file.metadata()?), ITSELF);
            }
            source.equals(&there.open()?)?;
            Ok(true)
        }
    }
}
