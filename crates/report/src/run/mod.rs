//! Runs one command line: from what was typed, through the pipeline, to one view.

mod diff;
mod lookup;
mod trend;

use std::ffi::OsString;
use std::io::{self, Write};

use anyhow::{Context as _, anyhow};
use clap::Parser;
use icecore_text::door::{Door, Kind};
use serde::Serialize;

use crate::analysis::quality;
use crate::base::term::Page;
use crate::cli::usage;
use crate::cli::{By, Cli, Command, Global, Owner, Source, Timeline, TimelineBy, When};
use crate::profile::cache::Cache;
use crate::profile::pipeline::{Loaded, Named, Report};
use crate::profile::tree::Root;
use crate::recording::input;
use crate::recording::load::clean;
use crate::recording::load::outline::outline;
use crate::recording::verify::verify;
use crate::stacks::hits::Apart;
use crate::{edit, views};

/// Where output goes, and what is kept.
pub struct Streams<'a> {
    /// The report.
    pub out: &'a mut (dyn Write + Send),
    /// Errors.
    pub err: &'a mut (dyn Write + Send),
    /// Text may be colored, unless the command line says otherwise.
    pub color: bool,
    /// Progress may be shown on stderr.
    pub progress: bool,
    /// What reports find out is kept there.
    pub cache: Option<Cache>,
}

impl std::fmt::Debug for Streams<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Streams").field("color", &self.color).finish_non_exhaustive()
    }
}

/// Runs one command line, the program's name first, and returns the exit code: 0 done, 1 what was to be
/// checked is not well, 2 failed. A broken pipe is 0.
pub fn run<I, T>(args: I, streams: &mut Streams<'_>) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let args: Vec<OsString> = args.into_iter().map(Into::into).collect();
    let parsed = Cli::try_parse_from(&args);
    let color = usage::is_colored(&args, streams.color);
    let text = if color { Kind::Styled } else { Kind::Plain };
    let json = parsed.as_ref().is_ok_and(|cli| cli.global.json);
    // Whatever a view, a warning or an error is made of, this is the only way out.
    let mut out = Door::new(&mut *streams.out, if json { Kind::Json } else { text });
    let mut err = Door::new(&mut *streams.err, text);
    let Streams { color: _, progress, ref cache, .. } = *streams;
    let streams =
        &mut Streams { out: &mut out, err: &mut err, color: streams.color, progress, cache: cache.clone() };
    let cli = match parsed {
        Ok(cli) => cli,
        Err(error) => {
            let (text, failed) = usage::text(&error, &args, color);
            let written = if failed { write!(streams.err, "{text}") } else { write!(streams.out, "{text}") };
            drop(written);
            return if failed { 2 } else { 0 };
        }
    };
    match in_pool(&cli, streams) {
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
        let ours = match cause.downcast_ref() {
            Some(icecore_format::Error::Io(error)) => Some(error.kind()),
            _ => None,
        };
        json.or(ours).or_else(|| cause.downcast_ref().map(io::Error::kind))
    })
}

/// What helps where the system's own words say only what is wrong.
fn remedy(error: &anyhow::Error) -> &'static str {
    match io_kind(error) {
        Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {
            "; free space there, or write elsewhere"
        }
        Some(io::ErrorKind::FileTooLarge) => "; raise the limit with `ulimit -f`, or write elsewhere",
        _ => "",
    }
}

fn in_pool(cli: &Cli, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let threads = cli.global.threads.map_or(0, usize::from);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let pool = pool.with_context(|| format!("cannot start {threads} threads"))?;
    pool.install(|| execute(cli, streams))
}

/// Runs a command; returns the exit code.
fn execute(cli: &Cli, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let global = &cli.global;
    let source = match (&cli.command, &cli.source) {
        (Some(_), Some(source)) => {
            return Err(anyhow!(
                "cannot tell the command from the file `{}`: options and file stand behind the command",
                source.file.display()
            ));
        }
        (Some(Command::Info(options)), None) => {
            let recording = input::open_by_index(&options.file)?;
            let info = views::info::Info::new(&options.file, &recording, &outline(&recording));
            let info = if options.sizes { info.with_sizes(&recording)? } else { info };
            let info = if options.symbol_source {
                let servers = lookup::servers(&options.lookup)?;
                info.with_symbol_sources(
                    &recording,
                    &lookup::search(&options.lookup, servers.as_ref(), streams.cache.as_ref())?,
                )
            } else {
                info
            };
            emit(global, streams, &info, |page| info.text(options.blocks, page))?;
            return Ok(0);
        }
        (Some(Command::Diff(options)), None) => return diff::diff(options, global, streams),
        (Some(Command::Trend(options)), None) => return trend::trend(options, global, streams),
        (Some(Command::Verify(options)), None) => {
            let recording = input::open(&options.file)?;
            let found = verify(&recording);
            let view = views::verify::Verify::new(&options.file, &recording, &found);
            emit(global, streams, &view, |page| view.text(page))?;
            return Ok(u8::from(!found.is_ok()));
        }
        (Some(Command::Repair(options)), None) => {
            let recording = input::open(&options.file)?;
            let repair = edit::repair::Repair::write(options, &recording)?;
            emit(global, streams, &repair, |page| repair.text(page))?;
            return Ok(0);
        }
        (Some(Command::Merge(options)), None) => {
            let merged = edit::merge::merge(options)?;
            emit(global, streams, &merged, |page| merged.text(page))?;
            return Ok(0);
        }
        (Some(Command::Cut(options)), None) => {
            let cut = edit::cut::cut(options)?;
            emit(global, streams, &cut, |page| cut.text(page))?;
            return Ok(0);
        }
        (Some(Command::Pack(options)), None) => {
            let servers = lookup::servers(&options.lookup)?;
            let search = lookup::search(&options.lookup, servers.as_ref(), streams.cache.as_ref())?;
            let progress = streams.progress && !global.quiet;
            let (pack, fetched) = edit::pack::pack(options, &search, servers.as_ref(), progress)?;
            remark(streams, &lookup::remarks(&search, servers.as_ref(), &fetched));
            emit(global, streams, &pack, |page| pack.text(page))?;
            return Ok(0);
        }
        (Some(Command::Compact(options)), None) => {
            let servers = lookup::servers(&options.lookup)?;
            let search = lookup::search(&options.lookup, servers.as_ref(), streams.cache.as_ref())?;
            let compact = edit::compact::compact(options, &search)?;
            emit(global, streams, &compact, |page| compact.text(page))?;
            return Ok(0);
        }
        (Some(Command::Import(options)), None) => {
            let imported = edit::import::import(options, streams.progress && !global.quiet)?;
            emit(global, streams, &imported, |page| imported.text(page))?;
            return Ok(0);
        }
        (Some(Command::Cache(options)), None) => {
            let cache = streams.cache.clone();
            let cache =
                cache.context("cannot find the cache: neither XDG_CACHE_HOME nor HOME is a folder")?;
            let stats = if options.clear { cache.clear() } else { cache.stats() };
            let stats = stats.with_context(|| format!("cannot read `{}`", cache.dir().display()))?;
            let view = views::cache::CacheView::new(&cache, &stats, options.clear);
            emit(global, streams, &view, |page| view.text(page))?;
            return Ok(0);
        }
        (None, Some(source)) => source,
        (Some(Command::Summary(options)), None) => &options.source,
        (Some(Command::Top(options)), None) => &options.source,
        (Some(Command::Tree(options)), None) => &options.source,
        (Some(Command::Flame(options)), None) => &options.source,
        (Some(Command::Folded(options)), None) => &options.source,
        (Some(Command::Samples(options)), None) => &options.source,
        (Some(Command::Missing(options)), None) => &options.source,
        (Some(Command::Health(options)), None) => &options.source,
        (Some(Command::Depth(options)), None) => &options.source,
        (Some(Command::Timeline(options)), None) => &options.source,
        (None, None) => return Err(anyhow!("cannot report on nothing: name a recording, or try --help")),
    };
    report(cli, source, streams)
}

/// Shows a view of samples; returns the exit code.
fn report(cli: &Cli, source: &Source, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let global = &cli.global;
    let select = &source.select;
    input::check(&select.filter())?;
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams.cache.as_ref())?;
    let open = if select.filter().skips_blocks() { input::open_by_index } else { input::open };
    let recording = open(&source.file)?;
    let width = if streams.color { terminal_width() } else { None }.unwrap_or(WIDTH);
    let loaded =
        Loaded::new(&source.file, &recording, select.filter(), select.patterns(), &search, apart(cli, width));
    let Named { located, names, fetched, trouble } =
        loaded.name(&search, servers.as_ref(), streams.progress && !global.quiet);
    let report = Report { located: Some(&located), ..loaded.report(&located, names) };
    // Summary and health begin with how good the data is; what shows no stack tells nothing wrong of them.
    let tells = matches!(&cli.command, None | Some(Command::Summary(_) | Command::Health(_)));
    let tells = tells || matches!(&cli.command, Some(Command::Timeline(options)) if options.heatmap);
    let misleads = if tells { None } else { quality::warning(&report) };
    let shortened = report.profile.names.remark();
    let warnings = trouble.into_iter().chain(misleads).chain(shortened).filter(|_| !global.quiet);
    remark(streams, &warnings.map(|warning| format!("warning: {warning}")).collect::<Vec<_>>());
    remark(streams, &lookup::remarks(&search, servers.as_ref(), &fetched));
    if let Some(Command::Health(options)) = &cli.command {
        let health = views::health::Health::new(&report);
        emit(global, streams, &health, |page| health.text(&report, page))?;
        return Ok(u8::from(options.strict && !health.is_good()));
    }
    match &cli.command {
        Some(Command::Samples(_)) => views::samples::write(&report, &located, global.json, streams.out),
        Some(Command::Top(options)) => {
            let top = views::top::Top::new(&report, options);
            emit(global, streams, &top, |page| top.text(&report, page))
        }
        Some(Command::Tree(options)) if global.json => {
            // Indentation would make a deep tree quadratic.
            serde_json::to_writer(&mut *streams.out, &views::tree::TreeView::new(&report, options))?;
            writeln!(streams.out)?;
            streams.out.flush().map_err(anyhow::Error::from)
        }
        Some(Command::Tree(options)) => {
            let tree = views::tree::TreeView::new(&report, options);
            emit(global, streams, &tree, |page| tree.text(&report, page))
        }
        Some(Command::Depth(options)) => {
            let depth = views::depth::Depth::new(&report, options);
            emit(global, streams, &depth, |page| depth.text(&report, page))
        }
        Some(Command::Timeline(options)) => {
            let timeline = views::timeline::Timeline::new(&report, options, width)?;
            if options.csv {
                timeline.csv(streams.out).map_err(anyhow::Error::from)
            } else {
                emit(global, streams, &timeline, |page| timeline.text(&report, page))
            }
        }
        Some(Command::Flame(options)) => views::flame::write(&report, options, global.json, streams.out),
        Some(Command::Missing(options)) => {
            let missing = views::missing::Missing::new(&report, &search, options);
            emit(global, streams, &missing, |page| missing.text(&report, page))
        }
        Some(Command::Folded(options)) => {
            let folded = views::folded::Folded::new(&report.profile, options);
            if !global.quiet {
                remark(
                    streams,
                    &folded.remark().map(|text| format!("warning: {text}")).into_iter().collect::<Vec<_>>(),
                );
            }
            if global.json {
                emit(global, streams, &folded, |_| ())
            } else {
                folded.text(streams.out).map_err(anyhow::Error::from)
            }
        }
        _ => {
            let summary = views::summary::Summary::new(&report);
            emit(global, streams, &summary, |page| summary.text(&report, page))
        }
    }?;
    Ok(0)
}

/// Says what is worth less than the report.
fn remark(streams: &mut Streams<'_>, remarks: &[String]) {
    for remark in remarks {
        // stderr may be gone.
        drop(writeln!(streams.err, "{}", clean(remark.as_bytes())));
    }
}

/// The width of pages that nobody reads on a terminal.
const WIDTH: u32 = 80;

fn terminal_width() -> Option<u32> {
    terminal_size::terminal_size().map(|(width, _)| u32::from(width.0))
}

/// What the view tells apart, if pages are so wide.
fn apart(cli: &Cli, width: u32) -> Apart {
    let by_thread = match &cli.command {
        Some(Command::Top(options)) => options.by == By::Thread,
        Some(Command::Tree(options)) => options.root == Root::Thread,
        Some(Command::Flame(options)) => options.root == Root::Thread,
        Some(Command::Folded(options)) => options.root == Root::Thread,
        Some(Command::Depth(options)) => options.by == Owner::Thread,
        Some(Command::Timeline(options)) => options.by == TimelineBy::Thread,
        _ => false,
    };
    let by_event = matches!(&cli.command, Some(Command::Depth(_)));
    let slices = match &cli.command {
        Some(Command::Timeline(options)) => Some(views::timeline::slicing(options, width)),
        _ => None,
    };
    // A heat map shows no functions, and a second of it has more slices than other views have in all.
    let no_stacks = |options: &Timeline| {
        let select = &options.source.select;
        options.heatmap && select.focus.is_none() && select.hide.is_none()
    };
    let no_stacks = matches!(&cli.command, Some(Command::Timeline(options)) if no_stacks(options));
    Apart { threads: by_thread, events: by_event, slices, no_stacks }
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
