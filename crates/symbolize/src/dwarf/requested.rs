//! Holds the requested addresses.

use std::ops::Range;

use icecore_elf::Svma;

/// Requested addresses in ascending order, and the lowest address of code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Requested<'a> {
    pub(super) at: &'a [Svma],
    /// No function of the image begins before this address.
    pub(super) code: Svma,
}

impl Requested<'_> {
    /// Finds the positions of the addresses in a range.
    ///
    /// Linkers leave the debug information of functions that they have dropped at 0, at 1, or at the highest addresses; such
    /// ranges contain nothing.
    pub(super) fn within(&self, begin: u64, end: u64) -> Range<usize> {
        if begin == 0 || begin < self.code.0 || begin >= end {
            return 0..0;
        }
        let first = self.at.partition_point(|at| at.0 < begin);
        let len = self.at[first..].partition_point(|at| at.0 < end);
        first..first + len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_dropped_functions_hold_nothing() {
        let at = [1, 0x1000, 0x1001, 0x2000, u64::MAX - 1].map(Svma);
        let asked = Requested { at: &at, code: Svma(0x1000) };
        assert_eq!(asked.within(0x1000, 0x2000), 1..3);
        assert_eq!(asked.within(0x1001, u64::MAX), 2..5);
        for (begin, end) in [(0, 0x3000), (1, 0x3000), (0x1000, 0x1000), (0x2000, 0x1000)] {
            assert!(asked.within(begin, end).is_empty(), "{begin:#x}..{end:#x}");
        }
        assert_eq!(Requested { at: &at, code: Svma(0) }.within(1, 2), 0..1);
    }
}
