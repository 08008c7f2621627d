//! `cut`: keeps the samples that pass the filters.

use icecore_edit::cut::{Cut, cut};

use super::super::{Streams, emit};
use super::{Written, cannot, left_out_text, write};
use crate::cli::{self, Global};
use crate::input;
use icecore_text::Page;
use icecore_text::quantity::{bytes, count, things};

/// Cuts a recording.
pub(in crate::run) fn run(
    options: &cli::Cut,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let filter = options.which.filter();
    input::check(&filter)?;
    let recording = input::open(&options.file)?;
    input::check_events(&options.file, &recording, &filter)?;
    let written = write("icecore.cut/1", &options.output, &[&options.file], |writer| {
        cut(&recording, &filter, writer).map_err(|error| cannot("cut", &options.file, error))
    })?;
    emit(global, streams, &written, |page| written.text(page))?;
    Ok(0)
}

impl Written<Cut> {
    /// Describes the result for people.
    fn text(&self, page: &mut Page) {
        let Cut { samples, samples_in_input, filter, left_out_blocks, damage, .. } = &self.made;
        let (kept, all) = (count(*samples), things(*samples_in_input, "sample"));
        let filter = filter.as_ref().map(|filter| format!(" ({filter})")).unwrap_or_default();
        page.line(&format!("wrote {} ({}): {kept} of {all}{filter}", self.shown(), bytes(self.file_bytes)));
        left_out_text(*left_out_blocks, damage, page);
    }
}
