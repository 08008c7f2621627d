//! Stores repaired stacks as a trie: first those of one batch of samples, then all.

use icecore_format::records::{Location, Mark, Node};

use crate::map::Map;

/// A frame of a stack: its code and its mark.
pub(super) type Framed = (Location, Mark);

/// The stacks of one batch. Nodes are numbered from 1; a caller comes before its callees.
#[derive(Debug, Default)]
pub(super) struct Grown {
    /// The caller, 0 at the outermost frame; and the frame.
    nodes: Vec<(u32, Framed)>,
    known: Map<(u32, Framed), u32>,
}

impl Grown {
    /// Adds frames, the outermost first, below the caller `outer` (0 for none); returns the node of each.
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

/// The stacks of all batches, as nodes that follow those of the file.
#[derive(Debug)]
pub(super) struct Trie {
    first_id: u32,
    nodes: Vec<Node>,
    /// Marks of the nodes that have any.
    marks: Vec<(u32, Mark)>,
    known: Map<(u32, Framed), u32>,
}

impl Trie {
    pub(super) fn new(first_id: u32) -> Self {
        Self { first_id, nodes: Vec::new(), marks: Vec::new(), known: Map::default() }
    }

    /// Adds the stacks of a batch; returns the ids of its nodes, beginning with node 1.
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

    /// Returns the id of the next node.
    pub(super) fn next_id(&self) -> u32 {
        self.first_id.saturating_add(self.nodes.len() as u32)
    }

    /// Returns the nodes, and the marks of those that have any.
    pub(super) fn into_nodes(self) -> (Vec<Node>, Vec<(u32, Mark)>) {
        (self.nodes, self.marks)
    }
}
