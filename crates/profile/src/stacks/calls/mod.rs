//! Judges from machine code whether a stack is possible: which call lies before a return address, and which function it reaches.
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
//! | `opened`, `code` | files of images, opened on demand; bytes, functions and PLT stubs of one image |
//! | `flow` | the code that jumps reach from an address |
//! | `depth` | how much stack a function uses at an instruction |
//! | `judged` | calls and frames, judged by the code of one image |
//! | `edges` | impossible edges of a whole profile |
//!
//! No false alarms: an edge that cannot be judged never counts as impossible. docs/UNWINDING.md lists the limits.

mod aarch64;
mod code;
mod depth;
mod edges;
mod flow;
mod judged;
mod opened;
mod x86_64;

use icecore_elf::Svma;
use icecore_elf::calls::{self, Before};

pub use edges::{Counts, FoundBy, Impossible, ImpossibleRow};
use icecore_unwind::Machine;
pub use opened::{Calls, Files, Judge, with_code};

/// Returns true if the last instruction of some machine code may be a call.
pub(crate) fn ends_with_call(machine: Machine, code: &[u8]) -> bool {
    before(machine, code, 0).is_some()
}

/// Returns the machine code of signal trampolines: the system call `rt_sigreturn`.
pub(crate) fn signal_returns(machine: Machine) -> &'static [&'static [u8]] {
    match machine {
        Machine::X86_64 => &[
            &[0x48, 0xc7, 0xc0, 15, 0, 0, 0, 0x0f, 0x05], // mov $15, %rax; syscall
            &[0xb8, 15, 0, 0, 0, 0x0f, 0x05],             // mov $15, %eax; syscall
        ],
        Machine::Aarch64 => &[&[0x68, 0x11, 0x80, 0xd2, 0x01, 0, 0, 0xd4]], // mov x8, #139; svc #0
    }
}

/// Finds the calls that may end at the return address, where these bytes end.
fn before(machine: Machine, code: &[u8], return_address: u64) -> Before {
    match machine {
        Machine::X86_64 => calls::x86_64::before(code, return_address),
        Machine::Aarch64 => calls::aarch64::before(code, return_address),
    }
}

/// The control flow of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    /// The address of the next instruction.
    next: Svma,
    goes: Goes,
}

/// Where control goes after an instruction, in the same call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    /// To the next instruction.
    On,
    To(Svma),
    OnOrTo(Svma),
    /// To an address in a register, in memory or on the stack.
    Anywhere,
    /// Control leaves the call, or ends.
    Nowhere,
}

#[cfg(test)]
mod tests;
