//! Runs one command line: from what was typed, through the pipeline, to one view.

mod archive;
mod commands;
mod diff;
mod edit;
mod export;
mod file;
mod follow;
mod html;
mod lookup;
mod merged;
mod newest;
mod page;
mod parquet;
mod samples;
mod serve;
mod ship;
mod trend;
mod usage;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::{CommandFactory as _, Parser};
use icecore_symbolize::image;
use icecore_text::door::{Door, Kind};
use serde::Serialize;

use crate::cli::{Global, Source, When};
use crate::views::{self, Screen, Typed};
use commands::{Cli, Command};
use icecore_profile::named::cache::Cache;
use icecore_profile::recording::load::clean;
use icecore_text::Page;

/// Where output goes, and what is kept.
pub struct Streams<'a> {
    /// The report.
    pub out: &'a mut (dyn Write + Send),
    /// Errors.
    pub err: &'a mut (dyn Write + Send),
    /// Text may be colored, unless the command line says otherwise.
    pub color: bool,
    /// The characters on a line if the report goes to a terminal: names are cut to fit.
    pub width: Option<u32>,
    /// Progress may be shown on stderr.
    pub progress: bool,
    /// What reports find out is kept there.
    pub cache: Option<Cache>,
    /// The program that opens files on file systems that may not answer, if it is started as a reader; `None`: the report opens them itself, and
    /// waits.
    pub reader: Option<PathBuf>,
}

impl<'a> Streams<'a> {
    /// Returns output without color, width and progress, for which nothing is kept: the same on every machine. Files are opened here.
    pub fn plain(out: &'a mut (dyn Write + Send), err: &'a mut (dyn Write + Send)) -> Self {
        Self { out, err, color: false, width: None, progress: false, cache: None, reader: None }
    }
}

impl Streams<'_> {
    /// Opens the way to files at paths that a recording names.
    fn door(&self) -> image::Door {
        self.reader.clone().map(image::Door::asking).unwrap_or_default()
    }
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("color", &self.color).finish_non_exhaustive()
    }
}

/// Runs one command line, the program's name first, and returns the exit code: 0 done, 1 a requested
/// check failed, 2 the command failed. A broken pipe is 0.
pub fn run<I, T>(args: I, streams: &mut Streams<'_>) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let parsed = Cli::try_parse_from(&args);
    let is_colored = usage::is_colored(&args, streams.color);
    let text = if is_colored { Kind::Styled } else { Kind::Plain };
    let json = |cli: &Cli| cli.global.json || cli.command.as_ref().is_some_and(Command::prints_json);
    let json = parsed.as_ref().is_ok_and(json);
    // Whatever a view, a warning or an error is made of, this is the only way out.
    let mut out = Door::new(&mut *streams.out, if json { Kind::Json } else { text });
    let mut err = Door::new(&mut *streams.err, text);
    let Streams { color, width, progress, ref cache, ref reader, .. } = *streams;
    let (cache, reader) = (cache.clone(), reader.clone());
    let streams = &mut Streams { out: &mut out, err: &mut err, color, width, progress, cache, reader };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let (text, failed) = usage::text(&error, &args, is_colored);
            let written = if failed { write!(streams.err, "{text}") } else { write!(streams.out, "{text}") };
            drop(written);
            return if failed { 2 } else { 0 };
        }
    };
    match in_pool(cli, streams) {
        Err(error) if !is_broken_pipe(&error) => {
            // stderr may be gone as well; there is nobody left to tell.
            let text = format!("{error:#}{}", remedy(&error));
            drop(writeln!(streams.err, "error: {}", clean(text.as_bytes())));
            2
        }
        Ok(code) => code,
        Err(_) => 0,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    io_kind(error) == Some(io::ErrorKind::BrokenPipe)
}

/// What the system said, if that is the cause.
fn io_kind(error: &anyhow::Error) -> Option<io::ErrorKind> {
    error.chain().find_map(|cause| {
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        let shown = cause.downcast_ref().and_then(views::Error::io_kind);
        let ours = match cause.downcast_ref() {
            Some(icecore_format::Error::Io(error)) => Some(error.kind()),
            _ => None,
        };
        json.or(shown).or(ours).or_else(|| cause.downcast_ref().map(io::Error::kind))
    })
}

/// Returns true if there is no room where something was to be written.
fn is_full(error: &anyhow::Error) -> bool {
    matches!(io_kind(error), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
}

/// What helps where the system's own words say only what is wrong.
fn remedy(error: &anyhow::Error) -> &'static str {
    match io_kind(error) {
        Some(_) if is_full(error) => "; free space there, or write elsewhere",
        Some(io::ErrorKind::FileTooLarge) => "; raise the limit with `ulimit -f`, or write elsewhere",
        _ => "",
    }
}

fn in_pool(cli: Cli, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let threads = cli.global.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.with_context(|| format!("cannot start {threads} threads"))?;
    pool.install(|| execute(cli, streams))
}

/// Runs a command; returns the exit code.
fn execute(cli: Cli, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let command = match (cli.command, cli.source) {
        (Some(_), Source { files, .. }) if !files.is_empty() => {
            return Err(anyhow!(
                "cannot tell the command from the file `{}`: write options and file after the command",
                files[0].display()
            ));
        }
        (Some(_), Source { select, .. }) if !select.is_default() => {
            return Err(anyhow!("cannot select samples before a command: write options and file after it"));
        }
        (Some(command), _) => command,
        (None, source) => {
            if let Some(meant) = usage::meant_command(&source.files) {
                return Err(anyhow!("{meant}"));
            }
            Command::Summary(Typed { view: views::summary::Args, source })
        }
    };
    command.execute(&cli.global, streams)
}

/// Counts the words of a command line that are no options, as its command takes them; `None` if it cannot be read, or takes none.
fn words(args: &[OsString]) -> Option<usize> {
    let matches = Cli::command().try_get_matches_from(args).ok()?;
    let (_, of_command) = matches.subcommand()?;
    Some(of_command.try_get_raw("files").ok()??.len())
}

/// Runs a command line that another one stands for, also with the options of that one. The outer result says what cannot be read of it.
fn again(
    args: Vec<OsString>,
    outer: &Global,
    streams: &mut Streams<'_>,
) -> Result<anyhow::Result<u8>, String> {
    let cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) if !error.use_stderr() => {
            return Ok(write!(streams.out, "{error}").map(|()| 0).map_err(Into::into));
        }
        Err(error) => {
            let text = error.to_string();
            return Err(text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned());
        }
    };
    let own = cli.global;
    let global = Global {
        json: outer.json || own.json,
        wide: outer.wide || own.wide,
        quiet: outer.quiet || own.quiet,
        ..own
    };
    let command = cli.command.ok_or_else(|| "there is no command".to_owned())?;
    Ok(command.execute(&global, streams))
}

/// Where a command writes, as the command line says.
fn screen<'s>(global: &Global, streams: &'s mut Streams<'_>) -> Screen<'s> {
    let color = match global.color {
        When::Auto => streams.color,
        When::Always => true,
        When::Never => false,
    };
    let width = streams.width.filter(|_| !global.wide);
    Screen { out: &mut *streams.out, err: &mut *streams.err, json: global.json, color, width }
}

/// Prints a document as text or JSON.
fn emit(
    global: &Global,
    streams: &mut Streams<'_>,
    document: &impl Serialize,
    text: impl FnOnce(&mut Page),
) -> anyhow::Result<()> {
    Ok(screen(global, streams).emit(document, text)?)
}
