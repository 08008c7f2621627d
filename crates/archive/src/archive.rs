//! The archive: recordings and their tables in one folder.
//!
//! ```text
//! icecore-archive                                              says that this is an archive, and of which version
//! recordings/day=YYYY-MM-DD/service=NAME/UUID.icecore          compacted recordings with their names
//! recordings/day=YYYY-MM-DD/service=NAME/UUID.nameless         those without the names that they share (`share`)
//! names/BUILDID/LINEAGE-NUMBER.names                           these names
//! TABLE/day=YYYY-MM-DD/service=NAME/UUID.parquet               their rows
//! TABLE/day=YYYY-MM-DD/service=NAME/merged-E-HASH.parquet      the rows of several (`merge`)
//! daily/day=YYYY-MM-DD/service=NAME/NUMBER.parquet             the sums of those that were pruned (`prune`)
//! .tmp/                                                        what is being written
//! ```
//!
//! A recording is published before its rows, and of these the rows in `recording` last. So whatever is listed is whole. If one was not
//! confirmed, not all of its sessions are listed: to add it again, or `reindex`, completes it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use rayon::prelude::*;

use crate::dataset::{Error, Written, cause, write_table, write_tables};
use crate::folder::{Folder, Stored};
use crate::merge::{self, Part, is_uuid, merged, settle};
use crate::names::Kept;
use crate::partition::Partition;
use crate::pool::{Pool, Text};
use crate::read::{Readable, TableFile};
use crate::rows::Rows;
use crate::schema::{CounterRow, FunctionRow, ImageRow, RecordingRow, SampleRow, StackRow};
use crate::table::{Origin, Row, write};

/// The file that says that a folder is an archive.
const MARK: &str = "icecore-archive";
/// Its text.
const MARK_TEXT: &str = "icecore archive 1\n";
/// The folder of the recordings.
const RECORDINGS: &str = "recordings";
/// How names of recordings end that have not the names that they share.
pub(crate) const NAMELESS: &str = "nameless";
/// What is older in `.tmp` was left there by a writer that is gone: none takes that long for a file.
pub const GRACE: Duration = Duration::from_secs(24 * 3600);

/// The rows that a table may have after merging: they lie in memory meanwhile, with 100 to 400 bytes each.
pub const MAX_MERGED: u64 = 4_000_000;
/// How often a folder is read again that others change meanwhile.
pub(crate) const TRIES: u32 = 20;

/// The names of all tables.
pub const TABLES: [&str; 6] = [
    RecordingRow::TABLE,
    FunctionRow::TABLE,
    StackRow::TABLE,
    SampleRow::TABLE,
    ImageRow::TABLE,
    CounterRow::TABLE,
];

/// What was merged.
#[derive(Debug, Default)]
pub struct Compacted {
    /// Files of tables before.
    pub before: u64,
    /// Files of tables after.
    pub after: u64,
    /// Folders that are left as they are, because they have too many rows.
    pub left: BTreeSet<PathBuf>,
    /// Recordings that share their names now.
    pub nameless: u64,
}

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
    /// Names that recordings share, as far as they were read.
    pub(crate) kept: Arc<Kept>,
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
        match Self::mark(&folder) {
            Ok(text) if text == MARK_TEXT => Ok(Self { folder, kept: Arc::default() }),
            Ok(_) => Err(OpenError::Newer(folder.root().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(OpenError::None(folder.root().to_owned()))
            }
            Err(source) => Err(OpenError::Io { path: folder.root().to_owned(), source }),
        }
    }

    /// Returns true if a folder says that it is an archive.
    pub fn is_in(folder: &Folder) -> bool {
        Self::mark(folder).is_ok()
    }

    /// Reads the file that says so, which somebody else may have made.
    fn mark(folder: &Folder) -> io::Result<Bytes> {
        folder.tail(Path::new(MARK), 2 * MARK_TEXT.len() as u64).map(|tail| tail.last)
    }

    /// Opens an archive, or makes one of an empty folder or of none.
    ///
    /// # Errors
    /// If the folder holds something else, or cannot be made.
    pub fn open_or_create(folder: Folder) -> Result<Self, OpenError> {
        match Self::open(folder.clone()) {
            Err(OpenError::None(root)) => {
                let failed = |source| OpenError::Io { path: root.clone(), source };
                if !folder.is_empty().map_err(failed)? {
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
        let taken =
            self.map::<RecordingRow, _>(is_wanted, |pool, partition, rows| (pool, partition.clone(), rows))?;
        for (pool, partition, rows) in taken {
            let row = |row: RecordingRow| row.moved(&pool, &mut index.pool);
            let listed = rows.into_iter().map(row).map(|row| Listed { row, partition: partition.clone() });
            index.listed.extend(listed);
        }
        index.listed.sort_by_key(|listed| (listed.row.span_us, listed.row.recording));
        index.listed.dedup_by_key(|listed| listed.row.recording);
        Ok(index)
    }

    /// Reads a table, partition by partition.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn each<R: Readable>(
        &self,
        is_wanted: impl Fn(&Partition) -> bool,
        pool: &mut Pool,
        mut take: impl FnMut(&Pool, &Partition, Vec<R>),
    ) -> Result<(), Error> {
        for (partition, files) in self.partitions(R::TABLE)?.into_iter().filter(|it| is_wanted(&it.0)) {
            let rows = self.rows_in(&partition, files, pool)?;
            take(pool, &partition, rows);
        }
        Ok(())
    }

    /// Reads a table on all CPUs: `take` gets the rows of each partition, with texts of their own. Results are in the order of partitions.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn map<R: Readable, T: Send>(
        &self,
        is_wanted: impl Fn(&Partition) -> bool,
        take: impl Fn(Pool, &Partition, Vec<R>) -> T + Sync,
    ) -> Result<Vec<T>, Error> {
        let partitions = self.partitions(R::TABLE)?.into_iter().filter(|it| is_wanted(&it.0));
        let partitions: Vec<_> = partitions.collect();
        let taken = partitions.into_par_iter().map(|(partition, files)| {
            let mut pool = Pool::default();
            let rows = self.rows_in(&partition, files, &mut pool)?;
            Ok(take(pool, &partition, rows))
        });
        taken.collect()
    }

    /// Reads the rows of a table in one partition.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn rows<R: Readable>(&self, partition: &Partition, pool: &mut Pool) -> Result<Vec<R>, Error> {
        self.rows_in(partition, self.listed_files(&partition.folder(R::TABLE))?, pool)
    }

    /// Reads the rows of a table in files of one partition, or in those that are there by now.
    fn rows_in<R: Readable>(
        &self,
        partition: &Partition,
        files: Vec<Stored>,
        pool: &mut Pool,
    ) -> Result<Vec<R>, Error> {
        let mut files = files;
        for _ in 0..TRIES {
            let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
            let read = self.parts_of(R::TABLE, files).and_then(|parts| {
                merge::read(&self.folder, &settle(parts).0, pool).map_err(|(file, error)| (file.name, error))
            });
            match read {
                // A neighbour merged it with others after it was listed.
                Err((_, error)) if gone(&error) => files = self.listed_files(&partition.folder(R::TABLE))?,
                read => return read.map_err(|(name, source)| self.read_error(&name, source)),
            }
        }
        Err(self.read_error(&partition.folder(R::TABLE), io::Error::other("it changes all the time")))
    }

    /// Finds the files of a table in one partition that are not, byte by byte, what this version writes of the rows in them: Parquet has no
    /// checksum of a whole file. Files that another version wrote are left out.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn scrub<R: Readable>(&self, partition: &Partition) -> Result<Vec<PathBuf>, Error> {
        let mut wrong = Vec::new();
        for part in settle(self.parts(R::TABLE, partition)?).0 {
            wrong.extend(self.scrub_file::<R>(&part.file.name)?);
        }
        Ok(wrong)
    }

    /// Returns the path of a file if it is not what its rows give.
    pub(crate) fn scrub_file<R: Readable>(&self, name: &Path) -> Result<Option<PathBuf>, Error> {
        let path = self.folder.path(name);
        let is_same = || -> io::Result<bool> {
            let mut pool = Pool::default();
            let bytes = self.folder.read(name)?;
            let file = TableFile::new(R::TABLE, bytes.clone()).map_err(cause)?;
            if !file.head.is_ours {
                return Ok(true);
            }
            let mut rows = file.read::<R>(&mut pool).map_err(cause)?;
            let origin = Origin { recordings: file.head.recordings, epoch: file.head.epoch };
            let mut again = Vec::new();
            write(&mut rows, &pool, &origin, &mut again).map_err(cause)?;
            Ok(bytes == again)
        };
        match is_same() {
            Ok(true) => Ok(None),
            Ok(false) => Ok(Some(path)),
            // A neighbour merged it with others.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(Error::Read { path, source }),
        }
    }

    pub(crate) fn read_error(&self, name: &Path, source: io::Error) -> Error {
        Error::Read { path: self.folder.path(name), source }
    }

    /// Lists the files of a table in one partition.
    pub(crate) fn parts(&self, table: &str, partition: &Partition) -> Result<Vec<Part>, Error> {
        let mut tries = 0;
        loop {
            match self.parts_of(table, self.listed_files(&partition.folder(table))?) {
                Err((_, error)) if error.kind() == io::ErrorKind::NotFound && tries < TRIES => tries += 1,
                parts => return parts.map_err(|(name, source)| self.read_error(&name, source)),
            }
        }
    }

    /// Looks at files of a table.
    fn parts_of(&self, table: &str, files: Vec<Stored>) -> Result<Vec<Part>, (PathBuf, io::Error)> {
        let part = |file: Stored| {
            let name = file.name.clone();
            Part::new(&self.folder, table, file).map_err(|error| (name, error)).transpose()
        };
        files.into_iter().filter_map(part).collect()
    }

    /// Lists the files of a table by partition.
    pub(crate) fn partitions(&self, table: &str) -> Result<BTreeMap<Partition, Vec<Stored>>, Error> {
        let mut partitions: BTreeMap<Partition, Vec<Stored>> = BTreeMap::new();
        for file in self.listed_files(Path::new(table))? {
            if let Some(partition) = Partition::in_path(&file.name) {
                partitions.entry(partition).or_default().push(file);
            }
        }
        Ok(partitions)
    }

    /// Merges the files of every day and service into one of each table, and removes those that do not count, and the rows of recordings that
    /// were pruned. Returns how many files there were and are, and the partitions that are left as they are because a table has more than
    /// [`MAX_MERGED`] rows.
    ///
    /// # Errors
    /// If a file cannot be read, written or removed. Nothing is lost then.
    pub fn compact(&self) -> Result<Compacted, Error> {
        let mut done = Compacted::default();
        self.complete_pruning()?;
        done.nameless = self.share_names(SystemTime::now())?;
        self.compact_table::<SampleRow>(&mut done)?;
        self.compact_table::<StackRow>(&mut done)?;
        self.compact_table::<FunctionRow>(&mut done)?;
        self.compact_table::<ImageRow>(&mut done)?;
        self.compact_table::<CounterRow>(&mut done)?;
        self.compact_table::<RecordingRow>(&mut done)?;
        // Whoever has listed them meanwhile reads them for a moment.
        self.remove_named()?;
        Ok(done)
    }

    fn compact_table<R: Readable>(&self, done: &mut Compacted) -> Result<(), Error> {
        for partition in self.partitions(R::TABLE)?.into_keys() {
            let parts = self.parts(R::TABLE, &partition)?;
            done.before += parts.len() as u64;
            let (live, covered) = settle(parts);
            let mut removed = covered;
            if live.len() > 1 {
                if self.count_rows(R::TABLE, &live)? > MAX_MERGED {
                    done.left.insert(partition.folder(R::TABLE));
                } else {
                    let mut pool = Pool::default();
                    let read = merge::read::<R>(&self.folder, &live, &mut pool);
                    let mut rows = match read {
                        // A neighbour merges the same files.
                        Err((_, error)) if error.kind() == io::ErrorKind::NotFound => continue,
                        read => read.map_err(|(file, source)| self.read_error(&file.name, source))?,
                    };
                    R::without_doubles(&mut rows);
                    let epoch = live.iter().map(|part| part.epoch).max().unwrap_or(0);
                    let recordings = live.iter().flat_map(|part| part.recordings.iter().cloned());
                    let (name, origin) = merged(recordings, epoch);
                    write_table(
                        (&self.folder, &partition, &name, (&pool, &origin)),
                        &mut rows,
                        &mut Vec::new(),
                    )?;
                    removed.extend(live);
                    done.after += 1;
                }
            } else {
                done.after += live.len() as u64;
            }
            self.remove_parts(&removed)?;
        }
        Ok(())
    }

    fn count_rows(&self, table: &str, live: &[Part]) -> Result<u64, Error> {
        let rows = |part: &Part| match merge::head(&self.folder, table, &part.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            head => {
                head.map(|(head, _)| head.rows).map_err(|source| self.read_error(&part.file.name, source))
            }
        };
        live.iter().map(rows).sum()
    }

    pub(crate) fn remove_parts(&self, parts: &[Part]) -> Result<(), Error> {
        parts.iter().try_for_each(|part| self.remove(&part.file.name))
    }

    pub(crate) fn remove(&self, name: &Path) -> Result<(), Error> {
        self.folder.remove(name).map_err(|source| Error::Write { path: self.folder.path(name), source })
    }

    /// Writes the tables of a partition anew: `rows` are those of all its recordings, whose UUIDs follow. What has other recordings stays.
    ///
    /// # Errors
    /// If a file cannot be written or removed.
    pub fn rewrite(
        &self,
        partition: &Partition,
        rows: Rows,
        recordings: &BTreeSet<String>,
        pool: &Pool,
    ) -> Result<(), Error> {
        let (mut old, mut epoch) = (Vec::new(), 0);
        for table in TABLES {
            for file in self.listed_files(&partition.folder(table))? {
                match Part::new(&self.folder, table, file.clone()) {
                    Ok(None) => {}
                    Ok(Some(part)) => {
                        epoch = part.epoch.max(epoch);
                        if part.recordings.iter().all(|uuid| recordings.contains(uuid)) {
                            old.push(file.name);
                        }
                    }
                    // What cannot be read counts for nothing.
                    Err(_) => old.push(file.name),
                }
            }
        }
        let (name, origin) = merged(recordings.iter().cloned(), epoch + 1);
        write_tables(&self.folder, partition, &name, rows, (pool, &origin))?;
        old.iter().try_for_each(|name| self.remove(name))
    }

    /// Lists the files of a part of the archive. A listing that changes meanwhile may lack both a file that was merged and the one into which
    /// it went; two equal ones lack nothing.
    pub(crate) fn listed_files(&self, part: &Path) -> Result<Vec<Stored>, Error> {
        let list = || self.folder.list(part).map_err(|source| self.read_error(part, source));
        let mut listed = list()?;
        for _ in 0..TRIES {
            let again = list()?;
            if listed == again {
                break;
            }
            listed = again;
        }
        Ok(listed)
    }

    /// Lists the files of the recordings, by UUID: [`Archive::local`] reads them.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn recordings(&self) -> Result<BTreeMap<String, Stored>, Error> {
        Ok(self.recording_files()?.into_iter().filter_map(|file| Some((uuid(&file)?, file))).collect())
    }

    /// Lists the files of the recordings; there may be two of one, with its names and without.
    pub(crate) fn recording_files(&self) -> Result<Vec<Stored>, Error> {
        let mut files = self.listed_files(Path::new(RECORDINGS))?;
        files.retain(|file| uuid(file).is_some());
        Ok(files)
    }

    /// Stores a recording; returns its path in the folder. If it is there already, that one stays.
    ///
    /// # Errors
    /// Those of `fill`, and of what keeps the file.
    pub fn store<E: From<io::Error>>(
        &self,
        partition: &Partition,
        uuid: &str,
        fill: impl FnOnce(&mut fs::File) -> Result<(), E>,
    ) -> Result<PathBuf, E> {
        let name = recording(partition, uuid);
        self.folder.publish(&name, false, fill)?;
        Ok(name)
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
        let mut written = Vec::new();
        let mut write = |partition: &Partition, rows: Rows| {
            let origin = (pool, &Origin::default());
            written.extend(write_tables(&self.folder, partition, uuid, rows, origin)?);
            Ok(())
        };
        // What is listed is there, in all partitions.
        let mut listed = Vec::new();
        for (partition, mut rows) in by_partition {
            let recordings = std::mem::take(&mut rows.recordings);
            write(&partition, rows)?;
            listed.push((partition, Rows { recordings, ..Rows::default() }));
        }
        listed.into_iter().try_for_each(|(partition, rows)| write(&partition, rows))?;
        Ok(written)
    }

    /// Lists files among those of the tables that do not belong there: of recordings that are not stored, or that the archive has not written.
    ///
    /// # Errors
    /// If a folder cannot be read.
    pub fn strays(&self) -> Result<Vec<PathBuf>, Error> {
        let mut parts = Vec::new();
        for table in TABLES {
            for file in self.listed_files(Path::new(table))? {
                let path = self.folder.path(&file.name);
                // Whoever reads a table that cannot be read says what is wrong.
                parts.extend(Part::new(&self.folder, table, file).ok().map(|part| (path, part)));
            }
        }
        // A recording is published before its rows: those of what is being added now are no strays.
        let stored = self.recordings()?;
        let is_known = |part: &Part| part.recordings.iter().all(|uuid| stored.contains_key(uuid));
        let strays = parts.into_iter().filter(|(_, part)| !part.as_ref().is_some_and(is_known));
        Ok(strays.map(|(path, _)| path).collect())
    }

    /// Removes what writers that are gone have left, what interrupted prunings have left, and files of tables that were merged into others;
    /// returns the files. In `.tmp`, what is younger than [`GRACE`] may be a file that is being written.
    ///
    /// # Errors
    /// If a file cannot be removed.
    pub fn collect_garbage(&self, now: SystemTime) -> Result<Vec<Stored>, Error> {
        self.complete_pruning()?;
        let temporary = || self.folder.path(Path::new(".tmp"));
        let unfinished =
            self.folder.unfinished().map_err(|source| Error::Read { path: temporary(), source })?;
        let is_old = |file: &Stored| now.duration_since(file.modified).is_ok_and(|age| age > GRACE);
        let mut old: Vec<Stored> = unfinished.into_iter().filter(is_old).collect();
        for table in TABLES {
            for partition in self.partitions(table)?.into_keys() {
                let (_, covered) = settle(self.parts(table, &partition)?);
                old.extend(covered.into_iter().map(|part| part.file));
            }
        }
        old.iter().try_for_each(|file| self.remove(&file.name))?;
        old.extend(self.collect_names(now)?);
        self.remove_named()?;
        Ok(old)
    }
}

/// The UUID of a recording, if a file is one.
fn uuid(file: &Stored) -> Option<String> {
    let (uuid, kind) = file.name.file_name()?.to_str()?.split_once('.')?;
    (is_uuid(uuid) && matches!(kind, "icecore" | NAMELESS)).then(|| uuid.to_owned())
}

/// The path of a recording.
fn recording(partition: &Partition, uuid: &str) -> PathBuf {
    partition.folder(RECORDINGS).join(format!("{uuid}.icecore"))
}
