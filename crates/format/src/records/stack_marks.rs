//! Marks of stacks, version 1: what is to be known of a frame besides its location.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{IdTable, Reference, References, payload};
use crate::kind::Kind;

/// What is to be known of a frame: bits, which are on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mark(pub u8);

impl Mark {
    /// The frame is a leaf, or its location is a return address that unwind tables or a walk have found.
    pub const NONE: Self = Self(0);
    /// The location is that of an instruction, though the frame is no leaf: a signal has interrupted it, or it is the
    /// first one of a signal trampoline. It is looked up as it is, and not one byte earlier.
    pub const INTERRUPTED: Self = Self(1);
    /// The frame was found by a guess that nothing has proven.
    pub const GUESSED: Self = Self(2);

    /// Tells whether all bits of another mark are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Sets the bits of another mark.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Clears the bits of another mark.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl References for (u32, Mark) {
    #[inline]
    fn visit(&mut self, see: &mut impl FnMut(Reference<'_>)) {
        let (node, Mark(_)) = self;
        see(Reference::Id(IdTable::Stacks, node));
    }
}

/// Marks of nodes of the trie, one row for each node that has any.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StackMarksV1 {
    /// Nodes of stacks, ids.
    pub node: Packed,
    /// Bits of [`Mark`].
    pub mark: Packed,
}

payload!(StackMarksV1, ArchivedStackMarksV1, Kind::STACK_MARKS, 1, count node, same mark);

impl StackMarksV1 {
    /// Builds the columns.
    pub fn from_rows(rows: &[(u32, Mark)]) -> Self {
        Self {
            node: Packed::steps(rows.iter().map(|(node, _)| u64::from(*node))),
            mark: rows.iter().map(|(_, mark)| u32::from(mark.0)).collect(),
        }
    }
}

impl ArchivedStackMarksV1 {
    /// Lists the nodes and their marks. Bits that this build does not know are kept.
    pub fn rows(&self) -> impl Iterator<Item = (u32, Mark)> + '_ {
        let rows = self.node.sums().into_iter().zip(self.mark.values());
        rows.map(|(node, mark)| (narrow(node), Mark(mark as u8)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_come_back_as_they_were() {
        let both = Mark::INTERRUPTED.with(Mark::GUESSED);
        let rows = [(7, Mark::INTERRUPTED), (300, both), (8, Mark(0x81))];
        let bytes = StackMarksV1::from_rows(&rows).to_bytes().expect("fits");
        let view = StackMarksV1::view(&bytes).expect("own bytes");
        assert!(view.rows().eq(rows));
        assert!(both.has(Mark::GUESSED) && !Mark::INTERRUPTED.has(both));
    }
}
