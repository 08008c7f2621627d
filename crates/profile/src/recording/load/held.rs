//! What registers and stacks held at samples.

use icecore_format::records::{Location, Snapshot, StackNode, StackPiece};

use super::by_id::ById;

/// What registers and stacks held at samples, in tables of ids.
#[derive(Debug, Default)]
pub struct Held {
    /// Addresses of code.
    pub code: ById<Location>,
    /// Parts of stacks.
    pub pieces: ById<StackPiece>,
    /// Pieces of stacks with the piece outside of each.
    pub nodes: ById<StackNode>,
    /// Registers and stack of one sample.
    pub snapshots: ById<Snapshot>,
}

/// Rows of blocks and the id of the first.
type Blocks<T> = Vec<(u32, Vec<T>)>;

/// What blocks hold, in the order of the file.
#[derive(Default)]
pub struct HeldBlocks {
    /// Locations of code.
    pub code: Blocks<Location>,
    /// Stored parts of stack memory.
    pub pieces: Blocks<StackPiece>,
    /// Nodes of the trie of stacks.
    pub nodes: Blocks<StackNode>,
    /// Registers and stack of samples.
    pub snapshots: Blocks<Snapshot>,
}

impl HeldBlocks {
    /// Makes each kind of row accessible by its id.
    pub fn join(self) -> Held {
        Held {
            code: ById::from_blocks(self.code),
            pieces: ById::from_blocks(self.pieces),
            nodes: ById::from_blocks(self.nodes),
            snapshots: ById::from_blocks(self.snapshots),
        }
    }
}
