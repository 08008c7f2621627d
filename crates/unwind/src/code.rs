//! What machine code shows that unwind tables do not. The caller of this library has the code and answers.

use icecore_elf::Avma;

/// What the code shows of a call from one function to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// The code calls the callee's function directly, or a function that jumps to it.
    Calls,
    /// The code calls through a register, memory or a PLT stub, and may reach the callee.
    MayCall,
    /// The code has no call there, or directly calls a function that does not reach the callee.
    Impossible,
    /// The caller's code is not available, or cannot be judged.
    Unknown,
}

/// The frame of a function at an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes from the stack pointer to the return address, if known.
    pub from_sp: Option<u64>,
    /// Bytes from the frame pointer to the return address, if the frame pointer points into the frame. This holds even where a
    /// function has aligned its stack, or called one that removed its arguments.
    pub from_fp: Option<u64>,
    /// Where the caller's frame pointer is.
    pub fp: CallersFp,
}

impl Shape {
    /// Returns the address of the return address.
    pub fn slot(&self, sp: Avma, fp: Option<u64>) -> Option<Avma> {
        let by_fp = fp.zip(self.from_fp).map(|(fp, bytes)| Avma(fp).wrapping_add(bytes));
        by_fp.or_else(|| self.from_sp.map(|bytes| sp.wrapping_add(bytes)))
    }
}

/// The location of the caller's frame pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallersFp {
    /// It is still in its register.
    Kept,
    /// It is on the stack, so many bytes below the return address.
    Saved(u64),
    /// Its location is unknown.
    Lost,
}
