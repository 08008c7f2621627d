//! `pack`: adds to a recording what this machine knows about its code.

use icecore_edit::pack::{Extras, Known, Pack, PackedCode, PackedSources, UNPROVEN};

use super::super::{Streams, emit, lookup, screen};
use super::{Written, cannot, write};
use crate::base::progress::watch;
use crate::cli::{self, Global};
use crate::input;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::named::source::GIVE_ITS_FOLDER;
use icecore_text::quantity::{bytes, count, percent, things};
use icecore_text::{Page, Style};

/// Packs a recording.
pub(in crate::run) fn run(
    options: &cli::Pack,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let cannot = |error| cannot("pack", &options.file, error);
    let servers = lookup::servers(&options.lookup)?;
    let search = lookup::proven(&options.lookup, servers.as_ref(), streams)?;
    let watch = watch(streams.progress && !global.quiet);
    let recording = input::open(&options.file)?;
    let loaded = Loaded::whole(&options.file, &recording, &search);
    let source_dirs = options.source.then_some(&options.source_dir[..]);
    let extras = Extras { source_dirs, code: options.code };
    let mut known = Known::find(&loaded, servers.as_ref(), extras, &*watch).map_err(cannot)?;
    let fetched = std::mem::take(&mut known.fetched);
    let written = write("icecore.pack/1", &options.output, &[&options.file], |writer| {
        known.write(writer).map_err(cannot)
    })?;
    screen(global, streams).remark(lookup::remarks(&search, servers.as_ref(), &fetched));
    emit(global, streams, &written, |page| written.text(page))?;
    Ok(0)
}

impl Written<Pack> {
    /// Describes the result for people.
    fn text(&self, page: &mut Page) {
        let Pack { names_bytes, places, named, with_line, sources, code } = &self.made;
        let of = |part: u64| percent(part as f64 / (*places).max(1) as f64);
        let (file, size) = (self.shown(), bytes(self.file_bytes));
        page.line(&format!("wrote {file} ({size}, {} of it names)", bytes(*names_bytes)));
        page.line(&format!(
            "{} in images: {} have a name ({}), {} a source line ({})",
            things(*places, "place"),
            count(*named),
            of(*named),
            count(*with_line),
            of(*with_line)
        ));
        if let Some(sources) = sources {
            sources_text(sources, page);
        }
        if let Some(code) = code {
            code_text(code, page);
        }
    }
}

fn sources_text(sources: &PackedSources, page: &mut Page) {
    let PackedSources { files, proven, unchecked, bytes: size, missing } = sources;
    let stored = things(files - missing.len() as u64, "source file");
    page.line(&format!("{stored} stored ({}): {} proven by their MD5", bytes(*size), count(*proven)));
    for file in unchecked {
        page.styled(Style::Warn, &format!("unchecked: {file}"));
    }
    for missing in missing {
        let why = missing.why.replace('_', " ");
        page.styled(Style::Warn, &format!("not stored, {why}: {}", missing.file));
    }
    if missing.iter().any(|missing| missing.why == UNPROVEN) {
        page.line(&format!("unproven: {GIVE_ITS_FOLDER}"));
    }
}

fn code_text(code: &PackedCode, page: &mut Page) {
    let PackedCode { functions, bytes: size, file_bytes, missing } = code;
    let stored = things(*functions, "function");
    page.line(&format!("code of {stored} stored ({}, {} of the file)", bytes(*size), bytes(*file_bytes)));
    for missing in missing {
        let (why, places) = (missing.why.replace('_', " "), things(missing.places, "place"));
        page.styled(Style::Warn, &format!("no code of {places} stored, {why}: {}", missing.image));
    }
}
