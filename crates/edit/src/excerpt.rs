//! Writes a recording with samples of another one, and the rows that these need: the common part of `cut` and `compact`.
//!
//! ```text
//! blocks of samples ─► choose ─► need: tasks, stacks, processes, … ─► renumber ─► write, session by session
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `choose` | the selected samples, block by block; twice, so that they are never all in memory |
//! | `rows` | all other rows of a session, under its own numbers |
//! | `redact` | replaces texts by pseudonyms |
//! | `need` | the rows that the chosen samples need, and their new ids |
//! | `pack` | writes rows as blocks |
//! | `pieces`, `sources`, `code` | copy blocks with pieces of files, with source files, with code of functions |
//! | `named` | the samples that rows of waits and fields name, if they are chosen |
//!
//! Ids keep their order, so that a report that orders by them stays the same.

mod choose;
mod code;
mod named;
mod need;
mod pack;
mod pieces;
pub(crate) mod redact;
mod rows;
mod sources;

use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Cause, Loss, ReceiptV1, SessionV1};
use icecore_format::write::Writer;

use crate::blocks::unknown_session;
use choose::{Chooser, GrownNodes};
use icecore_profile::recording::counted;
use icecore_profile::recording::damage::DamageRow;
use icecore_profile::recording::filter::{Filter, Moment};
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::load::parts::Part;
use icecore_profile::stacks::hits::Selection;
use icecore_profile::stacks::repair::RepairedStacks;
use named::KeptSamples;
use need::{Extent, Need};
use pack::Packer;
use redact::Redaction;
use rows::SessionRows;

/// The parts of a recording that are written.
pub(crate) struct Excerpt<'a> {
    pub(crate) recording: &'a Recording,
    pub(crate) selection: Selection<'a>,
    pub(crate) what: Contents<'a>,
}

/// Which samples are written, and how.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Contents<'a> {
    /// The samples that pass the filter, unchanged, and the rows that they need.
    Wanted,
    /// All samples with repaired stacks, without the snapshots, and with redacted texts.
    Unwound(&'a Redaction, &'a RepairedStacks),
}

/// The result for one session.
pub(crate) struct Excerpted {
    pub(crate) samples: u64,
    /// Skipped pieces of files, because they hold redacted texts.
    pub(crate) withheld_blocks: u64,
    damage: Vec<Damage>,
}

impl Excerpt<'_> {
    /// Writes all sessions. Each gets a note that `note` makes of its number of samples before and after.
    pub(crate) fn write(
        &self,
        writer: &mut Writer,
        note: &dyn Fn(u64, u64) -> String,
    ) -> Result<Vec<Excerpted>, icecore_format::Error> {
        let parts = self.selection.tables.parts.iter();
        parts.map(|part| self.piece(part, writer, note)).collect()
    }

    fn piece(
        &self,
        part: &Part,
        writer: &mut Writer,
        note: &dyn Fn(u64, u64) -> String,
    ) -> Result<Excerpted, icecore_format::Error> {
        let Self { recording, selection, what } = *self;
        let mut rows = SessionRows::load(recording, selection.tables, part);
        let grown = match what {
            Contents::Wanted => None,
            Contents::Unwound(_, repaired) => {
                Some(GrownNodes::add(selection.tables, repaired, part, &mut rows))
            }
        };
        rows.cpu_times.retain(|row| selection.wants_cpu_time(&part.row(*row)));
        rows.counters.retain(|row| selection.wants_counter(part.number(), &part.row(*row)));
        let chooser = Chooser::new(recording, selection, part, grown);
        let mut need = Need::default();
        let of_waits = rows.waits.iter().map(|row| (row.time_ns, row.task, row.event));
        let of_fields = rows.fields.iter().map(|row| (row.time_ns, row.task, row.event));
        let mut kept = KeptSamples::of(of_waits.chain(of_fields));
        let mut damage = Vec::new();
        let (mut samples, mut lost) = (0, chooser.lost());
        chooser.each(|chosen| {
            match chosen {
                Ok(chosen) => {
                    samples += chosen.samples.len() as u64;
                    need.add(&chosen.samples);
                    kept.add(&chosen.samples);
                }
                Err((broken, items)) => {
                    lost += items;
                    damage.push(broken);
                }
            }
            Ok(())
        })?;
        rows.waits.retain(|row| kept.has((row.time_ns, row.task, row.event)));
        rows.fields.retain(|row| kept.has((row.time_ns, row.task, row.event)));
        if lost > 0 {
            let time_ns = chooser.last_ns();
            rows.losses.push(Loss { time_ns, ..Loss::of(Cause::DAMAGED, lost) });
        }
        let session = rows.session.take().unwrap_or_else(|| {
            unknown_session("from a damaged file: who recorded this, where and when is lost")
        });
        let mut session = dated(session, selection.tables, part);
        let mut withheld_blocks = 0;
        if let Contents::Unwound(redaction, _) = what {
            redaction.session(&mut session);
            withheld_blocks = redaction.rows(&mut rows);
        }
        session.notes.push(note(samples, chooser.items()));
        if let Some(receipt) = &mut rows.receipt {
            shorten(receipt, selection, part);
            if counted::expected(receipt) != samples {
                receipt.kept_samples = Some(samples);
            }
        }
        let extent = match what {
            Contents::Wanted => Extent::Needed,
            Contents::Unwound(..) => Extent::Machine,
        };
        let mut packer = Packer::new(writer, need.settle(&rows, extent));
        packer.session(&session)?;
        packer.rows(&rows)?;
        damage.extend(packer.pieces(recording, &rows)?);
        damage.extend(packer.sources(recording, &rows)?);
        damage.extend(packer.code(recording, &rows)?);
        chooser.each(|chosen| chosen.map_or(Ok(()), |chosen| packer.samples(chosen, &rows)))?;
        packer.end(&rows)?;
        Ok(Excerpted { samples, withheld_blocks, damage })
    }
}

/// Marks a session as incomplete. Its start and its end stay: times count from the start, and the receipt covers the whole session.
fn shorten(receipt: &mut ReceiptV1, selection: Selection<'_>, part: &Part) {
    let start_ns = part.time_ns(part.start_ns());
    let end_ns = part.time_ns(receipt.end_ns).max(start_ns);
    let moment = |at: Moment| selection.tables.parts.zero_ns().saturating_add(at.ns);
    let Filter { from, to, .. } = *selection.filter;
    // Of a session that lies outside nothing is kept.
    let from_ns =
        from.map(moment).filter(|at_ns| start_ns < *at_ns).map(|at_ns| at_ns.min(end_ns) - start_ns);
    let to_ns = to.map(moment).filter(|at_ns| *at_ns < end_ns).map(|at_ns| at_ns.max(start_ns) - start_ns);
    receipt.cut_from_ns = receipt.cut_from_ns.max(from_ns);
    receipt.cut_to_ns = [receipt.cut_to_ns, to_ns].into_iter().flatten().min();
}

/// Keeps the position of a session without a start time among the others: it was placed by its first sample, which may be gone.
fn dated(mut session: SessionV1, tables: &Tables, part: &Part) -> SessionV1 {
    if tables.parts.len() > 1 && (session.start_ns, session.start_unix_ns) == (0, 0) {
        (session.start_ns, session.start_unix_ns) = (part.start_ns(), tables.parts.start_unix_ns());
    }
    session
}

/// Lists the damage of the input.
pub(crate) fn damage(tables: &Tables, pieces: &[Excerpted]) -> Vec<DamageRow> {
    let of_pieces = pieces.iter().flat_map(|piece| &piece.damage);
    let mut damage: Vec<Damage> = tables.damage.iter().chain(of_pieces).cloned().collect();
    damage.sort_by_key(|damage| damage.off);
    DamageRow::list(&damage)
}

/// Counts the blocks of unknown kinds, which no excerpt can copy.
pub(crate) fn left_out(tables: &Tables) -> u64 {
    tables.skipped.iter().map(|skipped| skipped.blocks).sum()
}
