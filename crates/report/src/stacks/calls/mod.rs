//! Tells from machine code whether a stack can be what it is said to be: which call stands in front of a return address, and
//! whom it reaches.
//!
//! ```text
//!   caller   call f        ◄─ `before`: a direct call, one through a register or memory, or none
//!            …             ◄─ return address
//!   f        jmp g         ◄─ `flow`: where control can go from f without another call
//!   g        …             ◄─ the callee: reached, so this edge is possible
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `x86_64`, `aarch64` | instructions |
//! | `opened`, `code` | files of images, opened when one is asked for; bytes, functions, stubs of one image |
//! | `flow` | what is reached from an address by jumps |
//! | `jit` | calls in JIT code, by the bytes that the recorder has read |
//! | `depth` | how much stack a function has taken at an instruction |
//! | `edges` | impossible edges of a whole profile |
//!
//! It must not cry wolf: whatever cannot be told is no impossible edge. docs/UNWINDING.md lists what it cannot see.

mod aarch64;
mod code;
mod depth;
mod edges;
mod flow;
mod jit;
mod opened;
mod x86_64;

use icecore_elf::calls::{self, Before};

pub(crate) use edges::{FoundBy, Impossible, ImpossibleRow, impossible};
use icecore_unwind::Machine;
pub(crate) use jit::{Moment, Sites};
pub(crate) use opened::{Calls, Files, Judge};

/// Tells whether the last instruction of some machine code may be a call.
pub(crate) fn ends_with_call(machine: Machine, code: &[u8]) -> bool {
    before(machine, code, 0).is_some()
}

/// Finds the calls that may end where these bytes end, which is the return address.
fn before(machine: Machine, code: &[u8], return_address: u64) -> Before {
    match machine {
        Machine::X86_64 => calls::x86_64::before(code, return_address),
        Machine::Aarch64 => calls::aarch64::before(code, return_address),
    }
}

/// An instruction, as far as the way of control goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// The address of the next instruction.
    next: u64,
    goes: Goes,
}

/// Where control goes behind an instruction, in the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// To the next instruction.
    On,
    To(u64),
    OnOrTo(u64),
    /// To where a register, memory or the stack says.
    Anywhere,
    /// Out of the call, or it ends.
    Nowhere,
}

#[cfg(test)]
mod tests;
