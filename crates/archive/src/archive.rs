//! The archive: recordings and their tables in one folder.
//!
//! ```text
//! icecore-archive                                              says that this is an archive, and of which version
//! recordings/day=YYYY-MM-DD/service=NAME/UUID.icecore          compacted recordings with their names
//! TABLE/day=YYYY-MM-DD/service=NAME/UUID.parquet               their rows
//! .tmp/                                                        what is being written
//! ```
//!
//! A recording is published before its rows, and of these the row in `recording` last. So whatever is listed is whole, and one that was not
//! confirmed is not listed: to add it again, or `reindex`, completes it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::dataset::{Error, Written, cause, write_tables};
use crate::folder::{Folder, Stored};
use crate::partition::Partition;
use crate::pool::{Pool, Text};
use crate::read::{Readable, read};
use crate::rows::Rows;
use crate::schema::RecordingRow;
use crate::table::Row;

/// The file that says that a folder is an archive.
const MARK: &str = "icecore-archive";
/// Its text.
const MARK_TEXT: &str = "icecore archive 1\n";
/// The folder of the recordings.
const RECORDINGS: &str = "recordings";
/// What is older in `.tmp` was left there by a writer that is gone: none takes that long for a file.
pub const GRACE: Duration = Duration::from_secs(24 * 3600);

/// Why a folder is not used as an archive.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is none.
    #[error("there is no archive in `{}`: `icecore-report archive DIR add FILE…` makes one", .0.display())]
    None(PathBuf),
    /// There is something else.
    #[error("`{}` is no archive, and has files already: name an empty folder, or one that does not exist", .0.display())]
    Foreign(PathBuf),
    /// A newer version has written it.
    #[error("the archive in `{}` is of a newer version: use a newer icecore-report", .0.display())]
    Newer(PathBuf),
    /// It cannot be read or made.
    #[error("cannot open the archive `{}`", path.display())]
    Io {
        /// The folder.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// An archive.
#[derive(Debug, Clone)]
pub struct Archive {
    folder: Folder,
}

/// A session that the archive lists.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Its row.
    pub row: RecordingRow,
    /// Where its rows lie.
    pub partition: Partition,
}

/// All listed sessions, ordered by their start, and their texts.
#[derive(Debug, Default)]
pub struct Index {
    /// The sessions.
    pub listed: Vec<Listed>,
    /// Their texts.
    pub pool: Pool,
}

impl Index {
    /// Returns a text of a row.
    pub fn text(&self, text: Text) -> &str {
        self.pool.text(text)
    }
}

impl Archive {
    /// Opens an archive.
    ///
    /// # Errors
    /// If there is none, or one of a newer version.
    pub fn open(folder: Folder) -> Result<Self, OpenError> {
        let path = folder.path(Path::new(MARK));
        match fs::read_to_string(&path) {
            Ok(text) if text == MARK_TEXT => Ok(Self { folder }),
            Ok(_) => Err(OpenError::Newer(folder.root().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(OpenError::None(folder.root().to_owned()))
            }
            Err(source) => Err(OpenError::Io { path, source }),
        }
    }

    /// Opens an archive, or makes one of an empty folder or of none.
    ///
    /// # Errors
    /// If the folder holds something else, or cannot be made.
    pub fn open_or_create(folder: Folder) -> Result<Self, OpenError> {
        match Self::open(folder.clone()) {
            Err(OpenError::None(root)) => {
                let failed = |source| OpenError::Io { path: root.clone(), source };
                let is_empty = match fs::read_dir(&root) {
                    Ok(entries) => entries.flatten().all(|entry| entry.file_name() == ".tmp"),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => true,
                    Err(error) => return Err(failed(error)),
                };
                if !is_empty {
                    // A neighbour may have made it meanwhile.
                    return Self::open(folder).map_err(|error| match error {
                        OpenError::None(root) => OpenError::Foreign(root),
                        other => other,
                    });
                }
                let mark = |file: &mut fs::File| file.write_all(MARK_TEXT.as_bytes());
                folder.publish(Path::new(MARK), false, mark).map_err(failed)?;
                Self::open(folder)
            }
            opened => opened,
        }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Reads which sessions are listed. Partitions for which `is_wanted` is false are not read.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn index(&self, is_wanted: impl Fn(&Partition) -> bool) -> Result<Index, Error> {
        let mut index = Index::default();
        self.each::<RecordingRow>(is_wanted, &mut index.pool, |partition, rows| {
            let listed = |row| Listed { row, partition: partition.clone() };
            index.listed.extend(rows.into_iter().map(listed));
        })?;
        index.listed.sort_by_key(|listed| (listed.row.span_us, listed.row.recording));
        index.listed.dedup_by_key(|listed| listed.row.recording);
        Ok(index)
    }

    /// Reads a table, file by file.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn each<R: Readable>(
        &self,
        is_wanted: impl Fn(&Partition) -> bool,
        pool: &mut Pool,
        mut take: impl FnMut(&Partition, Vec<R>),
    ) -> Result<(), Error> {
        for file in self.files::<R>()? {
            let Some(partition) = Partition::in_path(&file.name) else { continue };
            if !is_wanted(&partition) {
                continue;
            }
            let path = self.folder.path(&file.name);
            let rows = match read::<R>(&path, pool).map_err(cause) {
                // A neighbour removed it after it was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                rows => rows.map_err(|source| Error::Read { path, source })?,
            };
            take(&partition, rows);
        }
        Ok(())
    }

    fn files<R: Row>(&self) -> Result<Vec<Stored>, Error> {
        self.listed_files(R::TABLE)
    }

    fn listed_files(&self, part: &str) -> Result<Vec<Stored>, Error> {
        let read = |source| Error::Read { path: self.folder.path(Path::new(part)), source };
        self.folder.list(Path::new(part)).map_err(read)
    }

    /// Lists the files of the recordings, by UUID.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn recordings(&self) -> Result<BTreeMap<String, Stored>, Error> {
        let files = self.listed_files(RECORDINGS)?.into_iter();
        let uuid =
            |file: &Stored| Some(file.name.file_name()?.to_str()?.strip_suffix(".icecore")?.to_owned());
        Ok(files.filter_map(|file| Some((uuid(&file)?, file))).collect())
    }

    /// Returns true if a recording and its rows are there.
    pub fn has(&self, partition: &Partition, uuid: &str) -> bool {
        let rows = partition.folder(RecordingRow::TABLE).join(format!("{uuid}.parquet"));
        self.folder.path(&rows).exists() && self.folder.path(&recording(partition, uuid)).exists()
    }

    /// Stores a recording; returns its path. If it is there already, that one stays, and `fill` is not called.
    ///
    /// # Errors
    /// Those of `fill` and of the file system.
    pub fn store<E: From<io::Error>>(
        &self,
        partition: &Partition,
        uuid: &str,
        fill: impl FnOnce(&mut fs::File) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let name = recording(partition, uuid);
        let path = self.folder.path(&name);
        if !path.exists() {
            self.folder.publish(&name, false, fill)?;
        }
        Ok(path)
    }

    /// Stores the rows of the sessions of a stored recording; its row in `recording` comes last.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub fn list(
        &self,
        uuid: &str,
        sessions: Vec<(Partition, Rows)>,
        pool: &Pool,
    ) -> Result<Vec<Written>, Error> {
        let mut by_partition: BTreeMap<Partition, Rows> = BTreeMap::new();
        for (partition, rows) in sessions {
            by_partition.entry(partition).or_default().append(rows);
        }
        let write = |(partition, rows)| write_tables(&self.folder, &partition, uuid, rows, pool);
        let written: Result<Vec<_>, _> = by_partition.into_iter().map(write).collect();
        Ok(written?.into_iter().flatten().collect())
    }

    /// Removes what writers that are gone have left; returns it. What is younger than [`GRACE`] may be a file that is being written.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn collect_garbage(&self, now: SystemTime) -> Result<Vec<Stored>, Error> {
        let temporary = || self.folder.path(Path::new(".tmp"));
        let unfinished =
            self.folder.unfinished().map_err(|source| Error::Read { path: temporary(), source })?;
        let is_old = |file: &Stored| now.duration_since(file.modified).is_ok_and(|age| age > GRACE);
        let old: Vec<Stored> = unfinished.into_iter().filter(is_old).collect();
        for file in &old {
            let path = self.folder.path(&file.name);
            self.folder.remove(&file.name).map_err(|source| Error::Write { path, source })?;
        }
        Ok(old)
    }
}

/// The path of a recording.
fn recording(partition: &Partition, uuid: &str) -> PathBuf {
    partition.folder(RECORDINGS).join(format!("{uuid}.icecore"))
}
