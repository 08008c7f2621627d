//! What stacks held, version 1: the words of stack memory that can be addresses of code or of the stack itself, in pieces
//! that are stored once. Three kinds of blocks: addresses of code, pieces, and how pieces lie inside each other.
//!
//! ```text
//!  anchor ────────► ┌──────────┐   higher addresses
//!                   │ piece 7  │ ◄─ node 1 (outer 0)           a snapshot names its innermost node, here 3;
//!                   ├──────────┤                               other snapshots share the outer ones
//!                   │ piece 2  │ ◄─ node 2 (outer 1)
//!                   ├──────────┤
//!                   │ no words │    gap 1 of node 3
//!                   ├──────────┤
//!                   │ piece 5  │ ◄─ node 3 (outer 2, gap 1)
//!  stack pointer ─► └──────────┘   lower addresses
//! ```

use rkyv::{Archive, Serialize};

use super::packed::{ArchivedPacked, Packed, fold, narrow, unfold};
use super::{IdTable, Location, Reference, References, payload, references, rows_of};
use crate::error::Error;
use crate::kind::Kind;

/// The part of a stack that one piece tells of, bytes. The first ends at the anchor of the snapshot.
pub const PIECE_BYTES: u64 = 512;
/// Words of a piece.
pub const PIECE_WORDS: usize = PIECE_BYTES as usize / 8;

/// A word that can be an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// Of code: an id of [`StackCodeV1`].
    Code(u32),
    /// Of the stack: so many bytes above the address at which the word lies.
    Stack(i64),
}

/// What a part of a stack held. Words that are missing were zero, could not be read, or are no addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct StackPiece {
    /// Bit n: the word at the address 8·n above the lowest of the part is stored.
    pub mask: u64,
    /// These words, the lowest address first.
    pub words: Vec<Word>,
}

impl References for Word {
    #[inline]
    fn visit(&mut self, see: &mut impl FnMut(Reference<'_>)) {
        match self {
            Self::Code(code) => see(Reference::Id(IdTable::StackCode, code)),
            Self::Stack(_) => {}
        }
    }
}

references!(StackPiece { mask: plain, words: within });

/// A piece and what lies outside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackNode {
    /// The node of the next outer piece that has words; 0 if there is none.
    pub outer: u32,
    /// Parts without words between the two, or between the anchor and this one.
    pub gap: u32,
    /// The piece, by id.
    pub piece: u32,
}

references!(StackNode { outer: id(StackNodes), gap: plain, piece: id(StackPieces) });

/// Addresses of code that stacks hold, most of them return addresses. Ids count up from 0 over the whole session.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StackCodeV1 {
    /// Id of the first.
    pub first_id: u32,
    /// 0 an address, else an image, its id + 1.
    pub base: Packed,
    /// The address, or the offset in the file of the image.
    pub offset: Packed,
}

payload!(StackCodeV1, ArchivedStackCodeV1, Kind::STACK_CODE, 1, count base, same offset);

impl StackCodeV1 {
    /// Builds the columns; the first row has id `first_id`.
    pub fn from_rows(first_id: u32, rows: &[Location]) -> Self {
        let base = |code: &Location| match code {
            Location::Address(_) => 0,
            Location::Image { image, .. } => u64::from(*image) + 1,
        };
        let offset = |code: &Location| match code {
            Location::Address(offset) | Location::Image { file_off: offset, .. } => *offset,
        };
        Self { first_id, base: rows.iter().map(base).collect(), offset: rows.iter().map(offset).collect() }
    }
}

impl ArchivedStackCodeV1 {
    /// Lists the addresses; the first has id `first_id`.
    pub fn rows(&self) -> impl Iterator<Item = Location> + '_ {
        let rows = self.base.values().into_iter().zip(self.offset.values());
        rows.map(|(base, offset)| match base {
            0 => Location::Address(offset),
            base => Location::Image { image: narrow(base - 1), file_off: offset },
        })
    }
}

/// Pieces of stacks. Ids count up from 0 over the whole session.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StackPiecesV1 {
    /// Id of the first.
    pub first_id: u32,
    /// Masks.
    pub mask: Packed,
    /// Words, one for each bit of the masks: 0 of the stack, else of code, its id + 1.
    pub word: Packed,
    /// Words of the stack: distances, signs folded; one for each 0 in `word`.
    pub distance: Packed,
}

payload!(
    StackPiecesV1, ArchivedStackPiecesV1, Kind::STACK_PIECES, 1, count mask, other word, other distance
);

impl StackPiecesV1 {
    /// Builds the columns; the first row has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if a piece has not as many words as bits.
    pub fn from_rows(first_id: u32, rows: &[StackPiece]) -> Result<Self, Error> {
        if let Some(piece) = rows.iter().find(|piece| piece.mask.count_ones() as usize != piece.words.len()) {
            let cause = format!("a piece of {} words has the mask {:#x}", piece.words.len(), piece.mask);
            return Err(Error::Payload { kind: Kind::STACK_PIECES, cause });
        }
        let words = || rows.iter().flat_map(|piece| &piece.words);
        Ok(Self {
            first_id,
            mask: rows.iter().map(|piece| piece.mask).collect(),
            word: words().map(|word| told(*word).0).collect(),
            distance: words().filter_map(|word| told(*word).1).collect(),
        })
    }
}

impl ArchivedStackPiecesV1 {
    /// Lists the pieces; the first has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if words are missing.
    pub fn rows(&self) -> Result<Vec<StackPiece>, Error> {
        let mut words = Words::new(Kind::STACK_PIECES, &self.word, &self.distance)?;
        let piece = |(number, mask)| Ok(StackPiece { mask, words: words.of(number, mask)? });
        self.mask.values().into_iter().enumerate().map(piece).collect()
    }
}

/// How pieces lie inside each other. Ids count up from 1 over the whole session. A node lies after its outer one.
#[derive(Debug, Default, Archive, Serialize)]
pub struct StackNodesV1 {
    /// Id of the first.
    pub first_id: u32,
    /// 0 outermost, 1 the node before this one, else the outer node's id + 1.
    pub outer: Packed,
    /// Parts without words.
    pub gap: Packed,
    /// Pieces, by id.
    pub piece: Packed,
}

payload!(StackNodesV1, ArchivedStackNodesV1, Kind::STACK_NODES, 1, count outer, same gap, same piece);

impl StackNodesV1 {
    /// Builds the columns; the first row has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if a node lies before its outer one.
    pub fn from_rows(first_id: u32, rows: &[StackNode]) -> Result<Self, Error> {
        let outer = |(id, node): (u64, &StackNode)| match u64::from(node.outer) {
            0 => Ok(0),
            outer if outer + 1 == id => Ok(1),
            outer if outer < id => Ok(outer + 1),
            outer => {
                let cause = format!("node {id} cannot have the outer node {outer}");
                Err(Error::Payload { kind: Kind::STACK_NODES, cause })
            }
        };
        let outer: Result<Vec<u64>, Error> = (u64::from(first_id)..).zip(rows).map(outer).collect();
        Ok(Self {
            first_id,
            outer: outer?.into_iter().collect(),
            gap: rows.iter().map(|node| node.gap).collect(),
            piece: rows.iter().map(|node| node.piece).collect(),
        })
    }
}

impl ArchivedStackNodesV1 {
    /// Lists the nodes; the first has id `first_id`.
    ///
    /// # Errors
    /// [`Error::Payload`] if a node is not after its outer one, or ids run over.
    pub fn rows(&self) -> Result<Vec<StackNode>, Error> {
        let first = self.first_id.to_native();
        let wrong = |i: usize, cause: &str| Error::Payload {
            kind: Kind::STACK_NODES,
            cause: format!("node {i}: {cause}"),
        };
        let node = |(i, ((outer, gap), piece)): (usize, ((u64, u32), u32))| {
            let id = u32::try_from(i).ok().and_then(|i| first.checked_add(i)).filter(|id| *id > 0);
            let id = id.ok_or_else(|| wrong(i, "id runs over"))?;
            let outer = match outer {
                0 => 0,
                1 => id - 1,
                outer => narrow(outer - 1),
            };
            if outer >= id {
                return Err(wrong(i, "its outer node is not before it"));
            }
            Ok(StackNode { outer, gap, piece })
        };
        let columns = self.outer.values().into_iter().zip(self.gap.values_u32()).zip(self.piece.values_u32());
        columns.enumerate().map(node).collect()
    }
}

/// A word as its columns have it.
pub(super) fn told(word: Word) -> (u64, Option<u64>) {
    match word {
        Word::Stack(distance) => (0, Some(fold(distance as u64))),
        Word::Code(code) => (u64::from(code) + 1, None),
    }
}

/// Reads words back from their columns.
pub(super) struct Words {
    kind: Kind,
    words: std::vec::IntoIter<u64>,
    distances: std::vec::IntoIter<u64>,
}

impl Words {
    pub(super) fn new(kind: Kind, words: &ArchivedPacked, distances: &ArchivedPacked) -> Result<Self, Error> {
        rows_of(kind, "word", words)?;
        rows_of(kind, "distance", distances)?;
        Ok(Self { kind, words: words.values().into_iter(), distances: distances.values().into_iter() })
    }

    /// The words of the row with this number and mask.
    pub(super) fn of(&mut self, number: usize, mask: u64) -> Result<Vec<Word>, Error> {
        let word = |_| match self.words.next()? {
            0 => Some(Word::Stack(unfold(self.distances.next()?) as i64)),
            code => Some(Word::Code(narrow(code - 1))),
        };
        let words: Option<Vec<Word>> = (0..mask.count_ones()).map(word).collect();
        words.ok_or_else(|| Error::Payload {
            kind: self.kind,
            cause: format!("row {number}: words are missing"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    fn pieces() -> [StackPiece; 2] {
        let words = vec![Word::Stack(16), Word::Code(4), Word::Stack(-8)];
        [StackPiece { mask: 1 << 63 | 0b101, words }, StackPiece { mask: 2, words: vec![Word::Code(5)] }]
    }

    const NODES: [StackNode; 3] = [
        StackNode { outer: 0, gap: 3, piece: 9 },
        StackNode { outer: 7, gap: 0, piece: 10 },
        StackNode { outer: 2, gap: 0, piece: 10 },
    ];

    #[test]
    fn rows_come_back_as_they_were() {
        let code = [Location::Image { image: 0, file_off: 0x1234 }, Location::Address(0x7000)];
        let bytes = StackCodeV1::from_rows(4, &code).to_bytes().expect("sound");
        assert!(StackCodeV1::view(&bytes).expect("sound").rows().eq(code));
        let bytes =
            StackPiecesV1::from_rows(9, &pieces()).and_then(|columns| columns.to_bytes()).expect("sound");
        assert_eq!(StackPiecesV1::view(&bytes).and_then(|view| view.rows()).expect("sound"), pieces());
        let bytes = StackNodesV1::from_rows(7, &NODES).and_then(|columns| columns.to_bytes()).expect("sound");
        assert_eq!(StackNodesV1::view(&bytes).and_then(|view| view.rows()).expect("sound"), NODES);
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        assert!(StackNodesV1::from_rows(7, &[StackNode { outer: 7, ..NODES[0] }]).is_err());
        let [mut short, _] = pieces();
        short.words.pop();
        assert!(StackPiecesV1::from_rows(0, &[short]).is_err());
        let mut columns = StackPiecesV1::from_rows(0, &pieces()).expect("sound");
        columns.distance = Packed::default();
        let bytes = columns.to_bytes().expect("sound");
        assert!(StackPiecesV1::view(&bytes).expect("columns").rows().is_err());
        let mut columns = StackNodesV1::from_rows(7, &NODES).expect("sound");
        columns.outer = [9_u64, 9, 20].into_iter().collect();
        let bytes = columns.to_bytes().expect("sound");
        assert!(StackNodesV1::view(&bytes).expect("columns").rows().is_err());
    }
}
