//! Remembers which bytes exist in a file that was composed of pieces.

use std::collections::BTreeMap;

/// The stretches of a file that exist. The recording did not contain the others; they read as zeros, which are not their contents.
#[derive(Debug, Default)]
pub struct Present {
    /// Begin and end of each; they neither touch nor overlap.
    stretches: BTreeMap<u64, u64>,
}

impl Present {
    /// Adds a stretch. If one of its bytes exists already, adds nothing and returns false.
    pub fn add(&mut self, off: u64, len: u64) -> bool {
        let Some(end) = off.checked_add(len) else { return false };
        if len == 0 {
            return true;
        }
        let before = self.stretches.range(..end).next_back().map(|(begin, end)| (*begin, *end));
        if before.is_some_and(|(_, before_end)| before_end > off) {
            return false;
        }
        let begin = before.filter(|(_, before_end)| *before_end == off).map_or(off, |(begin, _)| begin);
        let end = self.stretches.remove(&end).unwrap_or(end);
        self.stretches.insert(begin, end);
        true
    }

    /// Returns true if all bytes of a stretch exist.
    pub fn has(&self, off: u64, len: u64) -> bool {
        let Some(end) = off.checked_add(len) else { return false };
        len == 0 || self.stretches.range(..=off).next_back().is_some_and(|(_, last)| end <= *last)
    }

    /// Counts the existing bytes.
    #[cfg(test)]
    pub fn bytes(&self) -> u64 {
        self.stretches.iter().map(|(begin, end)| end - begin).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_become_one_and_nothing_is_taken_twice() {
        let mut present = Present::default();
        assert!(
            [(10, 10), (30, 10), (20, 10), (0, 0), (u64::MAX - 1, 1)]
                .iter()
                .all(|(off, len)| present.add(*off, *len))
        );
        assert_eq!((present.stretches.len(), present.bytes()), (2, 31));
        assert!(present.has(10, 30) && present.has(39, 1) && present.has(7, 0));
        assert!(!present.has(9, 2) && !present.has(39, 2) && !present.has(0, 1) && !present.has(5, u64::MAX));
        for (off, len) in [(10, 1), (39, 5), (0, 11), (0, 100), (u64::MAX, 1)] {
            assert!(!present.add(off, len), "{off}");
        }
        assert_eq!(present.bytes(), 31);
    }
}
