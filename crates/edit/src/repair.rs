//! `repair`: makes a whole recording of the intact blocks of a damaged one. Payloads are copied as they are stored; headers, index
//! and tail are new, and what is missing is written down as lost.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{Cause, EndReason, Loss, LossesV1, Payload, ReceiptV1};
use icecore_format::write::Writer;
use rayon::prelude::*;
use serde::Serialize;

use icecore_profile::recording::counted::{self, Counted};
use icecore_profile::recording::verify::block::is_unclean;

/// Losses in one block.
const LOSSES_PER_BLOCK: usize = 1 << 16;

/// What was repaired.
#[derive(Debug, Serialize)]
pub struct Repair {
    /// The recording was intact: the new file is a copy.
    pub copied: bool,
    /// Blocks that were kept.
    pub blocks: u64,
    /// Samples in them.
    pub samples: u64,
    /// Blocks that cannot be brought back.
    pub lost_blocks: u64,
    /// Samples in them, as far as known.
    pub lost_samples: u64,
    /// Lost blocks by kind; `unknown kind` if the kind is unknown.
    pub lost: BTreeMap<String, u64>,
}

/// Writes the intact blocks of a recording into an empty file; returns its length in bytes, too. The file keeps the UUID.
///
/// # Errors
/// If the file cannot be written.
pub fn repair(recording: &Recording, file: &mut File) -> Result<(Repair, u64), Error> {
    let plan = Plan::new(recording);
    let file_bytes = if plan.is_needed { plan.write(file.try_clone()?)? } else { copy(recording, file)? };
    let (mut lost, lost_samples) = plan.lost();
    let unnamed = Some(plan.unnamed).filter(|unnamed| *unnamed > 0);
    lost.extend(unnamed.map(|unnamed| ("unknown kind".to_owned(), unnamed)));
    let repair = Repair {
        copied: !plan.is_needed,
        blocks: plan.kept().count() as u64,
        samples: plan.kept().map(samples).sum(),
        lost_blocks: lost.values().fold(0, |sum, blocks| sum.saturating_add(*blocks)),
        lost_samples,
        lost,
    };
    Ok((repair, file_bytes))
}

fn copy(recording: &Recording, file: &mut File) -> Result<u64, Error> {
    file.write_all(recording.as_bytes())?;
    file.sync_data()?;
    Ok(recording.len_bytes())
}

/// What is to be done about a recording.
#[derive(Debug)]
struct Plan<'a> {
    recording: &'a Recording,
    /// In the order of writing: each block, and whether it is whole.
    blocks: Vec<(&'a Entry, bool)>,
    /// Blocks of which nothing is known but that they are missing.
    unnamed: u64,
    /// Sessions that have fewer samples than their receipts count.
    miscounted: Vec<Counted>,
    is_needed: bool,
}

impl<'a> Plan<'a> {
    /// Checks all blocks.
    fn new(recording: &'a Recording) -> Self {
        let is_whole = |entry: &'a Entry| (entry, recording.stored(entry).is_ok());
        let mut blocks: Vec<(&Entry, bool)> = recording.entries().par_iter().map(is_whole).collect();
        blocks.extend(recording.lost().iter().map(|entry| (entry, false)));
        blocks.sort_by_key(|(entry, _)| entry.header.sequence);
        // An index among other blocks would be taken for the end.
        blocks.retain(|(entry, _)| entry.header.kind != Kind::INDEX);
        let numbers = blocks.last().map_or(0, |(entry, _)| entry.header.sequence.saturating_add(1));
        let is_damaged = !recording.is_closed() || !recording.damage().is_empty();
        let is_unclean =
            || recording.entries().iter().chain(recording.index()).any(|e| is_unclean(recording, e));
        let is_needed = is_damaged || blocks.iter().any(|(_, is_whole)| !is_whole) || is_unclean();
        let mut miscounted = counted::sessions(recording);
        miscounted.retain(|session| session.missing() > 0);
        let is_needed = is_needed || !miscounted.is_empty();
        let unnamed = numbers.saturating_sub(blocks.len() as u64);
        Self { recording, unnamed, blocks, miscounted, is_needed }
    }

    /// The blocks that are copied.
    fn kept(&self) -> impl Iterator<Item = &'a Entry> + '_ {
        self.blocks.iter().filter(|(_, is_whole)| *is_whole).map(|(entry, _)| *entry)
    }

    /// Counts the known blocks that are not copied, by kind, and all samples that are missing.
    fn lost(&self) -> (BTreeMap<String, u64>, u64) {
        let (mut blocks, mut lost): (BTreeMap<String, u64>, u64) = Default::default();
        for (entry, _) in self.blocks.iter().filter(|(_, is_whole)| !is_whole) {
            *blocks.entry(entry.header.kind.name()).or_default() += 1;
            lost += samples(entry);
        }
        // Of some the index tells, too.
        let missing = self.miscounted.iter().map(Counted::missing).fold(0, u64::saturating_add);
        let told: u64 = self.recording.lost().iter().map(samples).sum();
        (blocks, lost.saturating_add(missing.saturating_sub(told)))
    }

    /// Writes the new recording into an empty file; returns its length in bytes.
    ///
    /// # Errors
    /// As the writer.
    fn write(&self, file: File) -> Result<u64, Error> {
        let mut writer = Writer::create(file, self.recording.header().uuid)?;
        let mut session = Session::default();
        if self.blocks.is_empty() {
            // Every file has a session.
            session.note(0, Cause::BLOCKS_DAMAGED, 1);
        }
        let mut next = 0;
        for (number, (entry, is_whole)) in self.blocks.iter().enumerate() {
            session.miss(entry, entry.header.sequence.saturating_sub(next));
            next = entry.header.sequence.saturating_add(1);
            if entry.header.kind == Kind::SESSION && number > 0 {
                std::mem::take(&mut session).end(&mut writer)?;
            }
            if !is_whole {
                session.lose(entry);
                continue;
            }
            if entry.header.kind == Kind::RECEIPT {
                for counted in self.miscounted.iter().filter(|counted| counted.receipt_off == entry.off) {
                    session.note(counted.end_ns, Cause::DAMAGED, session.unexplained(counted.expected));
                }
                session.tell(&mut writer)?;
            }
            session.keep(self.recording, entry);
            writer.append_stored(&entry.header, self.recording.stored(entry)?)?;
        }
        session.end(&mut writer)?;
        writer.finish()
    }
}

/// One session, while it is copied.
#[derive(Debug, Default)]
struct Session {
    /// Losses that the file does not tell of yet.
    untold: Vec<Loss>,
    has_receipt: bool,
    /// A receipt for a session that has none.
    receipt: ReceiptV1,
}

impl Session {
    fn keep(&mut self, recording: &Recording, entry: &Entry) {
        self.has_receipt |= entry.header.kind == Kind::RECEIPT;
        self.receipt.end_ns = self.receipt.end_ns.max(entry.header.last_ns);
        self.receipt.samples += samples(entry);
        if (entry.header.kind, entry.header.version) == (LossesV1::KIND, LossesV1::VERSION) {
            let payload = recording.payload(entry);
            let view = payload.as_ref().ok().and_then(|payload| payload.view::<LossesV1>().ok());
            let counts = view.into_iter().flat_map(|losses| losses.rows()).map(|loss| loss.count);
            self.receipt.lost = counts.fold(self.receipt.lost, u64::saturating_add);
        }
    }

    fn lose(&mut self, entry: &Entry) {
        if entry.header.kind != Kind::SAMPLES {
            return self.miss(entry, 1);
        }
        let count = samples(entry);
        self.receipt.lost = self.receipt.lost.saturating_add(count);
        self.note(entry.header.first_ns, Cause::DAMAGED, count);
    }

    /// Notes blocks without samples, or of unknown kind, that are missing at or in front of a block.
    fn miss(&mut self, entry: &Entry, count: u64) {
        self.note(entry.header.first_ns, Cause::BLOCKS_DAMAGED, count);
    }

    /// How many samples are neither here nor noted as lost, if there must be so many.
    fn unexplained(&self, expected: u64) -> u64 {
        let damaged = self.untold.iter().filter(|loss| loss.cause == Cause::DAMAGED).map(|loss| loss.count);
        damaged.fold(expected.saturating_sub(self.receipt.samples), u64::saturating_sub)
    }

    fn note(&mut self, time_ns: u64, cause: Cause, count: u64) {
        if count > 0 {
            self.untold.push(Loss { time_ns, ..Loss::of(cause, count) });
        }
    }

    /// Writes down what is lost.
    fn tell(&mut self, writer: &mut Writer) -> Result<(), Error> {
        for rows in std::mem::take(&mut self.untold).chunks(LOSSES_PER_BLOCK) {
            writer.append(&LossesV1::from_rows(rows))?;
        }
        Ok(())
    }

    fn end(mut self, writer: &mut Writer) -> Result<(), Error> {
        self.tell(writer)?;
        if self.has_receipt {
            return Ok(());
        }
        let (end_reason, exit_code) = (EndReason::REPAIRED, -1);
        let file_bytes = writer.len_bytes();
        writer.append(&ReceiptV1 { end_reason, exit_code, file_bytes, ..self.receipt }).map(drop)
    }
}

/// Counts the samples of a block.
fn samples(entry: &Entry) -> u64 {
    if entry.header.kind == Kind::SAMPLES { u64::from(entry.header.items) } else { 0 }
}
