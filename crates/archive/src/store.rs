//! What keeps the files of an archive: a folder, or a bucket of an object store.
//!
//! Both do the same: files appear whole or not at all, none changes, and a file is published only if its name is free. So nobody locks.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tempfile::{NamedTempFile, TempDir};

/// A file that is kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// Its path in the folder, or below the prefix in the bucket.
    pub name: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was written.
    pub modified: SystemTime,
}

/// The last bytes of a file.
#[derive(Debug, Clone)]
pub struct Tail {
    /// As many as were asked for, or all.
    pub last: Bytes,
    /// The size of the file in bytes.
    pub size: u64,
}

/// What keeps files. If a file is not there, errors are of the kind [`io::ErrorKind::NotFound`].
pub(crate) trait Store: Send + Sync {
    /// Lists all files whose paths begin with these folders, in the order of their names, and none whose name begins with a dot.
    fn list(&self, part: &Path) -> io::Result<Vec<Stored>>;

    /// Returns true if there is nothing, not even what others have put there.
    fn is_empty(&self) -> io::Result<bool>;

    /// Reads a file.
    fn read(&self, name: &Path) -> io::Result<Bytes>;

    /// Reads the last bytes of a file, at most so many.
    fn tail(&self, name: &Path, most: u64) -> io::Result<Tail>;

    /// Returns a file of this machine with the same bytes.
    fn local(&self, name: &Path) -> io::Result<Local>;

    /// Makes a file for what will be published; it is gone when it is dropped.
    fn temporary(&self) -> io::Result<NamedTempFile>;

    /// Publishes a file with a name, in the place of one that has it if it `replaces`. False: the name is taken. What was published survives
    /// a crash.
    fn publish(&self, file: NamedTempFile, name: &Path, replaces: bool) -> io::Result<bool>;

    /// Publishes a copy of a file of this machine. False: the name is taken.
    fn take(&self, mut from: &File, name: &Path) -> io::Result<bool> {
        let mut file = self.temporary()?;
        from.rewind()?;
        io::copy(&mut from, file.as_file_mut())?;
        self.publish(file, name, false)
    }

    /// Removes a file; nothing happens if it is not there.
    fn remove(&self, name: &Path) -> io::Result<()>;

    /// Lists what writers have not published yet, or have left behind.
    fn unfinished(&self) -> io::Result<Vec<Stored>>;
}

/// What is said if there is no room for temporary files.
pub(crate) fn no_temporary(error: io::Error) -> io::Error {
    let folder = std::env::temp_dir();
    let cause = format!("the folder for temporary files `{}`: {error}: set TMPDIR", folder.display());
    io::Error::new(error.kind(), cause)
}

/// A file of this machine that has the bytes of one that is kept.
#[derive(Debug)]
pub enum Local {
    /// That file itself.
    Itself(PathBuf),
    /// A copy, which is gone when this is dropped.
    Copy(NamedTempFile),
    /// A file that was made of several, in a folder that is gone when this is dropped.
    Restored(TempDir, PathBuf),
}

impl Local {
    /// Returns its path.
    pub fn path(&self) -> &Path {
        match self {
            Self::Itself(path) => path,
            Self::Copy(file) => file.path(),
            Self::Restored(_, path) => path,
        }
    }

    /// Opens it.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open(&self) -> io::Result<File> {
        open(self.path())
    }
}

/// Opens a file to read it. Another user may have put something else there: a pipe would let whoever opens it wait for ever.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is no regular file: remove it"))
    }
}
