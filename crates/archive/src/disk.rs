//! Files in a folder.
//!
//! ```text
//! .tmp/…  ── synced ──► renamed to its place, if nothing is there ──► folder synced
//! ```
//!
//! A process that is killed leaves at most a file in `.tmp`, which nobody reads. In a folder that belongs to others as well, such a file lies
//! beside theirs: `.icecore-….part`.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::NamedTempFile;

use crate::store::{Local, Store, Stored, Tail, open};

/// Where files are written before they have their names.
const TEMPORARY: &str = ".tmp";

/// How the names begin and end that such files have in a folder which belongs to others as well.
const BEGIN: &str = ".icecore-";
const END: &str = ".part";

/// The folder.
pub(crate) struct Disk {
    root: PathBuf,
    /// Nothing but what is published is made, not even the folder itself.
    is_of_others: bool,
}

impl Disk {
    /// Names a folder, which need not exist.
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), is_of_others: false }
    }

    /// Names a folder that somebody else provides. While it is not there, nothing takes its place: it may be mounted again.
    pub(crate) fn of_others(root: &Path) -> Self {
        Self { root: root.to_owned(), is_of_others: true }
    }
}

impl Store for Disk {
    /// Links are not followed.
    fn list(&self, part: &Path) -> io::Result<Vec<Stored>> {
        let (mut found, mut folders) = (Vec::new(), vec![part.to_owned()]);
        while let Some(folder) = folders.pop() {
            let entries = match fs::read_dir(self.root.join(&folder)) {
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

    fn is_empty(&self) -> io::Result<bool> {
        match fs::read_dir(&self.root) {
            Ok(entries) => Ok(entries.flatten().all(|entry| entry.file_name() == TEMPORARY)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn read(&self, name: &Path) -> io::Result<Bytes> {
        let mut bytes = Vec::new();
        open(&self.root.join(name))?.read_to_end(&mut bytes)?;
        Ok(bytes.into())
    }

    fn tail(&self, name: &Path, most: u64) -> io::Result<Tail> {
        let mut file = open(&self.root.join(name))?;
        let size = file.metadata()?.len();
        file.seek(SeekFrom::Start(size.saturating_sub(most)))?;
        let mut last = Vec::with_capacity(size.min(most) as usize);
        file.take(most).read_to_end(&mut last)?;
        Ok(Tail { last: last.into(), size })
    }

    fn local(&self, name: &Path) -> io::Result<Local> {
        Ok(Local::Itself(self.root.join(name)))
    }

    fn temporary(&self) -> io::Result<NamedTempFile> {
        if self.is_of_others {
            return tempfile::Builder::new().prefix(BEGIN).suffix(END).tempfile_in(&self.root);
        }
        let temporary = self.root.join(TEMPORARY);
        create_folder(&temporary)?;
        NamedTempFile::new_in(&temporary)
    }

    fn publish(&self, file: NamedTempFile, name: &Path, replaces: bool) -> io::Result<bool> {
        file.as_file().sync_all()?;
        let path = self.root.join(name);
        let folder = path.parent().unwrap_or(&self.root);
        if !self.is_of_others {
            create_folder(folder)?;
        }
        let published = if replaces { file.persist(&path) } else { file.persist_noclobber(&path) };
        match published {
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            published => published.map_err(|error| error.error)?,
        };
        File::open(folder)?.sync_all()?;
        Ok(true)
    }

    fn remove(&self, name: &Path) -> io::Result<()> {
        match fs::remove_file(self.root.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn unfinished(&self) -> io::Result<Vec<Stored>> {
        let below = Path::new(if self.is_of_others { "" } else { TEMPORARY });
        let entries = match fs::read_dir(self.root.join(below)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let bytes = name.as_encoded_bytes();
            if self.is_of_others && !(bytes.starts_with(BEGIN.as_bytes()) && bytes.ends_with(END.as_bytes()))
            {
                continue;
            }
            // What is gone by now was published.
            let Ok(meta) = entry.metadata() else { continue };
            let name = below.join(name);
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
