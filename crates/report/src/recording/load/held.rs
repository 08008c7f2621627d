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
pub(crate) struct HeldBlocks {
    pub(crate) code: Blocks<Location>,
    pub(crate) pieces: Blocks<StackPiece>,
    pub(crate) nodes: Blocks<StackNode>,
    pub(crate) snapshots: Blocks<Snapshot>,
}

impl HeldBlocks {
    pub(crate) fn join(self) -> Held {
        Held {
            code: ById::from_blocks(self.code),
            pieces: ById::from_blocks(self.pieces),
            nodes: ById::from_blocks(self.nodes),
            snapshots: ById::from_blocks(self.snapshots),
        }
    }
}
