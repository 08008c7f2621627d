//! Snapshots, version 1: what registers and stack held at a sample.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::stack_memory::{Words, told};
use super::{Word, payload, references};
use crate::error::Error;
use crate::kind::Kind;

/// Registers and stack of user space at one sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Snapshot {
    /// Address from which the parts of the stack count down: after the stack, or after what was read of it.
    pub anchor: u64,
    /// Bytes between the stack pointer and the anchor: the stack pointer is `anchor - depth`.
    pub depth: u32,
    /// Bytes that were copied, from the stack pointer on; the rest up to `depth` was not.
    pub copied: u32,
    /// The innermost node of the stack's contents; 0 if it held no addresses.
    pub memory: u32,
    /// Bit n: register n, in DWARF's numbers, held an address. The stack pointer is not among them, and the program counter,
    /// bit 32, only of what a signal interrupted.
    pub mask: u64,
    /// These, the lowest number first; distances count from the stack pointer.
    pub registers: Vec<Word>,
}

references!(Snapshot {
    anchor: plain,
    depth: plain,
    copied: plain,
    memory: id(StackNodes),
    mask: plain,
    registers: within,
});

impl Snapshot {
    /// The bit of the program counter.
    pub const PROGRAM_COUNTER: u8 = 32;

    /// Tells whether this is no sample's own, but of a stack further out than that of the row before: what was interrupted by the
    /// signal in whose handler the sample was taken, or the code of C that has called Go. Several may follow each other.
    pub fn is_outer(&self) -> bool {
        self.mask >> Self::PROGRAM_COUNTER & 1 == 1
    }

    /// The program counter, if it is here.
    pub fn program_counter(&self) -> Option<Word> {
        let below = (self.mask & ((1 << Self::PROGRAM_COUNTER) - 1)).count_ones() as usize;
        self.registers.get(below).copied().filter(|_| self.is_outer())
    }
}

/// Snapshots, as columns. Ids count up from 1 over the whole session.
#[derive(Debug, Default, Archive, Serialize)]
pub struct SnapshotsV1 {
    /// Id of the first.
    pub first_id: u32,
    /// Anchors.
    pub anchor: Packed,
    /// Depths.
    pub depth: Packed,
    /// What was not copied: depth − copied.
    pub not_copied: Packed,
    /// Nodes, as differences from the row before; signs folded.
    pub memory: Packed,
    /// Masks.
    pub mask: Packed,
    /// Registers, one for each bit of the masks, as words of stack memory.
    pub register: Packed,
    /// Registers that hold addresses of the stack: distances, signs folded.
    pub distance: Packed,
}

payload!(
    SnapshotsV1, ArchivedSnapshotsV1, Kind::SNAPSHOTS, 1,
    count anchor, same depth, same not_copied, same memory, same mask, other register, other distance
);

impl SnapshotsV1 {
    /// Builds the columns; the first row has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if a row has not as many registers as bits.
    pub fn from_rows(first_id: u32, rows: &[Snapshot]) -> Result<Self, Error> {
        if let Some(row) = rows.iter().find(|row| row.mask.count_ones() as usize != row.registers.len()) {
            let cause = format!("{} registers have the mask {:#x}", row.registers.len(), row.mask);
            return Err(Error::Payload { kind: Kind::SNAPSHOTS, cause });
        }
        let registers = || rows.iter().flat_map(|row| &row.registers);
        Ok(Self {
            first_id,
            anchor: rows.iter().map(|row| row.anchor).collect(),
            depth: rows.iter().map(|row| row.depth).collect(),
            not_copied: rows.iter().map(|row| row.depth.saturating_sub(row.copied)).collect(),
            memory: Packed::steps(rows.iter().map(|row| u64::from(row.memory))),
            mask: rows.iter().map(|row| row.mask).collect(),
            register: registers().map(|word| told(*word).0).collect(),
            distance: registers().filter_map(|word| told(*word).1).collect(),
        })
    }
}

impl ArchivedSnapshotsV1 {
    /// Lists the snapshots; the first has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if registers are missing.
    pub fn rows(&self) -> Result<Vec<Snapshot>, Error> {
        let mut words = Words::new(Kind::SNAPSHOTS, &self.register, &self.distance)?;
        let [anchor, depth, not_copied, mask] =
            [&self.anchor, &self.depth, &self.not_copied, &self.mask].map(|column| column.values());
        let memory = self.memory.sums();
        let row = |i: usize| {
            let registers = words.of(i, mask[i])?;
            let depth = narrow(depth[i]);
            Ok(Snapshot {
                anchor: anchor[i],
                depth,
                copied: depth.saturating_sub(narrow(not_copied[i])),
                memory: narrow(memory[i]),
                mask: mask[i],
                registers,
            })
        };
        (0..anchor.len()).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_come_back_as_they_were() {
        let rows = [
            Snapshot {
                anchor: 0x7fff_ffff_e000,
                depth: 0x1238,
                copied: 0x1000,
                memory: 9,
                mask: 1 << 6 | 1,
                registers: vec![Word::Code(3), Word::Stack(0x40)],
            },
            Snapshot { anchor: 0x7f00_0000, depth: 128, copied: 128, ..Snapshot::default() },
        ];
        let bytes = SnapshotsV1::from_rows(5, &rows).and_then(|columns| columns.to_bytes()).expect("sound");
        let view = SnapshotsV1::view(&bytes).expect("sound");
        assert_eq!((view.first_id.to_native(), view.rows().expect("sound")), (5, rows.to_vec()));
    }

    #[test]
    fn registers_that_are_missing_are_an_error() {
        let row = Snapshot { mask: 2, registers: vec![Word::Stack(1)], ..Snapshot::default() };
        let mut columns = SnapshotsV1::from_rows(1, std::slice::from_ref(&row)).expect("sound");
        columns.distance = Packed::default();
        let bytes = columns.to_bytes().expect("sound");
        assert!(SnapshotsV1::view(&bytes).expect("columns").rows().is_err());
        assert!(SnapshotsV1::from_rows(1, &[Snapshot { mask: 6, ..row }]).is_err());
    }
}
