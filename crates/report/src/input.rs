//! Opens what the command line names: a recording, or a profile of another tool; a file, or a pipe.

mod spool;

use std::cmp::Reverse;
use std::ffi::OsStr;
use std::fs::{self, DirEntry, File};
use std::io::{self, IsTerminal, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use icecore_archive::folder::Local;
use icecore_archive::{Archive, share};
use icecore_format::header::FileHeader;
use icecore_format::read::Recording;
use icecore_format::records::EventV1;

use crate::base::did_you_mean::of_others;
use icecore_profile::recording::events::{EVENTS, EventChoice, listed};
use icecore_profile::recording::filter::{Filter, Moment};
use icecore_profile::recording::load::outline::outline;
use icecore_profile::recording::load::{Tables, samples};
use icecore_text::near::nearest;
use icecore_text::path::quoted;
use spool::spool;

/// What the files of `perf record` begin with, on little-endian and on big-endian machines.
const PERF_DATA: [&[u8; 8]; 2] = [b"PERFILE2", b"2ELIFREP"];

/// What recordings of an archive begin with that share their names.
const NAMELESS: [u8; 8] = *b"icecore ";

/// Why a recording cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Stdin is a terminal.
    #[error("cannot read a recording from a terminal: pipe one in, or name a file")]
    Terminal,
    /// Stdin cannot be read, or holds no recording.
    #[error("cannot open the recording on stdin")]
    Stdin(#[source] Cause),
    /// A file cannot be read, or is no recording.
    #[error("cannot open recording `{}`{hint}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The command that may have been meant, or the one that makes the file readable; else empty.
        hint: String,
        /// The reason.
        source: Cause,
    },
}

/// Why a file or a pipe cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The system refuses.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is in an archive, and the names that it shares with others cannot be read.
    #[error(transparent)]
    Names(#[from] icecore_archive::Error),
    /// The bytes are no recording.
    #[error(transparent)]
    Format(#[from] icecore_format::Error),
    /// `perf record` has written the file.
    #[error(
        "this is a perf.data file, not an icecore recording; make one of it with `icecore-report import`"
    )]
    PerfData,
    /// An archive has the names of the recording.
    #[error(
        "it has not the names that it shares with other recordings of its archive: take it out of the archive with \
         `icecore-report archive DIR get UUID`"
    )]
    Nameless,
    /// Stdin is a terminal.
    #[error("it would come from a terminal: pipe one in, or name a file")]
    Terminal,
    /// A pipe failed after its first bytes.
    #[error("cannot read on")]
    Pipe(#[source] io::Error),
    /// The folder for temporary files does not take what came out of a pipe.
    #[error(
        "cannot keep it in the folder for temporary files `{folder}`: {0}; set TMPDIR to a folder with more room",
        folder = std::env::temp_dir().display()
    )]
    NoRoom(io::Error),
}

/// The filter keeps no time.
#[derive(Debug, thiserror::Error)]
#[error("cannot report on no time: --from {from} is not before --to {to}")]
pub struct NoTime {
    from: Moment,
    to: Moment,
}

/// No session has an event that was asked for.
#[derive(Debug, thiserror::Error)]
#[error("cannot find samples of the event `{name}`: `{}` has {has}", path.display())]
pub struct NoEvent {
    name: String,
    path: PathBuf,
    has: String,
}

/// The recording has no waits, and the view shows them.
#[derive(Debug, thiserror::Error)]
#[error("cannot show waits: `{}` has none; record them with --off-cpu, or name other events with --event", path.display())]
pub struct NoWaits {
    path: PathBuf,
}

/// Opens a recording: a file, a pipe by its name, or stdin as `-`.
///
/// # Errors
/// With the path and the cause.
pub fn open(path: &Path) -> Result<Recording, OpenError> {
    open_as(path, Recording::from_file)
}

/// Opens a recording of which only some blocks are wanted: its index is believed.
///
/// # Errors
/// As [`open`].
pub fn open_by_index(path: &Path) -> Result<Recording, OpenError> {
    open_as(path, Recording::by_index)
}

type Map = fn(&File) -> Result<Recording, icecore_format::Error>;

fn open_as(path: &Path, map: Map) -> Result<Recording, OpenError> {
    if path.as_os_str() == "-" {
        let stdin = io::stdin();
        if stdin.is_terminal() {
            return Err(OpenError::Terminal);
        }
        let open = || from(stdin.as_fd().try_clone_to_owned()?.into(), map);
        return open().map_err(OpenError::Stdin);
    }
    let open = || match with_names(path) {
        Some(local) => from(local?.open()?, map),
        None => from(File::open(path)?, map),
    };
    open().map_err(|source| {
        let word = path.to_str().filter(|_| !path.exists()).and_then(of_others);
        let hint = word.map(|hint| format!(" (if it was meant as a command: {hint})"));
        let is_refused =
            matches!(&source, Cause::Io(error) if error.kind() == io::ErrorKind::PermissionDenied);
        let hint = hint.or_else(|| is_refused.then(|| remedy(path))?).unwrap_or_default();
        OpenError::File { path: path.to_owned(), hint, source }
    })
}

/// Returns a recording of an archive with the names that it shares; `None` if a file is none of those. Others of the same archive follow
/// often, and have the same names.
fn with_names(path: &Path) -> Option<Result<Local, icecore_archive::Error>> {
    static LAST: Mutex<Option<Archive>> = Mutex::new(None);
    share::with_names(path, &mut LAST.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Says whose file it is that this user may not read, and how that is changed; `None` if its folder is closed, too.
fn remedy(path: &Path) -> Option<String> {
    let (file, own) = (path.metadata().ok()?, Path::new("/proc/self").metadata().ok()?);
    let quoted = quoted(path);
    Some(match file.uid() {
        uid if uid == own.uid() => format!(" (to make it readable: chmod u+r {quoted})"),
        uid => {
            let owner = if uid == 0 { "root".to_owned() } else { format!("user {uid}") };
            format!(
                " (it belongs to {owner}, and only its owner may read it; to make it yours: sudo chown \"$USER\" {quoted})"
            )
        }
    })
}

/// Opens what another tool wrote: a file, a pipe by its name, stdin as `-`, or the folder of `perf record --threads`, whose files of threads follow.
///
/// # Errors
/// With the cause.
pub fn open_profile(path: &Path) -> Result<(File, Vec<File>), Cause> {
    if path.is_dir() && path.join("data").is_file() {
        let numbered = |entry: io::Result<DirEntry>| {
            let path = entry?.path();
            let number = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix("data."));
            Ok(number.and_then(|number| number.parse::<u32>().ok()).map(|number| (number, path.clone())))
        };
        let parts = fs::read_dir(path)?.filter_map(|entry| numbered(entry).transpose());
        let mut parts = parts.collect::<io::Result<Vec<_>>>()?;
        parts.sort();
        let parts = parts.iter().map(|(_, path)| File::open(path)).collect::<io::Result<_>>()?;
        return Ok((File::open(path.join("data"))?, parts));
    }
    Ok((open_one(path)?, Vec::new()))
}

fn open_one(path: &Path) -> Result<File, Cause> {
    let stdin = io::stdin();
    let is_stdin = path.as_os_str() == "-";
    if is_stdin && stdin.is_terminal() {
        return Err(Cause::Terminal);
    }
    let mut file: File =
        if is_stdin { stdin.as_fd().try_clone_to_owned()?.into() } else { File::open(path)? };
    let kind = file.metadata()?;
    if kind.is_dir() {
        return Err(io::Error::from(io::ErrorKind::IsADirectory).into());
    }
    let is_whole = kind.is_file() && file.stream_position()? == 0;
    if is_whole { Ok(file) } else { spool(file, icecore_edit::import::begins) }
}

fn begins_like_recording(head: &[u8]) -> bool {
    FileHeader::decode(head).is_ok()
}

/// Tells whether a path is a way to a pipe that has no name of its own.
pub fn is_nameless(path: &Path) -> bool {
    ["-", "/dev/stdin", "/dev/fd", "/proc"].iter().any(|name| path.starts_with(name))
}

fn from(mut file: File, map: Map) -> Result<Recording, Cause> {
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
fn explain(error: icecore_format::Error, mut file: &File) -> Cause {
    let mut magic = [0; 8];
    let is_read = file.rewind().and_then(|()| file.read_exact(&mut magic)).is_ok();
    let is_perf_data = is_read && PERF_DATA.contains(&&magic);
    match error {
        icecore_format::Error::Io(cause) => cause.into(),
        _ if is_perf_data => Cause::PerfData,
        _ if magic == NAMELESS => Cause::Nameless,
        other => other.into(),
    }
}

/// Refuses a stretch of time that holds nothing whatever was recorded.
///
/// # Errors
/// If it ends before it begins.
pub fn check(filter: &Filter) -> Result<(), NoTime> {
    match (filter.from, filter.to) {
        (Some(from), Some(to)) if from.ns >= to.ns => Err(NoTime { from, to }),
        _ => Ok(()),
    }
}

/// Refuses events that the recording does not have.
///
/// # Errors
/// If an event was asked for that no session has; with all events of the recording.
pub fn check_events(path: &Path, recording: &Recording, filter: &Filter) -> Result<(), NoEvent> {
    if filter.events.names().is_empty() {
        return Ok(());
    }
    let tables = outline(recording);
    let events = tables.parts.events();
    let Some(name) = filter.events.unknown(events) else { return Ok(()) };
    let samples = samples_of_events(recording, &tables);
    let mut by_samples: Vec<(u64, &EventV1)> = samples.into_iter().zip(events).collect();
    by_samples.sort_by_key(|(samples, _)| Reverse(*samples));
    let by_samples = by_samples.iter().map(|(_, event)| *event);
    let has = if events.is_empty() { "no events".to_owned() } else { listed(by_samples.clone()) };
    let near = nearest(name, by_samples.map(|event| &*event.name));
    let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    Err(NoEvent { name: name.to_owned(), path: path.to_owned(), has: format!("{has}{near}") })
}

/// Counts the samples of each event, by its position; those in damaged blocks cannot be counted.
fn samples_of_events(recording: &Recording, tables: &Tables) -> [u64; EVENTS] {
    let mut counts = [0; EVENTS];
    let blocks = tables.sample_blocks.iter().flat_map(|entry| samples(recording, tables, entry));
    blocks.flatten().for_each(|sample| counts[usize::from(sample.event)] += 1);
    counts
}

/// Refuses a view of waits if the recording has none.
///
/// # Errors
/// If waits are requested, and no session has an event of that meaning.
pub fn check_waits(path: &Path, recording: &Recording, choice: &EventChoice) -> Result<(), NoWaits> {
    if choice.are_missing(outline(recording).parts.events()) {
        Err(NoWaits { path: path.to_owned() })
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal<T, E: Into<anyhow::Error>>(result: Result<T, E>) -> String {
        format!("{:#}", result.err().expect("refused").into())
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
    fn a_file_that_may_not_be_read_comes_with_the_command_that_mends_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("of root.icecore");
        std::fs::write(&file, "x").expect("written");
        let own = remedy(&file).expect("it is there");
        assert_eq!(own, format!(" (to make it readable: chmod u+r '{}')", file.display()));
        let of_root = remedy(Path::new("/proc/1/environ")).expect("every machine has it");
        let is_root = dir.path().metadata().is_ok_and(|meta| meta.uid() == 0);
        assert!(
            is_root
                || of_root.contains("belongs to root") && of_root.contains("sudo chown \"$USER\" /proc/1"),
            "{of_root}"
        );
        assert_eq!(remedy(Path::new("/no/such/file")), None);
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
