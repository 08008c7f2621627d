//! Bounds the memory for decompressed and copied sections in the whole process: a file of a few megabytes may claim gigabytes.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most bytes of decompressed sections at one time, of all files and threads together.
pub(crate) const MAX_DECOMPRESSED_BYTES: u64 = 2 << 30;

static HELD: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// A part of the budget, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Held(u64);

impl Held {
    /// Takes bytes, before they are allocated; `None` if there are not so many left.
    pub(crate) fn take(bytes: u64) -> Option<Self> {
        let add = |held: u64| held.checked_add(bytes).filter(|sum| *sum <= MAX_DECOMPRESSED_BYTES);
        let taken = HELD.fetch_update(Relaxed, Relaxed, add).is_ok();
        REFUSED.fetch_add(u64::from(!taken), Relaxed);
        taken.then(|| Self(bytes))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}

/// Counts a file that could not be mapped.
pub(super) fn refuse() {
    REFUSED.fetch_add(1, Relaxed);
}

/// Counts how often a thread was refused bytes, or could not map a file. If the count did not change during some work, that work
/// was refused nothing: it would have the same result at any time.
pub fn refusals() -> u64 {
    REFUSED.load(Relaxed)
}
