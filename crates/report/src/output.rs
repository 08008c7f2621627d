//! Files that are written: whole or not at all, and never over the recording that they are made of.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use icecore_format::header;

/// Writes a file under another name beside `path`; when all is written it takes that name, and what had it is replaced.
/// It has the mode of what it replaces, else `mode`, else the usual one. A symbolic link stays one.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if `path` is the recording; what `fill` says; else as the file system says. Then
/// nothing has changed.
pub(crate) fn replace<T, E: From<io::Error>>(
    path: &Path,
    recording: &Path,
    mode: Option<Permissions>,
    fill: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let there = metadata(path)?;
    refuse_recording(there.as_ref(), recording)?;
    match there {
        Some(there) => beside(&path.canonicalize()?, Some(there.permissions()), fill),
        None if fs::symlink_metadata(path).is_ok() => {
            let cause = "it is a symbolic link that leads nowhere: remove it, or name another file with -o";
            Err(io::Error::new(io::ErrorKind::InvalidInput, cause).into())
        }
        None => beside(path, mode, fill),
    }
}

/// Refuses to write over the recording, by whatever name.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with the remedy.
pub(crate) fn refuse_recording(there: Option<&fs::Metadata>, recording: &Path) -> io::Result<()> {
    let recording = if recording.as_os_str() == "-" { Path::new("/dev/stdin") } else { recording };
    match (there, fs::metadata(recording)) {
        (Some(there), Ok(this)) if (there.dev(), there.ino()) == (this.dev(), this.ino()) => {
            let cause = "this is the recording itself: name a file with -o";
            Err(io::Error::new(io::ErrorKind::InvalidInput, cause))
        }
        _ => Ok(()),
    }
}

/// Refuses to replace another recording: no view is worth one.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] with the remedy.
pub(crate) fn refuse_any_recording(path: &Path) -> io::Result<()> {
    let mut magic = [0; header::MAGIC.len()];
    let begins = File::open(path).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    if begins && magic == header::MAGIC {
        let cause = "there is a recording: name another file with -o, or remove it";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, cause));
    }
    Ok(())
}

/// What there is at a path; `None` if nothing is.
pub(crate) fn metadata(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        there => there.map(Some),
    }
}

fn beside<T, E: From<io::Error>>(
    path: &Path,
    mode: Option<Permissions>,
    fill: impl FnOnce(&mut File) -> Result<T, E>,
) -> Result<T, E> {
    let name = path.file_name().ok_or(io::Error::from(io::ErrorKind::InvalidInput))?;
    let mut partial = OsString::from(".");
    partial.push(name);
    partial.push(format!(".{}.tmp", std::process::id()));
    let partial = path.with_file_name(partial);
    let mut file = File::options().read(true).write(true).create_new(true).open(&partial)?;
    let written = mode.map_or(Ok(()), |mode| file.set_permissions(mode)).map_err(E::from);
    let written = written.and_then(|()| fill(&mut file));
    let written = written.and_then(|told| Ok(fs::rename(&partial, path).map(|()| told)?));
    if written.is_err() {
        // The first error is the one to tell.
        drop(fs::remove_file(&partial));
    }
    written
}
