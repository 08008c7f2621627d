//! Stacks as a trie: a stack is its outermost frame's node, its caller's node, … down to the leaf.

use icecore_format::records::{Node, StacksV1};
use rustc_hash::FxHashMap;

/// Nodes that are remembered before all are forgotten: about 30 MB.
const REMEMBERED: usize = 512 << 10;

/// Gives every distinct stack an id; hands new nodes over once.
#[derive(Debug)]
pub(crate) struct Stacks {
    ids: FxHashMap<(u32, u64), u32>,
    new: StacksV1,
}

impl Default for Stacks {
    fn default() -> Self {
        Self { ids: FxHashMap::default(), new: StacksV1::starting_at(1) }
    }
}

impl Stacks {
    /// The id of a stack, 0 if it is empty. `on_new` sees the address of every new node.
    ///
    /// # Shape
    /// `root_first`: outermost frame first
    pub(crate) fn id(&mut self, root_first: impl Iterator<Item = u64>, mut on_new: impl FnMut(u64)) -> u32 {
        // Between stacks, so that a forgotten parent cannot be half of one.
        if self.ids.len() >= REMEMBERED {
            self.ids.clear();
        }
        root_first.fold(0, |parent, address| {
            *self.ids.entry((parent, address)).or_insert_with(|| {
                on_new(address);
                self.new.push(Node { parent, address })
            })
        })
    }

    /// Nodes that wait to be written.
    pub(crate) fn waiting(&self) -> usize {
        self.new.address.len()
    }

    /// Hands over the nodes that are new since the last call.
    pub(crate) fn take_new(&mut self) -> StacksV1 {
        let next = self.new.first_id + self.new.address.len() as u32;
        std::mem::replace(&mut self.new, StacksV1::starting_at(next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_callers_are_stored_once() {
        let mut stacks = Stacks::default();
        let mut seen = Vec::new();
        let a = stacks.id([1, 2, 3].into_iter(), |address| seen.push(address));
        let b = stacks.id([1, 2, 4].into_iter(), |address| seen.push(address));
        assert_eq!((a, b, seen), (3, 4, vec![1, 2, 3, 4]));
        assert_eq!(stacks.id([1, 2, 3].into_iter(), |_| panic!("known")), 3);
        assert_eq!(stacks.id([].into_iter(), |_| ()), 0);
        let new = stacks.take_new();
        assert_eq!((new.first_id, new.address, new.parent_back), (1, vec![1, 2, 3, 4], vec![0, 1, 1, 2]));
        assert_eq!(stacks.id([1, 2, 5].into_iter(), |_| ()), 5);
        let new = stacks.take_new();
        assert_eq!((new.first_id, new.parent_back), (5, vec![3]));
    }
}
