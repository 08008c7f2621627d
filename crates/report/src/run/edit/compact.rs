//! `compact`: replaces registers and stack memory by the stacks that were unwound from them.

use icecore_edit::compact::{Compact, compact};

use super::super::{Streams, emit, lookup};
use super::{Written, cannot, left_out_text, redaction, write};
use crate::cli::{self, Global};
use crate::input;
use icecore_profile::named::pipeline::Loaded;
use icecore_text::quantity::{bytes, count, percent, things};
use icecore_text::{Page, Style};

/// Compacts a recording.
pub(in crate::run) fn run(
    options: &cli::Compact,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let servers = lookup::servers(&options.lookup)?;
    let search = lookup::proven(&options.lookup, servers.as_ref(), streams)?;
    let redaction = redaction(&options.redacted)?;
    let recording = input::open(&options.file)?;
    let loaded = Loaded::whole(&options.file, &recording, &search);
    let written = write("icecore.compact/1", &options.output, &[&options.file], |writer| {
        compact(&loaded, &redaction, writer).map_err(|error| cannot("compact", &options.file, error))
    })?;
    emit(global, streams, &written, |page| written.text(page))?;
    Ok(0)
}

impl Written<Compact> {
    /// Describes the result for people.
    fn text(&self, page: &mut Page) {
        let made = &self.made;
        let (size, before) = (bytes(self.file_bytes), bytes(made.input_bytes));
        let share = percent(self.file_bytes as f64 / made.input_bytes.max(1) as f64);
        page.line(&format!("wrote {} ({size}, {share} of {before})", self.shown()));
        page.line(&format!(
            "{}: {} unwound, {} of them repaired",
            things(made.samples, "sample"),
            things(made.unwound, "stack"),
            count(made.repaired)
        ));
        if !made.redacted.is_empty() {
            page.line(&format!("replaced by pseudonyms: {}", made.redacted.join(", ")));
        }
        if made.withheld_blocks > 0 {
            let blocks = things(made.withheld_blocks, "block");
            page.styled(
                Style::Warn,
                &format!(
                    "{blocks} with code, with pieces of files or with source files skipped: they reveal texts"
                ),
            );
        }
        left_out_text(made.left_out_blocks, &made.damage, page);
    }
}
