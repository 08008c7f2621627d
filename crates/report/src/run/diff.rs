//! Runs `diff`: loads both sides, compares them, and shows the result.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use icecore_format::read::Recording;
use serde_json::Value;

use super::merged::Merged;
use super::newest::newest_of;
use super::page::{self, PagePart, PageWanted};
use super::{Streams, emit, lookup, screen};
use crate::base::output;
use crate::base::progress::watch;
use crate::cli::{CODE, Diff, DiffUnit, Global, Measure, Select, Stretch};
use crate::input;
use crate::views::diff;
use crate::views::rates::no_samples;
use crate::views::unmatched::unmatched;
use icecore_analysis::compare::By as DiffBy;
use icecore_analysis::compare::noise::SLICES;
use icecore_analysis::compare::{Comparison, Options, Sided, Unit, Work, compare};
use icecore_analysis::quality;
use icecore_page::PageCode;
use icecore_profile::named::pipeline::{Loaded, Named, Report};
use icecore_profile::recording::events::listed;
use icecore_profile::recording::filter::Filter;
use icecore_profile::recording::spans::Slicing;
use icecore_profile::stacks::hits::Apart;
use icecore_profile::watch::Watch;
use icecore_symbolize::debuginfod;
use icecore_symbolize::image::Search;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, things};

/// Compares recordings; returns the exit code.
pub(super) fn diff(options: &Diff, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let options = &of_folders(options, global, streams)?;
    compared(options, global, streams, |view, compared, sided, streams| {
        if let Some(path) = options.output.as_ref().filter(|path| is_page(path)) {
            page(path, view, options, global, streams)?;
        } else if let Some(path) = &options.output {
            let written = diff::file::write((path, options.force), view, compared, sided)?;
            screen(global, streams).remark([written]);
        }
        if options.markdown {
            streams.out.write_all(view.markdown().as_bytes())?;
            streams.out.flush()?;
        } else {
            emit(global, streams, view, |page| view.text(page))?
        }
        Ok(u8::from(view.fails()))
    })
}

/// Replaces each folder by the newest recording in it.
fn of_folders(options: &Diff, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<Diff> {
    let mut options = options.clone();
    for path in options.files.iter_mut().chain(&mut options.before).chain(&mut options.after) {
        *path = newest_of(path, global, streams)?;
    }
    Ok(options)
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "html")
}

/// Writes both sides as a page for a browser.
fn page(
    path: &Path,
    view: &diff::Diff,
    options: &Diff,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<()> {
    let wanted = wanted(options)?;
    let inputs: Vec<&Path> = wanted.iter().map(|piece| piece.path.as_path()).collect();
    output::refuse(path, options.force, &inputs).with_context(|| format!("cannot create {}", shown(path)))?;
    // The page shows the samples of a side together; what is chance is known of the recordings one by one.
    let side = |number: usize| -> anyhow::Result<(Merged, Filter)> {
        let of_side: Vec<&Operand> = wanted.iter().filter(|piece| piece.side == number).collect();
        let files: Vec<&Path> = of_side.iter().map(|piece| piece.path.as_path()).collect();
        Ok((Merged::new(&files)?, filter(of_side[0], options)))
    };
    let sides = [side(0)?, side(1)?];
    let parts = sides.iter().map(|(merged, filter)| PagePart { path: merged.path(), filter: filter.clone() });
    let parts: Vec<PagePart<'_>> = parts.collect();
    let code = PageCode::given_away(CODE, &[]);
    let compared = Some(serde_json::to_value(view)?);
    let count = |number| wanted.iter().filter(|piece| piece.side == number).count() as u64;
    let title = format!("{} → {}", things(count(0), "recording"), things(count(1), "recording"));
    let title = (wanted.len() > 2).then_some(&*title);
    let wanted = PageWanted { title, compared, code: &code, is_served: false };
    let (content, _) = page::content(&parts, &options.select, wanted, global, streams)?;
    output::write_view(path, options.force, &inputs, &content)?;
    screen(global, streams).remark([format!("wrote {} ({})", shown(path), bytes(content.len() as u64))]);
    Ok(())
}

/// Compares two recordings as `diff BEFORE AFTER --all` does; returns its document.
pub(super) fn document(
    files: &[PathBuf],
    select: &Select,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<Value> {
    let options = Diff::of(files.to_vec(), select.clone());
    compared(&options, global, streams, |view, _, _, _| Ok(serde_json::to_value(view)?))
}

/// Compares recordings, and hands over the comparison.
fn compared<T>(
    options: &Diff,
    global: &Global,
    streams: &mut Streams<'_>,
    then: impl FnOnce(&diff::Diff, &Comparison, &[Sided<'_>], &mut Streams<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let wanted = wanted(options)?;
    let select = &options.select;
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams)?;
    let recordings = wanted.iter().map(|piece| input::open_by_index(&piece.path));
    let recordings: Vec<Recording> = recordings.collect::<Result<_, _>>()?;
    for (piece, recording) in wanted.iter().zip(&recordings) {
        input::check_events(&piece.path, recording, &select.filter())?;
    }
    let loaded: Vec<Loaded<'_>> = wanted
        .iter()
        .zip(&recordings)
        .map(|(piece, recording)| load(piece, recording, options, &search))
        .collect::<anyhow::Result<_>>()?;
    let mut reports: Vec<Report<'_>> = Vec::new();
    for loaded in &loaded {
        let watch = watch(streams.progress && !global.quiet);
        reports.push(name(loaded, &search, servers.as_ref(), &*watch, global, streams));
    }
    refuse(&reports)?;
    let sided: Vec<Sided<'_>> =
        reports.iter().zip(&wanted).map(|(report, piece)| (report, piece.side)).collect();
    let compared = compare(&sided, how(options)?);
    refuse_runs(&compared, options)?;
    let view = diff::Diff::new(&compared, &sided, options);
    then(&view, &compared, &sided, streams)
}

/// A recording, or a stretch of one, and its side.
struct Operand {
    path: PathBuf,
    side: usize,
    stretch: Option<Stretch>,
}

fn wanted(options: &Diff) -> anyhow::Result<Vec<Operand>> {
    let piece = |path: &Path, side, stretch| Operand { path: path.to_owned(), side, stretch };
    let all = |files: &[PathBuf], side| files.iter().map(|path| piece(path, side, None)).collect::<Vec<_>>();
    let pieces = match (&options.files[..], options.slice, options.against) {
        ([file], Some(slice), Some(against)) => {
            vec![piece(file, 0, Some(against)), piece(file, 1, Some(slice))]
        }
        ([before, after], None, None) => vec![piece(before, 0, None), piece(after, 1, None)],
        ([], None, None) if !options.before.is_empty() => {
            all(&options.before, 0).into_iter().chain(all(&options.after, 1)).collect()
        }
        ([_], None, None) => bail!(
            "cannot compare one recording with nothing: name a second one, or stretches of it with --slice and --against"
        ),
        ([_, _], ..) => bail!("cannot compare stretches of two recordings: name one, or use --from and --to"),
        _ => bail!("cannot compare nothing: name two recordings, BEFORE and AFTER"),
    };
    for (position, piece) in pieces.iter().enumerate() {
        let is_again = |other: &Operand| other.side == piece.side && other.path == piece.path;
        if pieces[..position].iter().any(is_again) {
            let path = piece.path.display();
            bail!("cannot learn how runs differ from `{path}` twice on one side: name each recording once");
        }
    }
    if let (Some(slice), Some(against)) = (options.slice, options.against)
        && slice.overlaps(against)
    {
        bail!("cannot compare stretches that overlap: --slice and --against must hold different times");
    }
    let is_stdin = |piece: &&Operand| piece.path.as_os_str() == "-";
    if pieces.iter().filter(is_stdin).count() > 1 {
        bail!("cannot read two recordings from stdin: write one into a file");
    }
    Ok(pieces)
}

/// Returns the filters of a piece.
fn filter(piece: &Operand, options: &Diff) -> Filter {
    let filter = options.select.filter();
    match piece.stretch {
        Some(Stretch { from, to }) => Filter { from, to, ..filter },
        None => filter,
    }
}

fn load<'a>(
    piece: &'a Operand,
    recording: &'a Recording,
    options: &Diff,
    search: &'a Search,
) -> anyhow::Result<Loaded<'a>> {
    let filter = filter(piece, options);
    let apart = Apart {
        threads: options.by == DiffBy::Thread,
        slices: Some(Slicing::Sampled(SLICES as u32)),
        ..Apart::default()
    };
    Ok(Loaded::new(&piece.path, recording, filter, options.select.patterns(), search, apart))
}

fn name<'a>(
    loaded: &'a Loaded<'a>,
    search: &Search,
    servers: Option<&debuginfod::Settings>,
    watch: &dyn Watch,
    global: &Global,
    streams: &mut Streams<'_>,
) -> Report<'a> {
    let Named { located, names, fetched, trouble } = loaded.name(search, servers, watch);
    let report = loaded.report(&located, names);
    let warnings = trouble.into_iter().chain(quality::warning(&report));
    let mut screen = screen(global, streams);
    screen.warn(warnings.chain(report.profile.names.remarks()));
    screen.warn(unmatched(&report, &located));
    screen.remark(lookup::remarks(search, servers, &fetched));
    report
}

/// Refuses what no rate makes comparable.
fn refuse(reports: &[Report<'_>]) -> anyhow::Result<()> {
    for report in reports {
        if report.profile.whole().weight == 0 {
            bail!("cannot compare `{}`: it has {}", report.loaded.path.display(), no_samples(report));
        }
        let (first, other) = (&reports[0].profile.measure.unit, &report.profile.measure.unit);
        if first != other {
            bail!(
                "cannot compare {first} with {other}: the recordings sample different events; choose one with --event, or \
                 record both with the same"
            );
        }
        let kinds = |report: &Report<'_>| {
            let events = report.loaded.tables.parts.events();
            (
                report.loaded.events.kinds(events),
                listed(report.loaded.events.of(events).map(|(_, event)| event)),
            )
        };
        let ((first, of_first), (other, of_other)) = (kinds(&reports[0]), kinds(report));
        if first != other {
            bail!(
                "cannot compare {of_first} with {of_other}: time of waits is no CPU time; choose events with --event"
            );
        }
    }
    Ok(())
}

/// Refuses what is asked of runs where recordings are none.
fn refuse_runs(compared: &Comparison, options: &Diff) -> anyhow::Result<()> {
    if compared.totals.is_some() {
        return Ok(());
    }
    if compared.unit == Unit::PerRun {
        bail!("cannot tell how much work was done: say it with --work-before and --work-after");
    }
    let of_runs = options.fail_on.iter().find(|it| matches!(it.what, Measure::Cpu | Measure::Wall));
    if let Some(condition) = of_runs {
        bail!(
            "cannot check `{condition}`: not all recordings are whole runs of a command; check `whole`, or record with \
             `icecore-record -- CMD` until it ends, and use no --from and --to"
        );
    }
    Ok(())
}

fn how(options: &Diff) -> anyhow::Result<Options> {
    let work = options.work_before.zip(options.work_after).map(|(before, after)| Work { before, after });
    let unit = match (options.unit, work) {
        (Some(DiffUnit::Work) | None, Some(work)) => Unit::PerWork(work),
        (Some(DiffUnit::Work), None) => Unit::PerRun,
        (Some(_), Some(_)) => bail!("cannot use --work-before and --work-after without --unit work"),
        (Some(DiffUnit::Cpu), None) => Unit::PerSecond,
        (Some(DiffUnit::Share) | None, None) => Unit::Share,
    };
    let false_discoveries = options.false_discoveries / 100.0;
    let is_one_run = options.slice.is_some();
    Ok(Options { by: options.by, unit, physical: options.physical, false_discoveries, is_one_run })
}
