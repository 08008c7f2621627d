//! Runs `ship`: hands finished recordings to an archive. Each arrives whole and under its own name, or not at all.

mod folder;
mod requests;
mod sftp;

use std::ffi::OsStr;
use std::fs::{self, File, TryLockError};
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};
use icecore_text::Page;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, things};
use serde::Serialize;

use super::{Streams, emit, screen};
use crate::cli::{Global, Place, Ship};
use sftp::Host;

/// What became of the files.
#[derive(Debug, Serialize)]
struct Document {
    schema: &'static str,
    to: String,
    files: Vec<Row>,
}

/// What became of one.
#[derive(Debug, Default, Serialize)]
struct Row {
    path: String,
    arrived: bool,
    /// It was there before, with the same bytes.
    was_there: bool,
    bytes: Option<u64>,
    /// Why it has not arrived.
    error: Option<String>,
}

/// A recording that is to arrive.
struct Source<'a> {
    path: &'a Path,
    /// Its name there.
    name: &'a Path,
    file: File,
    bytes: u64,
}

/// Where recordings go.
enum Destination<'a> {
    Folder(&'a Path),
    Host(Host<'a>),
}

impl<'a> Destination<'a> {
    /// Reads what was typed. Nothing is asked yet: an archive may be away.
    fn new(typed: &'a str) -> anyhow::Result<Self> {
        let place = Place::new(typed).and_then(|place| match place {
            Place::Folder(folder) => {
                icecore_archive::Folder::of_others(folder)?;
                Ok(Self::Folder(folder))
            }
            Place::Remote { host, port, path } => Host::new(host, port, path).map(Self::Host),
        });
        place.with_context(|| format!("cannot ship to `{typed}`"))
    }

    /// Returns true if the file was there before.
    fn take(&self, source: &Source<'_>, streams: &Streams<'_>) -> anyhow::Result<bool> {
        match self {
            Self::Folder(typed) => folder::take(typed, source, streams),
            Self::Host(host) => host.take(source),
        }
    }
}

/// Ships files; returns the exit code.
pub(super) fn ship(options: &Ship, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let destination = Destination::new(&options.to)?;
    let mut document = Document { schema: "icecore.ship/1", to: options.to.clone(), files: Vec::new() };
    if options.requests {
        return requests::answer(&document, streams);
    }
    for path in &options.files {
        document.files.push(row(&destination, path, streams));
    }
    emit(global, streams, &document, |page| document.text(page))?;
    let failed: Vec<String> = document.files.iter().filter_map(Row::failure).collect();
    if failed.is_empty() {
        return Ok(0);
    }
    screen(global, streams).remark(failed.iter().map(|error| format!("error: {error}")));
    bail!("{} of {} not arrived", count(failed.len() as u64), have(document.files.len()))
}

fn have(files: usize) -> String {
    format!("{} {}", things(files as u64, "file"), if files == 1 { "has" } else { "have" })
}

fn row(destination: &Destination<'_>, path: &Path, streams: &Streams<'_>) -> Row {
    let row = Row { path: path.display().to_string(), ..Row::default() };
    let shipped = Source::open(path)
        .and_then(|source| destination.take(&source, streams).map(|was_there| (source.bytes, was_there)));
    match shipped {
        Ok((bytes, was_there)) => Row { arrived: true, was_there, bytes: Some(bytes), ..row },
        Err(error) => Row { error: Some(format!("{error:#}")), ..row },
    }
}

impl<'a> Source<'a> {
    /// Opens a recording that no recorder is writing.
    fn open(path: &'a Path) -> anyhow::Result<Self> {
        let meta = fs::metadata(path)?;
        ensure!(meta.is_file(), "it is no regular file");
        let name = path.file_name().map(Path::new).context("it has no name")?;
        let file = File::open(path)?;
        if let Err(TryLockError::WouldBlock) = file.try_lock_shared() {
            bail!("a recorder is writing it: ship it when it is finished");
        }
        // Some file systems have no locks.
        let _ = file.unlock();
        Ok(Self { path, name, file, bytes: meta.len() })
    }

    /// Checks that a name which was just made in the archive is not in the folder of the file.
    fn is_elsewhere(&self, made: &OsStr) -> anyhow::Result<()> {
        ensure!(fs::symlink_metadata(self.path.with_file_name(made)).is_err(), ITSELF);
        Ok(())
    }

    /// Checks that a file of the same name which is there already has the same size.
    fn has_size(&self, bytes: u64) -> anyhow::Result<()> {
        ensure!(
            bytes == self.bytes,
            "{TAKEN} ({} bytes, and this one has {}): {REMEDY}",
            count(bytes),
            count(self.bytes)
        );
        Ok(())
    }

    /// Checks that it has the same bytes.
    fn equals(&self, there: &File) -> anyhow::Result<()> {
        let cannot = "cannot compare it with the file of its name there";
        ensure!(are_equal(&self.file, there).context(cannot)?, "{TAKEN}, with other bytes: {REMEDY}");
        Ok(())
    }
}

/// Why another file keeps one from arriving.
const TAKEN: &str = "another file of this name is there";
const REMEDY: &str = "remove or rename one of them";
/// Why the folder of a file is no archive for it: it would be removed once it has arrived there.
const ITSELF: &str = "the archive is the folder in which it is: name another one";

/// Returns true if two files have the same bytes.
fn are_equal(mut one: &File, other: &File) -> io::Result<bool> {
    io::Seek::rewind(&mut one)?;
    let (mut one, mut other) = (BufReader::new(one), BufReader::new(other));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let common = left.len().min(right.len());
        if common == 0 {
            return Ok(left.is_empty() && right.is_empty());
        }
        if left[..common] != right[..common] {
            return Ok(false);
        }
        one.consume(common);
        other.consume(common);
    }
}

impl Row {
    fn failure(&self) -> Option<String> {
        self.error.as_ref().map(|error| format!("cannot ship `{}`: {error}", self.path))
    }
}

impl Document {
    fn text(&self, page: &mut Page) {
        for Row { path, bytes: size, .. } in self.files.iter().filter(|row| row.arrived && !row.was_there) {
            page.line(&format!("{} ({}) has arrived", shown(Path::new(path)), bytes(size.unwrap_or(0))));
        }
        for row in self.files.iter().filter(|row| row.was_there) {
            page.line(&format!("{} was there already", shown(Path::new(&row.path))));
        }
        let arrived = self.files.iter().filter(|row| row.arrived).count() as u64;
        page.line(&format!(
            "{} of {} at {}",
            count(arrived),
            things(self.files.len() as u64, "file"),
            shown(Path::new(&self.to))
        ));
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    #[test]
    fn files_are_equal_if_all_of_their_bytes_are() {
        let file = |bytes: &[u8]| {
            let mut file = tempfile::tempfile().expect("room");
            file.write_all(bytes).and_then(|()| file.rewind()).expect("room");
            file
        };
        let long = vec![7; 100_000];
        let mut other = long.clone();
        for (one, two, expected) in [
            (&long[..], &long[..], true),
            (b"", b"", true),
            (b"x", b"", false),
            (b"", b"x", false),
            (&long, &long[1..], false),
        ] {
            assert_eq!(are_equal(&file(one), &file(two)).expect("ours"), expected);
        }
        other[99_999] = 8;
        assert!(!are_equal(&file(&long), &file(&other)).expect("ours"));
    }
}
