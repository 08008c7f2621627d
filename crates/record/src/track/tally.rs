//! Counts things that many owners share while any owner holds them, so that their number can be bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter. Clones share the count.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<AtomicUsize>);

/// A part of a count; dropping it subtracts it. A clone is counted again.
#[derive(Debug, Default)]
pub(crate) struct Held {
    tally: Tally,
    number: usize,
}

impl Tally {
    /// Returns the sum of all parts that are held.
    pub(crate) fn total(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds a number until the result is dropped.
    pub(crate) fn hold(&self, number: usize) -> Held {
        self.0.fetch_add(number, Ordering::Relaxed);
        Held { tally: self.clone(), number }
    }
}

impl Held {
    /// Replaces the number.
    pub(crate) fn change(&mut self, number: usize) {
        self.tally.0.fetch_add(number, Ordering::Relaxed);
        self.tally.0.fetch_sub(std::mem::replace(&mut self.number, number), Ordering::Relaxed);
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.tally.hold(self.number)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.tally.0.fetch_sub(self.number, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alive_is_counted() {
        let tally = Tally::default();
        let mut first = tally.hold(3);
        let second = first.clone();
        first.change(10);
        assert_eq!(tally.total(), 13);
        drop(first);
        assert_eq!(tally.total(), 3);
        drop(second);
        assert_eq!(tally.total(), 0);
    }
}
