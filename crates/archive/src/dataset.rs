//! Tables of many recordings as files in folders: `TABLE/day=YYYY-MM-DD/service=NAME/FILE.parquet`.
//!
//! Rows wait in memory until [`Dataset::finish`], or until they are many; then those of a day and a service become one file of each table.
//! Its name follows from the sessions in it, so that to write the same recordings again replaces files by equal ones.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::folder::Folder;
use crate::id::Id;
use crate::partition::Partition;
use crate::pool::Pool;
use crate::rows::Rows;
use crate::schema::StackRow;
use crate::table::{Origin, Row, write};

/// The samples that wait for being written, of all days and services, at most: beyond them memory would grow by about 150 bytes each.
const MAX_SAMPLES: usize = 2_000_000;

/// Why tables were not written or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A folder or file cannot be made.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The folder or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A folder or file cannot be read.
    #[error("cannot read `{}`", path.display())]
    Read {
        /// The folder or file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A file that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The table.
    pub table: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Its rows.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Tables of many recordings that are being written.
#[derive(Debug)]
pub struct Dataset {
    folder: Folder,
    pool: Pool,
    waiting: BTreeMap<Partition, Rows>,
    written: Vec<Written>,
}

impl Dataset {
    /// Writes into a folder, which need not exist.
    pub fn new(folder: Folder) -> Self {
        let (pool, waiting, written) = Default::default();
        Self { folder, pool, waiting, written }
    }

    /// Returns where rows have their texts.
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Adds the rows of a session.
    ///
    /// # Errors
    /// If rows that waited must be written, and cannot.
    pub fn add(&mut self, partition: Partition, rows: Rows) -> Result<(), Error> {
        self.waiting.entry(partition).or_default().append(rows);
        if self.waiting.values().map(|rows| rows.samples.len()).sum::<usize>() > MAX_SAMPLES {
            self.store_all()?;
        }
        Ok(())
    }

    fn store_all(&mut self) -> Result<(), Error> {
        std::mem::take(&mut self.waiting)
            .into_iter()
            .try_for_each(|(partition, rows)| self.store(&partition, rows))
    }

    /// Writes what waits; returns all files that were written.
    ///
    /// # Errors
    /// If a file cannot be written. Those that were are whole.
    pub fn finish(mut self) -> Result<Vec<Written>, Error> {
        self.store_all()?;
        Ok(self.written)
    }

    fn store(&mut self, partition: &Partition, rows: Rows) -> Result<(), Error> {
        let name = name(&rows);
        self.written.append(&mut write_tables(
            &self.folder,
            partition,
            &name,
            rows,
            (&self.pool, &Origin::default()),
        )?);
        Ok(())
    }
}

/// Writes the tables of rows into the files of a name; replaces those that are there. The table `recording` comes last: what it lists is there.
///
/// # Errors
/// If a file cannot be written. Those that were are whole.
pub fn write_tables(
    folder: &Folder,
    partition: &Partition,
    name: &str,
    mut rows: Rows,
    (pool, origin): (&Pool, &Origin),
) -> Result<Vec<Written>, Error> {
    StackRow::without_doubles(&mut rows.stacks);
    let mut written = Vec::new();
    let to = (folder, partition, name, (pool, origin));
    write_table(to, &mut rows.samples, &mut written)?;
    write_table(to, &mut rows.stacks, &mut written)?;
    write_table(to, &mut rows.functions, &mut written)?;
    write_table(to, &mut rows.images, &mut written)?;
    write_table(to, &mut rows.counters, &mut written)?;
    write_table(to, &mut rows.recordings, &mut written)?;
    Ok(written)
}

pub(crate) fn write_table<R: Row>(
    (folder, partition, name, (pool, origin)): (&Folder, &Partition, &str, (&Pool, &Origin)),
    rows: &mut [R],
    written: &mut Vec<Written>,
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let name = partition.folder(R::TABLE).join(format!("{name}.parquet"));
    let bytes = write_file((folder, &name, true), rows, (pool, origin))?.unwrap_or(0);
    let (path, rows) = (folder.path(&name), rows.len() as u64);
    written.push(Written { table: R::TABLE, path, rows, bytes });
    Ok(())
}

/// Writes a file of a table; returns its size, or `None` if there is a file of this name, and it is not replaced.
pub(crate) fn write_file<R: Row>(
    (folder, name, replaces): (&Folder, &Path, bool),
    rows: &mut [R],
    (pool, origin): (&Pool, &Origin),
) -> Result<Option<u64>, Error> {
    let filled = folder.publish(name, replaces, |file| {
        write(rows, pool, origin, io::BufWriter::new(&mut *file)).map_err(cause)?;
        Ok(file.metadata()?.len())
    });
    filled.map_err(|source| Error::Write { path: folder.path(name), source })
}

/// Names the files of these rows by their sessions.
fn name(rows: &Rows) -> String {
    let mut sessions: Vec<Id> = rows.recordings.iter().map(|row| row.recording).collect();
    sessions.sort_unstable();
    let bytes: Vec<[u8; 8]> = sessions.iter().map(|id| id.bytes()).collect();
    let parts: Vec<&[u8]> = bytes.iter().map(|bytes| &bytes[..]).collect();
    format!("{:016x}", Id::of(&parts).get())
}

/// What the system said, if that is the cause.
pub(crate) fn cause(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(other) => io::Error::other(other),
        },
        other => io::Error::other(other),
    }
}
