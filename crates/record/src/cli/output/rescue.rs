//! Finds out where a finished recording is, and saves it if its file was removed or renamed while it was written.

use std::fs::{File, Metadata};
use std::io::{self, Seek as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::create_free;

/// The number of file names that are tried in one folder.
const NAMES: u32 = 100;

/// Where a finished recording is.
#[derive(Debug)]
pub(crate) enum Settled {
    /// At the requested path.
    AsAsked,
    /// At the requested path, to which it was copied again: somebody had removed its file.
    Again,
    /// At another path: somebody renamed its file.
    Renamed(PathBuf),
    /// At another path, to which it was copied: somebody removed its file, and it cannot be written to the requested path again.
    Saved(PathBuf),
    /// Lost: somebody removed its file, and no copy can be written.
    Gone(io::Error),
}

impl Settled {
    /// Returns the path of the recording if it is not the requested one.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Renamed(path) | Self::Saved(path) => Some(path),
            Self::AsAsked | Self::Again | Self::Gone(_) => None,
        }
    }

    /// Returns true if the recording is not at the requested path.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Renamed(_) | Self::Saved(_) | Self::Gone(_))
    }

    /// Returns a message about what happened to the file, which messages call `called`, and what the user can do.
    pub(crate) fn text(&self, called: &str) -> Option<String> {
        Some(match self {
            Self::AsAsked => return None,
            Self::Again => {
                format!(
                    "somebody removed {called} while it was being written: it has been written there again"
                )
            }
            Self::Renamed(path) => format!(
                "somebody renamed {called} while it was being written: the recording is now `{}`",
                path.display()
            ),
            Self::Saved(path) => format!(
                "somebody removed or replaced {called} while it was being written: the recording has been saved as `{}`; \
                 record into a file that nobody else writes or cleans up",
                path.display()
            ),
            Self::Gone(error) => format!(
                "somebody removed {called} while it was being written, and the recording is lost, because no copy could be \
                 written: {error}; free space there, or record into a file that nobody cleans up (-o)"
            ),
        })
    }
}

/// Finds out where the recording in `file` is, which was requested at `path`. A file without a name is copied to the first of
/// these locations that accepts it: `target`, to which `path` leads; an unused name beside it; the current folder; the folder for
/// temporary files.
pub(super) fn settle(file: &File, path: &Path, target: &Path) -> Settled {
    let Ok(own) = file.metadata() else { return Settled::AsAsked };
    if is_same(path, &own) {
        return Settled::AsAsked;
    }
    if own.nlink() > 0
        && let Some(name) = name_of(file, &own)
    {
        return Settled::Renamed(name);
    }
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for folder in [target.parent().unwrap_or(Path::new("")), Path::new(""), &std::env::temp_dir()] {
        match copy_into(folder, target, file) {
            Ok(saved) if saved == target => return Settled::Again,
            Ok(saved) => return Settled::Saved(saved),
            Err(error) => failed = error,
        }
    }
    Settled::Gone(failed)
}

/// Returns true if a path leads to the file that has this metadata.
fn is_same(path: &Path, own: &Metadata) -> bool {
    std::fs::metadata(path).is_ok_and(|there| (there.dev(), there.ino()) == (own.dev(), own.ino()))
}

/// Returns the current name of an open file; `None` if the file has none, so that closing it deletes it, or if the name cannot be found.
fn name_of(file: &File, own: &Metadata) -> Option<PathBuf> {
    let name = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    // Network and FUSE file systems keep a removed file under such a name until it is closed.
    let is_kept = [".nfs", ".fuse_hidden"].iter().any(|prefix| {
        name.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
    });
    (!is_kept && is_same(&name, own)).then_some(name)
}

/// Copies a file into a folder, under the name of `target` or one that is free; returns the path of the copy.
fn copy_into(folder: &Path, target: &Path, mut file: &File) -> io::Result<PathBuf> {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, "icecore"));
    let first = folder.join(target.file_name().unwrap_or_default());
    let others = (2..NAMES).map(|number| folder.join(format!("{stem}-{number}.{extension}")));
    let free = create_free(std::iter::once(first).chain(others));
    let (path, mut copy) = free.ok_or(io::ErrorKind::AlreadyExists)?.map_err(|(_, error)| error)?;
    let copied = file.rewind().and_then(|()| io::copy(&mut file, &mut copy)).and_then(|_| copy.sync_all());
    match copied {
        Ok(()) => Ok(path),
        Err(error) => {
            drop(std::fs::remove_file(&path));
            Err(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::OwnFile;
    use std::io::Write as _;

    /// Returns a file that was kept, with three bytes in it.
    fn written(path: &Path) -> OwnFile {
        let own = OwnFile::at(path, false).expect("free");
        own.keep().expect("its own name");
        (&own.file).write_all(b"abc").expect("room");
        own
    }

    #[test]
    fn a_file_that_is_where_it_was_to_be_is_left_alone() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.icecore");
        assert!(matches!(written(&path).settle(), Settled::AsAsked));
        assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 1);
    }

    #[test]
    fn a_file_that_was_removed_is_written_again() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.icecore");
        let own = written(&path);
        std::fs::remove_file(&path).expect("ours");
        assert!(matches!(own.settle(), Settled::Again));
        assert_eq!(std::fs::read(&path).expect("there again"), b"abc");
        assert_eq!(std::fs::metadata(&path).expect("there").mode() & 0o777, 0o600);
    }

    #[test]
    fn a_file_whose_name_was_taken_is_saved_beside_it() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let path = dir.path().join("x.icecore");
        let own = written(&path);
        std::fs::remove_file(&path).expect("ours");
        std::fs::write(&path, "another's").expect("room");
        let Settled::Saved(saved) = own.settle() else { panic!("the name is taken") };
        assert_eq!(saved, dir.path().join("x-2.icecore"));
        assert_eq!(std::fs::read(&saved).expect("saved"), b"abc");
        assert_eq!(std::fs::read(&path).expect("there"), b"another's");
    }

    #[test]
    fn a_file_that_was_renamed_is_found() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let (path, other) = (dir.path().join("x.icecore"), dir.path().join("y"));
        let own = written(&path);
        std::fs::rename(&path, &other).expect("ours");
        std::fs::write(&path, "another's").expect("room");
        let Settled::Renamed(name) = own.settle() else { panic!("it has another name") };
        assert_eq!(std::fs::read(name).expect("there"), b"abc");
        assert_eq!(std::fs::read_dir(dir.path()).expect("ours").count(), 2);
    }

    #[test]
    fn a_file_whose_folder_is_gone_is_saved_elsewhere() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let folder = dir.path().join("folder");
        std::fs::create_dir(&folder).expect("room");
        let own = written(&folder.join(format!("rescue-{}.icecore", std::process::id())));
        std::fs::remove_dir_all(&folder).expect("ours");
        let Settled::Saved(saved) = own.settle() else { panic!("its folder is gone") };
        assert_eq!(std::fs::read(&saved).expect("saved"), b"abc");
        std::fs::remove_file(saved).expect("ours");
    }
}
