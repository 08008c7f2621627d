//! The writer thread appends batches to the file, and stops the recording if the disk refuses one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use icecore_format::records::{LeftOut, LeftOutV1, Loss, LossesV1, Omission, Payload, ReceiptV1};
use icecore_format::write::Writer;

use super::counts::Counts;
use crate::sys::usage;
use crate::track::batch::Batch;

/// The file, and what the disk refused.
#[derive(Debug)]
pub(crate) struct Stored {
    writer: Writer,
    /// The first error of the disk.
    failure: Option<icecore_format::Error>,
    /// Samples that the disk did not take, by event: their number, and their weight.
    pub(crate) samples_refused: BTreeMap<u8, (u64, u64)>,
    /// Names of functions that the disk did not take.
    pub(crate) names_refused: u64,
    /// Images whose files the disk did not take, or not all of them.
    pub(crate) files_refused: BTreeSet<u32>,
    /// The id after the last image that the file defines.
    images_end: u32,
    /// Bytes of the file that are pieces of other files.
    pub(crate) pieces_bytes: u64,
}

/// Returns the id after the last image that a batch defines; 0 if it defines none.
fn images_end(batch: &Batch) -> u32 {
    match batch.images.items() {
        0 => 0,
        items => batch.images.first_id.saturating_add(items as u32),
    }
}

/// Appends batches until the last has arrived. After a refusal, batches are only counted.
pub(crate) fn store(
    writer: Writer,
    batches: &Receiver<Batch>,
    refused: &AtomicBool,
    counts: &Counts,
) -> Stored {
    let mut stored = Stored::new(writer);
    counts.note_file(stored.len_bytes());
    for batch in batches {
        let has_pieces = batch.image_parts.items() > 0;
        if has_pieces && stored.pieces_bytes == 0 {
            // Sampling has ended, and compressing files takes long.
            usage::background_priority();
        }
        let before = stored.writer.len_bytes();
        if stored.failure.is_none() {
            stored.failure = batch.append_to(&mut stored.writer).err();
        }
        counts.note_file(stored.writer.len_bytes());
        if has_pieces {
            stored.pieces_bytes += stored.writer.len_bytes() - before;
        }
        if stored.failure.is_some() {
            refused.store(true, Ordering::Relaxed);
            stored.refuse(&batch);
        } else {
            stored.images_end = stored.images_end.max(images_end(&batch));
        }
    }
    stored
}

impl Stored {
    fn new(writer: Writer) -> Self {
        let (failure, files_refused) = Default::default();
        let (samples_refused, names_refused, images_end, pieces_bytes) = Default::default();
        Self { writer, failure, samples_refused, names_refused, files_refused, images_end, pieces_bytes }
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

    /// Writes the losses, the skipped files, the receipt, index and tail; returns the length of the file, bytes.
    ///
    /// # Errors
    /// The first error of the disk. Even then, as much as fits is written.
    pub(crate) fn finish(
        mut self,
        left_out: &[LeftOut],
        losses: &[Loss],
        receipt: &ReceiptV1,
    ) -> Result<u64, icecore_format::Error> {
        let left_out = self.left_out(left_out);
        let appended = [
            self.append(&left_out),
            self.append(&LossesV1::from_rows(losses)),
            self.writer.append(receipt).map(drop),
        ];
        let finished = self.writer.finish();
        match self.failure.or(appended.into_iter().find_map(Result::err)) {
            Some(failure) => Err(failure),
            None => finished,
        }
    }

    fn append(&mut self, payload: &impl Payload) -> Result<(), icecore_format::Error> {
        if payload.items() > 0 { self.writer.append(payload).map(drop) } else { Ok(()) }
    }
}
