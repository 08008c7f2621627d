//! Recordings that go, and the daily sums that stay.
//!
//! ```text
//! daily/…/N.parquet      sums of all recordings of a day and a service that were pruned, and the UUIDs of these
//!         │ + those that go now
//!         ▼
//! daily/…/N+1.parquet    published only if there is none of this number ──► recordings ──► their rows
//! ```
//!
//! Nothing is removed before the sums have it. If two prune at once, one of them finds its number taken, reads what the other has written,
//! and goes on with what is left: no recording is summed twice. What was interrupted is completed by [`Archive::complete_pruning`]. A
//! recording that was pruned is not added again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::PathBuf;

use crate::archive::{Archive, Index, TABLES, TRIES};
use crate::dataset::{Error, cause, write_file, write_table};
use crate::folder::Stored;
use crate::id::Id;
use crate::merge::{self, Part, head, merged};
use crate::partition::Partition;
use crate::pool::{Pool, Text};
use crate::read::{Readable, TableFile};
use crate::schema::{
    Code, CounterRow, DailyOf, DailyRow, FunctionRow, ImageRow, RecordingRow, SampleRow, StackRow,
};
use crate::table::{Origin, Row};

/// The most sessions of a recording.
const MAX_SESSIONS: u32 = 1024;

/// The newest daily sums of a day and a service.
struct Daily {
    number: u64,
    origin: Origin,
    rows: Vec<DailyRow>,
}

/// Recordings whose rows go: their UUIDs, and the ids of their sessions.
#[derive(Debug, Default)]
struct Gone {
    uuids: BTreeSet<String>,
    sessions: HashSet<Id>,
}

impl Gone {
    fn new(uuids: BTreeSet<String>) -> Self {
        let sessions = uuids.iter().flat_map(|uuid| {
            let bytes = bytes(uuid);
            (0..MAX_SESSIONS).map(move |part| Id::of_session(&bytes, part))
        });
        Self { sessions: sessions.collect(), uuids }
    }
}

/// The bytes of a UUID, given its 32 hexadecimal digits.
fn bytes(uuid: &str) -> Vec<u8> {
    let pairs = uuid.as_bytes().chunks_exact(2);
    pairs.filter_map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// The number of a file of daily sums.
fn number(file: &Stored) -> Option<u64> {
    file.name.file_name()?.to_str()?.strip_suffix(".parquet")?.parse().ok()
}

fn file_name(partition: &Partition, number: u64) -> PathBuf {
    partition.folder(DailyRow::TABLE).join(format!("{number:08}.parquet"))
}

impl Archive {
    /// Returns the UUIDs of all recordings that were pruned.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn pruned(&self) -> Result<BTreeSet<String>, Error> {
        let mut all = BTreeSet::new();
        for partition in self.partitions(DailyRow::TABLE)?.into_keys() {
            all.extend(
                self.newest(&partition, None)?.map(|daily| daily.origin.recordings).unwrap_or_default(),
            );
        }
        Ok(all)
    }

    /// Reads the daily sums of recordings that were pruned, partition by partition.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn daily(
        &self,
        is_wanted: impl Fn(&Partition) -> bool,
        pool: &mut Pool,
        mut take: impl FnMut(&Partition, Vec<DailyRow>),
    ) -> Result<(), Error> {
        for partition in self.partitions(DailyRow::TABLE)?.into_keys().filter(is_wanted) {
            if let Some(daily) = self.newest(&partition, Some(pool))? {
                take(&partition, daily.rows);
            }
        }
        Ok(())
    }

    /// Reads the newest daily sums of a partition; without a pool only what they are of.
    fn newest(&self, partition: &Partition, pool: Option<&mut Pool>) -> Result<Option<Daily>, Error> {
        let mut pool = pool;
        loop {
            let files = self.listed_files(&partition.folder(DailyRow::TABLE))?;
            let newest = files.iter().filter_map(|file| Some((number(file)?, file))).max_by_key(|it| it.0);
            let Some((number, file)) = newest else { return Ok(None) };
            let mut read = || -> io::Result<Daily> {
                let (head, rows) = match pool.as_deref_mut() {
                    None => (head(self.folder(), DailyRow::TABLE, file)?.0, Vec::new()),
                    Some(pool) => {
                        let file = TableFile::new(DailyRow::TABLE, self.folder().read(&file.name)?);
                        let file = file.map_err(cause)?;
                        let rows = file.read(pool).map_err(cause)?;
                        (file.head, rows)
                    }
                };
                let origin = Origin { recordings: head.recordings, epoch: head.epoch };
                Ok(Daily { number, origin, rows })
            };
            match read() {
                // A neighbour has published the next one meanwhile.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                read => return read.map(Some).map_err(|source| self.read_error(&file.name, source)),
            }
        }
    }

    /// Finds the daily sums that are not, byte by byte, what this version writes of the rows in them.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub fn scrub_daily(&self) -> Result<Vec<PathBuf>, Error> {
        let files = self.partitions(DailyRow::TABLE)?.into_values().flatten();
        files.map(|file| self.scrub_file::<DailyRow>(&file.name)).filter_map(Result::transpose).collect()
    }

    /// Removes recordings, and their rows from all tables; with `keeps_sums`, what they sum up to stays in `daily`. `index` lists all
    /// sessions.
    ///
    /// # Errors
    /// If a file cannot be read, written or removed. No recording is removed then whose sums are not stored.
    pub fn prune(&self, index: &Index, uuids: &BTreeSet<String>, keeps_sums: bool) -> Result<(), Error> {
        let stored = self.recordings()?;
        let mut of_partition: BTreeMap<Partition, BTreeSet<String>> = BTreeMap::new();
        let listed = index.listed.iter().map(|it| (index.text(it.row.uuid), it.partition.clone()));
        let files = stored.iter().filter_map(|(uuid, file)| Some((&**uuid, Partition::in_path(&file.name)?)));
        for (uuid, partition) in listed.chain(files).filter(|(uuid, _)| uuids.contains(*uuid)) {
            of_partition.entry(partition).or_default().insert(uuid.to_owned());
        }
        for (partition, uuids) in &of_partition {
            self.sum_up(partition, uuids, keeps_sums)?;
        }
        uuids.iter().filter_map(|uuid| stored.get(uuid)).try_for_each(|file| self.remove_recording(file))?;
        of_partition.into_iter().try_for_each(|(partition, uuids)| self.forget(&partition, uuids))
    }

    /// Completes what interrupted prunings have left; returns how many recordings were left.
    ///
    /// # Errors
    /// If a file cannot be read, written or removed.
    pub fn complete_pruning(&self) -> Result<u64, Error> {
        let daily = self.partitions(DailyRow::TABLE)?;
        if daily.is_empty() {
            return Ok(0);
        }
        let (stored, pruned) = (self.recordings()?, self.pruned()?);
        let left: Vec<&Stored> = pruned.iter().filter_map(|uuid| stored.get(uuid)).collect();
        left.iter().try_for_each(|file| self.remove_recording(file))?;
        for partition in daily.into_keys() {
            if let Some(Daily { number, origin, .. }) = self.newest(&partition, None)? {
                self.forget(&partition, origin.recordings.into_iter().collect())?;
                self.remove_older(&partition, number)?;
            }
        }
        Ok(left.len() as u64)
    }

    /// Adds recordings to the daily sums of a partition, unless they are in them.
    fn sum_up(&self, partition: &Partition, uuids: &BTreeSet<String>, keeps_sums: bool) -> Result<(), Error> {
        loop {
            let mut pool = Pool::default();
            let newest = self.newest(partition, Some(&mut pool))?;
            let Daily { number, origin, mut rows } =
                newest.unwrap_or_else(|| Daily { number: 0, origin: Origin::default(), rows: Vec::new() });
            let known: BTreeSet<String> = origin.recordings.into_iter().collect();
            let new: BTreeSet<String> = uuids.difference(&known).cloned().collect();
            if new.is_empty() {
                return Ok(());
            }
            if keeps_sums {
                rows.extend(self.functions(partition, &new, &mut pool)?);
                rows = joined(rows);
            }
            let recordings = known.into_iter().chain(new.iter().cloned()).collect();
            let origin = Origin { recordings, epoch: 0 };
            let next = file_name(partition, number + 1);
            let written = write_file((self.folder(), &next, false), &mut rows, (&pool, &origin))?;
            // A neighbour may have published later ones, and removed the one of this number before.
            let newest = self.newest(partition, None)?;
            let is_newest = newest.is_some_and(|it| {
                it.number > number && {
                    let has: HashSet<&String> = it.origin.recordings.iter().collect();
                    new.iter().all(|uuid| has.contains(uuid))
                }
            });
            if written.is_some() && is_newest {
                return self.remove_older(partition, number + 1);
            }
        }
    }

    fn remove_older(&self, partition: &Partition, number: u64) -> Result<(), Error> {
        let files = self.listed_files(&partition.folder(DailyRow::TABLE))?;
        let older = files.iter().filter(|file| self::number(file).is_some_and(|older| older < number));
        older.into_iter().try_for_each(|file| self.remove(&file.name))
    }

    /// Reads the functions of recordings in a partition.
    fn functions(
        &self,
        partition: &Partition,
        uuids: &BTreeSet<String>,
        pool: &mut Pool,
    ) -> Result<Vec<DailyRow>, Error> {
        let label = |pool: &Pool, row: &RecordingRow, name: &str| {
            let label = row.labels.iter().find(|label| pool.text(label.0) == name);
            label.map(|label| label.1).filter(|value| !pool.text(*value).is_empty())
        };
        let rows = self.rows::<RecordingRow>(partition, pool)?;
        let rows = rows.into_iter().filter(|row| uuids.contains(pool.text(row.uuid)));
        let of: HashMap<Id, DailyOf> = rows
            .map(|row| {
                let (service, release) = (label(pool, &row, "service"), label(pool, &row, "release"));
                (row.recording, DailyOf { service, release, kernel: row.kernel })
            })
            .collect();
        let functions = self.rows::<FunctionRow>(partition, pool)?;
        let row = |row: FunctionRow| {
            let of = *of.get(&row.recording)?;
            let FunctionRow { event, code, inlined, own, total, .. } = row;
            Some(DailyRow { of, sessions: 1, event, code, inlined, own, total })
        };
        Ok(functions.into_iter().filter_map(row).collect())
    }

    /// Removes the rows of recordings from all tables of a partition; those in `recording` first: what is listed is there.
    fn forget(&self, partition: &Partition, pruned: BTreeSet<String>) -> Result<(), Error> {
        for _ in 0..TRIES {
            let mut left = BTreeSet::new();
            for table in TABLES {
                let uuids = self.parts(table, partition)?.into_iter().flat_map(|part| part.recordings);
                left.extend(uuids.filter(|uuid| pruned.contains(uuid)));
            }
            if left.is_empty() {
                break;
            }
            self.forget_once(partition, &Gone::new(left))?;
            // A neighbour may have merged rows meanwhile that it had read before.
        }
        Ok(())
    }

    fn forget_once(&self, partition: &Partition, gone: &Gone) -> Result<(), Error> {
        let is_gone = |id: Option<Id>| id.is_some_and(|id| gone.sessions.contains(&id));
        self.forget_rows::<RecordingRow>(partition, gone, |row| is_gone(row.recording()))?;
        self.forget_rows::<FunctionRow>(partition, gone, |row| is_gone(row.recording()))?;
        self.forget_rows::<ImageRow>(partition, gone, |row| is_gone(row.recording()))?;
        self.forget_rows::<CounterRow>(partition, gone, |row| is_gone(row.recording()))?;
        self.forget_rows::<SampleRow>(partition, gone, |row| is_gone(row.recording()))?;
        // The samples of stacks that are there now are there, too.
        let stacks = self.parts(StackRow::TABLE, partition)?;
        let samples = self.rows::<SampleRow>(partition, &mut Pool::default())?;
        let used: HashSet<Id> = samples.iter().map(|row| row.stack).collect();
        self.forget_in::<StackRow>(partition, stacks, gone, |row| !used.contains(&row.stack))
    }

    fn forget_rows<R: Readable>(
        &self,
        partition: &Partition,
        gone: &Gone,
        is_gone: impl Fn(&R) -> bool,
    ) -> Result<(), Error> {
        self.forget_in(partition, self.parts(R::TABLE, partition)?, gone, is_gone)
    }

    fn forget_in<R: Readable>(
        &self,
        partition: &Partition,
        parts: Vec<Part>,
        gone: &Gone,
        is_gone: impl Fn(&R) -> bool,
    ) -> Result<(), Error> {
        for part in parts.into_iter().filter(|part| part.has_any(&gone.uuids)) {
            let left: Vec<String> =
                part.recordings.iter().filter(|uuid| !gone.uuids.contains(*uuid)).cloned().collect();
            if !left.is_empty() {
                let mut pool = Pool::default();
                let mut rows = match merge::read::<R>(self.folder(), std::slice::from_ref(&part), &mut pool) {
                    // A neighbour merged it with others, or forgets the same.
                    Err((_, error)) if error.kind() == io::ErrorKind::NotFound => continue,
                    read => read.map_err(|(file, source)| self.read_error(&file.name, source))?,
                };
                rows.retain(|row| !is_gone(row));
                let (name, origin) = merged(left, part.epoch + 1);
                let to = (self.folder(), partition, &*name, (&pool, &origin));
                write_table(to, &mut rows, &mut Vec::new())?;
            }
            self.remove(&part.file.name)?;
        }
        Ok(())
    }
}

impl Part {
    fn has_any(&self, uuids: &BTreeSet<String>) -> bool {
        self.recordings.iter().any(|uuid| uuids.contains(uuid))
    }
}

/// Adds up rows of the same function, event and sessions.
fn joined(rows: Vec<DailyRow>) -> Vec<DailyRow> {
    let mut all: HashMap<(DailyOf, (Text, Text), Code, bool), DailyRow> = HashMap::new();
    for row in rows {
        let none = DailyRow { sessions: 0, own: (0, 0), total: (0, 0), ..row.clone() };
        let sum = all.entry((row.of, row.event, row.code, row.inlined)).or_insert(none);
        sum.sessions += row.sessions;
        for (to, from) in [(&mut sum.own, row.own), (&mut sum.total, row.total)] {
            *to = (to.0.saturating_add(from.0), to.1.saturating_add(from.1));
        }
    }
    all.into_values().collect()
}
