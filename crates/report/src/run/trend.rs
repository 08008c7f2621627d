//! Runs `trend`: measures every recording, and shows how shares went.

use std::path::Path;

use anyhow::bail;
use rayon::prelude::*;

use super::lookup;
use super::{Streams, emit, screen};
use crate::cli::{Global, Sort, Trend};
use crate::input;
use crate::views;
use crate::views::rates::no_samples;
use icecore_analysis::compare::Metric;
use icecore_analysis::compare::noise::SLICES;
use icecore_analysis::matching::twins;
use icecore_analysis::trend::By as TrendBy;
use icecore_analysis::trend::{Measured, Options, measure};
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::recording::spans::Slicing;
use icecore_profile::stacks::hits::Apart;
use icecore_profile::watch::Unwatched;
use icecore_symbolize::debuginfod;
use icecore_symbolize::image::Search;
use icecore_text::quantity::things;

/// Shows a trend; returns the exit code.
pub(super) fn trend(options: &Trend, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let select = &options.select;
    input::check(&select.filter())?;
    if options.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("cannot read two recordings from stdin: write one into a file");
    }
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams)?;
    let measured = options.files.par_iter().map(|path| recorded(path, options, &search, servers.as_ref()));
    let (mut recorded, mut left_out) = (Vec::new(), Vec::new());
    for (path, measured) in options.files.iter().zip(measured.collect::<Vec<_>>()) {
        match measured {
            Ok(measured) => recorded.push(measured),
            Err(error) => left_out.push((path, error)),
        }
    }
    if recorded.is_empty() {
        match left_out.into_iter().next() {
            Some((_, error)) => return Err(error),
            None => bail!("cannot follow nothing: name recordings"),
        }
    }
    let mut rows: Vec<_> = recorded.iter_mut().map(|it| &mut it.rows).collect();
    let mixed: Vec<String> = twins::join(&mut rows).into_iter().collect();
    if let Some(other) = recorded.iter().find(|it| it.kinds != recorded[0].kinds) {
        let [first, other] = [&recorded[0], other].map(|it| it.path.display());
        bail!(
            "cannot follow `{first}` and `{other}` together: time of waits is no CPU time; choose events with --event"
        );
    }
    for it in recorded.iter().filter(|it| it.damaged > 0) {
        let parts = things(it.damaged, "part");
        let remark = format!("warning: `{}` is damaged: {parts} left out", it.path.display());
        screen(global, streams).remark([remark]);
    }
    let warning = |(_, error): &(_, anyhow::Error)| format!("warning: left out: {error:#}");
    screen(global, streams).remark(left_out.iter().map(warning));
    if let [first, others @ ..] = &mixed[..] {
        let more = if others.is_empty() {
            String::new()
        } else {
            format!(" and {} more", things(others.len() as u64, "name"))
        };
        let remark = format!(
            "warning: `{first}`{more}: some recordings know several functions of this name apart, others do not, because their \
             debug files are not here: these rows do not compare"
        );
        screen(global, streams).remark([remark]);
    }
    let view = views::trend::Trend::new(recorded, mixed, options)?;
    if options.csv {
        view.csv(streams.out)?
    } else {
        emit(global, streams, &view, |page| view.text(page))?
    }
    Ok(0)
}

/// Measures one recording.
fn recorded(
    path: &Path,
    options: &Trend,
    search: &Search,
    servers: Option<&debuginfod::Settings>,
) -> anyhow::Result<Measured> {
    let recording = input::open_by_index(path)?;
    input::check_events(path, &recording, &options.select.filter())?;
    let apart = Apart {
        threads: options.by == TrendBy::Thread,
        slices: Some(Slicing::Sampled(SLICES as u32)),
        ..Apart::default()
    };
    let (filter, patterns) = (options.select.filter(), options.select.patterns());
    let loaded = Loaded::new(path, &recording, filter, patterns, search, apart);
    let named = loaded.name(search, servers, &Unwatched);
    let report = loaded.report(&named.located, named.names);
    if report.profile.whole().weight == 0 {
        bail!("cannot follow `{}`: it has {}", path.display(), no_samples(&report));
    }
    let (by, physical, function) = (options.by, options.physical, options.function.clone());
    let metric = if options.sort == Sort::Own { Metric::Own } else { Metric::Total };
    Ok(measure(&report, &Options { by, metric, physical, function }))
}
