//! How much work unwinding and checking stacks may take.
//!
//! A few bytes of a recording can hold a stack of thousands of frames once more. What is done with stacks is proportional to their
//! frames, so it is limited in proportion to the size of the file: no file keeps a report busy that did not take time to read.

use std::cell::Cell;

/// Steps that any recording is worth.
const FREE_STEPS: u64 = 16 << 20;
/// Steps that each byte of a recording is worth in addition. A copy of 900 frames of JIT code takes 130 for each of its bytes.
const STEPS_PER_BYTE: u64 = 512;

/// The work that is left. A step looks up an address, or reads a word of a copied stack; a frame takes about four, of 100 ns.
#[derive(Debug)]
pub(super) struct Work(Cell<u64>);

impl Work {
    /// Returns the work for `part` of `whole` stacks of a recording.
    pub(super) fn of(recording_len: u64, part: u64, whole: u64) -> Self {
        let all = u128::from(FREE_STEPS) + u128::from(recording_len) * u128::from(STEPS_PER_BYTE);
        let own = all * u128::from(part) / u128::from(whole.max(1));
        Self(Cell::new(u64::try_from(own).unwrap_or(u64::MAX)))
    }

    /// Takes steps; returns false if there were not so many left.
    pub(super) fn take(&self, steps: u64) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(steps));
        left >= steps
    }

    /// Returns true if no work is left: what was found meanwhile may be wrong.
    pub(super) fn is_spent(&self) -> bool {
        self.0.get() == 0
    }
}
