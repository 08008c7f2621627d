//! Opens what the command line names: a recording, or a file of `perf record`; a file, or a pipe.

mod spool;

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek};
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use icecore_format::header::FileHeader;
use icecore_format::read::Recording;

use crate::base::meant::of_others;
use crate::recording::filter::Filter;
use spool::spool;

/// What the files of `perf record` begin with, on little-endian and on big-endian machines.
const PERF_DATA: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// Opens a recording: a file, a pipe by its name, or stdin as `-`.
///
/// # Errors
/// With the path and the cause.
pub fn open(path: &Path) -> anyhow::Result<Recording> {
    open_as(path, Recording::from_file)
}

/// Opens a recording of which only some blocks are wanted: its index is believed.
///
/// # Errors
/// As [`open`].
pub fn open_by_index(path: &Path) -> anyhow::Result<Recording> {
    open_as(path, Recording::by_index)
}

type Map = fn(&File) -> Result<Recording, icecore_format::Error>;

fn open_as(path: &Path, map: Map) -> anyhow::Result<Recording> {
    if path.as_os_str() == "-" {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            bail!("cannot read a recording from a terminal: pipe one in, or name a file");
        }
        let open = || from(stdin.as_fd().try_clone_to_owned()?.into(), map);
        return open().context("cannot open the recording on stdin");
    }
    let open = || from(File::open(path)?, map);
    open().with_context(|| {
        let word = path.to_str().filter(|_| !path.exists()).and_then(of_others);
        let hint = word.map(|hint| format!(" (if it was meant as a command: {hint})")).unwrap_or_default();
        format!("cannot open recording `{}`{hint}", path.display())
    })
}

/// Opens a file of `perf record`: a file, a pipe by its name, or stdin as `-`.
///
/// # Errors
/// With the cause.
pub fn open_perf_data(path: &Path) -> anyhow::Result<File> {
    let stdin = io::stdin();
    let mut file: File = match path.as_os_str() == "-" {
        true if stdin.is_terminal() => bail!("it would come from a terminal: pipe one in, or name a file"),
        true => stdin.as_fd().try_clone_to_owned()?.into(),
        false => File::open(path)?,
    };
    let kind = file.metadata()?;
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    let is_whole = kind.is_file() && file.stream_position()? == 0;
    if is_whole { Ok(file) } else { spool(file, begins_like_perf_data) }
}

fn begins_like_recording(head: &[u8]) -> bool {
    FileHeader::decode(head).is_ok()
}

fn begins_like_perf_data(head: &[u8]) -> bool {
    head.get(..8).is_some_and(|magic| PERF_DATA.iter().any(|known| magic == *known))
}

/// Tells whether a path is a way to a pipe that has no name of its own.
pub fn is_nameless(path: &Path) -> bool {
    ["-", "/dev/stdin", "/dev/fd", "/proc"].iter().any(|name| path.starts_with(name))
}

fn from(mut file: File, map: Map) -> anyhow::Result<Recording> {
    let kind = file.metadata()?;
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    // A file that has been read in part is a stream of what is left.
    let is_whole = kind.is_file() && file.stream_position()? == 0;
    let file = if is_whole { file } else { spool(file, begins_like_recording)? };
    map(&file).map_err(|error| explain(error, &file))
}

/// Names a file that is none of ours.
fn explain(error: icecore_format::Error, mut file: &File) -> anyhow::Error {
    let mut magic = [0; 8];
    let is_perf_data =
        file.rewind().and_then(|()| file.read_exact(&mut magic)).is_ok() && PERF_DATA.contains(&&magic);
    match error {
        icecore_format::Error::Io(cause) => cause.into(),
        _ if is_perf_data => {
            anyhow!(
                "this is a perf.data file, not an icecore recording; make one of it with `icecore-report import`"
            )
        }
        other => other.into(),
    }
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
    use crate::recording::filter::Moment;

    fn refusal<T>(result: anyhow::Result<T>) -> String {
        format!("{:#}", result.err().expect("refused"))
    }

    #[test]
    fn what_is_no_recording_is_called_by_its_name() {
        let dir = tempfile::tempdir().expect("a directory");
        let perf = dir.path().join("perf.data");
        std::fs::write(&perf, [&b"PERFILE2"[..], &[0; 200]].concat()).expect("written");
        let text = refusal(open(&perf));
        assert!(text.contains("perf.data`: this is a perf.data file, not an icecore recording"), "{text}");
        assert!(text.ends_with("`icecore-report import`"), "{text}");
        let text = refusal(open(dir.path()));
        assert!(text.ends_with("`: is a directory"), "{text}");
        let text = refusal(open(Path::new("/dev/null")));
        assert!(text.starts_with("cannot open recording `/dev/null`: the file has 0 bytes"), "{text}");
    }

    #[test]
    fn a_pipe_that_has_a_name_is_read_to_its_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        icecore_format::write::Writer::create(File::create_new(&file).expect("new"), [1; 16])
            .and_then(icecore_format::write::Writer::finish)
            .expect("written");
        let bytes = std::fs::read(&file).expect("just written");
        let fifo = dir.path().join("fifo");
        assert!(
            std::process::Command::new("mkfifo").arg(&fifo).status().is_ok_and(|status| status.success())
        );
        for (sent, is_closed) in [(&bytes[..], true), (&bytes[..100], false)] {
            let recording = std::thread::scope(|scope| {
                scope.spawn(|| std::fs::write(&fifo, sent));
                open(&fifo).expect("a recording")
            });
            assert_eq!((recording.len_bytes(), recording.is_closed()), (sent.len() as u64, is_closed));
        }
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
