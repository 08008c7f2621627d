//! Opens what the command line names: the recording, and where debug files lie.

use std::io::{self, Read};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use icecore_format::read::Recording;

use crate::filter::Filter;
use crate::image::Search;

/// What the files of `perf record` begin with, on little-endian and on big-endian machines.
const PERF_DATA: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Opens a recording.
///
/// # Errors
/// With the path and the cause.
pub fn open(path: &Path) -> anyhow::Result<Recording> {
    let is_pipe = std::fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo());
    if is_pipe || path.as_os_str() == "-" {
        bail!("cannot read a recording from a pipe yet: copy it to a file");
    }
    let opened = Recording::open(path).map_err(|error| match error {
        // The cause alone: it would be printed a second time as its own source.
        icecore_format::Error::Io(cause) => anyhow::Error::from(cause),
        _ if is_perf_data(path) => anyhow::anyhow!("this is a perf.data file, not an icecore recording"),
        other => other.into(),
    });
    opened.with_context(|| format!("cannot open recording `{}`", path.display()))
}

fn is_perf_data(path: &Path) -> bool {
    let mut magic = [0; 8];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && PERF_DATA.contains(&&magic)
}

/// Adds the debug directories that were typed to those of the system.
///
/// # Errors
/// If one is no directory.
pub fn search(debug_dirs: &[PathBuf]) -> anyhow::Result<Search> {
    let mut search = Search::default();
    for dir in debug_dirs {
        let absolute = std::fs::metadata(dir).and_then(|meta| match meta.is_dir() {
            true => std::path::absolute(dir),
            false => Err(io::ErrorKind::NotADirectory.into()),
        });
        let absolute =
            absolute.with_context(|| format!("cannot open debug directory `{}`", dir.display()))?;
        search.debug_dirs.push(absolute);
    }
    Ok(search)
}

/// Refuses a stretch of time that holds nothing whatever was recorded.
///
/// # Errors
/// If it ends before it begins.
pub fn check(filter: &Filter) -> anyhow::Result<()> {
    match (filter.from, filter.to) {
        (Some(from), Some(to)) if from.ns >= to.ns => {
            bail!("cannot report on no time: --from {from} is not before --to {to}")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Moment;

    fn refusal<T>(result: anyhow::Result<T>) -> String {
        format!("{:#}", result.err().expect("refused"))
    }

    #[test]
    fn what_is_no_recording_is_called_by_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let perf = dir.path().join("perf.data");
        std::fs::write(&perf, [&b"PERFILE2"[..], &[0; 200]].concat()).expect("written");
        let text = refusal(open(&perf));
        assert!(text.ends_with("perf.data`: this is a perf.data file, not an icecore recording"), "{text}");
        let fifo = dir.path().join("fifo");
        assert!(
            std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success())
        );
        for pipe in [Path::new("-"), &fifo] {
            let text = refusal(open(pipe));
            assert_eq!(text, "cannot read a recording from a pipe yet: copy it to a file");
        }
    }

    #[test]
    fn debug_directories_are_absolute_and_exist() {
        let found = search(&[PathBuf::from("src")]).expect("the directory of this crate");
        assert_eq!(found.debug_dirs[1], std::env::current_dir().expect("a directory").join("src"));
        let text = refusal(search(&[PathBuf::from("/no/such")]));
        assert_eq!(text, "cannot open debug directory `/no/such`: No such file or directory (os error 2)");
        let text = refusal(search(&[PathBuf::from("Cargo.toml")]));
        assert_eq!(text, "cannot open debug directory `Cargo.toml`: not a directory");
    }

    #[test]
    fn time_does_not_run_backwards() {
        let moment = |ns| Some(Moment { ns });
        let filter = |from, to| Filter { from: moment(from), to: moment(to), ..Filter::default() };
        assert!(check(&filter(1, 2)).is_ok());
        let text = refusal(check(&filter(5_000_000_000, 1_000_000_000)));
        assert_eq!(text, "cannot report on no time: --from 5 s is not before --to 1 s");
    }
}
