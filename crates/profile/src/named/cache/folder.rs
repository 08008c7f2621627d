//! The files of the cache: counted, checked, and removed when they are too many.

use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use icecore_files::private;
use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::SessionV1;

use super::Cache;

/// The most images whose names are kept.
const MAX_IMAGES: usize = 4096;
/// The largest file that is read, bytes.
const MAX_FILE_BYTES: u64 = 256 << 20;

/// The contents of the folder.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stats {
    /// The number of images whose names are kept.
    pub images: u64,
    /// The number of recordings whose stacks are kept; a recording of which parts were requested counts once for each.
    pub recordings: u64,
    /// How many of these files are damaged, or of another version of this program, and not used.
    pub unusable: u64,
    /// The size of all files, bytes.
    pub bytes: u64,
}

/// What a file of the cache contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contents {
    /// Names of an image.
    Names,
    /// Stacks of a recording.
    Stacks,
}

/// The most of one kind that is kept; beyond that the oldest files are removed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) files: usize,
    pub(super) bytes: u64,
}

impl Cache {
    /// Removes the oldest files of each kind if there are too many, or they are too large together; call it once, after all files are
    /// written.
    pub(super) fn trim(&self) {
        for kind in Contents::ALL {
            drop(self.trim_to(kind, kind.limits()));
        }
    }

    pub(super) fn trim_to(&self, kind: Contents, limits: Limits) -> io::Result<()> {
        let age = |file: &PathBuf| {
            let meta = file.metadata().ok();
            let modified = meta.as_ref().and_then(|meta| meta.modified().ok());
            (modified.unwrap_or(SystemTime::UNIX_EPOCH), meta.map_or(0, |meta| meta.len()))
        };
        let files = self.files()?.into_iter().filter(|(of, _)| *of == kind);
        let mut files: Vec<((SystemTime, u64), PathBuf)> =
            files.map(|(_, path)| (age(&path), path)).collect();
        let mut bytes: u64 = files.iter().map(|((_, len), _)| *len).sum();
        if files.len() <= limits.files && bytes <= limits.bytes {
            return Ok(());
        }
        files.sort_unstable();
        let mut left = files.len();
        for ((_, len), path) in files {
            // Removes a few more than necessary, so that not every report has to.
            if left <= limits.files * 7 / 8 && bytes <= limits.bytes / 8 * 7 {
                break;
            }
            drop(std::fs::remove_file(path));
            (left, bytes) = (left - 1, bytes - len);
        }
        Ok(())
    }

    /// Counts the files of the cache, and checks them.
    ///
    /// # Errors
    /// If others can change the folder, or it cannot be read. A folder that does not exist is empty.
    pub fn stats(&self) -> io::Result<Stats> {
        let mut stats = Stats::default();
        for (kind, path) in self.files()? {
            match kind {
                Contents::Names => stats.images += 1,
                Contents::Stacks => stats.recordings += 1,
            }
            stats.bytes += path.metadata().map_or(0, |meta| meta.len());
            stats.unusable += u64::from(!self.is_usable(&path, kind));
        }
        Ok(stats)
    }

    /// Removes all files of the cache and returns what they were. Other files in the folder stay.
    ///
    /// # Errors
    /// If the folder cannot be read, or a file cannot be removed.
    pub fn clear(&self) -> io::Result<Stats> {
        let stats = self.stats()?;
        for (_, path) in self.files()? {
            match std::fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(stats)
    }

    /// Returns true if a file is whole, and this version of the program has written it.
    fn is_usable(&self, path: &Path, kind: Contents) -> bool {
        let session = |recording: &Recording| {
            let mut entries = recording.entries().iter();
            let entry = entries.find(|entry| entry.header.kind == Kind::SESSION)?;
            recording.payload(entry).ok()?.view::<SessionV1>().ok()?.to_owned_record().ok()
        };
        let is_whole =
            |recording: &Recording| recording.entries().iter().all(|entry| recording.stored(entry).is_ok());
        let recording = self.open(path).ok().flatten().filter(is_whole);
        recording.as_ref().and_then(session).is_some_and(|session| session.recorder == kind.maker())
    }

    /// Opens a file; `None` if it is none of this cache, or damaged.
    ///
    /// # Errors
    /// If others than this user and root can change the folder, or the file cannot be opened.
    pub(super) fn open(&self, path: &Path) -> Result<Option<Recording>, Error> {
        private::check(&self.dir).map_err(io::Error::from)?;
        let meta = std::fs::symlink_metadata(path)?;
        if !private::is_own(&meta) || meta.len() > MAX_FILE_BYTES {
            return Ok(None);
        }
        let recording = Recording::open(path)?;
        Ok(Some(recording).filter(|recording| recording.is_closed() && recording.damage().is_empty()))
    }

    /// Lists the files of the cache. Others may lie in the folder.
    fn files(&self) -> io::Result<Vec<(Contents, PathBuf)>> {
        private::check(&self.dir)?;
        let entries = match std::fs::read_dir(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut files = Vec::new();
        for entry in entries {
            let path = entry?.path();
            files.extend(Contents::of(&path).map(|kind| (kind, path)));
        }
        Ok(files)
    }
}

impl Contents {
    const ALL: [Self; 2] = [Self::Names, Self::Stacks];

    fn of(path: &Path) -> Option<Self> {
        let name = path.as_os_str().as_encoded_bytes();
        Self::ALL.into_iter().find(|kind| name.ends_with(kind.suffix().as_bytes()))
    }

    /// Returns the suffix of the names of its files.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Names => ".names",
            Self::Stacks => ".unwound",
        }
    }

    /// Returns the writer that its files state. The number after the version goes up whenever what they contain changes.
    pub(super) fn maker(self) -> &'static str {
        match self {
            Self::Names => concat!("icecore-report ", env!("CARGO_PKG_VERSION"), " names 2"),
            Self::Stacks => concat!("icecore-report ", env!("CARGO_PKG_VERSION"), " unwound 2"),
        }
    }

    fn limits(self) -> Limits {
        match self {
            Self::Names => Limits { files: MAX_IMAGES, bytes: u64::MAX },
            Self::Stacks => Limits { files: 1024, bytes: 1 << 30 },
        }
    }
}
