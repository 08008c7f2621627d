//! What the threads have counted so far, for the line that is shown while recording.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use icecore_format::records::Cause;

/// Counts since the recording began.
#[derive(Debug, Default)]
pub struct Counts {
    samples: AtomicU64,
    lost_samples: AtomicU64,
    other_losses: Mutex<Vec<(Cause, u64)>>,
    file_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

/// The counts of one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) samples: u64,
    pub(crate) lost_samples: u64,
    /// Losses that are no samples, the most frequent first.
    pub(crate) other_losses: Vec<(Cause, u64)>,
    pub(crate) file_bytes: u64,
}

impl Counts {
    /// Notes the samples and the losses so far.
    pub(super) fn note<'a>(&self, samples: u64, losses: impl Iterator<Item = (&'a Cause, &'a u64)>) {
        // Hits that other samples stand for are not lost.
        let lost = losses.filter(|(cause, count)| **cause != Cause::RATE_LOWERED && **count > 0);
        let (of_samples, mut others): (Vec<_>, Vec<_>) = lost.partition(|(cause, _)| cause.is_sample());
        others.sort_unstable_by_key(|(cause, count)| (Reverse(**count), **cause));
        self.samples.store(samples, Ordering::Relaxed);
        self.lost_samples.store(of_samples.iter().map(|(_, count)| **count).sum(), Ordering::Relaxed);
        *self.others() = others.into_iter().map(|(cause, count)| (*cause, *count)).collect();
    }

    fn others(&self) -> MutexGuard<'_, Vec<(Cause, u64)>> {
        self.other_losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the length of the recording so far, bytes.
    pub(super) fn note_file(&self, bytes: u64) {
        self.file_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Notes that so many bytes more were written to files.
    pub(super) fn note_written(&self, bytes: u64) {
        self.written_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns how many bytes were written to files.
    pub(crate) fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Returns the counts of this moment.
    pub(crate) fn now(&self) -> Counted {
        Counted {
            samples: self.samples.load(Ordering::Relaxed),
            lost_samples: self.lost_samples.load(Ordering::Relaxed),
            other_losses: self.others().clone(),
            file_bytes: self.file_bytes.load(Ordering::Relaxed),
        }
    }
}
