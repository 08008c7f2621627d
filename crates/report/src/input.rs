//! Opens what the command line names: the recording, a file or a pipe, and where debug files lie.

mod spool;

use std::fs::File;
use std::io::{self, IsTerminal, Read, Seek};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use icecore_format::header::FileHeader;
use icecore_format::read::Recording;

use crate::cache::Cache;
use crate::cli::Lookup;
use crate::debuginfod::{Fetched, Settings};
use crate::filter::Filter;
use crate::image::{Search, Symbols, supports_sysroot};
use crate::term::quantity::things;
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
        let word = path.to_str().filter(|_| !path.exists()).and_then(crate::usage::of_others);
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

/// Puts together where files are looked for: what was typed, and the debug directory of the system.
///
/// # Errors
/// If one is no directory, or there can be no sysroot here.
pub fn search(lookup: &Lookup, servers: Option<&Settings>, cache: Option<&Cache>) -> anyhow::Result<Search> {
    let mut search = Search { maps: lookup.map.clone(), ..Search::default() };
    for dir in &lookup.debug_dir {
        search.debug_dirs.push(directory(dir, "debug directory")?);
    }
    let symbols = lookup.symbols.iter().map(|dir| directory(dir, "symbols directory"));
    search.symbols = Symbols::below(symbols.collect::<anyhow::Result<_>>()?);
    if let Some(root) = &lookup.sysroot {
        let root = directory(root, "sysroot")?;
        let root = std::fs::canonicalize(&root)
            .and_then(|root| supports_sysroot(&root).map(|()| root))
            .with_context(|| format!("cannot open sysroot `{}`", root.display()))?;
        search.sysroot = Some(root);
    }
    search.cache = cache.filter(|_| !lookup.no_cache).cloned();
    search.downloads = servers.map(|servers| servers.cache.folder().to_owned());
    Ok(search)
}

/// Tells which servers are asked for missing files; `None` if none.
///
/// # Errors
/// As [`Settings::new`].
pub fn servers(lookup: &Lookup) -> anyhow::Result<Option<Settings>> {
    if lookup.no_debuginfod {
        return Ok(None);
    }
    Settings::new(&lookup.debuginfod, lookup.debuginfod_budget, |name| std::env::var_os(name))
}

/// What is to be said of a search that did not get everything it might have.
pub fn remarks(search: &Search, servers: Option<&Settings>, fetched: &Fetched) -> Vec<String> {
    let mut remarks: Vec<String> =
        fetched.warnings.iter().map(|warning| format!("warning: {warning}")).collect();
    for server in servers.iter().flat_map(|servers| &servers.ignored) {
        remarks.push(format!(
            "warning: `{server}` of DEBUGINFOD_URLS is not asked: it must begin with http:// or https://"
        ));
    }
    if let (Some(servers), left_out @ 1..) = (servers, fetched.left_out) {
        remarks.push(format!(
            "debuginfod: files of {} were not fetched: the budget was {} (--debuginfod-budget)",
            things(left_out, "image"),
            servers.budget
        ));
    }
    if search.symbols.is_cut() {
        remarks.push(
            "warning: --symbols: there are more files, or deeper folders, than are looked at".to_owned(),
        );
    }
    remarks
}

/// Makes a path absolute.
fn directory(dir: &Path, what: &str) -> anyhow::Result<PathBuf> {
    let absolute = std::fs::metadata(dir).and_then(|meta| match meta.is_dir() {
        true => std::path::absolute(dir),
        false => Err(io::ErrorKind::NotADirectory.into()),
    });
    absolute.with_context(|| format!("cannot open {what} `{}`", dir.display()))
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
    fn debug_directories_are_absolute_and_exist() {
        let search =
            |dir: &str| search(&Lookup { debug_dir: vec![dir.into()], ..Lookup::default() }, None, None);
        let found = search("src").expect("the directory of this crate");
        assert_eq!(found.debug_dirs[1], std::env::current_dir().expect("a directory").join("src"));
        let text = refusal(search("/no/such"));
        assert_eq!(text, "cannot open debug directory `/no/such`: No such file or directory (os error 2)");
        let text = refusal(search("Cargo.toml"));
        assert_eq!(text, "cannot open debug directory `Cargo.toml`: not a directory");
    }

    #[test]
    fn a_sysroot_is_real_and_a_folder_of_symbols_exists() {
        let dir = tempfile::tempdir().expect("a directory");
        let real = dir.path().canonicalize().expect("a real path");
        std::fs::create_dir(real.join("root")).expect("made");
        std::os::unix::fs::symlink("root", real.join("link")).expect("linked");
        let found = search(&Lookup { sysroot: Some(real.join("link")), ..Lookup::default() }, None, None);
        assert_eq!(found.expect("a sysroot").sysroot, Some(real.join("root")));
        let text =
            refusal(search(&Lookup { sysroot: Some("/no/such".into()), ..Lookup::default() }, None, None));
        assert_eq!(text, "cannot open sysroot `/no/such`: No such file or directory (os error 2)");
        let text =
            refusal(search(&Lookup { symbols: vec!["Cargo.toml".into()], ..Lookup::default() }, None, None));
        assert_eq!(text, "cannot open symbols directory `Cargo.toml`: not a directory");
    }

    #[test]
    fn what_was_not_fetched_is_one_line() {
        let servers = Settings::new(&["http://x".into()], Default::default(), |name| {
            (name == "HOME").then(|| "/h".into())
        });
        let servers = servers.expect("sound").expect("a server");
        let fetched = Fetched { left_out: 2, warnings: vec!["w".into()], ..Fetched::default() };
        let lines = remarks(&Search::nowhere(), Some(&servers), &fetched);
        let left_out =
            "debuginfod: files of 2 images were not fetched: the budget was 500M,60s (--debuginfod-budget)";
        assert_eq!(lines, ["warning: w", left_out]);
        assert!(remarks(&Search::nowhere(), Some(&servers), &Fetched::default()).is_empty());
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
