//! Mended stacks as a trie: first of one window of samples, then of all.

use icecore_format::records::{Location, Node};

use crate::map::Map;

/// Stacks of one window. Nodes count from 1; a caller lies in front of its callees.
#[derive(Debug, Default)]
pub(super) struct Grown {
    /// Caller, 0 at the outermost frame; code.
    nodes: Vec<(u32, Location)>,
    known: Map<(u32, Location), u32>,
}

impl Grown {
    /// Adds frames, the outermost first, inside of a node (0 for none); tells the node of each.
    pub(super) fn add(
        &mut self,
        mut caller: u32,
        root_first: impl Iterator<Item = Location>,
        path: &mut Vec<u32>,
    ) {
        path.clear();
        for location in root_first {
            caller = *self.known.entry((caller, location)).or_insert_with(|| {
                self.nodes.push((caller, location));
                self.nodes.len() as u32
            });
            path.push(caller);
        }
    }
}

/// Stacks of all windows, as nodes behind those of the file.
#[derive(Debug)]
pub(super) struct Trie {
    first_id: u32,
    nodes: Vec<Node>,
    known: Map<(u32, Location), u32>,
}

impl Trie {
    pub(super) fn new(first_id: u32) -> Self {
        Self { first_id, nodes: Vec::new(), known: Map::default() }
    }

    /// Adds the stacks of a window; returns the id of each of its nodes, of node 1 first.
    pub(super) fn add(&mut self, grown: &Grown) -> Vec<u32> {
        let mut ids: Vec<u32> = Vec::with_capacity(grown.nodes.len());
        for (caller, location) in &grown.nodes {
            let parent = caller.checked_sub(1).map_or(0, |caller| ids[caller as usize]);
            let id = *self.known.entry((parent, *location)).or_insert_with(|| {
                self.nodes.push(Node { parent, location: *location });
                self.first_id.saturating_add(self.nodes.len() as u32 - 1)
            });
            ids.push(id);
        }
        ids
    }

    /// The id that the next node gets.
    pub(super) fn next_id(&self) -> u32 {
        self.first_id.saturating_add(self.nodes.len() as u32)
    }

    pub(super) fn into_nodes(self) -> Vec<Node> {
        self.nodes
    }
}
