//! What the threads have counted so far, for the line that is shown while recording.

use std::sync::atomic::{AtomicU64, Ordering};

use icecore_format::records::Cause;

/// Counts since the recording began.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    samples: AtomicU64,
    lost_samples: AtomicU64,
    /// Losses that are no samples.
    other_losses: AtomicU64,
    file_bytes: AtomicU64,
}

/// The counts of one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) samples: u64,
    pub(crate) lost_samples: u64,
    pub(crate) other_losses: u64,
    pub(crate) file_bytes: u64,
}

impl Counts {
    /// Notes the samples and the losses so far.
    pub(super) fn note<'a>(&self, samples: u64, losses: impl Iterator<Item = (&'a Cause, &'a u64)>) {
        let (mut of_samples, mut others) = (0, 0);
        for (cause, count) in losses {
            *(if cause.is_sample() { &mut of_samples } else { &mut others }) += count;
        }
        self.samples.store(samples, Ordering::Relaxed);
        self.lost_samples.store(of_samples, Ordering::Relaxed);
        self.other_losses.store(others, Ordering::Relaxed);
    }

    /// Notes the length of the recording so far, bytes.
    pub(super) fn note_file(&self, bytes: u64) {
        self.file_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Returns the counts of this moment.
    pub(crate) fn now(&self) -> Counted {
        Counted {
            samples: self.samples.load(Ordering::Relaxed),
            lost_samples: self.lost_samples.load(Ordering::Relaxed),
            other_losses: self.other_losses.load(Ordering::Relaxed),
            file_bytes: self.file_bytes.load(Ordering::Relaxed),
        }
    }
}
