//! Loads each recording with all of its samples, and makes one page of them.

use std::path::Path;

use icecore_format::read::Recording;
use serde_json::{Value, json};

use super::{Streams, lookup, screen};
use crate::base::progress::watch;
use crate::cli::{Global, Select};
use crate::input;
use crate::views::Screen;
use crate::views::health::Health;
use crate::views::summary::Summary;
use crate::views::unmatched::{refuse_broken, unmatched};
use icecore_analysis::quality;
use icecore_page::{APART, Page, PageCode, PageSide, page};
use icecore_profile::named::pipeline::{Loaded, Named, Report};
use icecore_profile::recording::events::EventChoice;
use icecore_profile::recording::filter::Filter;
use icecore_profile::stacks::hits::Apart;
use icecore_text::path::shown;

/// One recording of a page, and which samples of it.
pub(super) struct PagePart<'a> {
    pub(super) path: &'a Path,
    pub(super) filter: Filter,
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

/// What a page was made of.
#[derive(Clone, Copy)]
pub(crate) struct Sides<'a> {
    /// Each recording with all of its events.
    pub(crate) all: &'a [PageSide<'a>],
    /// The same recordings with the events that views show, by which their data is judged.
    pub(crate) usual: &'a [Report<'a>],
}

impl Sides<'_> {
    /// Counts the samples.
    pub(super) fn samples(&self) -> u64 {
        self.all.iter().map(|side| side.report.profile.whole().samples).sum()
    }
}

/// Makes a page of one recording, or of two that are compared; also returns the number of its samples.
pub(super) fn content(
    parts: &[PagePart<'_>],
    select: &Select,
    wanted: PageWanted<'_>,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<(Vec<u8>, u64)> {
    with_page(parts, select, wanted, global, streams, |page, sides, _| Ok((page.bytes, sides.samples())))
}

/// Makes a page as [`content`] does, and hands it on with what it was made of.
pub(super) fn with_page<T>(
    parts: &[PagePart<'_>],
    select: &Select,
    PageWanted { title, compared, code, is_served }: PageWanted<'_>,
    global: &Global,
    streams: &mut Streams<'_>,
    then: impl FnOnce(Page, Sides<'_>, &mut Screen<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams)?;
    let recordings = parts.iter().map(|part| input::open(part.path));
    let recordings: Vec<Recording> = recordings.collect::<Result<_, _>>()?;
    for (part, recording) in parts.iter().zip(&recordings) {
        input::check_events(part.path, recording, &part.filter)?;
    }
    let patterns = select.patterns();
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
    reports.iter().try_for_each(refuse_broken)?;
    let (of_all, of_usual) = reports.split_at(all.len());
    let mut screen = screen(global, streams);
    for (report, named) in of_usual.iter().zip(&named) {
        screen.warn(named.trouble.iter().cloned().chain(quality::warning(report)));
        screen.warn(report.profile.names.remarks());
        screen.warn(report.located.into_iter().flat_map(|located| unmatched(report, located)));
        screen.remark(lookup::remarks(&search, servers.as_ref(), &named.fetched));
    }
    let side = |(report, usual)| PageSide {
        report,
        summary: json!(Summary::new(usual)),
        health: json!(Health::new(usual, 0)),
    };
    let sides: Vec<PageSide<'_>> = of_all.iter().zip(of_usual).map(side).collect();
    let files = parts.iter().map(|part| shown(part.path)).collect::<Vec<_>>().join(" → ");
    let page = page(title.unwrap_or(&files), &sides, compared, code, is_served)?;
    then(page, Sides { all: &sides, usual: of_usual }, &mut screen)
}
