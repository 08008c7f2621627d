//! Chooses the recording if the command line names none, or a folder of them.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, anyhow, bail};
use icecore_archive::{Archive, Folder};
use icecore_format::block::Kind;
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::load::parts::Parts;
use icecore_profile::recording::series;
use icecore_text::path::{quoted, shown};
use icecore_text::quantity::{count, things};

use super::{Streams, screen};
use crate::cli::Global;
use crate::input;

/// The extension of recordings.
const EXTENSION: &str = "icecore";
/// The most unreadable files of a folder that are named.
const NAMED: usize = 5;

/// Returns the files that were named, and for each folder the newest recording in it; if nothing was named, the recording in the
/// current folder that was changed last. Lines on stderr say what was chosen.
///
/// # Errors
/// If there is no recording.
pub(super) fn named_or_newest(
    named: &[PathBuf],
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Vec<PathBuf>> {
    if !named.is_empty() {
        return named.iter().map(|path| newest_of(path, global, streams)).collect();
    }
    let found = changed_last(Path::new(".")).context("cannot list this folder: name a recording")?;
    let file = found.ok_or_else(|| {
        anyhow!(
            "cannot report on nothing: there is no *.{EXTENSION} in this folder; name a recording, or make one with \
             `icecore-record -- CMD`"
        )
    })?;
    if !global.quiet {
        screen(global, streams)
            .remark([format!("no file was named: this is {}, the newest recording here", file.display())]);
    }
    Ok(vec![file])
}

/// Returns a file as it is, and of a folder the recording in it whose first session began last, which a line on stderr names. The
/// recorder may still write it.
///
/// # Errors
/// If the folder cannot be listed, is an archive, or has no recording.
pub(super) fn newest_of(path: &Path, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<PathBuf> {
    if path.as_os_str() == "-" || !path.is_dir() {
        return Ok(path.to_owned());
    }
    let folder = path.display();
    if Archive::is_in(&Folder::new(path)) {
        let word = quoted(path);
        bail!(
            "cannot choose a recording in `{folder}`: it is an archive; write `icecore-report archive {word} VIEW [SELECTION]`, or \
             `icecore-report archive {word} list`"
        );
    }
    let files = recordings_in(path).with_context(|| format!("cannot list the folder `{folder}`"))?;
    let all = files.len();
    let (mut begun, mut unreadable): (Vec<(PathBuf, Parts)>, Vec<String>) = Default::default();
    for file in files {
        match first_session(&file) {
            Ok(parts) => begun.push((file, parts)),
            Err(error) => unreadable.push(format!("skipped: {error:#}")),
        }
    }
    let more = unreadable.len().saturating_sub(NAMED);
    unreadable.truncate(NAMED);
    if more > 0 {
        unreadable.push(format!("skipped: {} that cannot be read", things(more as u64, "more file")));
    }
    screen(global, streams).warn(unreadable);
    let runs: Vec<_> = begun.iter().filter_map(|(_, parts)| parts.runs().first().copied()).collect();
    let Some(newest) = series::order(&runs).last().copied() else {
        let why = match all {
            0 => format!("it has no *.{EXTENSION}"),
            _ => format!("no *.{EXTENSION} in it can be read"),
        };
        let word = quoted(path);
        bail!(
            "cannot find a recording in the folder `{folder}`: {why}; name a recording, or make one with `icecore-record -o \
             {word}/NAME.{EXTENSION}`"
        );
    };
    let others = begun.len() as u64 - 1;
    let (file, _) = begun.swap_remove(newest);
    if !global.quiet {
        let which = match others {
            0 => "the only recording in it".to_owned(),
            1 => "the newest recording in it; there is 1 other".to_owned(),
            others => format!("the newest recording in it; there are {} others", count(others)),
        };
        screen(global, streams).remark([format!("{folder} is a folder: this is {}, {which}", shown(&file))]);
    }
    Ok(file)
}

/// Reads when the first session of a recording began.
fn first_session(path: &Path) -> anyhow::Result<Parts> {
    let recording = input::open_by_index(path)?;
    if !recording.entries().iter().any(|entry| entry.header.kind == Kind::SESSION) {
        bail!("cannot open recording `{}`: it has no session yet", path.display());
    }
    Ok(outline(&recording).parts)
}

/// Returns the files in a folder that are called as recordings are, by name.
pub(super) fn recordings_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        // A link may lead to a recording elsewhere, or nowhere.
        let is_file = std::fs::metadata(&path).is_ok_and(|there| there.is_file());
        if path.extension() == Some(OsStr::new(EXTENSION)) && is_file {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Returns the name of the recording in a folder that was changed last; of several the last by name.
fn changed_last(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for file in recordings_in(folder)? {
        let Ok(there) = std::fs::metadata(&file) else { continue };
        let Some(name) = file.file_name() else { continue };
        newest = newest.max(Some((there.modified()?, name.into())));
    }
    Ok(newest.map(|(_, name)| name))
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_recording_that_was_changed_last_is_found() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(changed_last(dir.path()).expect("it is there"), None);
        let begin = SystemTime::now();
        let make = |name: &str, age_s: u64| {
            let file = File::create(dir.path().join(name)).expect("room");
            file.set_modified(begin - Duration::from_secs(age_s)).expect("it is ours");
        };
        make("old.icecore", 90);
        make("new.icecore", 10);
        make("newer.svg", 5);
        fs::create_dir(dir.path().join("folder.icecore")).expect("room");
        std::os::unix::fs::symlink("nowhere", dir.path().join("link.icecore")).expect("room");
        assert_eq!(changed_last(dir.path()).expect("it is there"), Some("new.icecore".into()));
        make("other.icecore", 10);
        assert_eq!(changed_last(dir.path()).expect("it is there"), Some("other.icecore".into()));
        assert!(changed_last(&dir.path().join("none")).is_err());
    }
}
