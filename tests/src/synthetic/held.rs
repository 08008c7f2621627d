//! What registers and stacks held.

use std::collections::BTreeMap;

use icecore_format::Error;
use icecore_format::records::{
    Change, ImageKind, Location, Origin, PIECE_BYTES, Snapshot, SnapshotsV1, StackCodeV1, StackNode,
    StackNodesV1, StackPiece, StackPiecesV1, WalkEnd, Word,
};
use icecore_format::write::Writer;

use super::{BLOCK_LEN, Builder};

/// Registers and stack memory of snapshots, with ids as the recorder assigns them.
#[derive(Debug, Default)]
pub struct Held {
    /// Addresses of code; ids begin at 0.
    pub code: Vec<Location>,
    /// Pieces; ids begin at 0.
    pub pieces: Vec<StackPiece>,
    /// Nodes; ids begin at 1.
    pub nodes: Vec<StackNode>,
    /// Snapshots; ids begin at 1.
    pub snapshots: Vec<Snapshot>,
}

/// The stack of a snapshot.
#[derive(Debug, Clone, Copy)]
pub struct Copied {
    /// The address after the stack.
    pub anchor: u64,
    /// The bytes from the stack pointer to that address.
    pub depth: u32,
    /// The number of them that were copied.
    pub copied: u32,
}

impl Held {
    /// Interns an address of code.
    pub fn code(&mut self, location: Location) -> u32 {
        interned(&mut self.code, location)
    }

    /// Adds a snapshot: registers by their numbers, words of the stack by their addresses. Returns its id.
    pub fn snapshot(&mut self, stack: Copied, registers: &[(u8, Word)], words: &[(u64, Word)]) -> u32 {
        let mut parts: BTreeMap<u64, BTreeMap<u64, Word>> = BTreeMap::new();
        for (address, word) in words {
            let from_top = stack.anchor - 8 - address;
            let bit = 63 - from_top / 8 % 64;
            parts.entry(from_top / PIECE_BYTES).or_default().insert(bit, *word);
        }
        let (mut memory, mut next) = (0, 0);
        for (part, words) in parts {
            let mask = words.keys().fold(0, |mask, bit| mask | 1 << bit);
            let piece = interned(&mut self.pieces, StackPiece { mask, words: words.into_values().collect() });
            let node = StackNode { outer: memory, gap: (part - next) as u32, piece };
            (memory, next) = (interned(&mut self.nodes, node) + 1, part + 1);
        }
        let Copied { anchor, depth, copied } = stack;
        let mask = registers.iter().fold(0, |mask, (number, _)| mask | 1 << number);
        let registers = registers.iter().map(|(_, word)| *word).collect();
        self.snapshots.push(Snapshot { anchor, depth, copied, memory, mask, registers });
        self.snapshots.len() as u32
    }

    /// Adds a snapshot of code that keeps frame pointers: the address of each frame on the stack, and the return address that
    /// it holds, the innermost first. An address of 0 is the root.
    pub fn frames(&mut self, stack: Copied, frames: &[(u64, Location)]) -> u32 {
        let sp = stack.anchor - u64::from(stack.depth);
        let distance = |from: u64, to: u64| Word::Stack(to.wrapping_sub(from) as i64);
        let mut words = Vec::new();
        for (number, (frame, caller)) in frames.iter().enumerate() {
            let outer = frames.get(number + 1).map_or(*frame, |(outer, _)| *outer);
            let caller = match caller {
                Location::Address(0) => distance(frame + 8, 0),
                caller => Word::Code(self.code(*caller)),
            };
            words.extend([(*frame, distance(*frame, outer)), (frame + 8, caller)]);
        }
        let copied_end = sp + u64::from(stack.copied);
        words.retain(|(address, _)| address + 8 <= copied_end);
        self.snapshot(stack, &[(6, distance(sp, frames[0].0))], &words)
    }

    pub(super) fn write(&self, writer: &mut Writer) -> Result<(), Error> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        writer.append(&StackCodeV1::from_rows(0, &self.code))?;
        writer.append(&StackPiecesV1::from_rows(0, &self.pieces)?)?;
        writer.append(&StackNodesV1::from_rows(1, &self.nodes)?)?;
        for (first, rows) in (1..).step_by(BLOCK_LEN).zip(self.snapshots.chunks(BLOCK_LEN)) {
            writer.append(&SnapshotsV1::from_rows(first, rows)?)?;
        }
        Ok(())
    }
}

fn interned<T: PartialEq>(rows: &mut Vec<T>, row: T) -> u32 {
    let known = rows.iter().position(|known| *known == row);
    known.unwrap_or_else(|| {
        rows.push(row);
        rows.len() - 1
    }) as u32
}

/// Where the stack of a thread of [`broken_walks`] ends.
const STACK: u64 = 0x7ffd_0000_1000;

/// Makes a recording of samples with wrong walks and correct stacks, as far as these were copied. The code is in no file, and
/// keeps frame pointers.
///
/// | thread | its stack | walk | repaired |
/// |---|---|---|---|
/// | `main` 100 | `leaf inner outer main`, each fourth copied to `inner` only | `leaf main` | all four |
/// | `main` 101 | the same, only copied to `inner` | `leaf` | `leaf inner` |
/// | `other` 200 | `leaf inner main`, with a gap of two KiB | `leaf` and data | all three |
/// | `fp` 300 | no snapshots | `leaf main` | as the walk |
pub fn broken_walks() -> Builder {
    let mut b = Builder { block_len: 50, ..Builder::default() };
    let (bin, lib) =
        (b.image(ImageKind::FILE, "/no/such/bin/bare"), b.image(ImageKind::FILE, "/no/such/lib.so"));
    for (tgid, comm) in [(100, "main"), (200, "other"), (300, "fp")] {
        b.change(1_000, Change::FOUND, tgid, 1, comm);
        b.map(2_000, tgid, 0x1_0000, bin, Origin::SCAN);
        b.map(2_000, tgid, 0x5_0000, lib, Origin::SCAN);
    }
    let [main, thread] = [100, 101].map(|tid| b.task(100, tid, "main"));
    let (other, fp) = (b.task(200, 200, "other"), b.task(300, 300, "fp"));
    let at = |file_off| Location::Image { image: bin, file_off };
    let in_lib = |file_off| Location::Image { image: lib, file_off };
    for i in 0..100_u64 {
        let (time, cpu, leaf) = (i * 1_000_000, (i % 2) as u16, in_lib(0x1200 + i % 5 * 4));
        // Frames move, callers stay.
        let sp = STACK - 0x400 - i % 3 * 0x40;
        let root = (STACK - 0x40, Location::Address(0));
        let frames =
            [(sp + 0x20, at(0x1100)), (STACK - 0x200, at(0x1080)), (STACK - 0x100, at(0x1040)), root];
        let depth = (STACK - sp) as u32;
        let whole = Copied { anchor: STACK, depth, copied: depth };
        let little = Copied { copied: 0x80, ..whole };
        let snapshot = b.held.frames(if i % 4 == 3 { little } else { whole }, &frames);
        let stack = b.stack_at(&[leaf, at(0x1040)]);
        let sample = b.sample(time, cpu, main, &[], &[]);
        (sample.user_stack, sample.user_end, sample.snapshot) = (stack, WalkEnd::ROOT, snapshot);

        let snapshot = b.held.frames(little, &frames);
        let stack = b.stack_at(&[leaf]);
        let sample = b.sample(time + 1_000, cpu, thread, &[], &[]);
        (sample.user_stack, sample.user_end, sample.snapshot) = (stack, WalkEnd::NOT_MONOTONIC, snapshot);

        let deep = depth + 0x820;
        let gap = [(sp - 0x800, at(0x1100)), (STACK - 0x100, at(0x1040)), root];
        let snapshot = b.held.frames(Copied { anchor: STACK, depth: deep, copied: deep }, &gap);
        let stack = b.stack_at(&[leaf, Location::Address(0x77)]);
        let sample = b.sample(time + 2_000, cpu, other, &[], &[]);
        (sample.user_stack, sample.user_end, sample.snapshot) = (stack, WalkEnd::UNREADABLE, snapshot);

        let stack = b.stack_at(&[leaf, at(0x1040)]);
        let sample = b.sample(time + 3_000, cpu, fp, &[], &[]);
        (sample.user_stack, sample.user_end) = (stack, WalkEnd::ROOT);
    }
    b
}
