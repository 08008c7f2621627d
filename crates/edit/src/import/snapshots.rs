//! Reduces registers and stacks to what unwinding needs: addresses of code and of the stack. It drops every other word, as a
//! recorder does (docs/UNWINDING.md).

use icecore_elf::{Avma, Machine};
use icecore_format::records::{
    Location, PIECE_BYTES, PIECE_WORDS, Snapshot, SnapshotsV1, StackCodeV1, StackNode, StackNodesV1,
    StackPiece, StackPiecesV1, Word,
};
use icecore_format::write::Writer;

use super::code::Code;
use super::ids::{Ids, append};
use super::perf_data::{PerfSample, UserRegisters};
use super::registers;
use crate::Error;
use icecore_profile::recording::spaces::SpaceId;

/// perf does not record where a stack ends. If a copy has the full length, so many bytes after it are assumed to belong to the
/// stack: addresses that point there are kept, and unwinding that reaches them has left the copy.
const REST_BYTES: u64 = 8 << 20;
/// Stacks of processes lie below this address.
const HIGHEST: Avma = Avma(1 << 56);

/// Assigns ids to snapshots and to their parts.
#[derive(Debug)]
pub(super) struct Snapshots {
    machine: Machine,
    code: Ids<Location>,
    pieces: Ids<StackPiece>,
    nodes: Ids<StackNode>,
    first_id: u32,
    rows: Vec<Snapshot>,
}

impl Snapshots {
    pub(super) fn new(machine: Machine) -> Self {
        Self {
            machine,
            code: Ids::from(0),
            pieces: Ids::from(0),
            nodes: Ids::from(1),
            first_id: 1,
            rows: Vec::new(),
        }
    }

    /// Stores the snapshot of a sample; returns its id, or `None` if it holds nothing useful.
    pub(super) fn note(
        &mut self,
        sample: &PerfSample<'_>,
        space: SpaceId,
        code: &mut Code<'_>,
    ) -> Option<u32> {
        let registers = sample.registers.filter(|registers| registers.is_64)?;
        let Avma(sp) = registers::stack_pointer(self.machine, registers).filter(|sp| *sp < HIGHEST)?;
        let end = sp + sample.stack.len() as u64;
        let anchor = match sample.is_stack_whole {
            true => end.next_multiple_of(8),
            // All samples of a stack must have the same anchor, or their parts would never be equal.
            false => (end + REST_BYTES / 2).next_multiple_of(REST_BYTES),
        };
        if sample.stack.is_empty() {
            return None;
        }
        let (low, high) = (Avma(sp), Avma(anchor));
        let mut words = Words { machine: self.machine, space, code, ids: &mut self.code, low, high };
        let (mask, registers) = words.registers(registers)?;
        let memory = memory(sample.stack, &mut words, &mut self.pieces, &mut self.nodes)?;
        let (depth, copied) = ((anchor - sp) as u32, sample.stack.len() as u32);
        self.rows.push(Snapshot { anchor, depth, copied, memory, mask, registers });
        self.first_id.checked_add(self.rows.len() as u32 - 1)
    }

    /// Writes the new rows.
    pub(super) fn write(&mut self, writer: &mut Writer) -> Result<(), Error> {
        let (first, code) = self.code.take_new();
        append(writer, &StackCodeV1::from_rows(first, &code))?;
        let (first, pieces) = self.pieces.take_new();
        append(writer, &StackPiecesV1::from_rows(first, &pieces)?)?;
        let (first, nodes) = self.nodes.take_new();
        append(writer, &StackNodesV1::from_rows(first, &nodes)?)?;
        let rows = std::mem::take(&mut self.rows);
        append(writer, &SnapshotsV1::from_rows(self.first_id, &rows)?)?;
        self.first_id += rows.len() as u32;
        Ok(())
    }
}

/// Stores the parts of a stack, the outermost first; returns the innermost node, 0 if there are no addresses.
///
/// ```text
/// anchor ───────────────► part 0
///                         …            not copied
/// end of the copy ──────►   part n     the first that is looked at, in general not whole
/// stack pointer ────────►     part m   the last, likewise
/// ```
fn memory(
    stack: &[u8],
    words: &mut Words<'_, '_>,
    pieces: &mut Ids<StackPiece>,
    nodes: &mut Ids<StackNode>,
) -> Option<u32> {
    let (Avma(sp), Avma(anchor)) = (words.low, words.high);
    let end = sp + stack.len() as u64;
    let first = (anchor - end) / PIECE_BYTES;
    let (mut node, mut gap) = (0, first as u32);
    for number in first..(anchor - sp).div_ceil(PIECE_BYTES) {
        let high = anchor - number * PIECE_BYTES;
        let low = (high - PIECE_BYTES).max(sp).next_multiple_of(8);
        let held = (low - sp) as usize..(high.min(end) - sp) as usize;
        let piece = words.piece(stack.get(held).unwrap_or_default(), Avma(low));
        if piece.mask == 0 {
            gap += 1;
        } else {
            node = nodes.id(StackNode { outer: node, gap, piece: pieces.id(piece)? })?;
            gap = 0;
        }
    }
    Some(node)
}

/// Recognizes addresses among words.
struct Words<'a, 'c> {
    machine: Machine,
    space: SpaceId,
    code: &'a mut Code<'c>,
    ids: &'a mut Ids<Location>,
    /// The stack pointer.
    low: Avma,
    /// The anchor.
    high: Avma,
}

impl Words<'_, '_> {
    /// Returns the registers that hold addresses, by DWARF number, except for stack pointer and program counter.
    fn registers(&mut self, registers: UserRegisters<'_>) -> Option<(u64, Vec<Word>)> {
        let mut held: Vec<(u8, Word)> = Vec::new();
        for (number, value) in registers.iter() {
            if let Some(number) = registers::dwarf_number(self.machine, number)
                && let Some(word) = self.word(value, self.low)
            {
                held.push((number, word));
            }
        }
        held.sort_unstable_by_key(|(number, _)| *number);
        let mask = held.iter().fold(0, |mask, (number, _)| mask | 1 << number);
        Some((mask, held.into_iter().map(|(_, word)| word).collect()))
    }

    /// Returns the piece of the stack that begins at an address.
    fn piece(&mut self, bytes: &[u8], from: Avma) -> StackPiece {
        let mut piece = StackPiece::default();
        for (word, at) in bytes.as_chunks().0.iter().zip((from.0..).step_by(8)) {
            if let Some(word) = self.word(u64::from_le_bytes(*word), Avma(at)) {
                // Bits count from the lowest address of the piece.
                let bit = PIECE_WORDS as u64 - 1 - (self.high.0 - at - 8) / 8 % PIECE_WORDS as u64;
                piece.mask |= 1 << bit;
                piece.words.push(word);
            }
        }
        piece
    }

    /// Classifies a word, given the address at which it lies.
    fn word(&mut self, value: u64, at: Avma) -> Option<Word> {
        // The end of the stack is a guess, so code takes precedence.
        let code = registers::code_address(self.machine, value);
        if let Some(location) = self.code.before(self.space, code) {
            return self.ids.id(location).map(Word::Code);
        }
        (self.low..=self.high).contains(&Avma(value)).then(|| Word::Stack(value.wrapping_sub(at.0) as i64))
    }
}
