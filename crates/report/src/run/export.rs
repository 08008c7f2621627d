//! Runs `export`: writes the samples of a recording in the format of another tool.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use icecore_analysis::quality::{self, Quality};
use icecore_export::exported::ExportedEvent;
use icecore_export::{Exported, Format, kept, needs, write_zipped};
use icecore_profile::named::pipeline::{Loaded, Named, Report};
use icecore_profile::recording::events::EventChoice;
use icecore_profile::stacks::hits::Apart;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Align, Page, Table};
use serde::Serialize;

use super::merged::Opened;
use super::newest::named_or_newest;
use super::parquet::parquet;
use super::{Streams, lookup, screen};
use crate::base::output;
use crate::base::progress::watch;
use crate::cli::{Export, Global, Lookup, Parquet, Select, Source, To};
use crate::input;
use crate::views::unmatched::{refuse_broken, unmatched};

/// What was written.
#[derive(Debug, Serialize)]
struct Done {
    schema: &'static str,
    file: String,
    format: &'static str,
    /// The version of the format that was written.
    version: Option<&'static str>,
    file_bytes: u64,
    samples: u64,
    events: Vec<EventRow>,
    /// What the recording has and the format does not keep.
    left_out: Vec<&'static str>,
    /// The samples whose stacks have a guessed frame.
    guessed_samples: u64,
    #[serde(skip)]
    words: Vec<&'static str>,
}

/// What the samples of an event add up to.
#[derive(Debug, Serialize)]
struct EventRow {
    event: String,
    unit: String,
    weight: u64,
    samples: u64,
}

/// Exports a recording; returns the exit code.
pub(super) fn export(options: &Export, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    match options.to {
        To::Format(format) => write(format, options, global, streams),
        To::Parquet => tables(options, global, streams),
    }
}

/// Writes the tables that `parquet` writes.
fn tables(options: &Export, global: &Global, streams: &mut Streams<'_>) -> anyhow::Result<u8> {
    let Source { files, select } = &options.source;
    let (output, lookup) = (options.output.clone(), select.lookup.clone());
    if !(Select { lookup: Lookup::default(), ..select.clone() }).is_default() {
        bail!(
            "cannot select samples for tables: they have all; select in SQL, or `icecore-report cut` the recording before"
        );
    }
    let files = named_or_newest(files, global, streams)?;
    parquet(&Parquet { files, output, lookup }, global, streams)
}

/// Writes a file.
fn write(
    format: &'static dyn Format,
    options: &Export,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let select = &options.source.select;
    let is_stdout = options.output.as_os_str() == "-";
    if is_stdout && !format.is_text() {
        bail!("cannot write {} to stdout: it is no text; name a file with -o", format.name());
    }
    if is_stdout && global.json {
        bail!("cannot write the file and --json to stdout: name a file with -o");
    }
    input::check(&select.filter())?;
    let servers = lookup::servers(&select.lookup)?;
    let search = lookup::search(&select.lookup, servers.as_ref(), streams)?;
    let Opened { path, files, recording } =
        &Opened::new(&options.source.files, &select.filter(), global, streams)?;
    let inputs: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    if !is_stdout {
        // Refused now, and not after all the work.
        output::refuse_view((&options.output, options.force), &inputs)?;
    }
    input::check_events(path, recording, &select.filter())?;
    let mut filter = select.filter();
    if filter.events == EventChoice::Usual {
        filter.events = format.events();
    }
    let load = |filter, apart| {
        Loaded::new(path, recording, filter, select.patterns(), &search, apart).of_files(files)
    };
    let watch = watch(streams.progress && !global.quiet);
    let loaded = load(filter, needs());
    let Named { located, names, fetched, trouble } = loaded.name(&search, servers.as_ref(), &*watch);
    let mut report = Report { located: Some(&located), ..loaded.report(&located, names) };
    refuse_broken(&report)?;
    // The verdict is that of other views: of the events that they show.
    let usual = (loaded.usual_events() != loaded.events).then(|| load(select.filter(), Apart::default()));
    let mut usual = usual.as_ref().map(|usual| (usual, usual.name(&search, None, &*watch)));
    let judged = |report: &Report<'_>| (Quality::new(report), quality::warning(report));
    let (quality, misleads) = match &mut usual {
        Some((usual, named)) => {
            let names = std::mem::take(&mut named.names);
            let usual = Report { located: Some(&named.located), ..usual.report(&named.located, names) };
            report.profile.names.call_as(&located, &usual.profile.names, &named.located);
            judged(&usual)
        }
        None => judged(&report),
    };
    let mut screen = screen(global, streams);
    screen.warn(trouble.into_iter().chain(misleads).chain(report.profile.names.remarks()));
    screen.warn(unmatched(&report, &located));
    screen.remark(lookup::remarks(&search, servers.as_ref(), &fetched));
    let exported = Exported::new(&report, &located, &quality);
    if is_stdout {
        format.write(&exported, &mut *screen.out)?;
        screen.out.flush()?;
        if !global.quiet {
            screen.remark(Done::new(format, options, &exported, 0).left_out_words());
        }
        return Ok(0);
    }
    let file_bytes = output::write_by((&options.output, options.force), &inputs, |file| {
        let mut out = Counting { out: BufWriter::with_capacity(1 << 16, file), bytes: 0 };
        if format.is_text() && options.output.extension().is_some_and(|it| it == "gz") {
            write_zipped(format, &exported, &mut out)?;
        } else {
            format.write(&exported, &mut out)?;
        }
        out.flush().map(|()| out.bytes)
    })?;
    let done = Done::new(format, options, &exported, file_bytes);
    screen.emit(&done, |page| done.text(page))?;
    Ok(0)
}

/// Counts what is written: a pipe has no position.
struct Counting<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Done {
    fn new(format: &dyn Format, options: &Export, exported: &Exported<'_>, file_bytes: u64) -> Self {
        let lost = kept::lost(exported, format.keeps());
        let profile = &exported.report.profile;
        let row = |event: &ExportedEvent| EventRow {
            event: event.name.clone(),
            unit: event.unit.clone(),
            weight: event.amount.weight,
            samples: event.amount.samples,
        };
        Self {
            schema: "icecore.export/1",
            file: options.output.display().to_string(),
            format: format.name(),
            version: format.version(),
            file_bytes,
            samples: profile.whole().samples,
            events: exported.events.iter().map(row).collect(),
            left_out: lost.iter().map(|fact| fact.code()).collect(),
            guessed_samples: profile.guessed().samples,
            words: lost.iter().map(|fact| fact.words()).collect(),
        }
    }

    /// Says what the format does not keep of this recording.
    fn left_out_words(&self) -> Option<String> {
        let words = self.words.join("; ");
        (!words.is_empty()).then(|| format!("left out, because {} has no place for it: {words}", self.format))
    }

    fn text(&self, page: &mut Page) {
        let (file, samples) = (shown(Path::new(&self.file)), things(self.samples, "sample"));
        let version = self.version.map(|version| format!(" {version}")).unwrap_or_default();
        let size = bytes(self.file_bytes);
        page.line(&format!("wrote {file} ({}{version}, {size}): {samples}", self.format));
        let columns = [
            ("EVENT", Align::Left),
            ("WEIGHT", Align::Right),
            ("UNIT", Align::Left),
            ("SAMPLES", Align::Right),
        ];
        let mut table = Table::new(2, &columns);
        for row in &self.events {
            table.row(vec![row.event.clone(), count(row.weight), row.unit.clone(), count(row.samples)]);
        }
        page.table(&table);
        self.left_out_words().iter().for_each(|line| page.line(line));
        if self.guessed_samples > 0 {
            let samples = things(self.guessed_samples, "sample");
            page.line(&format!("{samples} have a frame that was guessed: it and its callers may be wrong"));
        }
    }
}
