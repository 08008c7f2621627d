//! A writer thread appends batches to a file, and stops the recording if the disk refuses one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;

use icecore_format::records::{
    LeftOut, LeftOutV1, Loss, LossesV1, Omission, Payload, ReceiptV1, SessionV1, TriggerV1,
};
use icecore_format::write::Writer;

use super::closing::{Close, Embedded, last_losses, left_out};
use super::counts::Counts;
use crate::settings::Embed;
use crate::sys::usage;
use crate::track::batch::Batch;

/// What a writer thread gets.
#[derive(Debug)]
pub enum ToWriter {
    /// The first block of a file that follows another one.
    Begin(Box<SessionV1>),
    Batch(Box<Batch>),
    /// The file has all of its samples; another writer gets the next ones.
    Close(Box<Close>),
}

/// What is known of a file that another one has followed.
#[derive(Debug)]
pub(crate) struct Closed {
    pub(crate) samples: u64,
    pub(crate) lost: u64,
    /// Its length, or why the disk did not take all of it.
    pub(crate) bytes: Result<u64, icecore_format::Error>,
}

/// A file whose writer has ended. It has no receipt yet.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Nothing follows.
    Last(Stored),
    /// Another file follows.
    Full(Stored, Box<Close>),
}

/// What to embed of the images of a file that another one follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Embedding<'a> {
    pub(crate) embed: Embed,
    pub(crate) max_bytes: u64,
    /// The disk refused a block.
    pub(crate) refused: &'a AtomicBool,
}

/// What writers share.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shared<'a> {
    pub(crate) counts: &'a Counts,
    pub(crate) embedding: Embedding<'a>,
}

/// The file, and what the disk refused.
#[derive(Debug)]
pub(crate) struct Stored {
    writer: Writer,
    /// The first error of the disk.
    failure: Option<icecore_format::Error>,
    /// Samples that the disk did not take, by event: their number, and their weight.
    samples_refused: BTreeMap<u8, (u64, u64)>,
    /// Names of functions that the disk did not take.
    names_refused: u64,
    /// Images whose files the disk did not take, or not all of them.
    pub(crate) files_refused: BTreeSet<u32>,
    /// The id after the last image that the file defines.
    images_end: u32,
    /// Bytes of the file that are pieces of other files.
    pub(crate) pieces_bytes: u64,
    /// The samples and the losses of its receipt.
    pub(crate) counted: (u64, u64),
}

/// Returns the id after the last image that a batch defines; 0 if it defines none.
fn images_end(batch: &Batch) -> u32 {
    match batch.images.items() {
        0 => 0,
        items => batch.images.first_id.saturating_add(items as u32),
    }
}

/// Appends batches until the last has arrived, or the file is to be closed. After a refusal, batches are only counted. `len_bytes` gets the
/// length of the file.
pub(crate) fn store(
    writer: Writer,
    messages: &Receiver<ToWriter>,
    shared: Shared<'_>,
    len_bytes: &AtomicU64,
) -> Ended {
    let mut stored = Stored::new(writer);
    let Shared { counts, embedding: Embedding { refused, .. } } = shared;
    counts.note_file(stored.len_bytes());
    for message in messages {
        match message {
            ToWriter::Begin(session) => stored.begin(&session, refused),
            ToWriter::Batch(batch) => {
                let before = stored.len_bytes();
                stored.take(&batch, refused);
                counts.note_written(stored.len_bytes() - before);
                counts.note_file(stored.len_bytes());
                len_bytes.store(stored.len_bytes(), Ordering::Relaxed);
            }
            ToWriter::Close(close) => return Ended::Full(stored, close),
        }
    }
    Ended::Last(stored)
}

impl Stored {
    pub(crate) fn new(writer: Writer) -> Self {
        let (failure, files_refused) = Default::default();
        let (samples_refused, names_refused, images_end, pieces_bytes, counted) = Default::default();
        Self {
            writer,
            failure,
            samples_refused,
            names_refused,
            files_refused,
            images_end,
            pieces_bytes,
            counted,
        }
    }

    fn begin(&mut self, session: &SessionV1, refused: &AtomicBool) {
        self.failure = self.writer.append(session).err();
        refused.fetch_or(self.failure.is_some(), Ordering::Relaxed);
    }

    fn take(&mut self, batch: &Batch, refused: &AtomicBool) {
        let has_pieces = batch.image_parts.items() > 0;
        if has_pieces && self.pieces_bytes == 0 {
            // Sampling has ended, and compressing files takes long.
            usage::background_priority();
        }
        let before = self.writer.len_bytes();
        if self.failure.is_none() {
            self.failure = batch.append_to(&mut self.writer).err();
        }
        if has_pieces {
            self.pieces_bytes += self.writer.len_bytes() - before;
        }
        if self.failure.is_some() {
            refused.store(true, Ordering::Relaxed);
            self.refuse(batch);
        } else {
            self.images_end = self.images_end.max(images_end(batch));
        }
    }

    /// Names what samples of the file hit, and finishes the file, while others are written.
    pub(crate) fn close(mut self, close: Close, shared: Shared<'_>) -> Closed {
        usage::lower_priority();
        let before = self.len_bytes();
        let ReceiptV1 { samples, lost, .. } = self.end(close, shared.embedding, None);
        let bytes = self.finish();
        shared.counts.note_written(bytes.as_ref().map_or(0, |bytes| bytes - before));
        Closed { samples, lost, bytes }
    }

    /// Names what samples of the file hit, and writes all but index and tail; returns the receipt.
    pub(crate) fn end(
        &mut self,
        close: Close,
        embedding: Embedding<'_>,
        trigger: Option<&TriggerV1>,
    ) -> ReceiptV1 {
        let Close { closing, totals, losses, spent, turned: _ } = close;
        let Embedding { embed, max_bytes, refused } = embedding;
        let mut goes_on = || !refused.load(Ordering::Relaxed);
        let embedded = closing.embed(embed, max_bytes, &mut |batch| self.take(&batch, refused), &mut goes_on);
        let lost = losses.iter().filter(|(cause, _)| cause.is_sample()).map(|(_, count)| count).sum::<u64>();
        let receipt = self.receipt(totals.samples, lost, spent);
        let last_losses = self.last_losses(receipt.end_ns, &embedded);
        self.complete(&left_out(&embedded), &last_losses, trigger, &receipt);
        receipt
    }

    /// Returns the number of samples that the disk refused.
    pub(crate) fn refused(&self) -> u64 {
        self.samples_refused.values().map(|(samples, _)| samples).sum()
    }

    /// Completes a receipt: of the samples that were made, the disk has not taken all.
    pub(crate) fn receipt(&self, samples: u64, lost: u64, spent: ReceiptV1) -> ReceiptV1 {
        let refused = self.refused();
        let (samples, lost) = (samples - refused, lost + refused);
        ReceiptV1 { samples, lost, file_bytes: self.len_bytes(), ..spent }
    }

    /// Returns the losses after the last samples, and those that were noticed only then.
    pub(crate) fn last_losses(&self, time_ns: u64, embedded: &Embedded) -> Vec<Loss> {
        last_losses(time_ns, embedded, &self.samples_refused, self.names_refused)
    }

    fn refuse(&mut self, batch: &Batch) {
        for (event, (samples, weight)) in batch.samples.by_event() {
            let sum = self.samples_refused.entry(event).or_default();
            *sum = (sum.0 + samples, sum.1.saturating_add(weight));
        }
        self.names_refused += (batch.symbols.items() + batch.jit.items()) as u64;
        if batch.image_parts.items() > 0 {
            self.files_refused.insert(batch.image_parts.image);
        }
    }

    /// Returns the length of the file so far, bytes.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.writer.len_bytes()
    }

    /// Returns the skipped files: those that the collector skipped, and those that the disk refused.
    fn left_out(&self, left_out: &[LeftOut]) -> LeftOutV1 {
        let is_told = |image: &&u32| left_out.iter().all(|row| row.image != **image || !row.why.is_of_file());
        let refused = self.files_refused.iter().filter(is_told);
        let refused = refused.map(|image| LeftOut {
            image: *image,
            why: Omission::WRITE_FAILED,
            needed_bytes: 0,
            free_bytes: 0,
        });
        // A row may refer only to an image that is in the file.
        let rows = left_out.iter().copied().chain(refused).filter(|row| row.image < self.images_end);
        LeftOutV1::from_rows(&rows.collect::<Vec<_>>())
    }

    /// Writes the losses, the skipped files, the trigger and the receipt: as much as fits.
    pub(crate) fn complete(
        &mut self,
        left_out: &[LeftOut],
        losses: &[Loss],
        trigger: Option<&TriggerV1>,
        receipt: &ReceiptV1,
    ) {
        let left_out = self.left_out(left_out);
        let appended = [
            self.append(&left_out),
            self.append(&LossesV1::from_rows(losses)),
            trigger.map_or(Ok(()), |trigger| self.append(trigger)),
            self.append(receipt),
        ];
        self.failure = self.failure.take().or(appended.into_iter().find_map(Result::err));
        self.counted = (receipt.samples, receipt.lost);
    }

    /// Writes index and tail; returns the length of the file, bytes.
    ///
    /// # Errors
    /// The first error of the disk. Even then, as much as fits is written.
    pub(crate) fn finish(self) -> Result<u64, icecore_format::Error> {
        let finished = self.writer.finish();
        self.failure.map_or(finished, Err)
    }

    /// Appends all of a file in memory to another one.
    ///
    /// # Errors
    /// The first error of the disk.
    pub(crate) fn append_to(&self, writer: &mut Writer) -> Result<(), icecore_format::Error> {
        writer.append_all(&self.writer)
    }

    fn append(&mut self, payload: &impl Payload) -> Result<(), icecore_format::Error> {
        if payload.items() > 0 { self.writer.append(payload).map(drop) } else { Ok(()) }
    }
}
