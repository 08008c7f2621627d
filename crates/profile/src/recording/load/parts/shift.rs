//! The rows of a block under numbers that are unique in the file.

use icecore_format::records::{IdTable, Reference, References};

use super::Part;
use crate::recording::load::Decoded;

impl Part {
    /// Gives the rows of a block numbers that are unique in the file.
    ///
    /// # Errors
    /// The cause, if there are no more numbers.
    pub(in crate::recording::load) fn shift(&self, block: &mut Decoded) -> Result<(), String> {
        if self.is_alone {
            return Ok(());
        }
        let ids = block.ids();
        let base = ids.map_or(0, |(table, ..)| self.ids[table as usize].base);
        let end = ids.map_or(0, |(_, first, len)| u64::from(base) + u64::from(first) + len as u64);
        if end > u64::from(u32::MAX) {
            return Err(format!("id {end} of all sessions together is too large"));
        }
        block.renumber(base, &mut |reference| self.renumber(reference));
        Ok(())
    }
}

impl Decoded {
    /// Returns the table whose rows the block defines, the id of its first row, and how many rows it has.
    pub(super) fn ids(&self) -> Option<(IdTable, u32, usize)> {
        match self {
            Self::Strings(first, rows) => Some((IdTable::Strings, *first, rows.len())),
            Self::Tasks(first, rows) => Some((IdTable::Tasks, *first, rows.len())),
            Self::Images(first, rows) => Some((IdTable::Images, *first, rows.len())),
            Self::Nodes(first, rows) => Some((IdTable::Stacks, *first, rows.len())),
            Self::StackCode(first, rows) => Some((IdTable::StackCode, *first, rows.len())),
            Self::StackPieces(first, rows) => Some((IdTable::StackPieces, *first, rows.len())),
            Self::StackNodes(first, rows) => Some((IdTable::StackNodes, *first, rows.len())),
            Self::Snapshots(first, rows) => Some((IdTable::Snapshots, *first, rows.len())),
            Self::Marks(_)
            | Self::Lifecycle(_)
            | Self::Cgroups(_)
            | Self::Mappings(_)
            | Self::KernelSymbols(_)
            | Self::Symbols(_)
            | Self::Jit(_)
            | Self::Names(_)
            | Self::LeftOut(_)
            | Self::UnwindRules(_)
            | Self::CpuTimes(_)
            | Self::Waits(_)
            | Self::Counters(_)
            | Self::Losses(_)
            | Self::Session(_)
            | Self::Receipt(_)
            | Self::Samples
            | Self::ImageParts
            | Self::Sources
            | Self::Unknown
            | Self::Unwanted
            | Self::Damaged(_) => None,
        }
    }

    /// Adds `base` to the id of the first row that the block defines, and shows every reference of its rows.
    fn renumber(&mut self, base: u32, see: &mut impl FnMut(Reference<'_>)) {
        match self {
            Self::Strings(first, _) => *first += base,
            Self::Tasks(first, rows) => {
                *first += base;
                rows.visit(see);
            }
            Self::Images(first, rows) => {
                *first += base;
                rows.visit(see);
            }
            Self::Nodes(first, rows) => {
                *first += base;
                rows.visit(see);
            }
            Self::Marks(rows) => rows.visit(see),
            Self::Lifecycle(rows) => rows.visit(see),
            Self::Cgroups(rows) => rows.visit(see),
            Self::Mappings(rows) => rows.visit(see),
            Self::KernelSymbols(rows) => rows.visit(see),
            Self::Symbols(rows) => rows.visit(see),
            Self::Jit(rows) => rows.visit(see),
            Self::Names(table) => table.visit(see),
            Self::LeftOut(rows) => rows.visit(see),
            Self::StackCode(first, rows) => {
                *first += base;
                rows.visit(see);
            }
            Self::StackPieces(first, rows) => {
                *first += base;
                rows.visit(see);
            }
            Self::StackNodes(first, rows) => {
                *first += base;
                rows.visit(see);
            }
            Self::Snapshots(first, rows) => {
                *first += base;
                rows.visit(see);
            }
            Self::UnwindRules(rows) => rows.visit(see),
            Self::CpuTimes(rows) => rows.visit(see),
            Self::Waits(rows) => rows.visit(see),
            Self::Counters(rows) => rows.visit(see),
            Self::Losses(rows) => rows.visit(see),
            // The part keeps what it needs of these two as they are; blocks of samples and pieces are opened later.
            Self::Session(_) | Self::Receipt(_) | Self::Samples | Self::ImageParts | Self::Sources => {}
            Self::Unknown | Self::Unwanted | Self::Damaged(_) => {}
        }
    }
}
