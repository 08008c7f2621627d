//! `compact`: writes the same recording with its stacks unwound, and without the registers and stack memory from which they were
//! unwound. The result is a fraction of the size, needs no unwind tables, and holds none of the programs' data.
//!
//! A report on the new file equals one on the old file, with any filter; only how walks by unwind tables differed from their copies
//! is not in it.

use std::path::Path;

use anyhow::Context as _;
use icecore_format::records::StackRepair;
use serde::Serialize;

use super::cut::{damage, left_out_text};
use super::excerpt::redact::Redaction;
use super::excerpt::{Contents, Excerpt};
use crate::cli;
use crate::input;
use crate::views::DamageRow;
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::recording::load::Skipped;
use icecore_symbolize::image::Search;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, percent, things};
use icecore_text::{Page, Style};

/// The result, for people and `--json`.
#[derive(Debug, Serialize)]
pub struct Compact {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    input_bytes: u64,
    samples: u64,
    /// Samples whose registers and stack were recorded and could be unwound.
    unwound: u64,
    /// Unwound samples whose stack differs from the walk along frame pointers.
    repaired: u64,
    redacted: Vec<&'static str>,
    /// Blocks with pieces of files that were skipped, because they reveal paths.
    withheld_blocks: u64,
    /// Blocks that this version does not know: the rows to which they refer have new numbers.
    left_out_blocks: u64,
    damage: Vec<DamageRow>,
}

/// Compacts the file of a command line.
///
/// # Errors
/// If the file cannot be opened, the key cannot be read, or the output cannot be written.
pub fn compact(options: &cli::Compact, search: &Search) -> anyhow::Result<Compact> {
    let key = match &options.redact_key {
        Some(path) => {
            std::fs::read(path).with_context(|| format!("cannot read the key `{}`", path.display()))?
        }
        None => Vec::new(),
    };
    let redaction = Redaction::new(&options.redact, &key);
    let recording = input::open(&options.file)?;
    let loaded = Loaded::whole(&options.file, &recording, search);
    let with = |which: fn(StackRepair) -> bool| {
        let hits = loaded.hits.rows.iter().filter(|hit| which(hit.key.repair));
        hits.map(|hit| hit.samples).sum::<u64>()
    };
    let (unwound, repaired) = (
        with(|how| how != StackRepair::NONE),
        with(|how| how.kind() > StackRepair::KEPT && !how.is_audited()),
    );
    let excerpt = Excerpt {
        recording: &recording,
        selection: loaded.selection(),
        what: Contents::Unwound(&redaction, &loaded.repaired),
    };
    let version = env!("CARGO_PKG_VERSION");
    let note = |samples, _| {
        let samples = things(samples, "sample");
        format!("compacted by icecore-report {version}: {samples}, without registers and stack memory")
    };
    let (pieces, file_bytes) =
        super::write(&options.output, &[&options.file], |writer| excerpt.write(writer, &note))?;
    let left_out = |skipped: &Skipped| skipped.blocks;
    Ok(Compact {
        schema: "icecore.compact/1",
        file: options.output.output.display().to_string(),
        file_bytes,
        input_bytes: recording.len_bytes(),
        samples: pieces.iter().map(|piece| piece.samples).sum(),
        unwound,
        repaired,
        redacted: options.redact.iter().map(|what| what.name()).collect(),
        withheld_blocks: pieces.iter().map(|piece| piece.withheld_blocks).sum(),
        left_out_blocks: loaded.tables.skipped.iter().map(left_out).sum(),
        damage: damage(loaded.tables.damage.clone(), &pieces),
    })
}

impl Compact {
    /// Describes the result for people.
    pub fn text(&self, page: &mut Page) {
        let (file, size) = (shown(Path::new(&self.file)), bytes(self.file_bytes));
        let share = percent(self.file_bytes as f64 / self.input_bytes.max(1) as f64);
        page.line(&format!("wrote {file} ({size}, {share} of {})", bytes(self.input_bytes)));
        page.line(&format!(
            "{}: {} unwound, {} of them repaired",
            things(self.samples, "sample"),
            things(self.unwound, "stack"),
            count(self.repaired)
        ));
        if !self.redacted.is_empty() {
            page.line(&format!("replaced by pseudonyms: {}", self.redacted.join(", ")));
        }
        if self.withheld_blocks > 0 {
            let blocks = things(self.withheld_blocks, "block");
            page.styled(
                Style::Warn,
                &format!("{blocks} with pieces of files or with source files skipped: they reveal texts"),
            );
        }
        left_out_text(self.left_out_blocks, &self.damage, page);
    }
}
