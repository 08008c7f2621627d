//! `cut`: writes a recording with only the samples that the filters keep, and the rows that these need.
//!
//! A report on the new file equals one on the old file with the filters: the clock, the names of processes and inherited mappings
//! stay.

use std::path::Path;

use icecore_format::read::Damage;
use serde::Serialize;

use super::excerpt::{Contents, Excerpt, Excerpted};
use crate::cli;
use crate::input;
use crate::views::DamageRow;
use icecore_profile::recording::cgroups::Cgroups;
use icecore_profile::recording::load::{Skipped, clean, load};
use icecore_profile::recording::spaces::Spaces;
use icecore_profile::stacks::hits::Selection;
use icecore_text::path::shown;
use icecore_text::quantity::{bytes, count, things};
use icecore_text::{Page, Style};

/// The result, for people and `--json`.
#[derive(Debug, Serialize)]
pub struct Cut {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    sessions: u64,
    samples: u64,
    samples_in_input: u64,
    filter: Option<String>,
    /// Blocks that this version does not know: the rows to which they refer have new numbers.
    left_out_blocks: u64,
    damage: Vec<DamageRow>,
}

/// Cuts the file of a command line.
///
/// # Errors
/// If the file cannot be opened, the filters can keep nothing, or the output cannot be written.
pub fn cut(options: &cli::Cut) -> anyhow::Result<Cut> {
    let filter = options.which.filter();
    input::check(&filter)?;
    let recording = input::open(&options.file)?;
    input::check_events(&options.file, &recording, &filter)?;
    let tables = load(&recording);
    let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
    let cgroups = Cgroups::replay(&tables);
    let events = filter.events.among(tables.parts.events());
    let selection =
        Selection { tables: &tables, spaces: &spaces, cgroups: &cgroups, filter: &filter, events: &events };
    let excerpt = Excerpt { recording: &recording, selection, what: Contents::Wanted };
    let kept = filter.describe().unwrap_or_else(|| "everything".to_owned());
    let version = env!("CARGO_PKG_VERSION");
    let note = |samples, of_all| {
        let of_all = things(of_all, "sample");
        format!("cut by icecore-report {version}, keeping {kept}: {} of {of_all}", count(samples))
    };
    let (pieces, file_bytes) =
        super::write(&options.output, &[&options.file], |writer| excerpt.write(writer, &note))?;
    let left_out = |skipped: &Skipped| skipped.blocks;
    Ok(Cut {
        schema: "icecore.cut/1",
        file: options.output.output.display().to_string(),
        file_bytes,
        sessions: pieces.len() as u64,
        samples: pieces.iter().map(|piece| piece.samples).sum(),
        samples_in_input: tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum(),
        filter: filter.describe().map(|text| clean(text.as_bytes()).into()),
        left_out_blocks: tables.skipped.iter().map(left_out).sum(),
        damage: damage(tables.damage, &pieces),
    })
}

/// Lists the damage of the input.
pub(super) fn damage(mut of_tables: Vec<Damage>, pieces: &[Excerpted]) -> Vec<DamageRow> {
    of_tables.extend(pieces.iter().flat_map(|piece| piece.damage.clone()));
    of_tables.sort_by_key(|damage| damage.off);
    DamageRow::list(&of_tables)
}

impl Cut {
    /// Describes the result for people.
    pub fn text(&self, page: &mut Page) {
        let file = shown(Path::new(&self.file));
        let (kept, all) = (count(self.samples), things(self.samples_in_input, "sample"));
        let filter = self.filter.as_ref().map(|filter| format!(" ({filter})")).unwrap_or_default();
        page.line(&format!("wrote {file} ({}): {kept} of {all}{filter}", bytes(self.file_bytes)));
        left_out_text(self.left_out_blocks, &self.damage, page);
    }
}

/// Describes for people what the output lacks.
pub(super) fn left_out_text(left_out_blocks: u64, damage: &[DamageRow], page: &mut Page) {
    if left_out_blocks > 0 {
        let blocks = things(left_out_blocks, "block");
        page.styled(Style::Warn, &format!("{blocks} of unknown kinds skipped"));
    }
    if let Some(first) = damage.first() {
        let parts = things(damage.len() as u64, "part");
        let text = format!("damaged: {parts} skipped; at byte {}: {}", first.offset, first.cause);
        page.styled(Style::Bad, &text);
    }
}
