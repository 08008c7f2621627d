//! Code that interpreters run, and the memory in which it lies.

use std::ops::Range;

use crate::foreign::memory::Memory;
use icecore_jit::Line;

/// The most bytes of a name, and of the path of a file.
pub(super) const MAX_NAME_BYTES: usize = 4 << 10;
/// The most lines of a function; the line of what follows is not known.
pub(super) const MAX_LINES: usize = 8 << 10;

/// Functions may share their instructions. Then those of a function are shown so many bits above the address of its object, where there is room
/// for as many bytes as the smallest object has, with so many zeros.
const APART_BITS: u32 = 14;
const SMALLEST_OBJECT: u64 = 160;
/// Where addresses of user space end.
const ADDRESSES_END: u64 = 1 << 47;

/// A function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code {
    /// The addresses of its instructions as they are shown, and of the place of one next to them, in which a frame is whose instruction is not
    /// known.
    pub(super) place: Range<u64>,
    /// Where its instructions are.
    pub(super) instructions: u64,
    pub(super) name: Vec<u8>,
    /// That place has the line of its declaration, or none.
    pub(super) lines: Vec<Line>,
    /// It is part of the interpreter: no run of the eval loop is its own.
    pub(super) is_builtin: bool,
}

/// What lies at the address of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Function(Code),
    /// Code that the interpreter itself needs, and no function of a program.
    Machinery,
    /// Not, or no more, the code that a sample has seen.
    Gone,
}

/// Returns the addresses at which `len` bytes of instructions are shown that other functions may share with the one at `object`.
pub(super) fn apart(object: u64, len: u64) -> Option<Range<u64>> {
    let start = Some(object).filter(|at| *at < ADDRESSES_END)? << APART_BITS;
    Some(start..start + len.clamp(1, SMALLEST_OBJECT << APART_BITS))
}

/// What tells a function from others at its address, as the sampler mixes it (bpf/interpreted.h).
pub(super) fn mixed(number: u32, file: u64, name: u64, class: u64, lines: u64) -> u32 {
    let mixed = file.wrapping_mul(3).wrapping_add(name);
    let mixed = mixed.wrapping_add(class.wrapping_mul(5)).wrapping_add(lines.wrapping_mul(7));
    number.wrapping_mul(0x9e37_79b1).wrapping_add(mixed as u32).wrapping_add((mixed >> 32) as u32)
}

pub(super) fn word(memory: &Memory<'_>, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

pub(super) fn half(memory: &Memory<'_>, at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    memory.read(at, &mut bytes).then(|| u32::from_le_bytes(bytes))
}
