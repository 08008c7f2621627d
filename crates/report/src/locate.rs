//! Turns the frames of stacks into places: a file offset in an image, or an address in the kernel.
//!
//! The recorder has noted most code by its offset in a file; what it could not is looked up in the mappings:
//!
//! ```text
//!   AVMA   0x7f3a_0000_1240   in the process
//!        − mapping.start      0x7f3a_0000_1000
//!        + mapping.file_off   0x0002_6000
//!   offset 0x0002_6240        in the file: the same for every process that maps it
//! ```
//!
//! The leaf of a stack is where the CPU was. Every other frame is a return address, the instruction
//! *behind* the call, which may already belong to the next line or, behind a call that never returns,
//! to the next function. So a caller is looked up one byte earlier: [`Role`] owns that −1. The leaf of
//! the user stack of a sample that hit in the kernel is the user instruction pointer that was saved at
//! kernel entry: the faulting or interrupted instruction itself, or the one behind `syscall`, which is
//! in the same function. It is exact as well.

use std::hash::Hash;

use crate::map::Map;
use icecore_format::limits;
use icecore_format::records::Location;

use crate::hits::{Hit, Key};
use crate::image::{FileOff, Identity};
use crate::load::Tables;
use crate::timeline::{SpaceId, Timeline};

/// What an address on a stack says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The instruction that was interrupted.
    Leaf,
    /// The instruction behind a call.
    Return,
}

impl Role {
    /// The address, or offset, whose name is wanted.
    pub fn lookup(self, address: u64) -> u64 {
        match self {
            Self::Leaf => address,
            Self::Return => address.saturating_sub(1),
        }
    }
}

/// Where an address lies, the same for all processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Place {
    /// In an image, a position in [`Locator::images`].
    Image(u32, FileOff),
    /// In the kernel of the part of this number.
    Kernel(u32, u64),
    /// In no mapping of its process.
    Unmapped,
    /// Unknown: it, or the rest of the stack, was in a block that is missing.
    Lost,
}

/// One frame of a stack on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Its node, a stack id.
    pub node: u32,
    /// Its code; `None` if its block is missing. Nothing follows then.
    pub location: Option<Location>,
    /// Leaf or return address.
    pub role: Role,
}

/// Lists the frames of a stack, leaf first.
pub fn steps(tables: &Tables, stack: u32) -> impl Iterator<Item = Step> + '_ {
    let mut next = stack;
    let mut role = Role::Leaf;
    std::iter::from_fn(move || {
        if next == 0 {
            return None;
        }
        let node = tables.nodes.find(next);
        let step = Step { node: next, location: node.map(|n| n.location), role };
        next = node.map_or(0, |n| n.parent);
        role = Role::Return;
        Some(step)
    })
    .take(limits::MAX_FRAMES as usize)
}

/// Finds places.
#[derive(Debug)]
pub struct Locator<'a> {
    /// The recording as tables.
    pub tables: &'a Tables,
    timeline: &'a Timeline,
    /// Distinct identities of images.
    pub images: Vec<Identity>,
    /// Position in `images` by image id.
    image_of: Map<u32, u32>,
}

impl<'a> Locator<'a> {
    /// Prepares; images that were recorded twice become one.
    pub fn new(tables: &'a Tables, timeline: &'a Timeline) -> Self {
        let mut images = Interned::default();
        let image_of = tables.images.iter().map(|(id, image)| {
            let identity = Identity {
                kind: image.kind,
                path: tables.text(image.path).to_owned(),
                build_id: image.build_id.clone(),
                size_bytes: image.size_bytes,
                modified_unix_ns: image.modified_unix_ns,
            };
            (id, images.intern(identity))
        });
        let image_of = image_of.collect();
        Self { tables, timeline, images: images.items, image_of }
    }

    /// Finds the offset in its image of a location itself, whatever its role.
    pub fn file_off(&self, space: Option<SpaceId>, location: Location) -> Option<FileOff> {
        match location {
            Location::Image { file_off, .. } => Some(FileOff(file_off)),
            Location::Address(address) => {
                let mapping = self.timeline.find(space?, address)?;
                Some(FileOff((address - mapping.start).wrapping_add(mapping.file_off)))
            }
        }
    }

    /// Finds the address (AVMA) of a frame; `None` if the mapping that shows its code is not known.
    pub fn address(&self, space: Option<SpaceId>, step: Step) -> Option<u64> {
        match step.location? {
            Location::Address(address) => Some(address),
            Location::Image { image, file_off } => {
                let lookup = step.role.lookup(file_off);
                let address = self.timeline.address(space?, image, lookup)?;
                Some(address + (file_off - lookup))
            }
        }
    }

    /// Finds the place of a frame of a user stack.
    pub fn user(&self, space: Option<SpaceId>, step: Step) -> Place {
        let (image, off) = match step.location {
            None => return Place::Lost,
            Some(Location::Image { image, file_off }) => (image, step.role.lookup(file_off)),
            Some(Location::Address(address)) => {
                let lookup = step.role.lookup(address);
                match space.and_then(|space| self.timeline.find(space, lookup)) {
                    Some(m) => (m.image, (lookup - m.start).wrapping_add(m.file_off)),
                    None => return Place::Unmapped,
                }
            }
        };
        self.image_of.get(&image).map_or(Place::Lost, |image| Place::Image(*image, FileOff(off)))
    }

    /// Finds the place of a frame of a kernel stack.
    pub fn kernel(&self, step: Step) -> Place {
        match step.location {
            Some(Location::Address(address)) => {
                Place::Kernel(self.tables.parts.of_node(step.node), step.role.lookup(address))
            }
            _ => Place::Lost,
        }
    }
}

/// Distinct stacks as a trie of places, root first.
#[derive(Debug)]
pub struct Located {
    /// Distinct places, in the order of their first use.
    pub places: Vec<Place>,
    /// The trie: caller (0 at the outermost frame, else a position behind it) and place. A caller comes
    /// before its callees; entry 0 is the empty stack.
    pub spots: Vec<Spot>,
    /// The innermost frame of each row of the hits, a position in `spots`.
    pub leaves: Vec<u32>,
    positions: Map<Place, u32>,
}

impl Located {
    /// Finds the position of a place in [`Located::places`].
    pub fn position(&self, place: Place) -> Option<usize> {
        self.positions.get(&place).map(|position| *position as usize)
    }
}

/// One frame of the trie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spot {
    /// The caller, a position in [`Located::spots`].
    pub caller: u32,
    /// A position in [`Located::places`].
    pub place: u32,
}

/// Finds the places of all distinct stacks: kernel frames on top of the user frames that called them.
///
/// # Cost
/// One search of a mapping for each distinct (address space, node of the trie).
pub fn locate(locator: &Locator<'_>, hits: &[Hit]) -> Located {
    let mut trie = Trie::default();
    let mut user_memo: Map<(Option<SpaceId>, u32), u32> = Map::default();
    let mut kernel_memo: Map<(u32, u32), u32> = Map::default();
    trie.spots.intern(Spot { caller: u32::MAX, place: u32::MAX });
    // Threads of a process hit the same stacks.
    let mut known: Map<(Option<SpaceId>, u32, u32), u32> = Map::default();
    let leaves = hits.iter().map(|hit| {
        let Key { space, user, kernel, .. } = hit.key;
        *known.entry((space, user, kernel)).or_insert_with(|| {
            let name = |node| (space, node);
            let below =
                trie.descend(locator, user, 0, name, &mut user_memo, |step| locator.user(space, step));
            let name = |node| (below, node);
            trie.descend(locator, kernel, below, name, &mut kernel_memo, |step| locator.kernel(step))
        })
    });
    let leaves = leaves.collect();
    let Interned { items: places, positions } = trie.places;
    Located { places, spots: trie.spots.items, leaves, positions }
}

#[derive(Default)]
struct Trie {
    places: Interned<Place>,
    spots: Interned<Spot>,
}

impl Trie {
    /// Hangs the stack that ends at the node `leaf` below the spot `base`, and returns its innermost
    /// spot. `memo` knows the callers that were hung there before; `name` is what it knows them by.
    fn descend<K: Eq + Hash>(
        &mut self,
        locator: &Locator<'_>,
        leaf: u32,
        base: u32,
        name: impl Fn(u32) -> K,
        memo: &mut Map<K, u32>,
        place: impl Fn(Step) -> Place,
    ) -> u32 {
        let mut fresh = Vec::new();
        let mut spot = base;
        for step in steps(locator.tables, leaf) {
            match memo.get(&name(step.node)).filter(|_| step.role == Role::Return) {
                Some(known) => {
                    spot = *known;
                    break;
                }
                None => fresh.push(step),
            }
        }
        for step in fresh.into_iter().rev() {
            let place = self.places.intern(place(step));
            spot = self.spots.intern(Spot { caller: spot, place });
            if step.role == Role::Return {
                memo.insert(name(step.node), spot);
            }
        }
        spot
    }
}

/// Values that are stored once and named by position.
#[derive(Debug)]
pub(crate) struct Interned<T> {
    pub(crate) items: Vec<T>,
    positions: Map<T, u32>,
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self { items: Vec::new(), positions: Map::default() }
    }
}

impl<T: Clone + Eq + Hash> Interned<T> {
    pub(crate) fn intern(&mut self, item: T) -> u32 {
        if let Some(position) = self.positions.get(&item) {
            return *position;
        }
        let position = self.items.len() as u32;
        self.items.push(item.clone());
        self.positions.insert(item, position);
        position
    }
}

#[cfg(test)]
mod tests;
