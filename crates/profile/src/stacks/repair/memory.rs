//! Reads the words of a snapshot by address.

use icecore_format::records::{PIECE_BYTES, PIECE_WORDS, Snapshot, StackPiece, Word};

use super::code::SpaceCode;
use crate::recording::load::held::Held;
use icecore_elf::Avma;
use icecore_unwind::{Machine, Miss, Registers, StackMemory};

/// The most parts of a stack that hold words: recorders copy 1 MiB at most.
const MAX_PARTS: usize = 4096;

/// Stands for an unknown frame pointer: no address of user space.
const ELSEWHERE: u64 = 1 << 62;

/// The stack memory of one sample.
pub(super) struct Memory<'a> {
    snapshot: &'a Snapshot,
    code: &'a SpaceCode<'a>,
    /// Parts of the stack that hold addresses, by their number from the anchor; the innermost first.
    parts: Vec<(u64, &'a StackPiece)>,
    /// Words that the walk read first: where they lie on the stack, and the return addresses there.
    steps: Vec<(Avma, Avma)>,
}

impl<'a> Memory<'a> {
    /// Assembles the stack; `None` if a block of it is missing.
    pub(super) fn new(held: &'a Held, snapshot: &'a Snapshot, code: &'a SpaceCode<'a>) -> Option<Self> {
        let (mut parts, mut next) = (Vec::new(), snapshot.memory);
        while next != 0 {
            let node = held.nodes.find(next)?;
            // Ids decrease along the chain, so it ends. The limit keeps a million snapshots that share a chain from taking a
            // million times its length.
            if parts.len() >= MAX_PARTS || node.outer >= next {
                return None;
            }
            parts.push((u64::from(node.gap), held.pieces.find(node.piece)?));
            next = node.outer;
        }
        code.take(parts.len() as u64).then_some(())?;
        let mut number = 0;
        for (gap, _) in parts.iter_mut().rev() {
            number += *gap;
            *gap = number;
            number += 1;
        }
        Some(Self { snapshot, code, parts, steps: Vec::new() })
    }

    /// Adds return addresses that the walk read first: each lies above the word to which a frame pointer leads, beginning with the
    /// frame pointer of the sample.
    ///
    /// ```text
    ///   fp + 8   return address    the second frame of the walk
    ///   fp       caller's fp       leads to the third, if it was copied
    /// ```
    ///
    /// This continues a stack of which only the top was copied after a leaf without a frame, whose caller the walk has skipped. An
    /// unknown frame pointer leads out of the copy, to another stack; [`ELSEWHERE`] stands for it.
    pub(super) fn add_steps(&mut self, registers: &Registers, steps: &[Avma]) {
        let mut fp = registers.value(registers.machine().fp());
        for step in steps {
            let Some(at) = fp.map(Avma) else { break };
            self.steps.push((at.wrapping_add(8), *step));
            fp = self.read_u64(at).ok();
        }
    }

    /// Returns the registers of the sample that held addresses, and the frame pointer if it `is_followed`.
    pub(super) fn registers(&self, machine: Machine, pc: Avma, is_followed: bool) -> Registers {
        let Snapshot { mask, registers, .. } = self.snapshot;
        let numbers = (0..64_u8).filter(|number| mask >> number & 1 == 1);
        let mut known = numbers.zip(registers).peekable();
        let sp = self.sp();
        Registers::known(machine, sp, pc, |number| {
            while known.next_if(|(known, _)| *known < number).is_some() {}
            let known = known.next_if(|(known, _)| *known == number);
            let is_elsewhere = known.is_none() && is_followed && number == machine.fp();
            known.map_or(is_elsewhere.then_some(ELSEWHERE), |(_, word)| self.value(*word, sp))
        })
    }

    /// Returns the instruction (bytecode) of an interpreter that a register holds.
    pub(super) fn register_instruction(&self) -> Option<u64> {
        self.snapshot.registers.iter().find_map(|word| self.instruction(*word))
    }

    /// Lists the instructions (bytecodes) of an interpreter in a part of the stack.
    pub(super) fn instructions(&self, from: Avma, to: Avma) -> impl Iterator<Item = u64> {
        let words = (from.0.next_multiple_of(8)..to.0).step_by(8);
        words.filter_map(|at| self.instruction(self.word(Avma(at)).ok().filter(|_| self.code.take(1))?))
    }

    fn instruction(&self, word: Word) -> Option<u64> {
        match word {
            Word::Code(id) => self.code.instruction(id),
            Word::Stack(_) => None,
        }
    }

    /// Returns the program counter of the code that a signal interrupted.
    pub(super) fn program_counter(&self) -> Option<Avma> {
        self.value(self.snapshot.program_counter()?, self.sp()).map(Avma)
    }

    fn sp(&self) -> Avma {
        Avma(self.snapshot.anchor).wrapping_sub(u64::from(self.snapshot.depth))
    }

    /// Finds the word at an address that is copied.
    fn word(&self, at: Avma) -> Result<Word, Miss> {
        let from_top = self.snapshot.anchor.checked_sub(8).and_then(|top| top.checked_sub(at.0));
        let from_top = from_top.ok_or(Miss::Elsewhere)?;
        let number = from_top / PIECE_BYTES;
        let bit = PIECE_WORDS as u64 - 1 - from_top / 8 % PIECE_WORDS as u64;
        // Numbers decrease from the outermost part to the innermost.
        let position =
            self.parts.binary_search_by(|(part, _)| number.cmp(part)).map_err(|_| Miss::NoAddress)?;
        let piece = self.parts[position].1;
        if piece.mask >> bit & 1 == 0 {
            return Err(Miss::NoAddress);
        }
        Ok(piece.words[(piece.mask & ((1 << bit) - 1)).count_ones() as usize])
    }

    /// Returns the value of a word; one of the stack is stored as its distance from `at`.
    fn value(&self, word: Word, at: Avma) -> Option<u64> {
        match word {
            Word::Stack(distance) => Some(at.0.wrapping_add(distance as u64)),
            Word::Code(id) => self.code.of_word(id).map(|address| address.0),
        }
    }
}

impl StackMemory for Memory<'_> {
    fn read_u64(&self, at: Avma) -> Result<u64, Miss> {
        if !self.code.take(1) {
            return Err(Miss::Elsewhere);
        }
        let Snapshot { anchor, copied, .. } = *self.snapshot;
        let (Avma(address), Avma(sp)) = (at, self.sp());
        let into = address.wrapping_sub(sp);
        let step = || {
            let step = self.steps.iter().find(|(slot, _)| *slot == at);
            step.map(|(_, return_address)| return_address.0)
        };
        let is_copied = address.is_multiple_of(8) && address >= sp && address < anchor;
        if !is_copied {
            return step().ok_or(Miss::Elsewhere);
        }
        if into + 8 > u64::from(copied) {
            return step().ok_or(Miss::Beyond);
        }
        self.value(self.word(at)?, at).ok_or(Miss::Elsewhere)
    }
}
