//! Makes a whole recording of what is whole in a damaged one. Payloads are copied as they are stored; headers, index and
//! tail are new, and what is missing is written down as lost.

use std::collections::BTreeMap;
use std::fs::File;

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{Cause, EndReason, Loss, LossesV1, Payload, ReceiptV1};
use icecore_format::write::Writer;
use rayon::prelude::*;

use crate::recording::counted::{self, Counted};
use crate::recording::verify::block::is_unclean;

/// Losses in one block.
const LOSSES_PER_BLOCK: usize = 1 << 16;

/// What is to be done about a recording.
#[derive(Debug)]
pub struct Plan<'a> {
    recording: &'a Recording,
    /// In the order of writing: each block, and whether it is whole.
    blocks: Vec<(&'a Entry, bool)>,
    /// Blocks of which nothing is known but that they are missing.
    unnamed: u64,
    /// Sessions that have fewer samples than their receipts count.
    miscounted: Vec<Counted>,
    is_needed: bool,
}

/// What cannot be brought back.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Blocks by kind.
    pub blocks: BTreeMap<Kind, u64>,
    /// Blocks of unknown kind.
    pub unnamed: u64,
    /// Samples in the blocks that are known.
    pub samples: u64,
}

impl Lost {
    /// Counts the blocks.
    pub fn count(&self) -> u64 {
        self.blocks.values().sum::<u64>().saturating_add(self.unnamed)
    }
}

impl<'a> Plan<'a> {
    /// Checks all blocks.
    pub fn new(recording: &'a Recording) -> Self {
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

    /// Tells whether anything is wrong that a new file would not have.
    pub fn is_needed(&self) -> bool {
        self.is_needed
    }

    /// The blocks that are copied.
    pub fn kept(&self) -> impl Iterator<Item = &'a Entry> + '_ {
        self.blocks.iter().filter(|(_, is_whole)| *is_whole).map(|(entry, _)| *entry)
    }

    /// What is not copied.
    pub fn lost(&self) -> Lost {
        let mut lost = Lost { unnamed: self.unnamed, ..Lost::default() };
        for (entry, _) in self.blocks.iter().filter(|(_, is_whole)| !is_whole) {
            *lost.blocks.entry(entry.header.kind).or_default() += 1;
            lost.samples += samples(entry);
        }
        // Of some the index tells, too.
        let missing = self.miscounted.iter().map(Counted::missing).fold(0, u64::saturating_add);
        let told: u64 = self.recording.lost().iter().map(samples).sum();
        lost.samples = lost.samples.saturating_add(missing.saturating_sub(told));
        lost
    }

    /// Writes the new recording into an empty file; returns its length in bytes.
    ///
    /// # Errors
    /// As the writer.
    pub fn write(&self, file: File) -> Result<u64, Error> {
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
            self.untold.push(Loss { time_ns, cpu: u32::MAX, cause, count });
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
