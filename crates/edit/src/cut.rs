//! `cut`: writes a recording with only the samples that the filters keep, and the rows that these need.
//!
//! A report on the new file equals one on the old file with the filters: the clock, the names of processes and inherited mappings
//! stay.

use icecore_format::read::Recording;
use icecore_format::write::Writer;
use serde::Serialize;

use crate::Error;
use crate::excerpt::{Contents, Excerpt, damage, left_out};
use icecore_profile::recording::cgroups::Cgroups;
use icecore_profile::recording::damage::DamageRow;
use icecore_profile::recording::filter::Filter;
use icecore_profile::recording::load::{clean, load};
use icecore_profile::recording::spaces::Spaces;
use icecore_profile::stacks::hits::Selection;
use icecore_text::quantity::{count, things};

/// What was cut.
#[derive(Debug, Serialize)]
pub struct Cut {
    /// Sessions of both recordings.
    pub sessions: u64,
    /// Samples that were kept.
    pub samples: u64,
    /// Samples of the input.
    pub samples_in_input: u64,
    /// The filter for people; `None` if everything was kept.
    pub filter: Option<String>,
    /// Blocks that this version does not know: the rows to which they refer have new numbers.
    pub left_out_blocks: u64,
    /// What of the input could not be used.
    pub damage: Vec<DamageRow>,
}

/// Writes the samples that a filter keeps.
///
/// # Errors
/// If the output cannot be written.
pub fn cut(recording: &Recording, filter: &Filter, writer: &mut Writer) -> Result<Cut, Error> {
    let tables = load(recording);
    let spaces = Spaces::replay(&tables.lifecycle, &tables.mappings);
    let cgroups = Cgroups::replay(&tables);
    let events = filter.events.among(tables.parts.events());
    let selection = Selection {
        tables: &tables,
        spaces: &spaces,
        cgroups: &cgroups,
        filter,
        events: &events,
        idle: None,
        tracing: None,
    };
    let excerpt = Excerpt { recording, selection, what: Contents::Wanted };
    let kept = filter.describe().unwrap_or_else(|| "everything".to_owned());
    let version = env!("CARGO_PKG_VERSION");
    let note = |samples, of_all| {
        let of_all = things(of_all, "sample");
        format!("cut by icecore-report {version}, keeping {kept}: {} of {of_all}", count(samples))
    };
    let pieces = excerpt.write(writer, &note)?;
    Ok(Cut {
        sessions: pieces.len() as u64,
        samples: pieces.iter().map(|piece| piece.samples).sum(),
        samples_in_input: tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum(),
        filter: filter.describe().map(|text| clean(text.as_bytes()).into()),
        left_out_blocks: left_out(&tables),
        damage: damage(&tables, &pieces),
    })
}
