//! Bounds the work and the memory that a file may cause, and records that a file is broken.
//!
//! Every entry and every row takes at least a byte of its file, so the length of the file bounds one pass over it. It does
//! not bound a list that thousands of units share, ranges that all cover everything, inlined functions nested in each other
//! a thousand times. All of these spend from one account.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Steps that any file may take.
const FREE_STEPS: u64 = 1 << 20;
/// Steps for each byte of debug information. Real files take less than one.
const STEPS_PER_BYTE: u64 = 32;
/// Steps for each requested address. Real files take a few dozen.
const STEPS_PER_ADDRESS: usize = 512;

/// The file cannot be read, or asks for more work than it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Broken;

impl From<gimli::Error> for Broken {
    fn from(_: gimli::Error) -> Self {
        Self
    }
}

/// The steps that may still be taken for one file.
#[derive(Debug)]
pub(super) struct Guard {
    left: AtomicU64,
    is_exhausted: AtomicBool,
    is_broken: AtomicBool,
}

impl Guard {
    pub(super) fn new(file_bytes: usize, addresses: usize) -> Self {
        Self::with_steps(file_bytes, addresses.saturating_mul(STEPS_PER_ADDRESS))
    }

    /// Opens an account for a file of which answers cost more than addresses of DWARF do: `steps` for all of them.
    pub(super) fn with_steps(file_bytes: usize, steps: usize) -> Self {
        let of_file = STEPS_PER_BYTE.saturating_mul(file_bytes as u64);
        Self {
            left: AtomicU64::new(FREE_STEPS.saturating_add(of_file).saturating_add(steps as u64)),
            is_exhausted: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
        }
    }

    /// Spends steps before they are taken.
    ///
    /// # Errors
    /// [`Broken`] if none are left. The whole file then counts as broken, because threads decide which steps came first.
    pub(super) fn spend(&self, steps: usize) -> Result<(), Broken> {
        let spent = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(steps as u64));
        if spent.is_err() || self.is_exhausted.load(Relaxed) {
            self.is_exhausted.store(true, Relaxed);
            return Err(Broken);
        }
        Ok(())
    }

    /// Notes that a part of the file could not be read.
    pub(super) fn note(&self) {
        self.is_broken.store(true, Relaxed);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Relaxed)
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.is_exhausted.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_spent_beyond_the_account() {
        let guard = Guard::new(0, 0);
        assert_eq!(guard.spend(FREE_STEPS as usize), Ok(()));
        assert_eq!((guard.spend(1), guard.is_exhausted()), (Err(Broken), true));
        assert_eq!(guard.spend(0), Err(Broken), "it stays exhausted, whoever comes later");
    }
}
