//! `archive verify`, `reindex`, `compact` and `gc`: what is wrong in an archive, mending it, and keeping its files few.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::time::SystemTime;

use anyhow::bail;
use icecore_archive::archive::{Archive, MAX_MERGED};
use icecore_archive::folder::Stored;
use icecore_archive::read::Readable;
use icecore_archive::rows::{self, Rows};
use icecore_archive::{Id, Partition, Pool};
use serde::Serialize;

use super::super::{Streams, emit, is_full, screen};
use super::add::{list, listed, rows_of};
use super::listing::name;
use super::{Found, Opened, below};
use crate::cli::{Global, Reindex, VerifyArchive};
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::verify::verify as check;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Page, Style};

/// What is wrong.
#[derive(Debug, Serialize)]
struct Verified {
    schema: &'static str,
    archive: String,
    ok: bool,
    /// Recordings that were checked.
    recordings: u64,
    /// Tables that were made anew and compared.
    tables: u64,
    problems: Vec<Problem>,
}

/// Something that is wrong.
#[derive(Debug, Serialize)]
struct Problem {
    file: String,
    cause: String,
    /// What mends it.
    remedy: Option<&'static str>,
}

const REINDEX: &str = "icecore-report archive DIR reindex";
const GC: &str = "icecore-report archive DIR gc";
const REINDEX_ALL: &str = "icecore-report archive DIR reindex --all";

/// Checks every file of the selected recordings: that it is intact, and that its tables are those that the recording gives. Without a
/// selection, also looks for files that belong to none.
pub(super) fn verify(
    archive: &Archive,
    options: &VerifyArchive,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let found = Found::new(archive, &options.chosen)?;
    let (stored, is_all) = (archive.recordings()?, is_all(options));
    let mut verified = Verified {
        schema: "icecore.archive.verify/1",
        archive: name(archive),
        ok: true,
        recordings: 0,
        tables: 0,
        problems: Vec::new(),
    };
    let mut wanted: BTreeMap<Partition, Vec<(&str, &Stored)>> = BTreeMap::new();
    let pruned = archive.pruned()?;
    for uuid in found.uuids() {
        if pruned.contains(uuid) {
            let cause = format!("the recording {uuid} was pruned, and not all of it is gone");
            verified.problem(below(archive, Path::new("recording")), cause, Some(GC));
            continue;
        }
        let Some(file) = stored.get(uuid) else {
            verified.problem(format!("recordings/…/{uuid}.icecore"), "it is listed, and is not there", None);
            continue;
        };
        wanted.entry(partition(&file.name)).or_default().push((uuid, file));
    }
    for recordings in wanted.into_values() {
        verified.recordings(archive, &recordings)?;
    }
    if is_all {
        // What was being added is listed by now.
        let listed = listed(archive)?;
        for (uuid, file) in stored.iter().filter(|(uuid, _)| !listed.contains_key(*uuid)) {
            let remedy = if pruned.contains(uuid) { GC } else { REINDEX };
            let file = below(archive, &file.name);
            verified.problem(file, format!("the recording {uuid} is not listed"), Some(remedy));
        }
        for file in archive.strays()? {
            let cause = "it has rows of recordings that are not here, or the archive has not written it";
            let remedy = (!pruned.is_empty()).then_some(GC);
            verified.problem(file.display().to_string(), cause, remedy);
        }
        for file in archive.scrub_daily()? {
            let cause = "it is not what its rows give: a bit of it may have changed";
            verified.problem(file.display().to_string(), cause, None);
        }
    }
    verified.ok = verified.problems.is_empty();
    emit(global, streams, &verified, |page| verified.text(page))?;
    Ok(u8::from(!verified.ok))
}

fn is_all(options: &VerifyArchive) -> bool {
    let began = &options.chosen.began;
    options.chosen.selection.is_none()
        && began.last.is_none()
        && began.since.is_none()
        && began.until.is_none()
}

/// Opens a recording, and reads all of it.
fn intact(archive: &Archive, file: &Stored) -> anyhow::Result<Opened> {
    let opened = Opened::new(archive, &file.name)?;
    match check(&opened.recording).problems.first() {
        None => Ok(opened),
        Some(problem) => bail!("{}", problem.cause),
    }
}

/// Where a recording lies.
fn partition(name: &Path) -> Partition {
    Partition::in_path(name).unwrap_or_else(|| Partition { day: String::new(), service: String::new() })
}

impl Verified {
    fn problem(&mut self, file: String, cause: impl Into<String>, remedy: Option<&'static str>) {
        self.problems.push(Problem { file, cause: cause.into(), remedy });
    }

    /// Checks recordings of one partition, and that the tables have their rows.
    fn recordings(&mut self, archive: &Archive, stored: &[(&str, &Stored)]) -> anyhow::Result<()> {
        let mut pool = Pool::default();
        let mut expected: BTreeMap<Partition, Rows> = BTreeMap::new();
        for (_, file) in stored {
            self.recordings += 1;
            match intact(archive, file) {
                // Nothing is wrong with the recording.
                Err(error) if is_full(&error) => return Err(error),
                Err(error) => self.problem(below(archive, &file.name), format!("{error:#}"), None),
                Ok(opened) => {
                    for (partition, rows) in rows_of(&opened, &mut pool) {
                        expected.entry(partition).or_default().append(rows);
                    }
                }
            }
        }
        for (partition, mut rows) in expected {
            let to = (archive, &partition);
            self.table(to, &mut pool, &mut rows.recordings);
            self.table(to, &mut pool, &mut rows.functions);
            self.table(to, &mut pool, &mut rows.stacks);
            self.table(to, &mut pool, &mut rows.samples);
            self.table(to, &mut pool, &mut rows.images);
            self.table(to, &mut pool, &mut rows.counters);
        }
        Ok(())
    }

    /// Checks that a table has these rows, and no others of their sessions.
    fn table<R: Readable>(
        &mut self,
        (archive, partition): (&Archive, &Partition),
        pool: &mut Pool,
        expected: &mut Vec<R>,
    ) {
        self.tables += 1;
        let file = below(archive, &partition.folder(R::TABLE));
        let read =
            archive.scrub::<R>(partition).and_then(|wrong| Ok((wrong, archive.rows::<R>(partition, pool)?)));
        let (wrong, mut found) = match read {
            Ok(read) => read,
            Err(error) => {
                return self.problem(file, format!("{:#}", anyhow::Error::new(error)), Some(REINDEX_ALL));
            }
        };
        if let Some(wrong) = wrong.first() {
            let cause = "it is not what its rows give: a bit of it may have changed";
            return self.problem(wrong.display().to_string(), cause, Some(REINDEX_ALL));
        }
        for rows in [&mut found, &mut *expected] {
            R::without_doubles(rows);
            rows.sort_by(|a, b| a.order(b, pool));
        }
        // Rows of other recordings stay out of it; a stack may be of any.
        let sessions: HashSet<Id> = expected.iter().filter_map(Readable::recording).collect();
        let is_there = match expected.first().and_then(Readable::recording) {
            Some(_) => {
                found.retain(|row| row.recording().is_some_and(|id| sessions.contains(&id)));
                found == *expected
            }
            None => {
                let mut left = found.iter();
                expected.iter().all(|row| left.any(|found| found == row))
            }
        };
        if !is_there {
            let cause = "its rows are not those of the recordings";
            self.problem(file, cause, Some(REINDEX_ALL));
        }
    }

    fn text(&self, page: &mut Page) {
        for Problem { file, cause, remedy } in &self.problems {
            let remedy = remedy.map(|remedy| format!("; mend it with {remedy}")).unwrap_or_default();
            page.styled(Style::Bad, &format!("{}: {cause}{remedy}", shown(Path::new(file))));
        }
        let (recordings, tables) = (things(self.recordings, "recording"), things(self.tables, "table"));
        let archive = shown(Path::new(&self.archive));
        if self.ok {
            page.styled(Style::Good, &format!("{archive}: all is well: {recordings}, {tables}"));
        } else {
            let problems = things(self.problems.len() as u64, "problem");
            page.line(&format!("{archive}: {problems} in {recordings}, {tables}"));
        }
    }
}

/// What was written anew.
#[derive(Debug, Serialize)]
struct Reindexed {
    schema: &'static str,
    archive: String,
    recordings: Vec<String>,
}

/// Writes the tables of stored recordings.
pub(super) fn reindex(
    archive: &Archive,
    options: &Reindex,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let mut failed = 0;
    let mut done =
        Reindexed { schema: "icecore.archive.reindex/1", archive: name(archive), recordings: Vec::new() };
    let (mut stored, pruned) = (archive.recordings()?, archive.pruned()?);
    stored.retain(|uuid, _| !pruned.contains(uuid));
    if options.all {
        failed += anew(archive, &stored, &mut done.recordings, &mut |error| {
            screen(global, streams).remark([format!("error: {error:#}")]);
        })?;
    } else {
        let listed = listed(archive)?;
        let is_listed = |uuid: &String, file: &Stored| {
            let sessions = || Some(outline(&Opened::new(archive, &file.name).ok()?.recording).parts.len());
            listed.get(uuid).is_some_and(|listed| sessions().is_none_or(|sessions| *listed >= sessions))
        };
        for (uuid, file) in stored.into_iter().filter(|(uuid, file)| !is_listed(uuid, file)) {
            match Opened::new(archive, &file.name).and_then(|opened| list(archive, &opened, &uuid)) {
                Ok(_) => done.recordings.push(uuid),
                Err(error) => {
                    failed += 1;
                    screen(global, streams).remark([format!("error: {error:#}")]);
                }
            }
        }
    }
    emit(global, streams, &done, |page| {
        let recordings = things(done.recordings.len() as u64, "recording");
        page.line(&format!("wrote the tables of {recordings}"));
    })?;
    anyhow::ensure!(failed == 0, "cannot read {}", things(failed, "recording"));
    Ok(0)
}

/// Writes the tables of all recordings anew, partition by partition; returns how many recordings cannot be read. Their rows stay.
fn anew(
    archive: &Archive,
    stored: &BTreeMap<String, Stored>,
    done: &mut Vec<String>,
    failed: &mut dyn FnMut(&anyhow::Error),
) -> anyhow::Result<u64> {
    let mut unread = 0;
    // A recording of several sessions has rows in several partitions.
    let mut of_partition: BTreeMap<Partition, BTreeSet<String>> = BTreeMap::new();
    for (uuid, file) in stored {
        let opened = match intact(archive, file) {
            Ok(opened) => opened,
            Err(error) if is_full(&error) => return Err(error),
            Err(error) => {
                unread += 1;
                let path = below(archive, &file.name);
                failed(&error.context(format!("`{path}` is damaged; its rows stay")));
                continue;
            }
        };
        let parts = &outline(&opened.recording).parts;
        for part in parts.iter() {
            let of = rows::partition(parts, part);
            of_partition.entry(of).or_default().insert(uuid.clone());
        }
        done.push(uuid.clone());
    }
    for (partition, uuids) in of_partition {
        let (mut pool, mut all) = (Pool::default(), Rows::default());
        for uuid in &uuids {
            let rows = rows_of(&Opened::new(archive, &stored[uuid].name)?, &mut pool);
            rows.into_iter().filter(|(of, _)| *of == partition).for_each(|(_, rows)| all.append(rows));
        }
        archive.rewrite(&partition, all, &uuids, &pool)?;
    }
    // Rows that stay lie in files with others that were written anew.
    archive.compact()?;
    Ok(unread)
}

/// What was merged.
#[derive(Debug, Serialize)]
struct Merged {
    schema: &'static str,
    archive: String,
    files_before: u64,
    files_after: u64,
    /// Recordings that share their names now.
    nameless: u64,
    /// Folders that are left as they are.
    left: Vec<String>,
}

/// Merges the files of tables.
pub(super) fn compact(archive: &Archive, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let compacted = archive.compact()?;
    let done = Merged {
        schema: "icecore.archive.compact/1",
        archive: name(archive),
        files_before: compacted.before,
        files_after: compacted.after,
        nameless: compacted.nameless,
        left: compacted.left.iter().map(|folder| below(archive, folder)).collect(),
    };
    emit(global, streams, &done, |page| {
        let (before, after) = (things(done.files_before, "file"), count(done.files_after));
        page.line(&format!("tables: {before} before, {after} now"));
        if done.nameless > 0 {
            page.line(&format!("names: {} share them from now on", things(done.nameless, "recording")));
        }
        for folder in &done.left {
            let most = count(MAX_MERGED);
            page.line(&format!("{}: left as it is, it has more than {most} rows", shown(Path::new(folder))));
        }
    })?;
    Ok(0)
}

/// What was removed.
#[derive(Debug, Serialize)]
struct Collected {
    schema: &'static str,
    archive: String,
    files: u64,
    bytes: u64,
}

/// Removes what writers that are gone have left.
pub(super) fn gc(archive: &Archive, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let old = archive.collect_garbage(SystemTime::now())?;
    let (files, size) = (old.len() as u64, old.iter().map(|file| file.bytes).sum());
    let done = Collected { schema: "icecore.archive.gc/1", archive: name(archive), files, bytes: size };
    emit(global, streams, &done, |page| {
        let files = things(done.files, "file");
        page.line(&format!("removed {files} that nobody needs ({})", bytes(done.bytes)));
    })?;
    Ok(0)
}
