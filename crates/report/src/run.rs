//! The pipeline, drawn once.
//!
//! ```text
//! open ─► load ─► replay ─► count ─► locate ─► name ─► profile ─► narrow ─► view
//! ```

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use anyhow::{Context as _, anyhow};
use clap::Parser;
use icecore_format::read::Recording;
use serde::Serialize;

use crate::cli::{Cli, Command, Global, Source, When};
use crate::filter::Filter;
use crate::hits::{self, Hits, Selection};
use crate::image::Search;
use crate::load::{Tables, load};
use crate::locate::{Located, Locator, locate};
use crate::names::{Names, name};
use crate::profile::{Patterns, Profile};
use crate::term::Page;
use crate::term::progress::Progress;
use crate::timeline::Timeline;
use crate::views;

/// Where output goes.
pub struct Streams<'a> {
    /// The report.
    pub out: &'a mut (dyn Write + Send),
    /// Errors.
    pub err: &'a mut (dyn Write + Send),
    /// Text may be colored, unless the command line says otherwise.
    pub color: bool,
    /// Progress may be shown on stderr.
    pub progress: bool,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("color", &self.color).finish_non_exhaustive()
    }
}

/// Runs one command line, the program's name first, and returns the exit code: 0 done, 2 failed. A
/// broken pipe is 0.
pub fn run<I, T>(args: I, streams: &mut Streams<'_>) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, streams),
    };
    match in_pool(&cli, streams) {
        Err(error) if !is_broken_pipe(&error) => {
            // stderr may be gone as well; there is nobody left to tell.
            drop(writeln!(streams.err, "error: {error:#}"));
            2
        }
        _ => 0,
    }
}

fn usage(error: &clap::Error, streams: &mut Streams<'_>) -> u8 {
    let text = error.render();
    let text = if streams.color { text.ansi().to_string() } else { text.to_string() };
    let failed = error.use_stderr();
    let written = if failed { write!(streams.err, "{text}") } else { write!(streams.out, "{text}") };
    drop(written);
    if failed { 2 } else { 0 }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = cause.downcast_ref::<serde_json::Error>().and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(io::ErrorKind::BrokenPipe)
    })
}

fn in_pool(cli: &Cli, streams: &mut Streams<'_>) -> anyhow::Result<()> {
    let threads = cli.global.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.with_context(|| format!("cannot start {threads} threads"))?;
    pool.install(|| execute(cli, streams))
}

fn execute(cli: &Cli, streams: &mut Streams<'_>) -> anyhow::Result<()> {
    let global = &cli.global;
    let source = match (&cli.command, &cli.source) {
        (Some(_), Some(source)) => {
            return Err(anyhow!(
                "cannot tell the command from the file `{}`: options and file stand behind the command",
                source.file.display()
            ));
        }
        (Some(Command::Info(options)), None) => {
            let recording = open(&options.file)?;
            let tables = load(&recording);
            let info = views::info::Info::new(&options.file, &recording, &tables);
            return emit(global, streams, &info, |page| info.text(options.blocks, page));
        }
        (None, Some(source)) => source,
        (Some(Command::Summary(options)), None) => &options.source,
        (Some(Command::Top(options)), None) => &options.source,
        (Some(Command::Tree(options)), None) => &options.source,
        (Some(Command::Flame(options)), None) => &options.source,
        (Some(Command::Folded(options)), None) => &options.source,
        (Some(Command::Samples(options)), None) => &options.source,
        (None, None) => return Err(anyhow!("cannot report on nothing: name a recording, or try --help")),
    };
    let recording = open(&source.file)?;
    let loaded = Loaded::new(source, &recording);
    let named = loaded.name(global, streams.progress);
    if let Some(Command::Samples(_)) = &cli.command {
        return views::samples::write(&loaded, named, global.json, streams.out);
    }
    let report = loaded.report(source, named);
    match &cli.command {
        Some(Command::Top(options)) => {
            let top = views::top::Top::new(&report, options);
            emit(global, streams, &top, |page| top.text(&report, page))
        }
        Some(Command::Tree(options)) => {
            let tree = views::tree::TreeView::new(&report, options);
            emit(global, streams, &tree, |page| tree.text(&report, page))
        }
        Some(Command::Flame(options)) => views::flame::write(&report, options, global.json, streams.out),
        Some(Command::Folded(options)) => {
            let folded = views::folded::Folded::new(&report.profile, options);
            emit(global, streams, &folded, |page| folded.text(page))
        }
        _ => {
            let summary = views::summary::Summary::new(&report);
            emit(global, streams, &summary, |page| summary.text(&report, page))
        }
    }
}

fn open(path: &Path) -> anyhow::Result<Recording> {
    let opened = Recording::open(path).map_err(|error| match error {
        // The cause alone: it would be printed a second time as its own source.
        icecore_format::Error::Io(cause) => anyhow::Error::from(cause),
        other => other.into(),
    });
    opened.with_context(|| format!("cannot open recording `{}`", path.display()))
}

/// Prints a view as text or JSON.
fn emit(
    global: &Global,
    streams: &mut Streams<'_>,
    view: &impl Serialize,
    text: impl FnOnce(&mut Page),
) -> anyhow::Result<()> {
    if global.json {
        serde_json::to_writer_pretty(&mut *streams.out, view)?;
        writeln!(streams.out)?;
    } else {
        let color = match global.color {
            When::Auto => streams.color,
            When::Always => true,
            When::Never => false,
        };
        let mut page = Page::new(color);
        text(&mut page);
        streams.out.write_all(page.finish().as_bytes())?;
    }
    streams.out.flush()?;
    Ok(())
}

/// A recording with its samples counted.
pub struct Loaded<'a> {
    /// The file.
    pub recording: &'a Recording,
    /// Its name.
    pub path: &'a Path,
    /// Everything but samples.
    pub tables: Tables,
    /// Address spaces.
    pub timeline: Timeline,
    /// Which samples are wanted.
    pub filter: Filter,
    /// Which functions decide.
    pub patterns: Patterns,
    /// Samples, counted.
    pub hits: Hits,
}

/// Places and their names.
pub struct Named {
    /// Distinct stacks as places.
    pub located: Located,
    /// Frames of the places.
    pub names: Names,
}

/// Everything that a view may show.
pub struct Report<'a> {
    /// The recording and what was counted.
    pub loaded: &'a Loaded<'a>,
    /// Named stacks.
    pub profile: Profile,
    /// What the filters keep, for people.
    pub filtered: Option<String>,
}

impl<'a> Loaded<'a> {
    fn new(source: &'a Source, recording: &'a Recording) -> Self {
        let mut tables = load(recording);
        let timeline = Timeline::replay(&tables.lifecycle, &tables.mappings);
        let filter = source.filter();
        let selection = Selection { tables: &tables, timeline: &timeline, filter: &filter };
        let mut hits = hits::count(recording, selection);
        tables.damage.append(&mut hits.damage);
        tables.damage.sort_by_key(|damage| damage.off);
        Self { recording, path: &source.file, tables, timeline, filter, patterns: source.patterns(), hits }
    }

    /// Decides about samples.
    pub fn selection(&self) -> Selection<'_> {
        Selection { tables: &self.tables, timeline: &self.timeline, filter: &self.filter }
    }

    fn name(&self, global: &Global, progress: bool) -> Named {
        let locator = Locator::new(&self.tables, &self.timeline);
        let located = locate(&locator, &self.hits.rows);
        let mut search = Search::default();
        search.debug_dirs.extend(global.debug_dir.iter().cloned());
        let progress = Progress::begin(located.places.len() as u64, progress && !global.quiet);
        let names =
            name(&located.places, &locator.images, &self.tables, &search, &|done| progress.tick(done));
        progress.finish();
        Named { located, names }
    }

    fn report(&'a self, source: &Source, named: Named) -> Report<'a> {
        let profile = Profile::build(self.selection(), &self.hits, &named.located, named.names);
        let profile = profile.narrow(&self.patterns);
        let parts = [self.filter.describe(), source.patterns().describe()];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let filtered = (!parts.is_empty()).then(|| parts.join(", "));
        Report { loaded: self, profile, filtered }
    }
}
