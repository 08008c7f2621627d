//! Runs `parquet`: writes recordings as tables.

use std::path::Path;

use anyhow::bail;
use icecore_archive::rows::{self, Rows};
use icecore_archive::{Archive, Dataset, Folder, Partition, Pool, Written};
use icecore_format::read::Recording;
use serde::Serialize;

use super::{Streams, emit, lookup, screen};
use crate::cli::{Global, Parquet, Which};
use crate::input;
use icecore_analysis::quality::Quality;
use icecore_profile::named::Patterns;
use icecore_profile::named::pipeline::{Loaded, Named, Report};
use icecore_profile::recording::events::EventChoice;
use icecore_profile::recording::filter::Filter;
use icecore_profile::stacks::hits::Apart;
use icecore_profile::watch::Unwatched;
use icecore_symbolize::debuginfod;
use icecore_symbolize::image::Search;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Align, Page, Table};

/// What was written.
#[derive(Debug, Serialize)]
struct Tables {
    schema: &'static str,
    folder: String,
    /// Recordings that were read.
    recordings: u64,
    tables: Vec<TableRow>,
    files: Vec<FileRow>,
}

/// A table, over all its files.
#[derive(Debug, Serialize)]
struct TableRow {
    table: &'static str,
    files: u64,
    rows: u64,
    bytes: u64,
}

/// A file.
#[derive(Debug, Serialize)]
struct FileRow {
    table: &'static str,
    file: String,
    rows: u64,
    bytes: u64,
}

/// Writes the tables of recordings; returns the exit code.
pub(super) fn parquet(options: &Parquet, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    if options.files.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        bail!("cannot read two recordings from stdin: write one into a file");
    }
    let folder = Folder::of(&options.output)?;
    if Archive::is_in(&folder) {
        let folder = options.output.display();
        bail!(
            "`{folder}` is an archive: add recordings with `icecore-report archive {folder} add`, or name another folder"
        );
    }
    let servers = lookup::servers(&options.lookup)?;
    let search = lookup::proven(&options.lookup, servers.as_ref(), streams)?;
    let mut dataset = Dataset::new(folder);
    let mut left_out = Vec::new();
    // One at a time: a recording keeps all CPUs busy by itself, and its rows take memory.
    for path in &options.files {
        let recording = input::open(path).map_err(Into::into);
        let made = recording.map(|it| sessions(path, &it, &search, servers.as_ref(), dataset.pool()));
        match made {
            Ok((sessions, damaged)) => {
                if damaged > 0 {
                    let parts = things(damaged, "part");
                    let remark = format!("warning: `{}` is damaged: {parts} left out", path.display());
                    screen(global, streams).remark([remark]);
                }
                sessions.into_iter().try_for_each(|(partition, rows)| dataset.add(partition, rows))?;
            }
            Err(error) => left_out.push(error),
        }
    }
    let recordings = options.files.len() - left_out.len();
    let tables = Tables::new(&options.output, recordings, &dataset.finish()?);
    if recordings > 0 {
        emit(global, streams, &tables, |page| tables.text(page))?;
    }
    match &left_out[..] {
        [] => Ok(0),
        [error] if recordings == 0 => bail!("{error:#}"),
        errors => {
            let warning = |error: &anyhow::Error| format!("warning: left out: {error:#}");
            screen(global, streams).remark(errors.iter().map(warning).collect::<Vec<_>>());
            bail!("cannot write the tables of {} of {} recordings", errors.len(), options.files.len())
        }
    }
}

/// The partition and the rows of each session.
pub(super) type Sessions = Vec<(Partition, Rows)>;

/// Makes the rows of a recording; also returns how many parts of it are damaged.
pub(super) fn sessions(
    path: &Path,
    recording: &Recording,
    search: &Search,
    servers: Option<&debuginfod::Settings>,
    pool: &mut Pool,
) -> (Sessions, u64) {
    let load = |events, apart| {
        let filter = Filter { events, skips_idle: true, ..Which::default().filter() };
        Loaded::new(path, recording, filter, Patterns::default(), search, apart)
    };
    let name = |loaded: &Loaded<'_>| loaded.name(search, servers, &Unwatched);
    let loaded = load(EventChoice::All, rows::needs());
    let Named { located, names, .. } = name(&loaded);
    let report = Report { located: Some(&located), ..loaded.report(&located, names) };
    let events = loaded.tables.parts.events();
    let quality = if EventChoice::Usual.among(events).of(events).count() == events.len() {
        Quality::new(&report)
    } else {
        let usual = load(EventChoice::Usual, Apart::default());
        let Named { located, names, .. } = name(&usual);
        Quality::new(&Report { located: Some(&located), ..usual.report(&located, names) })
    };
    (rows::of_sessions(&report, &quality, pool), loaded.tables.damage.len() as u64)
}

impl Tables {
    fn new(folder: &Path, recordings: usize, written: &[Written]) -> Self {
        let mut tables: Vec<TableRow> = Vec::new();
        for file in written {
            let known = tables.iter().position(|row| row.table == file.table);
            let position = known.unwrap_or_else(|| {
                tables.push(TableRow { table: file.table, files: 0, rows: 0, bytes: 0 });
                tables.len() - 1
            });
            let table = &mut tables[position];
            table.files += 1;
            table.rows += file.rows;
            table.bytes += file.bytes;
        }
        let file = |it: &Written| FileRow {
            table: it.table,
            file: it.path.display().to_string(),
            rows: it.rows,
            bytes: it.bytes,
        };
        Self {
            schema: "icecore.parquet/1",
            folder: folder.display().to_string(),
            recordings: recordings as u64,
            tables,
            files: written.iter().map(file).collect(),
        }
    }

    fn text(&self, page: &mut Page) {
        let files = things(self.files.len() as u64, "file");
        let recordings = things(self.recordings, "recording");
        page.line(&format!("wrote {recordings} into {files} below {}", shown(Path::new(&self.folder))));
        let columns =
            [("TABLE", Align::Left), ("ROWS", Align::Right), ("FILES", Align::Right), ("SIZE", Align::Right)];
        let mut table = Table::new(2, &columns);
        for row in &self.tables {
            let cells = [row.table.to_owned(), count(row.rows), count(row.files), bytes(row.bytes)];
            table.row(cells.to_vec());
        }
        page.table(&table);
    }
}
