//! Runs `html`: loads each recording with all of its samples, and writes them as one page.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use icecore_format::read::Recording;
use serde::Serialize;
use serde_json::{Value, json};

use super::{Streams, diff, lookup, screen};
use crate::base::output::{self, write_view};
use crate::base::progress::watch;
use crate::cli::{Global, Html, Select};
use crate::input;
use crate::views::Screen;
use crate::views::flame::file::default_name;
use crate::views::health::Health;
use crate::views::summary::Summary;
use crate::views::unmatched::unmatched;
use icecore_analysis::quality;
use icecore_page::{APART, Page, PageCode, PageSide, page};
use icecore_profile::named::pipeline::{Loaded, Named, Report};
use icecore_profile::recording::events::EventChoice;
use icecore_profile::recording::filter::Filter;
use icecore_profile::stacks::hits::Apart;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, things};

/// The result of `html`.
#[derive(Debug, Serialize)]
struct Written {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    samples: u64,
}

/// One recording of a page, and which samples of it.
pub(super) struct PagePart<'a> {
    pub(super) path: &'a Path,
    pub(super) filter: Filter,
}

/// Writes the page; returns the exit code.
pub(super) fn html(options: &Html, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let to_stdout = options.output.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if to_stdout && global.json {
        bail!("cannot write both the page and JSON to stdout: name a file with -o");
    }
    let select = &options.select;
    let path = options.output.clone().unwrap_or_else(|| default_name(&options.files[0], "html"));
    let inputs: Vec<&Path> = options.files.iter().map(PathBuf::as_path).collect();
    if !to_stdout {
        // Refused now, and not after all the work.
        output::refuse(&path, options.force, &inputs)
            .with_context(|| format!("cannot create {}", shown(&path)))?;
    }
    let compared = match &options.files[..] {
        [_] => None,
        files => Some(diff::document(files, select, global, streams)?),
    };
    let parts = inputs.iter().map(|path| PagePart { path, filter: select.filter() });
    let parts: Vec<PagePart<'_>> = parts.collect();
    let code = PageCode::given_away(options.code, &options.source_dir);
    let wanted = PageWanted { title: options.title.as_deref(), compared, code: &code, is_served: false };
    let (content, samples) = content(&parts, select, wanted, global, streams)?;
    let mut screen = screen(global, streams);
    if to_stdout {
        screen.out.write_all(&content)?;
        return Ok(screen.out.flush().map(|()| 0)?);
    }
    write_view(&path, options.force, &inputs, &content)?;
    let (file, file_bytes) = (path.display().to_string(), content.len() as u64);
    let written = Written { schema: "icecore.html/1", file, file_bytes, samples };
    screen.emit(&written, |page| {
        let (file, samples) = (shown(&path), things(samples, "sample"));
        page.line(&format!("wrote {file} ({}): {samples}; open it in a browser", bytes(file_bytes)));
    })?;
    Ok(0)
}

/// What a page is to be.
pub(super) struct PageWanted<'a> {
    /// Its title; else the names of its files.
    pub(super) title: Option<&'a str>,
    /// The document of a comparison.
    pub(super) compared: Option<Value>,
    pub(super) code: &'a PageCode,
    pub(super) is_served: bool,
}

/// Makes a page of one recording, or of two that are compared; also returns the number of its samples.
pub(super) fn content(
    parts: &[PagePart<'_>],
    select: &Select,
    wanted: PageWanted<'_>,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<(Vec<u8>, u64)> {
    with_page(parts, select, wanted, global, streams, |page, sides, _| {
        Ok((page.bytes, sides.iter().map(|side| side.report.profile.whole().samples).sum()))
    })
}

/// Makes a page as [`content`] does, and hands it on with what it was made of.
pub(super) fn with_page<T>(
    parts: &[PagePart<'_>],
    select: &Select,
    PageWanted { title, compared, code, is_served }: PageWanted<'_>,
    global: &Global,
    streams: &mut Streams<'_>,
    then: impl FnOnce(Page, &[PageSide<'_>], &mut Screen<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams.cache.as_ref())?;
    let recordings = parts.iter().map(|part| input::open(part.path));
    let recordings: Vec<Recording> = recordings.collect::<Result<_, _>>()?;
    for (part, recording) in parts.iter().zip(&recordings) {
        input::check_events(part.path, recording, &part.filter)?;
    }
    let patterns = select.patterns()?;
    let load = |everything: bool, apart: Apart| -> Vec<Loaded<'_>> {
        let loaded = parts.iter().zip(&recordings).map(|(part, recording)| {
            let mut filter = part.filter.clone();
            if everything && filter.events == EventChoice::Usual {
                filter.events = EventChoice::All;
            }
            Loaded::new(part.path, recording, filter, patterns.clone(), &search, apart)
        });
        loaded.collect()
    };
    // The page has everything; the verdict above it is that of other views.
    let (all, usual) = (load(true, APART), load(false, Apart::default()));
    let watch = watch(streams.progress && !global.quiet);
    let loaded = || all.iter().chain(&usual);
    let mut named: Vec<Named> = loaded().map(|it| it.name(&search, servers.as_ref(), &*watch)).collect();
    let names: Vec<_> = named.iter_mut().map(|named| std::mem::take(&mut named.names)).collect();
    let reports = loaded().zip(&named).zip(names).map(|((loaded, Named { located, .. }), names)| Report {
        located: Some(located),
        ..loaded.report(located, names)
    });
    let reports: Vec<Report<'_>> = reports.collect();
    let (of_all, of_usual) = reports.split_at(all.len());
    let mut screen = screen(global, streams);
    for (report, named) in of_usual.iter().zip(&named) {
        screen.warn(named.trouble.iter().cloned().chain(quality::warning(report)));
        screen.warn(report.profile.names.remark());
        screen.warn(report.located.into_iter().flat_map(|located| unmatched(report, located)));
        screen.remark(lookup::remarks(&search, servers.as_ref(), &named.fetched));
    }
    let side = |(report, usual)| PageSide {
        report,
        summary: json!(Summary::new(usual)),
        health: json!(Health::new(usual)),
    };
    let sides = of_all.iter().zip(of_usual).map(side);
    let sides: Vec<PageSide<'_>> = sides.collect();
    let files = parts.iter().map(|part| shown(part.path)).collect::<Vec<_>>().join(" → ");
    let page = page(title.unwrap_or(&files), &sides, compared, code, is_served)?;
    then(page, &sides, &mut screen)
}
