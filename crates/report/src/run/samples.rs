//! Runs a command that shows the samples of one recording: the pipeline, then its view.

use anyhow::Context as _;
use clap::Args;

use super::merged::Opened;
use super::{Streams, lookup, screen};
use crate::base::progress::watch;
use crate::cli::Global;
use crate::input;
use crate::views::unmatched::{refuse_broken, unmatched};
use crate::views::{Needs, Shown, Typed, View, annotate, events};
use icecore_analysis::quality;
use icecore_profile::named::pipeline::{Loaded, Named, Report};
use icecore_profile::recording::events::EventChoice;

/// Shows a view; returns the exit code.
pub(super) fn show<V: View + Args>(
    Typed { view, source }: &Typed<V>,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let select = &source.select;
    view.check(&screen(global, streams))?;
    input::check(&select.filter())?;
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams)?;
    let Opened { path: file, files, recording } =
        &Opened::new(&source.files, &select.filter(), global, streams)?;
    input::check_events(file, recording, &select.filter())?;
    let width = streams.width.unwrap_or(WIDTH);
    let Needs { apart, tells_quality, is_no_page, lists_samples, events: wanted } = view.needs(select, width);
    let mut filter = select.filter();
    if let Some(wanted) = wanted.filter(|_| filter.events == EventChoice::Usual) {
        filter.events = wanted;
        input::check_waits(file, recording, &filter.events)?;
    }
    let loaded = Loaded::new(file, recording, filter, select.patterns(), &search, apart).of_files(files);
    let watch = watch(streams.progress && !global.quiet);
    let Named { located, names, fetched, trouble } = loaded.name(&search, servers.as_ref(), &*watch);
    let report = Report { located: Some(&located), ..loaded.report(&located, names) };
    refuse_broken(&report)?;
    let mut screen = screen(global, streams);
    let misleads = if tells_quality { None } else { quality::warning(&report) };
    screen.warn(trouble.into_iter().chain(misleads).chain(report.profile.names.remarks()));
    if global.json || is_no_page {
        let mixed = if lists_samples { None } else { events::mixed(&report) };
        screen.warn(events::unshown(&report).into_iter().chain(mixed));
    }
    screen.warn(unmatched(&report, &located));
    if loaded.lacks_wakers() {
        screen.warn(["the recording has no stacks of those who ended waits: record them with --wakers"]);
    }
    screen.remark(lookup::remarks(&search, servers.as_ref(), &fetched));
    let passes = view.show(&Shown { report: &report, located: &located, select, width }, &mut screen)?;
    Ok(u8::from(!passes))
}

/// Shows the code of a function; returns the exit code. The last word names the function, if it is no recording.
pub(super) fn annotate(
    Typed { view, source }: &Typed<annotate::Args>,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let mut typed = Typed { view: view.clone(), source: source.clone() };
    if let [_, .., last] = &source.files[..]
        && !(last.extension().is_some_and(|extension| extension == "icecore") && last.exists())
    {
        typed.view.function = Some(last.to_str().context("the name of a function must be UTF-8")?.to_owned());
        typed.source.files.pop();
    }
    show(&typed, global, streams)
}

/// The width of pages that nobody reads on a terminal.
const WIDTH: u32 = 80;
