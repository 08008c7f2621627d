//! What registers and stacks held: whatever it is comes back as it was, and whatever a file claims of it ends.

use icecore_format::records::{
    Location, Payload, Snapshot, SnapshotsV1, StackCodeV1, StackNode, StackNodesV1, StackPiece,
    StackPiecesV1, Word,
};
use proptest::collection::vec;
use proptest::prelude::*;
use rkyv::util::AlignedVec;

fn word() -> impl Strategy<Value = Word> {
    prop_oneof![(0..u32::MAX).prop_map(Word::Code), any::<i64>().prop_map(Word::Stack)]
}

/// A mask, and a word for each of its bits.
fn words() -> impl Strategy<Value = (u64, Vec<Word>)> {
    any::<u64>().prop_flat_map(|mask| (Just(mask), vec(word(), mask.count_ones() as usize)))
}

fn snapshot() -> impl Strategy<Value = Snapshot> {
    let stack = (any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>());
    (stack, words()).prop_map(|((anchor, depth, copied, memory), (mask, registers))| {
        let copied = copied.min(depth);
        Snapshot { anchor, depth, copied, memory, mask, registers }
    })
}

/// Bytes with one of them changed, where an archive may lie.
fn changed(bytes: &[u8], (at, with): (usize, u8)) -> AlignedVec<16> {
    let mut changed = AlignedVec::new();
    changed.extend_from_slice(bytes);
    let at = at % changed.len();
    changed[at] ^= with;
    changed
}

proptest! {
    #[test]
    fn pieces_come_back_as_they_were(rows in vec(words(), 0..20), first in 0..u32::MAX / 2, flip: (usize, u8)) {
        let rows: Vec<StackPiece> = rows.into_iter().map(|(mask, words)| StackPiece { mask, words }).collect();
        let bytes = StackPiecesV1::from_rows(first, &rows)?.to_bytes()?;
        prop_assert_eq!(StackPiecesV1::view(&bytes)?.rows()?, rows);
        let _ = StackPiecesV1::view(&changed(&bytes, flip)).and_then(|view| view.rows());
    }

    #[test]
    fn nodes_come_back_as_they_were(rows in vec((any::<u32>(), any::<u32>(), any::<u32>()), 0..20), first in 1..u32::MAX / 2, flip: (usize, u8)) {
        let node = |(id, (outer, gap, piece)): (u32, (u32, u32, u32))| StackNode { outer: outer % id, gap, piece };
        let rows: Vec<StackNode> = (first..).zip(rows).map(node).collect();
        let bytes = StackNodesV1::from_rows(first, &rows)?.to_bytes()?;
        prop_assert_eq!(StackNodesV1::view(&bytes)?.rows()?, rows);
        if let Ok(rows) = StackNodesV1::view(&changed(&bytes, flip)).and_then(|view| {
            Ok((view.first_id.to_native()..).zip(view.rows()?).collect::<Vec<_>>())
        }) {
            prop_assert!(rows.iter().all(|(id, node)| node.outer < *id), "a chain might never end");
        }
    }

    #[test]
    fn snapshots_come_back_as_they_were(rows in vec(snapshot(), 0..20), first in 1..u32::MAX / 2, flip: (usize, u8)) {
        let bytes = SnapshotsV1::from_rows(first, &rows)?.to_bytes()?;
        prop_assert_eq!(SnapshotsV1::view(&bytes)?.rows()?, rows);
        if let Ok(rows) = SnapshotsV1::view(&changed(&bytes, flip)).and_then(|view| view.rows()) {
            prop_assert!(rows.iter().all(|row| row.copied <= row.depth));
            prop_assert!(rows.iter().all(|row| row.mask.count_ones() as usize == row.registers.len()));
        }
    }

    #[test]
    fn addresses_of_code_come_back_as_they_were(rows in vec((0..u32::MAX, any::<u64>(), any::<bool>()), 0..20)) {
        let location = |(image, offset, is_image): (u32, u64, bool)| {
            if is_image { Location::Image { image, file_off: offset } } else { Location::Address(offset) }
        };
        let rows: Vec<Location> = rows.into_iter().map(location).collect();
        let bytes = StackCodeV1::from_rows(0, &rows).to_bytes()?;
        prop_assert!(StackCodeV1::view(&bytes)?.rows().eq(rows));
    }
}
