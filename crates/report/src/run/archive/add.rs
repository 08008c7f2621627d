//! `archive add` and `archive get`: recordings into the archive, and out of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, bail};
use icecore_archive::folder::Stored;
use icecore_archive::{Archive, Folder, Pool, rows};
use icecore_edit::compact::{Redaction, compact};
use icecore_edit::pack::{Extras, Known};
use icecore_edit::repair::repair;
use icecore_format::read::Recording;
use icecore_format::write::Writer;
use serde::Serialize;
use tempfile::NamedTempFile;

use super::super::edit::redaction;
use super::super::parquet::{Sessions, sessions};
use super::super::{Streams, emit, is_full, lookup, screen};
use super::{Found, Opened, below, opened_or_created};
use crate::base::output;
use crate::cli::{Add, Get, Global};
use crate::input;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::verify::verify;
use icecore_profile::watch::Unwatched;
use icecore_symbolize::debuginfod;
use icecore_symbolize::image::{Search, hex};
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, percent, things};
use icecore_text::{Page, Style};

/// What `add` did.
#[derive(Debug, Serialize)]
struct Added {
    schema: &'static str,
    archive: String,
    added: Vec<AddedRow>,
    /// UUIDs that were there already.
    known: Vec<String>,
    /// UUIDs of recordings that were pruned, and stay so.
    pruned: Vec<String>,
}

/// A recording that was added.
#[derive(Debug, Serialize)]
struct AddedRow {
    uuid: String,
    from: String,
    file: String,
    sessions: u64,
    samples: u64,
    input_bytes: u64,
    file_bytes: u64,
    table_bytes: u64,
}

/// What is the same for all recordings.
struct Adding<'a> {
    archive: &'a Archive,
    options: &'a Add,
    search: &'a Search,
    servers: Option<&'a debuginfod::Settings>,
    redaction: &'a Redaction,
    /// The sessions that were listed when this began, and the files of what was stored, by UUID.
    listed: HashMap<String, usize>,
    stored: BTreeMap<String, Stored>,
    /// What was pruned.
    pruned: BTreeSet<String>,
}

/// What became of a recording.
enum Became {
    Added(AddedRow),
    /// It was there already.
    Known(String),
    /// It was pruned once.
    Pruned(String),
}

/// Adds recordings.
pub(super) fn add(
    options: &Add,
    folder: &Path,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let servers = lookup::servers(&options.lookup)?;
    let search = lookup::proven(&options.lookup, servers.as_ref(), streams)?;
    let redaction = redaction(&options.redacted)?;
    let files = expanded(&options.files)?;
    let archive = opened_or_created(folder)?;
    let archive_name = folder.display().to_string();
    let (mut added, mut known, mut pruned) = (Vec::new(), Vec::new(), Vec::new());
    let (mut failed, mut full) = (0u64, None);
    let mut adding = Adding {
        archive: &archive,
        options,
        search: &search,
        servers: servers.as_ref(),
        redaction: &redaction,
        listed: listed(&archive)?,
        stored: archive.recordings()?,
        pruned: archive.pruned()?,
    };
    for file in &files {
        match adding.add(file) {
            Ok(Became::Added(row)) => {
                adding.note(&row);
                added.push(row);
            }
            Ok(Became::Known(uuid)) => known.push(uuid),
            Ok(Became::Pruned(uuid)) => pruned.push(uuid),
            // The others would fail, too.
            Err(error) if is_full(&error) => {
                full = Some(error);
                break;
            }
            Err(error) => {
                failed += 1;
                screen(global, streams).remark([format!("error: {error:#}")]);
            }
        }
    }
    let done = Added { schema: "icecore.archive.add/1", archive: archive_name, added, known, pruned };
    emit(global, streams, &done, |page| done.text(page))?;
    if let Some(error) = full {
        return Err(error);
    }
    if failed > 0 {
        bail!("cannot add {failed} of {}", things(files.len() as u64, "recording"));
    }
    Ok(0)
}

/// Adds one recording as `add` does, and of one that was not closed what is intact. Returns false if it was there, or was pruned.
pub(in super::super) fn add_one(
    archive: &Archive,
    path: &Path,
    streams: &Streams<'_>,
) -> anyhow::Result<bool> {
    let repair = !input::open(path)?.is_closed();
    let options = Add { repair, ..Add::default() };
    let servers = lookup::servers(&options.lookup)?;
    let search = lookup::proven(&options.lookup, servers.as_ref(), streams)?;
    let adding = Adding {
        archive,
        options: &options,
        search: &search,
        servers: servers.as_ref(),
        redaction: &redaction(&options.redacted)?,
        listed: listed(archive)?,
        stored: archive.recordings()?,
        pruned: archive.pruned()?,
    };
    Ok(matches!(adding.add(path)?, Became::Added(_)))
}

/// Counts the sessions of each recording that an archive lists, by UUID.
pub(super) fn listed(archive: &Archive) -> anyhow::Result<HashMap<String, usize>> {
    let index = archive.index(|_| true)?;
    let mut sessions = HashMap::new();
    for listed in &index.listed {
        *sessions.entry(index.text(listed.row.uuid).to_owned()).or_default() += 1;
    }
    Ok(sessions)
}

/// Replaces folders by the recordings below them.
fn expanded(typed: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in typed {
        if path.as_os_str() == "-" || !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let below = Folder::new(path).list(Path::new(""));
        let below = below.with_context(|| format!("cannot read the folder `{}`", path.display()))?;
        let is_recording = |name: &Path| name.extension().is_some_and(|extension| extension == "icecore");
        let before = files.len();
        files.extend(below.iter().filter(|file| is_recording(&file.name)).map(|file| path.join(&file.name)));
        if files.len() == before {
            bail!("cannot add the folder `{}`: it has no file *.icecore", path.display());
        }
    }
    if files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("cannot read two recordings from stdin: write one into a file");
    }
    Ok(files)
}

impl Adding<'_> {
    /// Remembers what was added, because the same recording may come once more.
    fn note(&mut self, row: &AddedRow) {
        self.listed.insert(row.uuid.clone(), row.sessions as usize);
        let name = Path::new(&row.file).strip_prefix(self.archive.folder().root()).unwrap_or(Path::new(""));
        let file = Stored { name: name.to_owned(), bytes: row.file_bytes, modified: SystemTime::now() };
        self.stored.insert(row.uuid.clone(), file);
    }

    /// Adds a recording, unless it is or was there.
    fn add(&self, path: &Path) -> anyhow::Result<Became> {
        let recording = input::open(path)?;
        let uuid = hex(&recording.header().uuid);
        let cannot =
            || format!("cannot add `{}` to `{}`", path.display(), self.archive.folder().root().display());
        if self.pruned.contains(&uuid) {
            return Ok(Became::Pruned(uuid));
        }
        let there = self.stored.get(&uuid);
        if there.is_some() && !self.options.redacted.redact.is_empty() {
            bail!(
                "cannot redact `{}`: the archive has this recording already, as it was added; add it to another archive",
                path.display()
            );
        }
        let sessions = outline(&recording).parts.len();
        if there.is_some() && self.listed.get(&uuid).is_some_and(|listed| *listed >= sessions) {
            return Ok(Became::Known(uuid));
        }
        let (stored, input_bytes) = match there {
            // It was stored, but not listed: an `add` was interrupted.
            Some(file) => (file.name.clone(), recording.len_bytes()),
            None => self.store(path, &recording, &uuid).with_context(cannot)?,
        };
        let opened = Opened::new(self.archive, &stored).with_context(cannot)?;
        let (sessions, written) = list(self.archive, &opened, &uuid).with_context(cannot)?;
        Ok(Became::Added(AddedRow {
            uuid,
            from: path.display().to_string(),
            file_bytes: opened.recording.len_bytes(),
            file: below(self.archive, &stored),
            sessions: sessions.0,
            samples: sessions.1,
            input_bytes,
            table_bytes: written,
        }))
    }

    /// Stores a recording with its names and without stack memory; returns its path in the archive, and the size that it had.
    fn store(&self, path: &Path, recording: &Recording, uuid: &str) -> anyhow::Result<(PathBuf, u64)> {
        let input_bytes = recording.len_bytes();
        let found = verify(recording);
        let repaired;
        let recording = match found.problems.first() {
            None => recording,
            Some(_) if self.options.repair => {
                let mut file = self.temporary()?;
                repair(recording, file.as_file_mut())?;
                repaired = input::open(file.path())?;
                &repaired
            }
            Some(problem) => bail!("{}; add what is intact with --repair", problem.cause),
        };
        let loaded = Loaded::whole(path, recording, self.search);
        let known = Known::find(&loaded, self.servers, Extras::default(), &Unwatched)?;
        let packed = self.made(recording.header().uuid, |writer| Ok(known.write(writer).map(drop)?))?;
        let recording = input::open(packed.path())?;
        let loaded = Loaded::whole(packed.path(), &recording, self.search);
        let compacted = self.made(recording.header().uuid, |writer| {
            Ok(compact(&loaded, self.redaction, writer).map(drop)?)
        })?;
        let parts = &outline(&input::open(compacted.path())?).parts;
        let partition = rows::partition(parts, parts.part(0));
        let mut from = File::open(compacted.path())?;
        let stored = self.archive.store(&partition, uuid, |file| io::copy(&mut from, file).map(drop))?;
        Ok((stored, input_bytes))
    }

    fn temporary(&self) -> anyhow::Result<NamedTempFile> {
        let folder = self.archive.folder();
        folder.temporary().with_context(|| format!("cannot write into `{}`", folder.root().display()))
    }

    /// Writes a recording into a temporary file of the archive, which `gc` removes if this is interrupted.
    fn made(
        &self,
        uuid: [u8; 16],
        fill: impl FnOnce(&mut Writer) -> anyhow::Result<()>,
    ) -> anyhow::Result<NamedTempFile> {
        let file = self.temporary()?;
        let mut writer = Writer::create(file.as_file().try_clone()?, uuid)?;
        fill(&mut writer)?;
        writer.finish()?;
        Ok(file)
    }
}

/// Writes the rows of a stored recording, by the names that are in it; returns the number of sessions and samples, and the bytes of
/// the tables.
pub(super) fn list(archive: &Archive, stored: &Opened, uuid: &str) -> anyhow::Result<((u64, u64), u64)> {
    let mut pool = Pool::default();
    let sessions = rows_of(stored, &mut pool);
    let samples = sessions.iter().map(|(_, rows)| rows.samples.len() as u64).sum();
    let count = sessions.len() as u64;
    let written = archive.list(uuid, sessions, &pool)?;
    Ok(((count, samples), written.iter().map(|file| file.bytes).sum()))
}

/// Makes the rows of a stored recording: all names are in it.
pub(super) fn rows_of(stored: &Opened, pool: &mut Pool) -> Sessions {
    sessions(stored.local.path(), &stored.recording, &Search::default(), None, pool).0
}

impl Added {
    fn text(&self, page: &mut Page) {
        for row in &self.added {
            let AddedRow { uuid, from, samples, input_bytes, file_bytes, table_bytes, .. } = row;
            page.line(&format!(
                "{} {}: {}, {} ({} of {}), tables {}",
                &uuid[..8],
                shown(Path::new(from)),
                things(*samples, "sample"),
                bytes(*file_bytes),
                percent(*file_bytes as f64 / (*input_bytes).max(1) as f64),
                bytes(*input_bytes),
                bytes(*table_bytes)
            ));
        }
        let others = |uuids: &[String], what: &str| match uuids.len() as u64 {
            0 => String::new(),
            number => format!("; {} {what}", things(number, "recording")),
        };
        let known =
            others(&self.known, "there already") + &others(&self.pruned, "pruned before, and left out");
        let added = things(self.added.len() as u64, "recording");
        page.styled(Style::Good, &format!("added {added} to {}{known}", shown(Path::new(&self.archive))));
    }
}

/// Recordings that were copied out.
#[derive(Debug, Serialize)]
struct Got {
    schema: &'static str,
    files: Vec<String>,
    bytes: u64,
}

/// Copies recordings out of the archive.
pub(super) fn get(
    archive: &Archive,
    options: &Get,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let found = Found::new(archive, &options.chosen)?.or_none(archive)?;
    let (uuids, stored) = (found.uuids(), archive.recordings()?);
    let to = &options.output;
    if to.as_os_str() == "-" {
        bail!("a recording is written into a file or a folder: name one with -o");
    }
    let is_folder = to.is_dir() || uuids.len() > 1;
    if is_folder {
        fs::create_dir_all(to).with_context(|| format!("cannot create the folder `{}`", to.display()))?;
    }
    let mut got = Got { schema: "icecore.archive.get/1", files: Vec::new(), bytes: 0 };
    for uuid in uuids {
        let file = stored.get(uuid);
        let file = file.with_context(|| format!("the archive has lost the recording {uuid}: run verify"))?;
        let path = if is_folder { to.join(format!("{uuid}.icecore")) } else { to.clone() };
        let Opened { local, recording } = Opened::new(archive, &file.name)?;
        let cannot = || format!("cannot write `{}`", path.display());
        output::refuse(&path, options.force, &[local.path()]).with_context(cannot)?;
        let copy = |to: &mut File| to.write_all(recording.as_bytes());
        output::replace(&path, &[local.path()], 0o600, copy).with_context(cannot)?;
        got.bytes += recording.len_bytes();
        got.files.push(path.display().to_string());
    }
    emit(global, streams, &got, |page| {
        let files = things(got.files.len() as u64, "recording");
        page.line(&format!("wrote {files} ({}) into {}", bytes(got.bytes), shown(to)));
    })?;
    Ok(0)
}
