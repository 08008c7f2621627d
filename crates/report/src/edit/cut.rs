//! `cut`: a recording with only the samples that the filters keep, and what these need.
//!
//! ```text
//! blocks of samples ─► choose ─► need: tasks, stacks, processes, … ─► renumber ─► write, session by session
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `choose` | the wanted samples, block by block; twice, so that they are never all in memory |
//! | `rows` | all other rows of a session, under its own numbers |
//! | `need` | which of these the chosen samples need, and their new ids |
//! | `pack` | rows as blocks |
//! | `pieces` | blocks with pieces of files |
//!
//! A report on the new file equals one on the old file with the filters: the clock, the names of processes and the
//! mappings that they inherit stay.

mod choose;
mod need;
mod pack;
mod pieces;
mod rows;

use std::path::Path;

use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Cause, Loss, SessionV1};
use icecore_format::write::Writer;
use serde::Serialize;

use crate::cgroups::Cgroups;
use crate::filter::Filter;
use crate::hits::Selection;
use crate::load::parts::Part;
use crate::load::{Skipped, Tables, clean, load};
use crate::mend::Mended;
use crate::term::path::shown;
use crate::term::quantity::{bytes, count, things};
use crate::term::{Page, Style};
use crate::timeline::Timeline;
use crate::views::DamageRow;
use crate::{cli, input};
use choose::Chooser;
use need::Need;
use pack::Packer;
use rows::Rows;

/// What was written.
#[derive(Debug, Serialize)]
pub struct Cut {
    schema: &'static str,
    file: String,
    file_bytes: u64,
    sessions: u64,
    samples: u64,
    samples_in_input: u64,
    filter: Option<String>,
    /// Blocks that this build does not know: what they refer to has new numbers.
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
    let tables = load(&recording);
    let timeline = Timeline::replay(&tables.lifecycle, &tables.mappings);
    let cgroups = Cgroups::replay(&tables);
    let mended = Mended::default();
    let selection = Selection {
        tables: &tables,
        timeline: &timeline,
        cgroups: &cgroups,
        filter: &filter,
        mended: &mended,
    };
    let (pieces, file_bytes) = super::write(&options.output, &[&options.file], |writer| {
        tables
            .parts
            .iter()
            .map(|part| piece(&recording, selection, part, writer))
            .collect::<anyhow::Result<Vec<_>>>()
    })?;
    let mut damage = tables.damage;
    damage.extend(pieces.iter().flat_map(|piece| piece.damage.clone()));
    damage.sort_by_key(|damage| damage.off);
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
        damage: DamageRow::list(&damage),
    })
}

/// What became of one session.
struct Piece {
    samples: u64,
    damage: Vec<Damage>,
}

fn piece(
    recording: &Recording,
    selection: Selection<'_>,
    part: &Part,
    writer: &mut Writer,
) -> anyhow::Result<Piece> {
    let chooser = Chooser::new(recording, selection, part);
    let mut need = Need::default();
    let mut damage = Vec::new();
    let (mut samples, mut lost) = (0, chooser.lost());
    chooser.each(|chosen| {
        match chosen {
            Ok(chosen) => {
                samples += chosen.samples.len() as u64;
                need.add(&chosen.samples);
            }
            Err((broken, items)) => {
                lost += items;
                damage.push(broken);
            }
        }
        Ok(())
    })?;
    let mut rows = Rows::load(recording, selection.tables, part);
    if lost > 0 {
        let time_ns = chooser.last_ns();
        rows.losses.push(Loss { time_ns, cpu: u32::MAX, cause: Cause::DAMAGED, count: lost });
    }
    let session = rows.session.take().unwrap_or_else(|| {
        super::unknown_session("cut from a damaged file: who recorded this, where and when is lost")
    });
    let session = dated(session, selection.tables, part);
    let of_all = chooser.items();
    let mut packer = Packer::new(writer, need.settle(&rows));
    packer.session(&noted(session, selection.filter, samples, of_all))?;
    packer.rows(&rows)?;
    damage.extend(packer.pieces(recording, &rows)?);
    chooser.each(|chosen| chosen.map_or(Ok(()), |chosen| packer.samples(chosen, &rows)))?;
    packer.end(&rows)?;
    Ok(Piece { samples, damage })
}

/// Keeps a session that does not tell when it began where it stood among others: its first sample, by which it was
/// placed, may be gone.
fn dated(mut session: SessionV1, tables: &Tables, part: &Part) -> SessionV1 {
    if tables.parts.len() > 1 && (session.start_ns, session.start_unix_ns) == (0, 0) {
        (session.start_ns, session.start_unix_ns) = (part.start_ns(), tables.parts.start_unix_ns());
    }
    session
}

/// Notes in a session what was cut.
fn noted(mut session: SessionV1, filter: &Filter, samples: u64, of_all: u64) -> SessionV1 {
    let kept = filter.describe().unwrap_or_else(|| "everything".to_owned());
    let version = env!("CARGO_PKG_VERSION");
    let of_all = things(of_all, "sample");
    session.notes.push(format!("cut by icecore-report {version} to {kept}: {} of {of_all}", count(samples)));
    session
}

impl Cut {
    /// Says it to people.
    pub fn text(&self, page: &mut Page) {
        let file = shown(Path::new(&self.file));
        let (kept, all) = (count(self.samples), things(self.samples_in_input, "sample"));
        let filter = self.filter.as_ref().map(|filter| format!(" ({filter})")).unwrap_or_default();
        page.line(&format!("wrote {file} ({}): {kept} of {all}{filter}", bytes(self.file_bytes)));
        if self.left_out_blocks > 0 {
            let blocks = things(self.left_out_blocks, "block");
            page.styled(Style::Warn, &format!("{blocks} of unknown kinds left out"));
        }
        if let Some(first) = self.damage.first() {
            let parts = things(self.damage.len() as u64, "part");
            let text = format!("damaged: {parts} left out; at byte {}: {}", first.offset, first.cause);
            page.styled(Style::Bad, &text);
        }
    }
}
