//! The writer thread: takes batches, appends them, and stops the recording if the disk refuses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;

use icecore_format::records::{Loss, LossesV1, Payload as _, ReceiptV1};
use icecore_format::write::Writer;

use crate::batch::Batch;
use crate::sys::usage;

/// What became of the file.
#[derive(Debug)]
pub(crate) struct Stored {
    writer: Writer,
    /// The first refusal, if there was one.
    failure: Option<icecore_format::Error>,
    /// Samples that the disk did not take.
    pub(crate) samples_refused: u64,
    /// Bytes of the file that are pieces of other files.
    pub(crate) pieces_bytes: u64,
}

/// Appends batches until the last has come. After a refusal the rest is counted, not kept.
pub(crate) fn store(mut writer: Writer, batches: &Receiver<Batch>, refused: &AtomicBool) -> Stored {
    let mut failure = None;
    let mut samples_refused = 0;
    let mut pieces_bytes = 0;
    for batch in batches {
        let has_pieces = batch.image_parts.items() > 0;
        if has_pieces && pieces_bytes == 0 {
            // Sampling is over, and compressing files takes long.
            usage::background_priority();
        }
        let before = writer.len_bytes();
        if failure.is_none() {
            failure = batch.append_to(&mut writer).err();
        }
        if has_pieces {
            pieces_bytes += writer.len_bytes() - before;
        }
        if failure.is_some() {
            refused.store(true, Ordering::Relaxed);
            samples_refused += batch.samples.items() as u64;
        }
    }
    Stored { writer, failure, samples_refused, pieces_bytes }
}

impl Stored {
    /// Bytes of the file so far.
    pub(crate) fn len_bytes(&self) -> u64 {
        self.writer.len_bytes()
    }

    /// Writes the last losses, the receipt, index and tail; returns the length of the file, bytes.
    ///
    /// # Errors
    /// The first refusal of the disk. As much as fits is written even then.
    pub(crate) fn finish(
        mut self,
        losses: &[Loss],
        receipt: &ReceiptV1,
    ) -> Result<u64, icecore_format::Error> {
        let mut append = || {
            if !losses.is_empty() {
                self.writer.append(&LossesV1::from_rows(losses))?;
            }
            self.writer.append(receipt)
        };
        let appended = append().err();
        let finished = self.writer.finish();
        match self.failure.or(appended) {
            Some(failure) => Err(failure),
            None => finished,
        }
    }
}
