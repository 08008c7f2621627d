//! RepairedStacks stacks as a trie: first of one window of samples, then of all.

use icecore_format::records::{Location, Mark, Node};

use crate::base::map::Map;

/// A frame of a stack: its code, and what else is to be known of it.
pub(super) type Framed = (Location, Mark);

/// Stacks of one window. Nodes count from 1; a caller lies in front of its callees.
#[derive(Debug, Default)]
pub(super) struct Grown {
    /// Caller, 0 at the outermost frame; frame.
    nodes: Vec<(u32, Framed)>,
    known: Map<(u32, Framed), u32>,
}

impl Grown {
    /// Adds frames, the outermost first, inside of a node (0 for none); tells the node of each.
    pub(super) fn add(
        &mut self,
        mut caller: u32,
        root_first: impl Iterator<Item = Framed>,
        path: &mut Vec<u32>,
    ) {
        path.clear();
        for framed in root_first {
            caller = *self.known.entry((caller, framed)).or_insert_with(|| {
                self.nodes.push((caller, framed));
                self.nodes.len() as u32
            });
            path.push(caller);
        }
    }
}

/// Stacks of all batches, as nodes behind those of the file.
#[derive(Debug)]
pub(super) struct Trie {
    first_id: u32,
    nodes: Vec<Node>,
    /// Of those that have any.
    marks: Vec<(u32, Mark)>,
    known: Map<(u32, Framed), u32>,
}

impl Trie {
    pub(super) fn new(first_id: u32) -> Self {
        Self { first_id, nodes: Vec::new(), marks: Vec::new(), known: Map::default() }
    }

    /// Adds the stacks of a window; returns the id of each of its nodes, of node 1 first.
    pub(super) fn add(&mut self, grown: &Grown) -> Vec<u32> {
        let mut ids: Vec<u32> = Vec::with_capacity(grown.nodes.len());
        for (caller, framed) in &grown.nodes {
            let parent = caller.checked_sub(1).map_or(0, |caller| ids[caller as usize]);
            let id = *self.known.entry((parent, *framed)).or_insert_with(|| {
                let (location, mark) = *framed;
                self.nodes.push(Node { parent, location });
                let id = self.first_id.saturating_add(self.nodes.len() as u32 - 1);
                self.marks.extend((mark != Mark::NONE).then_some((id, mark)));
                id
            });
            ids.push(id);
        }
        ids
    }

    /// The id that the next node gets.
    pub(super) fn next_id(&self) -> u32 {
        self.first_id.saturating_add(self.nodes.len() as u32)
    }

    /// The nodes, and the marks of those that have any.
    pub(super) fn into_nodes(self) -> (Vec<Node>, Vec<(u32, Mark)>) {
        (self.nodes, self.marks)
    }
}
