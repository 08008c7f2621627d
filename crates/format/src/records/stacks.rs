//! The trie of stacks, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{IdTable, Reference, References, payload, references, rows_of};
use crate::error::Error;
use crate::kind::Kind;

/// Where the code of a frame lies: where a leaf was interrupted, or the return address of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Location {
    /// An address in the process (AVMA), or of the kernel.
    Address(u64),
    /// An offset in a file: the same for every process that has mapped it. The mappings of a sample's process
    /// tell its address.
    Image {
        /// The image, an image id.
        image: u32,
        /// Offset in the file, bytes.
        file_off: u64,
    },
}

impl Location {
    /// The bit of the address of an instruction (bytecode) that an interpreter runs. The machine frame that runs it is the next one that is
    /// none of those; what such an instruction calls comes before it. An address of 0 is that of code that was gone when its name was read.
    pub const INTERPRETED: u64 = 1 << 62;

    /// Returns the address in the process, if that is what is known.
    pub fn address(self) -> Option<u64> {
        match self {
            Self::Address(address) => Some(self.interpreted().unwrap_or(address)),
            Self::Image { .. } => None,
        }
    }

    /// Returns the address of the instruction, if an interpreter runs it.
    pub fn interpreted(self) -> Option<u64> {
        match self {
            Self::Address(address) if address >> 62 == 1 => Some(address & !Self::INTERPRETED),
            Self::Address(_) | Self::Image { .. } => None,
        }
    }
}

/// One frame of the trie: the stack that ends here is this location, called by the stack `parent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    /// The caller's node; 0 at the outermost frame.
    pub parent: u32,
    /// Its code.
    pub location: Location,
}

impl References for Location {
    #[inline]
    fn visit(&mut self, see: &mut impl FnMut(Reference<'_>)) {
        match self {
            Self::Address(_) => {}
            Self::Image { image, file_off: _ } => see(Reference::Id(IdTable::Images, image)),
        }
    }
}

references!(Node { parent: id(Stacks), location: within });

/// Nodes of the trie. Ids count up from 1 over the whole session; 0 is the empty stack. A parent always
/// has a smaller id than its children. User and kernel stacks share the trie.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StacksV1 {
    /// What kernel offsets are added to.
    pub kernel_base: u64,
    /// Id of the first node in this block.
    pub first_id: u32,
    /// Parents: 0 none, 1 the node before this one, else the parent's id + 1.
    pub parent: Packed,
    /// What an offset counts from: 0 nothing, 1 the kernel's base, else an image, its id + 2.
    pub base: Packed,
    /// Offsets of the nodes whose base is not 1, in their order.
    pub offset: Packed,
    /// Offsets of the nodes whose base is 1, in their order.
    pub kernel_offset: Packed,
}

payload!(
    StacksV1, ArchivedStacksV1, Kind::STACKS, 1, count base, same parent, other offset, other kernel_offset
);

/// Addresses from here on are the kernel's.
const KERNEL_HALF: u64 = 1 << 63;
/// Kernel code lies close together: its base is a multiple of this.
const KERNEL_BASE_ALIGN: u64 = 1 << 32;

impl StacksV1 {
    /// Builds the columns; the first row has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if a parent does not lie before its child.
    pub fn from_rows(first_id: u32, rows: &[Node]) -> Result<Self, Error> {
        let kernel = rows.iter().filter_map(|node| match node.location {
            Location::Address(address) if address >= KERNEL_HALF => Some(address),
            _ => None,
        });
        let kernel_base = kernel.min().unwrap_or(0) / KERNEL_BASE_ALIGN * KERNEL_BASE_ALIGN;
        let mut columns = Self { kernel_base, first_id, ..Self::default() };
        let (mut parents, mut bases) = (Vec::with_capacity(rows.len()), Vec::with_capacity(rows.len()));
        let (mut offsets, mut kernel_offsets) = (Vec::new(), Vec::new());
        for (id, node) in (u64::from(first_id)..).zip(rows) {
            let parent = u64::from(node.parent);
            if parent >= id {
                let cause = format!("node {id} cannot have the parent {parent}");
                return Err(Error::Payload { kind: Kind::STACKS, cause });
            }
            parents.push(match parent {
                0 => 0,
                _ if parent + 1 == id => 1,
                _ => parent + 1,
            });
            match node.location {
                Location::Address(address) if address >= KERNEL_HALF => {
                    bases.push(1);
                    kernel_offsets.push(address - kernel_base);
                }
                Location::Address(address) => {
                    bases.push(0);
                    offsets.push(address);
                }
                Location::Image { image, file_off } => {
                    bases.push(u64::from(image) + 2);
                    offsets.push(file_off);
                }
            }
        }
        columns.parent = parents.into_iter().collect();
        columns.base = bases.into_iter().collect();
        columns.offset = offsets.into_iter().collect();
        columns.kernel_offset = kernel_offsets.into_iter().collect();
        Ok(columns)
    }
}

impl ArchivedStacksV1 {
    /// Lists the nodes; the first has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if a parent is not before its child, ids run over, or an offset is missing.
    pub fn rows(&self) -> Result<Vec<Node>, Error> {
        let first = self.first_id.to_native();
        let wrong = |i: usize, cause: &str| Error::Payload {
            kind: Kind::STACKS,
            cause: format!("node {i}: {cause}"),
        };
        rows_of(Kind::STACKS, "offset", &self.offset)?;
        rows_of(Kind::STACKS, "kernel_offset", &self.kernel_offset)?;
        let mut offsets = self.offset.values().into_iter();
        let mut kernel_offsets = self.kernel_offset.values().into_iter();
        let kernel_base = self.kernel_base.to_native();
        let columns = self.parent.values().into_iter().zip(self.base.values()).enumerate();
        let node = |(i, (parent, base)): (usize, (u64, u64))| {
            let id = u32::try_from(i).ok().and_then(|i| first.checked_add(i)).filter(|id| *id > 0);
            let id = id.ok_or_else(|| wrong(i, "id runs over"))?;
            let parent = match parent {
                0 => 0,
                1 => id - 1,
                parent => narrow(parent - 1),
            };
            if parent >= id {
                return Err(wrong(i, "its parent is not before it"));
            }
            let offset = if base == 1 { kernel_offsets.next() } else { offsets.next() };
            let offset = offset.ok_or_else(|| wrong(i, "it has no offset"))?;
            let location = match base {
                0 => Location::Address(offset),
                1 => Location::Address(kernel_base.wrapping_add(offset)),
                base => Location::Image { image: narrow(base - 2), file_off: offset },
            };
            Ok(Node { parent, location })
        };
        columns.map(node).collect()
    }
}
