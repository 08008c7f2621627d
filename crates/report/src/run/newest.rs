//! Chooses the recording if the command line names none.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};

use super::{Streams, screen};
use crate::cli::Global;

/// The extension of recordings.
const EXTENSION: &str = "icecore";

/// Returns the file that was named; if none was, the newest recording in the current folder, which a line on stderr names.
///
/// # Errors
/// If no file was named, and there is no recording.
pub(super) fn named_or_newest(
    named: Option<&Path>,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<PathBuf> {
    if let Some(file) = named {
        return Ok(file.to_owned());
    }
    let found = newest(Path::new(".")).context("cannot list this folder: name a recording")?;
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
    Ok(file)
}

/// Returns the name of the recording in a folder that was changed last; of several the last by name.
fn newest(folder: &Path) -> io::Result<Option<PathBuf>> {
    let mut newest: Option<(SystemTime, PathBuf)> = None;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = PathBuf::from(entry.file_name());
        // A link may lead to a recording elsewhere, or nowhere.
        let Ok(there) = std::fs::metadata(entry.path()) else { continue };
        if name.extension() != Some(OsStr::new(EXTENSION)) || !there.is_file() {
            continue;
        }
        let this = (there.modified()?, name);
        newest = newest.max(Some(this));
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
        assert_eq!(newest(dir.path()).expect("it is there"), None);
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
        assert_eq!(newest(dir.path()).expect("it is there"), Some("new.icecore".into()));
        make("other.icecore", 10);
        assert_eq!(newest(dir.path()).expect("it is there"), Some("other.icecore".into()));
        assert!(newest(&dir.path().join("none")).is_err());
    }
}
