//! Stores stacks as a trie: a stack is a path from the node of its outermost frame down to that of its leaf.

use icecore_elf::{Avma, FileOff};
use icecore_format::records::{Location, Mark, Node, WalkEnd};
use rustc_hash::FxHashMap;

use crate::kernel::wire::interrupted;
use crate::track::spaces::Space;

/// The number of nodes, and of caller locations, that are remembered before all are forgotten: about 30 MB.
const REMEMBERED: usize = 512 << 10;

/// Gives every distinct stack an id; hands new nodes over once.
#[derive(Debug)]
pub(crate) struct Stacks {
    ids: FxHashMap<(Node, Mark), u32>,
    /// The code at return addresses, by version of the address space and address.
    callers: FxHashMap<(u32, Avma), Option<Location>>,
    /// The locations of the current user stack, leaf first.
    located: Vec<Frame>,
    first_new: u32,
    new: Vec<Node>,
    /// Marks of the new nodes that have any.
    marks: Vec<(u32, Mark)>,
    hits: Hits,
}

/// A frame of a stack.
pub(crate) type Frame = (Location, Mark);

/// The code in images that samples hit.
#[derive(Debug, Default)]
pub(crate) struct Hits {
    /// The number of hits by image: one for each sample whose leaf is there, and one for each distinct caller.
    pub(crate) counts: FxHashMap<u32, u64>,
    /// Code that stacks store by its address, since the process has mapped the image twice: image and offset in its file.
    pub(crate) by_address: Vec<(u32, FileOff)>,
}

impl Hits {
    fn note(&mut self, space: &Space, address: Avma, location: Location) {
        let image = match location {
            Location::Image { image, .. } => Some(image),
            Location::Address(_) => space.code(address).map(|code| {
                self.by_address.push(code);
                code.0
            }),
        };
        if let Some(image) = image {
            *self.counts.entry(image).or_default() += 1;
        }
    }
}

impl Default for Stacks {
    fn default() -> Self {
        let (ids, callers, located, new, marks, hits) = Default::default();
        Self { ids, callers, located, first_new: 1, new, marks, hits }
    }
}

/// The file has 2³² nodes, and ids have no room for more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

impl Stacks {
    /// Returns the id of a user stack, 0 if it is empty, and how its walk ended.
    ///
    /// Code in files is stored by its offset in the file, so that processes that run the same code share
    /// their stacks. The stack is cut at the first return address that is not code: see [`WalkEnd::NOT_CODE`].
    /// This check needs a complete `space`. Without one, or if even the leaf is not in it, unknown addresses
    /// are kept as they are.
    pub(crate) fn user(
        &mut self,
        space: Option<&Space>,
        leaf_first: &[Avma],
        end: WalkEnd,
    ) -> Result<(u32, WalkEnd), Exhausted> {
        self.located.clear();
        // What an interpreter runs in the leaf comes before it.
        let before = leaf_first.iter().take_while(|address| is_interpreted(**address)).count();
        let (interpreted, machine) = leaf_first.split_at(before);
        let Some((leaf, callers)) = machine.split_first() else { return Ok((0, end)) };
        let address = interrupted(*leaf).unwrap_or(*leaf);
        let known = space.and_then(|space| Some((space, space.locate(address)?)));
        let Some((space, location)) = known else {
            return Ok((self.id(leaf_first.iter().rev().map(|address| as_it_is(*address)))?, end));
        };
        self.hits.note(space, address, location);
        let mut located = std::mem::take(&mut self.located);
        located.extend(interpreted.iter().map(|address| as_it_is(*address)));
        located.push((location, as_it_is(*leaf).1));
        let unknown =
            |address: Avma| (!space.is_complete() || is_interpreted(address)).then_some(as_it_is(address));
        located.extend(callers.iter().map_while(|a| self.outer(space, *a).or_else(|| unknown(*a))));
        let end = if located.len() < leaf_first.len() { WalkEnd::NOT_CODE } else { end };
        let id = self.id(located.iter().rev().copied());
        self.located = located;
        Ok((id?, end))
    }

    /// Returns the id of a stack, whose outermost frame comes first; 0 if it is empty.
    pub(crate) fn id(&mut self, root_first: impl Iterator<Item = Frame>) -> Result<u32, Exhausted> {
        // The trie is cleared only between two stacks, so that no stack has a forgotten parent.
        if self.ids.len() >= REMEMBERED {
            self.ids.clear();
        }
        let mut parent = 0;
        for (location, mark) in root_first {
            let node = Node { parent, location };
            parent = match self.ids.get(&(node, mark)) {
                Some(id) => *id,
                None => self.push(node, mark)?,
            };
        }
        Ok(parent)
    }

    /// Forgets all stacks, to give back their memory. Ids go on counting.
    pub(crate) fn forget(&mut self) {
        (self.ids, self.callers) = Default::default();
    }

    /// Returns the addresses of the last user stack that are stored as addresses: their code is in no file, or in one that is mapped
    /// twice. There are none if the address space of the process is unknown.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = Avma> + '_ {
        self.located.iter().filter_map(|(location, _)| match location {
            Location::Address(address) if location.interpreted().is_none() => Some(Avma(*address)),
            _ => None,
        })
    }

    /// Returns the newest id.
    pub(crate) fn newest(&self) -> u32 {
        self.first_new + self.new.len() as u32 - 1
    }

    /// Returns the nodes that wait to be written.
    pub(crate) fn waiting(&self) -> &[Node] {
        &self.new
    }

    /// Hands over the nodes that are new since the last call, and the id of the first.
    pub(crate) fn take_new(&mut self) -> (u32, Vec<Node>) {
        let next = self.newest() + 1;
        (std::mem::replace(&mut self.first_new, next), std::mem::take(&mut self.new))
    }

    /// Hands over the marks of nodes that are new since the last call.
    pub(crate) fn take_marks(&mut self) -> Vec<(u32, Mark)> {
        std::mem::take(&mut self.marks)
    }

    /// Hands over the hits since the last call.
    pub(crate) fn take_hits(&mut self) -> Hits {
        std::mem::take(&mut self.hits)
    }

    fn push(&mut self, node: Node, mark: Mark) -> Result<u32, Exhausted> {
        let id = self.newest().checked_add(1).filter(|id| *id < u32::MAX).ok_or(Exhausted)?;
        self.new.push(node);
        self.ids.insert((node, mark), id);
        self.marks.extend((mark != Mark::NONE).then_some((id, mark)));
        Ok(id)
    }

    /// Returns the frame that a walk has found outside of another one; `None` if that is no machine code.
    fn outer(&mut self, space: &Space, found: Avma) -> Option<Frame> {
        if is_interpreted(found) {
            return None;
        }
        let Some(address) = interrupted(found) else { return Some((self.caller(space, found)?, Mark::NONE)) };
        let location = space.locate(address)?;
        self.hits.note(space, address, location);
        Some((location, Mark::INTERRUPTED))
    }

    /// Returns the code of a return address. The lookup is one byte earlier, because the code may end after a
    /// call that never returns.
    fn caller(&mut self, space: &Space, address: Avma) -> Option<Location> {
        if self.callers.len() >= REMEMBERED {
            self.callers.clear();
        }
        let key = (space.version(), address);
        if let Some(known) = self.callers.get(&key) {
            return *known;
        }
        let call = address.wrapping_sub(1);
        let call = space.locate(call).map(|location| (call, location));
        let location = call.map(|(call, location)| {
            self.hits.note(space, call, location);
            match location {
                Location::Image { image, file_off } => {
                    Location::Image { image, file_off: file_off.wrapping_add(1) }
                }
                Location::Address(_) => Location::Address(address.0),
            }
        });
        self.callers.insert(key, location);
        location
    }
}

fn is_interpreted(address: Avma) -> bool {
    Location::Address(address.0).interpreted().is_some()
}

/// Returns a frame of which nothing is known but its address.
fn as_it_is(found: Avma) -> Frame {
    match interrupted(found) {
        Some(address) => (Location::Address(address.0), Mark::INTERRUPTED),
        None => (Location::Address(found.0), Mark::NONE),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::track::spaces::{Region, Spaces};

    fn addresses(list: &[u64]) -> impl Iterator<Item = Frame> + '_ {
        list.iter().map(|address| (Location::Address(*address), Mark::NONE))
    }

    #[test]
    fn common_callers_are_stored_once() {
        let mut stacks = Stacks::default();
        assert_eq!(stacks.id(addresses(&[1, 2, 3])), Ok(3));
        assert_eq!(stacks.id(addresses(&[1, 2, 4])), Ok(4));
        assert_eq!(stacks.id(addresses(&[1, 2, 3])), Ok(3));
        assert_eq!(stacks.id(addresses(&[])), Ok(0));
        let parents = |new: &[Node]| new.iter().map(|node| node.parent).collect::<Vec<_>>();
        let (first, new) = stacks.take_new();
        assert_eq!((first, parents(&new)), (1, vec![0, 1, 2, 2]));
        assert_eq!(stacks.id(addresses(&[1, 2, 5])), Ok(5));
        let (first, new) = stacks.take_new();
        assert_eq!((first, parents(&new), stacks.newest()), (5, vec![2], 5));
    }

    /// `0x1000..0x2000` shows image 3 from 0x500 on, `0x8000..0x9000` is JIT code.
    fn space(spaces: &mut Spaces) -> &Space {
        spaces.map(
            1,
            Avma(0x1000),
            Region {
                end: Avma(0x2000),
                image: Some(3),
                file_off: FileOff(0x500),
                since_ns: 0,
                is_twice: false,
                ..Region::default()
            },
        );
        spaces.map(
            1,
            Avma(0x8000),
            Region {
                end: Avma(0x9000),
                image: None,
                file_off: FileOff(0),
                since_ns: 0,
                is_twice: false,
                ..Region::default()
            },
        );
        spaces.complete(1);
        spaces.of(1).expect("just mapped")
    }

    #[test]
    fn nothing_is_cut_in_a_space_that_may_have_more() {
        let (mut spaces, mut stacks) = (Spaces::default(), Stacks::default());
        spaces.map(
            1,
            Avma(0x1000),
            Region {
                end: Avma(0x2000),
                image: Some(3),
                file_off: FileOff(0),
                since_ns: 0,
                is_twice: false,
                ..Region::default()
            },
        );
        let walked = [0x1010, 0x7777, 0x1020].map(Avma);
        assert_eq!(stacks.user(spaces.of(1), &walked, WalkEnd::ROOT), Ok((3, WalkEnd::ROOT)));
        assert_eq!(stacks.waiting()[1].location, Location::Address(0x7777));
    }

    #[test]
    fn a_stack_is_cut_where_a_return_address_is_no_code() {
        let (mut spaces, mut stacks) = (Spaces::default(), Stacks::default());
        let space = space(&mut spaces);
        // The return address of a call that never returns may lie after the last byte of the code.
        let walked = [0x1010, 0x8020, 0x2000, 0x7777, 0x1020].map(Avma);
        assert_eq!(stacks.user(Some(space), &walked, WalkEnd::ROOT), Ok((3, WalkEnd::NOT_CODE)));
        let image = |file_off| Location::Image { image: 3, file_off };
        let locations: Vec<Location> = stacks.waiting().iter().map(|node| node.location).collect();
        assert_eq!(locations, [image(0x1500), Location::Address(0x8020), image(0x510)]);
        assert_eq!(stacks.user(Some(space), &walked[..3], WalkEnd::DEPTH), Ok((3, WalkEnd::DEPTH)));
    }

    #[test]
    fn nothing_is_cut_if_it_is_not_known_where_code_is() {
        let (mut spaces, mut stacks) = (Spaces::default(), Stacks::default());
        let space = space(&mut spaces);
        for space in [None, Some(space)] {
            assert_eq!(stacks.user(space, &[0x66, 0x1010].map(Avma), WalkEnd::ROOT), Ok((2, WalkEnd::ROOT)));
        }
        assert_eq!(stacks.waiting().len(), 2);
        assert_eq!(stacks.user(Some(space_of(&spaces)), &[], WalkEnd::NONE), Ok((0, WalkEnd::NONE)));
    }

    fn space_of(spaces: &Spaces) -> &Space {
        spaces.of(1).expect("mapped")
    }

    #[test]
    fn more_nodes_than_ids_are_an_error() {
        let mut stacks = Stacks { first_new: u32::MAX - 1, ..Stacks::default() };
        assert_eq!(stacks.id(addresses(&[1])), Ok(u32::MAX - 1));
        assert_eq!(stacks.id(addresses(&[2])), Err(Exhausted));
        assert_eq!(stacks.id(addresses(&[1])), Ok(u32::MAX - 1));
    }
}
