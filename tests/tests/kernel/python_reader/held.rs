//! Compares registers and stack memory with the Python reader's, built here as docs/FORMAT.md says.

use std::path::Path;

use icecore_format::block::Kind;
use icecore_format::read::Recording;
use icecore_format::records::{
    Location, PIECE_BYTES, Payload, SamplesV1, Snapshot, SnapshotsV1, StackCodeV1, StackNode, StackNodesV1,
    StackPiece, StackPiecesV1, Word,
};
use icecore_tests::synthetic::{Builder, Copied};
use serde_json::{Value, json};

/// One session; tables begin at the first id of their first block.
#[derive(Default)]
struct Session {
    code: Vec<(u32, Location)>,
    pieces: Vec<(u32, StackPiece)>,
    nodes: Vec<(u32, StackNode)>,
    snapshots: Vec<Snapshot>,
}

/// Returns the snapshot ids of all samples, and what each snapshot held, in the order of the file.
pub(crate) fn held(path: &Path) -> (Value, Value) {
    let recording = Recording::open(path).expect("it opens");
    let (mut ids, mut sessions) = (Vec::new(), vec![Session::default()]);
    for entry in recording.entries() {
        if entry.header.kind == Kind::SESSION {
            sessions.push(Session::default());
        }
        let Ok(payload) = recording.payload(entry) else { continue };
        if entry.header.version != 1 {
            continue;
        }
        let session = sessions.last_mut().expect("one at least");
        match entry.header.kind {
            StackCodeV1::KIND => {
                let view = payload.view::<StackCodeV1>().expect("whole");
                session.code.extend((view.first_id.to_native()..).zip(view.rows()));
            }
            StackPiecesV1::KIND => {
                let view = payload.view::<StackPiecesV1>().expect("whole");
                session.pieces.extend((view.first_id.to_native()..).zip(view.rows().expect("whole")));
            }
            StackNodesV1::KIND => {
                let view = payload.view::<StackNodesV1>().expect("whole");
                session.nodes.extend((view.first_id.to_native()..).zip(view.rows().expect("whole")));
            }
            SnapshotsV1::KIND => {
                let view = payload.view::<SnapshotsV1>().expect("whole");
                session.snapshots.extend(view.rows().expect("whole"));
            }
            SamplesV1::KIND => {
                let view = payload.view::<SamplesV1>().expect("whole");
                ids.extend(view.rows().expect("whole").into_iter().map(|row| row.snapshot));
            }
            _ => {}
        }
    }
    let rows = sessions.iter().flat_map(|session| session.snapshots.iter().map(|row| session.told(row)));
    (json!(ids), rows.collect())
}

fn find<T>(rows: &[(u32, T)], id: u32) -> &T {
    let found = rows.iter().rev().find(|(own, _)| *own == id);
    found.map(|(_, row)| row).expect("what a block refers to lies in front of it")
}

impl Session {
    /// The stack pointer, the end of the copy, registers by number, words by address.
    fn told(&self, row: &Snapshot) -> Value {
        let sp = row.anchor - u64::from(row.depth);
        let numbers = (0..64_u32).filter(|number| row.mask >> number & 1 == 1);
        let registers =
            numbers.zip(&row.registers).map(|(number, word)| json!([number, self.value(*word, sp)]));
        let mut parts = Vec::new();
        let mut next = row.memory;
        while next != 0 {
            let node = find(&self.nodes, next);
            parts.push(node);
            next = node.outer;
        }
        let (mut words, mut end) = (Vec::new(), row.anchor);
        for node in parts.into_iter().rev() {
            let piece = find(&self.pieces, node.piece);
            end -= PIECE_BYTES * u64::from(node.gap);
            let addresses = (end - PIECE_BYTES..end).step_by(8).enumerate();
            let addresses = addresses.filter(|(bit, _)| piece.mask >> bit & 1 == 1);
            let told = addresses.zip(&piece.words).map(|((_, at), word)| json!([at, self.value(*word, at)]));
            words.splice(0..0, told.collect::<Vec<Value>>());
            end -= PIECE_BYTES;
        }
        json!([sp, sp + u64::from(row.copied), registers.collect::<Vec<Value>>(), words])
    }

    fn value(&self, word: Word, at: u64) -> Value {
        match word {
            Word::Stack(distance) => json!(at.wrapping_add_signed(distance)),
            Word::Code(id) => match *find(&self.code, id) {
                Location::Address(address) => json!([null, address]),
                Location::Image { image, file_off } => json!([image, file_off]),
            },
        }
    }
}

/// Gives samples snapshots of all kinds, none of which leads to a caller: the stacks that a report shows stay as they are.
pub(crate) fn add(b: &mut Builder) {
    let codes: Vec<u32> = (0..9_u64)
        .map(|n| match n % 3 {
            0 => b.held.code(Location::Address(0x7000 + n)),
            _ => b.held.code(Location::Image { image: n as u32 % 4, file_off: n << (7 * n % 40) }),
        })
        .collect();
    for n in 0..300_u64 {
        let (anchor, depth) = (0x7fff_ffff_f000 - ((n % 4) << 30), 0x40 + (n as u32 % 9) * 0x330);
        let copied = if n % 5 == 0 { depth / 16 * 8 } else { depth };
        let sp = anchor - u64::from(depth);
        let word = |k: u64| match k % 3 {
            0 => Word::Stack((n % 7) as i64 * 8 - 16),
            _ => Word::Code(codes[(n + k) as usize % codes.len()]),
        };
        // These pieces have no words, or words at both ends of the copy.
        let words = (0..u64::from(copied) / 8).filter(|k| k % 64 % 13 == n % 13 && k / 64 % 3 != 1);
        let words: Vec<(u64, Word)> = words.map(|k| (sp + 8 * k, word(k))).collect();
        let registers: Vec<(u8, Word)> = [0, 3, 15].into_iter().zip((0..n % 4).map(word)).collect();
        let id = b.held.snapshot(Copied { anchor, depth, copied }, &registers, &words);
        // Some samples have no snapshot, and two CPUs take them out of order.
        let row = (n * 2 + n % 3 / 2 * 3) as usize;
        b.samples[row].snapshot = id;
    }
}
