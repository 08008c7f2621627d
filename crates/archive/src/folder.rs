//! A folder in which files appear whole or not at all, and in which no file changes; or the part of a bucket that is used as one.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tempfile::NamedTempFile;

use crate::disk::Disk;
use crate::s3::{Bucket, SettingsError};
use crate::store::Store;
pub use crate::store::{Local, Stored, Tail};

/// How names of folders in buckets begin.
const S3: &str = "s3://";

/// Returns true if a folder that a user typed is in a bucket.
pub fn is_bucket(typed: &Path) -> bool {
    in_bucket(typed).is_some()
}

fn in_bucket(typed: &Path) -> Option<&str> {
    typed.to_str()?.strip_prefix(S3).map(|rest| rest.trim_end_matches('/'))
}

/// A step that is asked of what keeps the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A file is created that has no name yet.
    Create,
    /// It gets its name.
    Publish,
    /// A file is removed.
    Remove,
}

/// Is asked before every step; an error takes its place. Tests let steps fail by it.
pub type Watch = Arc<dyn Fn(Step, &Path) -> io::Result<()> + Send + Sync>;

/// The folder.
#[derive(Clone)]
pub struct Folder {
    /// As users name it.
    root: PathBuf,
    store: Arc<dyn Store>,
    watch: Option<Watch>,
}

impl Folder {
    /// Names a folder of this machine, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), store: Arc::new(Disk::new(root)), watch: None }
    }

    /// Names a folder as a user typed it: a path, or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// If it names a bucket, and its name or what the environment says of it is wrong.
    pub fn of(typed: &Path) -> Result<Self, SettingsError> {
        let Some(name) = in_bucket(typed) else { return Ok(Self::new(typed)) };
        let store = Arc::new(Bucket::from_env(name)?);
        Ok(Self { root: format!("{S3}{name}").into(), store, watch: None })
    }

    /// Names a folder, as a user typed it, that belongs to others as well: it is not created, and only files appear in it.
    ///
    /// # Errors
    /// As above.
    pub fn of_others(typed: &Path) -> Result<Self, SettingsError> {
        match in_bucket(typed) {
            Some(_) => Self::of(typed),
            None => Ok(Self { store: Arc::new(Disk::of_others(typed)), ..Self::new(typed) }),
        }
    }

    /// Names a folder that something else keeps.
    #[cfg(test)]
    pub(crate) fn kept_by(store: Arc<dyn Store>) -> Self {
        Self { root: PathBuf::from("memory"), store, watch: None }
    }

    /// Returns the folder with something that is asked before every step.
    #[must_use]
    pub fn watched(self, watch: Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Returns the path of the folder, as messages name it.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file in it, as messages name it.
    pub fn path(&self, name: &Path) -> PathBuf {
        self.root.join(name)
    }

    fn ask(&self, step: Step, name: &Path) -> io::Result<()> {
        self.watch.as_ref().map_or(Ok(()), |watch| watch(step, name))
    }

    /// Writes a file that only its owner may read, and gives it its name. If there is a file of this name, it stays, and the result is
    /// `None`; with `replaces` the new one takes its place.
    ///
    /// # Errors
    /// Those of `fill`, and of what keeps the file. The name is as it was before, or has the whole file.
    pub fn publish<T, E: From<io::Error>>(
        &self,
        name: &Path,
        replaces: bool,
        fill: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.ask(Step::Create, name)?;
        let mut file = self.temporary()?;
        let filled = fill(file.as_file_mut())?;
        self.ask(Step::Publish, name)?;
        Ok(self.store.publish(file, name, replaces)?.then_some(filled))
    }

    /// Publishes a copy of a file of this machine. Returns false if there is a file of this name; it stays.
    ///
    /// # Errors
    /// Those of what keeps the file. The name is as it was before, or has the whole file.
    pub fn take(&self, from: &File, name: &Path) -> io::Result<bool> {
        self.ask(Step::Create, name)?;
        self.ask(Step::Publish, name)?;
        self.store.take(from, name)
    }

    /// Makes a file for what will be published; it is gone when it is dropped.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn temporary(&self) -> io::Result<NamedTempFile> {
        self.store.temporary()
    }

    /// Removes a file; nothing happens if it is not there.
    ///
    /// # Errors
    /// Those of what keeps it.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        self.ask(Step::Remove, name)?;
        self.store.remove(name)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// Those of what keeps it; of the kind [`io::ErrorKind::NotFound`] if it is not there. So of the following ones.
    pub fn read(&self, name: &Path) -> io::Result<Bytes> {
        self.store.read(name)
    }

    /// Reads the last bytes of a file, at most so many.
    ///
    /// # Errors
    /// As above.
    pub fn tail(&self, name: &Path, most: u64) -> io::Result<Tail> {
        self.store.tail(name, most)
    }

    /// Returns a file of this machine with the same bytes.
    ///
    /// # Errors
    /// As above.
    pub fn local(&self, name: &Path) -> io::Result<Local> {
        self.store.local(name)
    }

    /// Lists all files below a part of the folder, in the order of their names; none if there is no such part. Files whose names begin with a
    /// dot are left out.
    ///
    /// # Errors
    /// Those of what keeps them.
    pub fn list(&self, part: &Path) -> io::Result<Vec<Stored>> {
        self.store.list(part)
    }

    /// Returns true if there is nothing, not even what others have put there.
    ///
    /// # Errors
    /// Those of what keeps it.
    pub fn is_empty(&self) -> io::Result<bool> {
        self.store.is_empty()
    }

    /// Lists what writers have not published yet, or have left behind.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn unfinished(&self) -> io::Result<Vec<Stored>> {
        self.store.unfinished()
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("root", &self.root).finish_non_exhaustive()
    }
}
