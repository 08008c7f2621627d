//! `compact`: writes the same recording with its stacks unwound, and without the registers and stack memory from which they were
//! unwound. The result is a fraction of the size, needs no unwind tables, and holds none of the programs' data.
//!
//! A report on the new file equals one on the old file, with any filter; only how walks by unwind tables differed from their copies
//! is not in it.

use icecore_format::records::StackRepair;
use icecore_format::write::Writer;
use serde::Serialize;

use crate::Error;
pub use crate::excerpt::redact::{Redact, Redaction};
use crate::excerpt::{Contents, Excerpt, damage, left_out};
use icecore_profile::named::pipeline::Loaded;
use icecore_profile::recording::damage::DamageRow;
use icecore_text::quantity::things;

/// What was compacted.
#[derive(Debug, Serialize)]
pub struct Compact {
    /// The size of the input, bytes.
    pub input_bytes: u64,
    /// All samples.
    pub samples: u64,
    /// Samples whose registers and stack were recorded and could be unwound.
    pub unwound: u64,
    /// Unwound samples whose stack differs from the walk along frame pointers.
    pub repaired: u64,
    /// The texts that were replaced.
    pub redacted: Vec<&'static str>,
    /// Blocks with pieces of files, source files or code that were skipped, because they reveal texts.
    pub withheld_blocks: u64,
    /// Blocks that this version does not know: the rows to which they refer have new numbers.
    pub left_out_blocks: u64,
    /// What of the input could not be used.
    pub damage: Vec<DamageRow>,
}

/// Writes all samples of a recording, which was loaded without filters.
///
/// # Errors
/// If the output cannot be written.
pub fn compact(loaded: &Loaded<'_>, redaction: &Redaction, writer: &mut Writer) -> Result<Compact, Error> {
    let with = |which: fn(StackRepair) -> bool| {
        let hits = loaded.hits.rows.iter().filter(|hit| which(hit.key.repair));
        hits.map(|hit| hit.samples).sum::<u64>()
    };
    let excerpt = Excerpt {
        recording: loaded.recording,
        selection: loaded.selection(),
        what: Contents::Unwound(redaction, &loaded.repaired),
    };
    let version = env!("CARGO_PKG_VERSION");
    let note = |samples, _| {
        let samples = things(samples, "sample");
        format!("compacted by icecore-report {version}: {samples}, without registers and stack memory")
    };
    let pieces = excerpt.write(writer, &note)?;
    Ok(Compact {
        input_bytes: loaded.recording.len_bytes(),
        samples: pieces.iter().map(|piece| piece.samples).sum(),
        unwound: with(|how| how != StackRepair::NONE),
        repaired: with(|how| how.kind() > StackRepair::KEPT && !how.is_audited()),
        redacted: redaction.what.iter().map(|what| what.name()).collect(),
        withheld_blocks: pieces.iter().map(|piece| piece.withheld_blocks).sum(),
        left_out_blocks: left_out(&loaded.tables),
        damage: damage(&loaded.tables, &pieces),
    })
}
