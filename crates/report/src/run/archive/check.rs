//! `archive verify`, `reindex` and `gc`: what is wrong in an archive, and mending it.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use icecore_archive::archive::Archive;
use icecore_archive::schema::{CounterRow, FunctionRow, ImageRow, RecordingRow, SampleRow, StackRow};
use icecore_archive::table::Row;
use icecore_archive::{Folder, Partition};
use serde::Serialize;

use super::super::{Streams, emit, screen};
use super::add::list;
use super::listing::name;
use super::{Found, below};
use crate::cli::{Global, Reindex, VerifyArchive};
use crate::input;
use icecore_profile::recording::verify::verify as check;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, things};
use icecore_text::{Page, Style};

/// The names of all tables.
const TABLES: [&str; 6] = [
    RecordingRow::TABLE,
    FunctionRow::TABLE,
    StackRow::TABLE,
    SampleRow::TABLE,
    ImageRow::TABLE,
    CounterRow::TABLE,
];

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
    for uuid in found.uuids() {
        let Some(file) = stored.get(uuid) else {
            verified.problem(format!("recordings/…/{uuid}.icecore"), "it is listed, and is not there", None);
            continue;
        };
        verified.recordings += 1;
        verified.recording(archive, uuid, &file.name)?;
    }
    if is_all {
        let listed: BTreeSet<&str> = found.uuids().into_iter().collect();
        for (uuid, file) in stored.iter().filter(|(uuid, _)| !listed.contains(&***uuid)) {
            let file = below(archive, &file.name);
            verified.problem(file, format!("the recording {uuid} is not listed"), Some(REINDEX));
        }
        for file in tables(archive)? {
            let uuid = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
            if !stored.contains_key(uuid) {
                verified.problem(below(archive, &file), "it is of no recording that is here", None);
            }
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

/// Lists the files of all tables.
fn tables(archive: &Archive) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for table in TABLES {
        files.extend(archive.folder().list(Path::new(table))?.into_iter().map(|file| file.name));
    }
    Ok(files)
}

impl Verified {
    fn problem(&mut self, file: String, cause: impl Into<String>, remedy: Option<&'static str>) {
        self.problems.push(Problem { file, cause: cause.into(), remedy });
    }

    /// Checks a recording and its tables.
    fn recording(&mut self, archive: &Archive, uuid: &str, name: &Path) -> anyhow::Result<()> {
        let path = archive.folder().path(name);
        let recording = match input::open(&path) {
            Ok(recording) => recording,
            Err(error) => {
                self.problem(path.display().to_string(), format!("{:#}", anyhow::Error::new(error)), None);
                return Ok(());
            }
        };
        let findings = check(&recording);
        if let Some(first) = findings.problems.first() {
            self.problem(path.display().to_string(), &*first.cause, None);
            return Ok(());
        }
        // The same rows give the same bytes.
        let again = tempfile::tempdir()?;
        let copy = Archive::open_or_create(Folder::new(again.path()))?;
        list(&copy, &path, uuid)?;
        for table in TABLES {
            for file in copy.folder().list(Path::new(table))? {
                self.tables += 1;
                let [new, old] = [&copy, archive].map(|archive| fs::read(archive.folder().path(&file.name)));
                let cause = match old {
                    Ok(old) if old == new? => continue,
                    Ok(_) => "its rows are not those of the recording, or another version wrote them",
                    Err(_) => "it is missing, or cannot be read",
                };
                self.problem(below(archive, &file.name), cause, Some(REINDEX_ALL));
            }
        }
        Ok(())
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
    let mut done =
        Reindexed { schema: "icecore.archive.reindex/1", archive: name(archive), recordings: Vec::new() };
    let mut failed = 0;
    for (uuid, file) in archive.recordings()? {
        let partition = Partition::in_path(&file.name);
        if !options.all && partition.is_some_and(|partition| archive.has(&partition, &uuid)) {
            continue;
        }
        match list(archive, &archive.folder().path(&file.name), &uuid) {
            Ok(_) => done.recordings.push(uuid),
            Err(error) => {
                failed += 1;
                screen(global, streams).remark([format!("error: {error:#}")]);
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
        let files = things(done.files, "unfinished file");
        page.line(&format!("removed {files} ({})", bytes(done.bytes)));
    })?;
    Ok(0)
}
