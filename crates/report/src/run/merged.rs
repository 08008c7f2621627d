//! Several recordings as one, for views that take one.

use std::fs::File;
use std::io::Seek as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use icecore_edit::Error;
use icecore_edit::merge::merge;
use icecore_format::read::Recording;
use icecore_format::write::Writer;
use icecore_profile::random_uuid;
use icecore_profile::recording::filter::Filter;
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::load::parts::{MAX_PARTS, Parts};
use icecore_profile::recording::series;
use icecore_text::path::shown;
use icecore_text::quantity::{count, things};
use ring::digest::{Context, SHA256};
use tempfile::TempDir;

use super::newest::named_or_newest;
use super::{Streams, screen};
use crate::cli::Global;
use crate::input::{self, Cause, OpenError};

/// What a view shows: a recording, or several as one.
pub(super) struct Opened {
    /// What the view calls it: its path; of several files the first, and how many more there are.
    pub(super) path: PathBuf,
    /// All files, in the order of time.
    pub(super) files: Vec<PathBuf>,
    pub(super) recording: Recording,
}

impl Opened {
    /// Opens what the command line names: a file; several, which become one recording in the order of time; of a folder the newest.
    ///
    /// # Errors
    /// If a file cannot be opened, if there are too many, or if several do not fit into the folder for temporary files.
    pub(super) fn new(
        named: &[PathBuf],
        filter: &Filter,
        global: &Global,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Self> {
        let open = if filter.skips_blocks() { input::open_by_index } else { input::open };
        Self::by(open, named, global, streams)
    }

    /// As above, but the index of a single file is believed.
    ///
    /// # Errors
    /// As above.
    pub(super) fn by_index(
        named: &[PathBuf],
        global: &Global,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Self> {
        Self::by(input::open_by_index, named, global, streams)
    }

    fn by(
        open: fn(&Path) -> Result<Recording, OpenError>,
        named: &[PathBuf],
        global: &Global,
        streams: &mut Streams<'_>,
    ) -> anyhow::Result<Self> {
        let files = named_or_newest(named, global, streams)?;
        if let [path] = &files[..] {
            return Ok(Self { path: path.clone(), recording: open(path)?, files });
        }
        if files.len() > MAX_PARTS {
            bail!(
                "cannot read {} recordings as one: a view takes at most {}; name fewer, or keep them in an archive \
                 (`icecore-report archive DIR add`)",
                count(files.len() as u64),
                count(MAX_PARTS as u64)
            );
        }
        if files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
            bail!("cannot read two recordings from stdin: write one into a file");
        }
        let recordings = files.iter().map(|path| input::open(path)).collect::<Result<Vec<Recording>, _>>()?;
        let (files, recordings) = in_time(files, recordings);
        let damaged = files.iter().zip(&recordings).filter(|(_, recording)| !recording.damage().is_empty());
        screen(global, streams).warn(damaged.map(|(path, recording)| {
            let parts = things(recording.damage().len() as u64, "part");
            format!("{} is damaged: {parts} left out; see icecore-report verify", shown(path))
        }));
        let recording = joined(&files, &recordings)?;
        let mut name = files[0].clone().into_os_string();
        name.push(format!(" and {} more", count(files.len() as u64 - 1)));
        Ok(Self { path: name.into(), files, recording })
    }
}

/// Puts recordings into the order in which their first sessions began.
fn in_time(files: Vec<PathBuf>, recordings: Vec<Recording>) -> (Vec<PathBuf>, Vec<Recording>) {
    let parts: Vec<Parts> = recordings.iter().map(|recording| outline(recording).parts).collect();
    let runs: Vec<_> = parts.iter().filter_map(|parts| parts.runs().first().copied()).collect();
    let order = series::order(&runs);
    let mut both: Vec<Option<_>> = files.into_iter().zip(recordings).map(Some).collect();
    order.into_iter().filter_map(|at| both[at].take()).unzip()
}

/// Joins recordings in a temporary file without a name. It stays open if one of them is: then some of the last samples may be missing.
fn joined(files: &[PathBuf], recordings: &[Recording]) -> anyhow::Result<Recording> {
    let cannot = |cause: Cause| {
        anyhow!(cause).context(format!("cannot read {} recordings as one", count(files.len() as u64)))
    };
    let failed = |error: icecore_format::Error| match error {
        icecore_format::Error::Io(error) => cannot(Cause::NoRoom(error)),
        other => cannot(other.into()),
    };
    let mut file = tempfile::tempfile().map_err(|error| cannot(Cause::NoRoom(error)))?;
    let begin = |file: &File| -> Result<Writer, icecore_format::Error> {
        Writer::create(file.try_clone()?, uuid(recordings))
    };
    let mut writer = begin(&file).map_err(failed)?;
    merge(recordings, &mut writer).map_err(|(number, error)| match error {
        Error::Format(error @ icecore_format::Error::Io(_)) => failed(error),
        Error::Same(first) => anyhow!(
            "cannot read `{}` and `{}` as one: they are the same recording, by their UUID; name it once",
            files[first].display(),
            files[number].display()
        ),
        error => anyhow!(error).context(format!("cannot merge `{}`", files[number].display())),
    })?;
    if recordings.iter().all(Recording::is_closed) {
        writer.finish().map_err(failed)?;
    } else {
        drop(writer);
    }
    file.rewind().map_err(|error| cannot(Cause::NoRoom(error)))?;
    Recording::from_file(&file).map_err(failed)
}

/// Returns the UUID of recordings together: the same ones have the same bytes, so that what is cached of them is found again.
fn uuid(recordings: &[Recording]) -> [u8; 16] {
    let mut all = Context::new(&SHA256);
    for recording in recordings {
        all.update(&recording.header().uuid);
        all.update(&recording.len_bytes().to_le_bytes());
    }
    let mut uuid = [0; 16];
    uuid.copy_from_slice(&all.finish().as_ref()[..16]);
    uuid
}
/// A recording that has all of some.
pub(super) struct Merged {
    path: PathBuf,
    /// Is removed when this is dropped.
    _folder: Option<TempDir>,
}

impl Merged {
    /// Takes the only recording, or merges several into a temporary file.
    ///
    /// # Errors
    /// If they are too many, or a file cannot be read or written.
    pub(super) fn new(files: &[&Path]) -> anyhow::Result<Self> {
        if let [only] = files {
            return Ok(Self { path: (*only).to_owned(), _folder: None });
        }
        if files.len() > MAX_PARTS {
            bail!(
                "{} recordings are selected, and a view shows at most {MAX_PARTS} merged: select fewer, or ask the tables (docs/FLEET.md)",
                files.len()
            );
        }
        let recordings = files.iter().map(|path| input::open(path)).collect::<Result<Vec<Recording>, _>>()?;
        let cannot = || {
            let folder = std::env::temp_dir();
            format!("cannot write into the folder for temporary files `{}`: set TMPDIR", folder.display())
        };
        let folder = tempfile::tempdir().with_context(cannot)?;
        let path = folder.path().join("selection.icecore");
        let mut writer = Writer::create(File::create_new(&path).with_context(cannot)?, random_uuid()?)?;
        let merged = merge(&recordings, &mut writer);
        merged.map_err(|(number, error)| {
            anyhow::Error::new(error).context(format!("cannot merge `{}`", files[number].display()))
        })?;
        writer.finish().with_context(cannot)?;
        Ok(Self { path, _folder: Some(folder) })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
