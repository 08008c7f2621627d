//! `repair`: makes a whole file of a damaged one.

use anyhow::Context as _;
use icecore_edit::repair::{Repair, repair};

use super::super::{Streams, emit};
use super::{MODE, Written, refuse};
use crate::base::output;
use crate::cli::{self, Global};
use crate::input;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Page, Style};

/// Repairs a file.
pub(in crate::run) fn run(
    options: &cli::Repair,
    global: &Global,
    streams: &mut Streams<'_>,
) -> anyhow::Result<u8> {
    let recording = input::open(&options.file)?;
    let path = &options.output.output;
    refuse(&options.output, &[&options.file])
        .with_context(|| format!("cannot create `{}`", path.display()))?;
    let repaired = output::replace(path, &[&options.file], MODE, |file| repair(&recording, file));
    let (made, file_bytes) = repaired.with_context(|| format!("cannot write `{}`", path.display()))?;
    let (schema, file) = ("icecore.repair/1", path.display().to_string());
    let written = Written { schema, file, file_bytes, made };
    emit(global, streams, &written, |page| written.text(page))?;
    Ok(0)
}

impl Written<Repair> {
    /// Describes the result for people.
    fn text(&self, page: &mut Page) {
        let Repair { copied, blocks, samples, lost_blocks, lost_samples, lost } = &self.made;
        let file = format!("{} ({})", self.shown(), bytes(self.file_bytes));
        if *copied {
            return page.line(&format!("nothing to repair: wrote {file}, a copy"));
        }
        let kept = format!("wrote {file}: {}, {}", things(*blocks, "block"), things(*samples, "sample"));
        if *lost_blocks == 0 {
            return page.line(&format!("{kept}; no block was lost"));
        }
        let kinds: Vec<String> =
            lost.iter().map(|(kind, blocks)| format!("{} of {kind}", count(*blocks))).collect();
        let lost = format!("{} ({})", things(*lost_blocks, "block"), kinds.join(", "));
        page.styled(Style::Warn, &format!("{kept}; lost: {lost} with {}", things(*lost_samples, "sample")));
    }
}
