//! Runs `html`: loads each recording with all of its samples, and writes them as one page.

use std::path::{Path, PathBuf};

use anyhow::bail;
use icecore_format::read::Recording;
use serde::Serialize;

use super::{Streams, diff, lookup, screen};
use crate::analysis::quality;
use crate::base::output::write_view;
use crate::base::term::path::shown;
use crate::base::term::quantity::{bytes, things};
use crate::cli::{Global, Html};
use crate::profile::pipeline::{Loaded, Named, Report};
use crate::recording::events::EventChoice;
use crate::recording::filter::Filter;
use crate::recording::input;
use crate::stacks::hits::Apart;
use crate::views::flame::file::default_name;
use crate::views::html::{APART, PageSide, page};
use crate::views::unmatched::unmatched;

/// The result of `html`.
#[derive(Debug, Serialize)]
struct Written {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    samples: u64,
}

/// Writes the page; returns the exit code.
pub(super) fn html(options: &Html, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let to_stdout = options.output.as_ref().is_some_and(|path| path.as_os_str() == "-");
    if to_stdout && global.json {
        bail!("cannot write both the page and JSON to stdout: name a file with -o");
    }
    let path = options.output.clone().unwrap_or_else(|| default_name(&options.files[0], "html"));
    let inputs: Vec<&Path> = options.files.iter().map(PathBuf::as_path).collect();
    let (content, samples) = content(options, global, streams)?;
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

/// Makes the page; also returns the number of its samples.
fn content(options: &Html, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<(Vec<u8>, u64)> {
    let select = &options.select;
    let compared = match &options.files[..] {
        [_] => None,
        files => Some(diff::document(files, select, global, streams)?),
    };
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams.cache.as_ref())?;
    let recordings = options.files.iter().map(|path| input::open(path));
    let recordings: Vec<Recording> = recordings.collect::<Result<_, _>>()?;
    let filter = select.filter();
    let load = |(path, recording), events: EventChoice, apart| {
        let filter = Filter { events, ..filter.clone() };
        Loaded::new(path, recording, filter, select.patterns(), &search, apart)
    };
    let files = || options.files.iter().map(PathBuf::as_path).zip(&recordings);
    for (path, recording) in files() {
        input::check_events(path, recording, &filter)?;
    }
    let everything =
        if filter.events == EventChoice::Usual { EventChoice::All } else { filter.events.clone() };
    let loaded: Vec<Loaded<'_>> = files().map(|file| load(file, everything.clone(), APART)).collect();
    let usual = files().map(|file| load(file, filter.events.clone(), Apart::default()));
    let usual: Vec<Loaded<'_>> = usual.collect();
    let progress = streams.progress && !global.quiet;
    let name = |loaded: &Loaded<'_>| loaded.name(&search, servers.as_ref(), progress);
    let mut named: Vec<Named> = loaded.iter().chain(&usual).map(name).collect();
    let names: Vec<_> = named.iter_mut().map(|named| std::mem::take(&mut named.names)).collect();
    let reports = loaded.iter().chain(&usual).zip(&named).zip(names);
    let reports = reports.map(|((loaded, Named { located, .. }), names)| Report {
        located: Some(located),
        ..loaded.report(located, names)
    });
    let reports: Vec<Report<'_>> = reports.collect();
    let mut screen = screen(global, streams);
    let (all, usual) = reports.split_at(loaded.len());
    for ((report, named), loaded) in usual.iter().zip(&named).zip(&loaded) {
        screen.warn(named.trouble.iter().cloned().chain(quality::warning(report)));
        screen.warn(report.profile.names.remark());
        screen.warn(unmatched(loaded));
        screen.remark(lookup::remarks(&search, servers.as_ref(), &named.fetched));
    }
    let sides = all.iter().zip(usual).map(|(report, usual)| PageSide { report, usual });
    let sides: Vec<PageSide<'_>> = sides.collect();
    let samples = all.iter().map(|report| report.profile.whole().samples).sum();
    let names = options.files.iter().map(|file| shown(file)).collect::<Vec<_>>().join(" → ");
    let title = options.title.clone().unwrap_or(names);
    Ok((page(&title, &sides, compared)?, samples))
}
