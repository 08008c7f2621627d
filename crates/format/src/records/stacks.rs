//! The trie of stacks, version 1.

use rkyv::{Archive, Serialize};

use super::payload;
use crate::Error;
use crate::block::Kind;

/// One frame of the trie: the stack that ends here is this address, called by the stack `parent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Node {
    /// The caller's node; 0 at the outermost frame.
    pub parent: u32,
    /// Program counter (AVMA): of a leaf where it was interrupted, of a caller the return address.
    pub address: u64,
}

/// Nodes of the trie. Ids count up from 1 over the whole file; 0 is the empty stack. A parent always
/// has a smaller id than its children. User and kernel stacks share the trie.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StacksV1 {
    /// Id of the first node in this block.
    pub first_id: u32,
    /// How far back the parent is: own id minus parent's id; 0 at the outermost frame.
    pub parent_back: Vec<u32>,
    /// Addresses.
    pub address: Vec<u64>,
}

payload!(StacksV1, ArchivedStacksV1, Kind::STACKS, 1, count address, same parent_back);

impl StacksV1 {
    /// Begins a block at `first_id`.
    pub fn starting_at(first_id: u32) -> Self {
        Self { first_id, ..Self::default() }
    }

    /// Appends a node and returns its id. `parent` is the id of an earlier node, or 0.
    pub fn push(&mut self, node: Node) -> u32 {
        let position = u32::try_from(self.address.len()).ok();
        let id =
            position.and_then(|at| self.first_id.checked_add(at)).expect("bug: more than 2³² stack nodes");
        self.parent_back.push(if node.parent == 0 { 0 } else { id - node.parent });
        self.address.push(node.address);
        id
    }
}

impl ArchivedStacksV1 {
    /// Lists (id, node).
    ///
    /// # Errors
    /// [`Error::Payload`] if a parent lies in front of the first id, or ids run over.
    pub fn rows(&self) -> impl Iterator<Item = Result<(u32, Node), Error>> + '_ {
        let first = self.first_id.to_native();
        self.address.iter().zip(self.parent_back.iter()).enumerate().map(move |(i, (address, back))| {
            let wrong =
                |cause: &str| Error::Payload { kind: Kind::STACKS, cause: format!("node {i}: {cause}") };
            let id = u32::try_from(i).ok().and_then(|i| first.checked_add(i)).filter(|id| *id > 0);
            let id = id.ok_or_else(|| wrong("id runs over"))?;
            let parent = match back.to_native() {
                0 => 0,
                back => id.checked_sub(back).ok_or_else(|| wrong("parent before the first node"))?,
            };
            Ok((id, Node { parent, address: address.to_native() }))
        })
    }
}
