//! A folder in which files appear whole or not at all, and in which no file changes.
//!
//! ```text
//! .tmp/…  ── write ── sync ──► renamed to its place, if nothing is there ──► folder synced
//! ```
//!
//! What was published survives a crash. A process that is killed leaves at most a file in `.tmp`, which nobody reads.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use tempfile::NamedTempFile;

/// Where files are written before they have their names.
const TEMPORARY: &str = ".tmp";

/// A step that the file system is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A file is created in `.tmp`.
    Create,
    /// Its bytes are synced.
    Sync,
    /// It gets its name.
    Publish,
    /// The folder of the name is synced.
    SyncFolder,
    /// A file is removed.
    Remove,
}

/// Is asked before every step; an error takes its place. Tests let steps fail by it.
pub type Watch = Arc<dyn Fn(Step, &Path) -> io::Result<()> + Send + Sync>;

/// The folder.
#[derive(Clone)]
pub struct Folder {
    root: PathBuf,
    watch: Option<Watch>,
}

/// A file in the folder.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stored {
    /// Its path below the folder.
    pub name: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was written.
    pub modified: SystemTime,
}

impl Folder {
    /// Names a folder, which need not exist.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), watch: None }
    }

    /// Returns the folder with something that is asked before every step.
    #[must_use]
    pub fn watched(self, watch: Watch) -> Self {
        Self { watch: Some(watch), ..self }
    }

    /// Returns the path of the folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the path of a file in it.
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
    /// Those of `fill`, and of the file system. The name is as it was before, or has the whole file.
    pub fn publish<T, E: From<io::Error>>(
        &self,
        name: &Path,
        replaces: bool,
        fill: impl FnOnce(&mut File) -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.ask(Step::Create, name)?;
        let mut file = self.temporary()?;
        let filled = fill(file.as_file_mut())?;
        self.ask(Step::Sync, name)?;
        file.as_file().sync_all()?;
        let path = self.path(name);
        let folder = path.parent().unwrap_or(&self.root);
        create_folder(folder)?;
        self.ask(Step::Publish, name)?;
        let published = if replaces {
            file.persist(&path).map(|_| true)
        } else {
            file.persist_noclobber(&path).map(|_| true)
        };
        let is_new = match published {
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => false,
            published => published.map_err(|error| error.error)?,
        };
        self.ask(Step::SyncFolder, name)?;
        File::open(folder)?.sync_all()?;
        Ok(is_new.then_some(filled))
    }

    /// Makes a file for what will be published; it is gone when it is dropped.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn temporary(&self) -> io::Result<NamedTempFile> {
        let temporary = self.root.join(TEMPORARY);
        create_folder(&temporary)?;
        NamedTempFile::new_in(&temporary)
    }

    /// Removes a file; nothing happens if it is not there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn remove(&self, name: &Path) -> io::Result<()> {
        self.ask(Step::Remove, name)?;
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    /// Lists all files below a part of the folder, in the order of their names; none if there is no such part. Files whose names begin with a
    /// dot are left out, and links are not followed.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn list(&self, part: &Path) -> io::Result<Vec<Stored>> {
        let (mut found, mut folders) = (Vec::new(), vec![part.to_owned()]);
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.path(&folder)) {
                // A neighbour may have removed it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries?,
            };
            for entry in entries {
                let entry = entry?;
                if entry.file_name().as_encoded_bytes().starts_with(b".") {
                    continue;
                }
                let (name, kind) = (folder.join(entry.file_name()), entry.file_type()?);
                match entry.metadata() {
                    _ if kind.is_dir() => folders.push(name),
                    Ok(meta) if kind.is_file() => {
                        found.push(Stored { name, bytes: meta.len(), modified: meta.modified()? });
                    }
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    _ => {}
                }
            }
        }
        found.sort();
        Ok(found)
    }

    /// Lists what writers have in `.tmp` now, or have left there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn unfinished(&self) -> io::Result<Vec<Stored>> {
        let entries = match fs::read_dir(self.root.join(TEMPORARY)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            // What is gone by now was published.
            let Ok(meta) = entry.metadata() else { continue };
            let name = Path::new(TEMPORARY).join(entry.file_name());
            found.push(Stored { name, bytes: meta.len(), modified: meta.modified()? });
        }
        Ok(found)
    }
}

/// Creates a folder and those above it; each is on the disk when this returns.
fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_folder(above)?;
    match fs::create_dir(folder) {
        // A neighbour was faster.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.and_then(|()| File::open(above)?.sync_all()),
    }
}

impl std::fmt::Debug for Folder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Folder").field("root", &self.root).finish_non_exhaustive()
    }
}
