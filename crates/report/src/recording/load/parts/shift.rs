//! The rows of a block, one kind after the other, under numbers that are unique in the file.

use icecore_format::records::{Location, Word};

use super::{Counted, Part};
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
        if let Some((what, first, len)) = block.ids() {
            let ids = self.ids[what as usize];
            let end = u64::from(ids.base) + u64::from(first) + len as u64;
            if end > u64::from(u32::MAX) {
                return Err(format!("id {end} of all sessions together is too large"));
            }
        }
        match block {
            Decoded::Strings(first, _) => *first = self.first(Counted::Strings, *first),
            Decoded::Tasks(first, rows) => {
                *first = self.first(Counted::Tasks, *first);
                for row in rows {
                    (row.tgid, row.tid) = (self.pid(row.tgid), self.pid(row.tid));
                    row.comm = self.id(Counted::Strings, row.comm);
                }
            }
            Decoded::Images(first, rows) => {
                *first = self.first(Counted::Images, *first);
                rows.iter_mut().for_each(|row| row.path = self.id(Counted::Strings, row.path));
            }
            Decoded::Nodes(first, rows) => {
                *first = self.first(Counted::Nodes, *first);
                for row in rows {
                    row.parent = self.id(Counted::Nodes, row.parent);
                    if let Location::Image { image, .. } = &mut row.location {
                        *image = self.id(Counted::Images, *image);
                    }
                }
            }
            Decoded::Marks(rows) => {
                rows.iter_mut().for_each(|(node, _)| *node = self.id(Counted::Nodes, *node));
            }
            Decoded::Lifecycle(rows) => {
                for row in rows {
                    row.time_ns = self.time_ns(row.time_ns);
                    (row.tgid, row.tid) = (self.pid(row.tgid), self.pid(row.tid));
                    row.parent_tgid = self.pid(row.parent_tgid);
                    row.comm = self.id(Counted::Strings, row.comm);
                }
            }
            Decoded::Cgroups(rows) => {
                for row in rows {
                    row.time_ns = self.time_ns(row.time_ns);
                    (row.tgid, row.tid) = (self.pid(row.tgid), self.pid(row.tid));
                    row.path = self.id(Counted::Strings, row.path);
                }
            }
            Decoded::Mappings(rows) => {
                for row in rows {
                    (row.time_ns, row.tgid) = (self.time_ns(row.time_ns), self.pid(row.tgid));
                    row.image = self.id(Counted::Images, row.image);
                }
            }
            Decoded::KernelSymbols(rows) => {
                for row in rows {
                    row.name = self.id(Counted::Strings, row.name);
                    row.module = self.id(Counted::Strings, row.module);
                }
            }
            Decoded::Symbols(rows) => {
                rows.iter_mut().for_each(|row| row.image = self.id(Counted::Images, row.image));
            }
            Decoded::Jit(rows) => {
                for row in rows {
                    row.tgid = self.pid(row.tgid);
                    // Zeros are no times: from the beginning, to the end.
                    let times = [&mut row.since_ns, &mut row.until_ns].into_iter().filter(|ns| **ns > 0);
                    times.for_each(|ns| *ns = self.time_ns(*ns));
                    row.lines.iter_mut().for_each(|line| line.file = self.id(Counted::Strings, line.file));
                }
            }
            Decoded::CallSites(rows) => {
                for row in rows {
                    let (first_ns, last_ns) = (self.time_ns(row.first_ns), self.time_ns(row.last_ns));
                    (row.tgid, row.first_ns, row.last_ns) = (self.pid(row.tgid), first_ns, last_ns);
                }
            }
            Decoded::Names(table) => {
                table.places.iter_mut().for_each(|row| row.image = self.id(Counted::Images, row.image));
            }
            Decoded::LeftOut(rows) => {
                rows.iter_mut().for_each(|row| row.image = self.id(Counted::Images, row.image));
            }
            Decoded::StackCode(first, rows) => {
                *first = self.first(Counted::StackCode, *first);
                for location in rows {
                    if let Location::Image { image, .. } = location {
                        *image = self.id(Counted::Images, *image);
                    }
                }
            }
            Decoded::StackPieces(first, rows) => {
                *first = self.first(Counted::StackPieces, *first);
                rows.iter_mut().flat_map(|piece| &mut piece.words).for_each(|word| self.word(word));
            }
            Decoded::StackNodes(first, rows) => {
                *first = self.first(Counted::StackNodes, *first);
                for row in rows {
                    row.outer = self.id(Counted::StackNodes, row.outer);
                    row.piece = self.id(Counted::StackPieces, row.piece);
                }
            }
            Decoded::Snapshots(first, rows) => {
                *first = self.first(Counted::Snapshots, *first);
                for row in rows {
                    row.memory = self.id(Counted::StackNodes, row.memory);
                    row.registers.iter_mut().for_each(|word| self.word(word));
                }
            }
            Decoded::UnwindRules(rows) => {
                rows.iter_mut().for_each(|row| row.image = self.id(Counted::Images, row.image));
            }
            Decoded::CpuTimes(rows) => {
                rows.iter_mut().for_each(|row| *row = self.cpu_time(*row));
            }
            Decoded::Losses(rows) => rows.iter_mut().for_each(|row| row.time_ns = self.time_ns(row.time_ns)),
            Decoded::Session(_)
            | Decoded::Receipt(_)
            | Decoded::Samples
            | Decoded::ImageParts
            | Decoded::Unknown
            | Decoded::Unwanted
            | Decoded::Damaged(_) => {}
        }
        Ok(())
    }

    fn word(&self, word: &mut Word) {
        if let Word::Code(code) = word {
            *code = self.id(Counted::StackCode, *code);
        }
    }

    /// The first id of a block: not yet looked at for holes.
    fn first(&self, what: Counted, own: u32) -> u32 {
        self.ids[what as usize].base.saturating_add(own)
    }
}

impl Decoded {
    /// What it counts: the first id, and how many rows it has.
    pub(super) fn ids(&self) -> Option<(Counted, u32, usize)> {
        match self {
            Self::Strings(first, rows) => Some((Counted::Strings, *first, rows.len())),
            Self::Tasks(first, rows) => Some((Counted::Tasks, *first, rows.len())),
            Self::Images(first, rows) => Some((Counted::Images, *first, rows.len())),
            Self::Nodes(first, rows) => Some((Counted::Nodes, *first, rows.len())),
            Self::StackCode(first, rows) => Some((Counted::StackCode, *first, rows.len())),
            Self::StackPieces(first, rows) => Some((Counted::StackPieces, *first, rows.len())),
            Self::StackNodes(first, rows) => Some((Counted::StackNodes, *first, rows.len())),
            Self::Snapshots(first, rows) => Some((Counted::Snapshots, *first, rows.len())),
            _ => None,
        }
    }
}
