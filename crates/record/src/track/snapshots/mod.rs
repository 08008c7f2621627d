//! Reduces registers and stacks to the words that unwinding needs.
//!
//! Unwinding reads two kinds of words: return addresses, and saved registers from which the frame of a caller is
//! computed, which therefore point into the stack. All other words are dropped here. That is most of them, and all the
//! text, keys and numbers that a stack holds: these are never written.
//!
//! The rest is stored relative to what stays the same (code by image and offset, stack addresses by distance), in pieces that are
//! stored once. The outer part of a stack hardly changes between two samples of a thread, so a snapshot is mostly the
//! number of a node that exists already.

mod arriving;
mod bytecodes;
mod pages;

use icecore_elf::{Avma, FileOff};
use icecore_format::records::{
    Location, PIECE_BYTES, PIECE_WORDS, Snapshot, SnapshotsV1, StackCodeV1, StackNode, StackNodesV1,
    StackPiece, StackPiecesV1, Word,
};
use rustc_hash::FxHashMap;
use std::sync::Arc;

use arriving::Copied;
pub(crate) use arriving::{Arriving, Taken};
use bytecodes::Running;

use crate::kernel::wire::{PAGE_BYTES, REGISTER_COUNT, STACK_POINTER};
use crate::track::intern::Interner;
use crate::track::spaces::Space;

/// The number of code locations, of pieces and of nodes that are remembered before all are forgotten.
const REMEMBERED: usize = 128 << 10;
/// The largest distance of two addresses of a stack that is stored. A first stack may have grown to gigabytes, but unwinding does not
/// get that far.
const MAX_DISTANCE: u64 = 256 << 20;
/// The registers in which frames and instructions are: rbp and r13.
const FRAME_POINTER: usize = 6;
const INSTRUCTION_REGISTER: usize = 13;
/// The number of stack parts that are remembered for comparison before all are forgotten: 16 MiB.
const COMPARED_PARTS: usize = 1 << 20;

/// Gives ids to snapshots, and to the pieces and nodes that they consist of.
#[derive(Debug)]
pub(crate) struct Snapshots {
    code: Interner<Location>,
    /// Each piece is a mask, low half first, then its words: an id of code · 2 + 1, or a zigzag-coded distance · 2.
    pieces: Interner<Arc<[u32]>>,
    nodes: Interner<StackNode>,
    located: LocatedCode,
    /// The last contents of each stack of a thread; the key has the thread, and how many stacks lie inside of this one.
    before: FxHashMap<(u32, usize), Before>,
    before_parts: usize,
    first_id: u32,
    rows: Vec<Snapshot>,
    /// Code addresses of the last snapshot that no image and offset can stand for, in the order of reading.
    at_addresses: Vec<Avma>,
    /// The frames of an interpreter in the last snapshot.
    running: Vec<Running>,
    /// Buffers: the words of the current piece, and its bytes.
    scratch: Vec<u32>,
    bytes: Vec<u8>,
}

/// The last contents of a stack. Part 0 ends at the anchor, part 1 lies below it, and so on.
#[derive(Debug, Default)]
struct Before {
    anchor: Avma,
    copied: PageHashes,
    /// Version of the address space.
    version: u32,
    /// The outermost part with known bytes.
    first_part: u32,
    /// The contents of each part, from `first_part` on.
    held: Vec<Held>,
}

/// The page hashes of a stack at its last snapshot.
#[derive(Debug, Default)]
struct PageHashes {
    low: Avma,
    /// The address after the last known byte.
    high: Avma,
    hashes: Vec<u64>,
}

impl PageHashes {
    fn hash(&self, address: Avma) -> Option<u64> {
        let number = (address.0 / PAGE_BYTES).checked_sub(self.low.0 / PAGE_BYTES)?;
        self.hashes.get(usize::try_from(number).ok()?).copied()
    }
}

/// The contents of a part of a stack.
#[derive(Debug, Clone, Copy)]
struct Held {
    /// The piece of this part; `None` if the part has no words.
    piece: Option<u32>,
    /// The node of this piece, or of the next outer one that has words.
    node: u32,
    /// Where frames of an interpreter have their instructions, from the begin of the part, one bit for each word.
    running: u64,
}

impl Before {
    /// Returns true if the bytes of a part did not change: its pages have the same hashes, and all of it belonged to the stack before.
    fn is_same(&self, now: &Copied, from: Avma, to: Avma) -> bool {
        let PageHashes { low, high, .. } = self.copied;
        let is_same = |address| now.hash(address).is_some_and(|hash| self.copied.hash(address) == Some(hash));
        // If a part is not whole, the same bytes of it must be known now and before.
        let is_whole = to.0 - from.0 == PIECE_BYTES && low <= from && to <= high;
        from < to
            && (is_whole || (low, high) == (now.low, now.high))
            && is_same(from)
            && is_same(Avma(to.0 - 1))
    }

    fn held(&self, number: u32) -> Option<&Held> {
        self.held.get(number.checked_sub(self.first_part)? as usize)
    }
}

impl Default for Snapshots {
    fn default() -> Self {
        Self {
            code: Interner::new(0, REMEMBERED),
            pieces: Interner::new(0, REMEMBERED),
            nodes: Interner::new(1, REMEMBERED),
            located: LocatedCode::default(),
            before: FxHashMap::default(),
            before_parts: 0,
            first_id: 1,
            rows: Vec::new(),
            at_addresses: Vec::new(),
            running: Vec::new(),
            scratch: Vec::new(),
            bytes: Vec::new(),
        }
    }
}

impl Snapshots {
    /// Notes a snapshot of a thread; returns its id. The snapshots of its outer stacks have the following ids.
    pub(crate) fn note(&mut self, tid: u32, space: &Space, taken: &Taken) -> u32 {
        self.at_addresses.clear();
        self.running.clear();
        let id = self.note_one((tid, 0), space, taken);
        for (inside, outer) in taken.outer.iter().enumerate() {
            self.note_one((tid, inside + 1), space, outer);
        }
        id
    }

    /// Notes the snapshot of one stack of a thread: the current one, or an outer one.
    fn note_one(&mut self, stack: (u32, usize), space: &Space, taken: &Taken) -> u32 {
        let is_outer = stack.1 > 0;
        let before = self.take_before(stack).unwrap_or_default();
        let (sp, anchor, copied) = (taken.stack_pointer(), taken.anchor(), &taken.copied);
        let (code, located) = (&mut self.code, &mut self.located);
        let reach = (anchor.0 - sp.0).min(MAX_DISTANCE);
        let at_addresses = &mut self.at_addresses;
        let bounds = space.bounds();
        let (leaf, running) = running(space, taken, &mut self.bytes);
        self.running.extend(leaf.iter().chain(&running));
        // Only what is known to be an instruction is written.
        let is_known = |it: &Running| space.interpreter().is_some_and(|of| of.knows(it.instruction));
        let leaf = leaf.filter(is_known);
        let running: Vec<Running> = running.into_iter().filter(is_known).collect();
        let running = &running[..];
        let mut words =
            Words { space, bounds, code, located, at_addresses, running, low: sp, high: anchor, reach };
        let (mut mask, mut registers) = (0, Vec::new());
        // The program counter of a sample is the leaf of its walk. The one of an outer stack is stored only here.
        let len = REGISTER_COUNT - usize::from(!is_outer);
        for (number, value) in taken.registers[..len].iter().enumerate() {
            let bit =
                if number == REGISTER_COUNT - 1 { usize::from(Snapshot::PROGRAM_COUNTER) } else { number };
            let instruction = leaf.filter(|_| number == INSTRUCTION_REGISTER);
            let word = match instruction {
                Some(leaf) => Some(words.instruction(leaf.instruction)),
                None => words.word(*value, sp),
            };
            if let Some(word) = word.filter(|_| number != STACK_POINTER) {
                mask |= 1_u64 << bit;
                registers.push(word);
            }
        }
        let is_comparable = before.anchor == anchor && before.version == space.version();
        let depth = (anchor.0 - sp.0) as u32;
        let parts = depth.div_ceil(PIECE_BYTES as u32);
        let first_part = (anchor.0.saturating_sub(copied.high.0) / PIECE_BYTES) as u32;
        let mut held = Vec::with_capacity((parts - first_part) as usize);
        let (mut memory, mut gap) = (0, first_part);
        // True while all parts further out are unchanged, too.
        let mut is_same_outside = is_comparable && before.first_part == first_part;
        for number in first_part..parts {
            let (from, to) = part(copied, anchor, number);
            let running = words.running_in(from, to);
            let is_known =
                |held: &&Held| is_comparable && held.running == running && before.is_same(copied, from, to);
            let known = before.held(number).filter(is_known);
            let piece = match known {
                Some(held) => held.piece,
                None => {
                    self.bytes.clear();
                    copied.read(from, to, &mut self.bytes);
                    let has_words = words.piece((from, &self.bytes), &mut self.scratch);
                    has_words.then(|| self.pieces.id(&self.scratch[..]))
                }
            };
            is_same_outside &= before.held(number).is_some_and(|held| held.piece == piece);
            match (piece, before.held(number)) {
                (None, _) => gap += 1,
                (Some(_), Some(held)) if is_same_outside => (memory, gap) = (held.node, 0),
                (Some(piece), _) => {
                    memory = self.nodes.id(&StackNode { outer: memory, gap, piece });
                    gap = 0;
                }
            }
            held.push(Held { piece, node: memory, running });
        }
        if self.before_parts + held.len() > COMPARED_PARTS || self.before.len() >= REMEMBERED {
            self.before.clear();
            self.before_parts = 0;
        }
        self.before_parts += held.len();
        let hashes = copied.pages.iter().map(|(hash, _)| *hash).collect();
        let seen = PageHashes { low: copied.low, high: copied.high, hashes };
        self.before
            .insert(stack, Before { anchor, copied: seen, version: space.version(), first_part, held });
        let copied = (copied.high.0 - sp.0) as u32;
        self.rows.push(Snapshot { anchor: anchor.0, depth, copied, memory, mask, registers });
        self.first_id + (self.rows.len() - 1) as u32
    }

    /// Forgets all parts of stacks, to give back their memory. Ids go on counting.
    pub(crate) fn forget_all(&mut self) {
        self.code.forget();
        self.pieces.forget();
        self.nodes.forget();
        (self.before, self.before_parts) = Default::default();
    }

    /// Forgets a thread that has ended.
    pub(crate) fn forget(&mut self, tid: u32) {
        let _ = (0..).find(|inside| self.take_before((tid, *inside)).is_none());
    }

    fn take_before(&mut self, stack: (u32, usize)) -> Option<Before> {
        let before = self.before.remove(&stack)?;
        self.before_parts -= before.held.len();
        Some(before)
    }

    /// Returns the code addresses of the last snapshot that no image and offset can stand for: the code is in no file, or in one that the
    /// process has mapped twice. Addresses in unchanged parts of the stack are skipped.
    pub(crate) fn at_addresses(&self) -> &[Avma] {
        &self.at_addresses
    }

    /// Returns the frames of an interpreter on a stack.
    pub(crate) fn running_on(
        &mut self,
        space: &Space,
        taken: &Taken,
    ) -> impl Iterator<Item = Running> + use<> {
        let (leaf, others) = running(space, taken, &mut self.bytes);
        leaf.into_iter().chain(others)
    }

    /// Returns the frames of an interpreter in the last snapshot.
    pub(crate) fn running(&self) -> &[Running] {
        &self.running
    }

    /// Returns the approximate number of bytes that wait to be written.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.rows.len() * 64 + self.pieces.waiting() * 128
    }

    /// Hands over what is new since the last call. `stored` returns a location with the id that its image has in the file.
    pub(crate) fn take_new(&mut self, mut stored: impl FnMut(Location) -> Location) -> New {
        let ((first_code, code), (first_piece, pieces)) = (self.code.take_new(), self.pieces.take_new());
        let in_file: Vec<Location> = code.iter().map(|location| stored(*location)).collect();
        let pieces: Vec<StackPiece> = pieces.iter().map(|piece| unpacked(piece)).collect();
        let (first_node, nodes) = self.nodes.take_new();
        let (first_id, rows) = (self.first_id, std::mem::take(&mut self.rows));
        self.first_id += rows.len() as u32;
        let in_images = code.iter().filter_map(|code| match *code {
            Location::Image { image, file_off } => Some((image, FileOff(file_off))),
            Location::Address(_) => None,
        });
        New {
            in_images: in_images.collect(),
            code: StackCodeV1::from_rows(first_code, &in_file),
            pieces: StackPiecesV1::from_rows(first_piece, &pieces).expect("bug: a piece without words"),
            nodes: StackNodesV1::from_rows(first_node, &nodes)
                .expect("bug: a node in front of its outer one"),
            snapshots: SnapshotsV1::from_rows(first_id, &rows).expect("bug: registers without bits"),
        }
    }
}

/// Finds the frames of an interpreter on a stack: the innermost one if the registers are its, and the others in the order of their words.
fn running(space: &Space, taken: &Taken, bytes: &mut Vec<u8>) -> (Option<Running>, Vec<Running>) {
    let Some(of) = space.interpreter() else { return (None, Vec::new()) };
    let copied = &taken.copied;
    bytes.clear();
    copied.read(copied.low, copied.high.max(copied.low), bytes);
    let mut found = bytecodes::running(of, copied.low, bytes);
    found.sort_unstable_by_key(|it| it.at);
    found.dedup_by_key(|it| it.at);
    let (fp, pc) = (taken.registers[FRAME_POINTER], taken.registers[REGISTER_COUNT - 1]);
    let leaf = of.code.contains(&pc).then(|| {
        let instruction = taken.registers[INSTRUCTION_REGISTER];
        let is_of_stack = (copied.low.0..=taken.anchor().0).contains(&instruction);
        let skipped = copied.low.0.wrapping_neg() % 8;
        let words = bytes.get(skipped as usize..).unwrap_or_default().as_chunks::<8>().0;
        let first = copied.low.0.wrapping_add(skipped);
        bytecodes::frame(of, fp, first, words, Some(instruction)).filter(|_| !is_of_stack)
    });
    (leaf.flatten(), found)
}

/// Returns the addresses of the first known byte of a part and after the last one; both are equal if no byte is known.
fn part(copied: &Copied, anchor: Avma, number: u32) -> (Avma, Avma) {
    let end = Avma(anchor.0.saturating_sub(u64::from(number) * PIECE_BYTES));
    let from = Avma(end.0.saturating_sub(PIECE_BYTES)).clamp(copied.low, copied.high.max(copied.low));
    (from, end.clamp(from, copied.high.max(from)))
}

/// Returns a piece in the format of the file.
fn unpacked(piece: &[u32]) -> StackPiece {
    let word = |word: &u32| match word & 1 {
        1 => Word::Code(word >> 1),
        _ => Word::Stack(i64::from(word >> 2) ^ -i64::from(word >> 1 & 1)),
    };
    let mask = u64::from(piece[0]) | u64::from(piece[1]) << 32;
    StackPiece { mask, words: piece[2..].iter().map(word).collect() }
}

/// The new items, as columns.
pub(crate) struct New {
    /// The code in images: image and offset in its file.
    pub(crate) in_images: Vec<(u32, FileOff)>,
    pub(crate) code: StackCodeV1,
    pub(crate) pieces: StackPiecesV1,
    pub(crate) nodes: StackNodesV1,
    pub(crate) snapshots: SnapshotsV1,
}

/// A cache of the code at addresses; each address has exactly one slot.
#[derive(Debug)]
struct LocatedCode(Vec<LocatedSlot>);

#[derive(Debug, Clone, Copy, Default)]
struct LocatedSlot {
    address: Avma,
    /// Version of the address space.
    version: u32,
    /// The id of the code + 1; 0 if there is none. [`AT_ADDRESS`] is set if the code is stored by its address.
    code: u32,
}

/// The top bit, which ids of code do not use: a word in a piece ([`Snapshots::pieces`]) has one bit less for them.
const AT_ADDRESS: u32 = 1 << 31;

impl Default for LocatedCode {
    fn default() -> Self {
        Self(vec![LocatedSlot::default(); 1 << Self::BITS])
    }
}

impl LocatedCode {
    const BITS: u32 = 16;

    fn slot(&mut self, version: u32, address: Avma) -> &mut LocatedSlot {
        let hash = (address.0 ^ u64::from(version) << 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &mut self.0[(hash >> (64 - Self::BITS)) as usize]
    }
}

/// Distinguishes addresses from other words.
struct Words<'a> {
    space: &'a Space,
    /// The address of the first code, and the one after the last.
    bounds: (Avma, Avma),
    code: &'a mut Interner<Location>,
    located: &'a mut LocatedCode,
    at_addresses: &'a mut Vec<Avma>,
    /// The frames of an interpreter, by the places of their instructions.
    running: &'a [Running],
    /// The stack pointer.
    low: Avma,
    /// The anchor.
    high: Avma,
    /// The largest distance of a stack address above the stack pointer.
    reach: u64,
}

impl Words<'_> {
    /// Writes a part of the stack to `piece`, in the format of [`Snapshots::pieces`]; returns true if it held addresses.
    fn piece(&mut self, (Avma(from), bytes): (Avma, &[u8]), piece: &mut Vec<u32>) -> bool {
        piece.clear();
        piece.extend([0, 0]);
        let mut mask = 0_u64;
        // Only words at multiples of eight count, as seen from the aligned anchor.
        let skipped = (from.wrapping_neg() % 8) as usize;
        let words = bytes.get(skipped..).unwrap_or_default().as_chunks().0;
        for (number, word) in words.iter().enumerate() {
            let address = from + (skipped + 8 * number) as u64;
            let word = match self.running.binary_search_by_key(&Avma(address), |it| it.at) {
                Ok(found) => Some(self.instruction(self.running[found].instruction)),
                Err(_) => self.word(u64::from_ne_bytes(*word), Avma(address)),
            };
            let Some(word) = word else { continue };
            // Bits count from the lowest address of the part.
            mask |= 1 << (PIECE_WORDS as u64 - 1 - (self.high.0 - address - 8) / 8 % PIECE_WORDS as u64);
            piece.push(match word {
                Word::Code(id) => id << 1 | 1,
                Word::Stack(distance) => ((distance << 1 ^ distance >> 63) as u32) << 1,
            });
        }
        piece[..2].copy_from_slice(&[mask as u32, (mask >> 32) as u32]);
        mask != 0
    }

    /// Returns the word that stands for an instruction of an interpreter.
    fn instruction(&mut self, instruction: u64) -> Word {
        Word::Code(self.code.id(&Location::Address(instruction | Location::INTERPRETED)))
    }

    /// Returns where a part of the stack has instructions of an interpreter.
    fn running_in(&self, from: Avma, to: Avma) -> u64 {
        let first = self.running.partition_point(|it| it.at < from);
        let here = self.running[first..].iter().take_while(|it| it.at < to);
        here.fold(0, |all, it| all | 1 << ((it.at.0 - from.0) / 8 % 64))
    }

    /// Returns what a word at an address stands for; `None` if it is no address.
    fn word(&mut self, value: u64, at: Avma) -> Option<Word> {
        if value.wrapping_sub(self.low.0) <= self.reach {
            return Some(Word::Stack(value.wrapping_sub(at.0) as i64));
        }
        let (address, (from, to)) = (Avma(value), self.bounds);
        if address <= from || address > to {
            return None;
        }
        let version = self.space.version();
        let slot = self.located.slot(version, address);
        if (slot.address, slot.version) != (address, version) {
            // Most are return addresses. After a call that never returns, the code may end.
            let location = self.space.locate(Avma(value - 1)).map(|location| match location {
                Location::Image { image, file_off } => {
                    Location::Image { image, file_off: file_off.wrapping_add(1) }
                }
                Location::Address(_) => Location::Address(value),
            });
            let mark = if matches!(location, Some(Location::Address(_))) { AT_ADDRESS } else { 0 };
            let code = location.map_or(0, |location| (self.code.id(&location) + 1) | mark);
            *slot = LocatedSlot { address, version, code };
        }
        if slot.code & AT_ADDRESS != 0 {
            self.at_addresses.push(address);
        }
        (slot.code & !AT_ADDRESS).checked_sub(1).map(Word::Code)
    }
}

#[cfg(test)]
mod tests;
