//! Finds the functions that interpreters run on a copied stack: Java's.
//!
//! The recorder keeps the word of each frame of the interpreter that says which instruction (bytecode) runs. Between the stack pointers of a
//! frame and of its caller lies the frame, and no other one; so such a word there is its own.

use icecore_format::records::{Location, Mark};

use super::code::SpaceCode;
use super::grown::Framed;
use super::memory::Memory;
use icecore_elf::Avma;
use icecore_unwind::Frame;

/// The largest frame that is looked through, bytes.
const MAX_FRAME: u64 = 4096;

/// The function that each frame runs, the leaf first.
pub(super) fn functions(frames: &[Frame], memory: &Memory<'_>, code: &SpaceCode<'_>) -> Vec<Option<Framed>> {
    let function = |position: usize| {
        let frame = &frames[position];
        if !code.is_interpreter(frame) {
            return None;
        }
        // Only the innermost frame has its instruction in a register.
        let of_register = if position == 0 { memory.register_instruction() } else { None };
        let of_register = of_register.filter(|at| code.runs(Avma(*at)));
        let on_stack = || {
            let end = frames.get(position + 1)?.sp.0.min(frame.sp.0.checked_add(MAX_FRAME)?);
            let mut found = memory.instructions(frame.sp, Avma(end)).filter(|at| code.runs(Avma(*at)));
            found.next().filter(|_| found.next().is_none())
        };
        let instruction = of_register.or_else(on_stack)?;
        Some((Location::Address(instruction | Location::INTERPRETED), Mark::NONE))
    };
    (0..frames.len()).map(function).collect()
}
