//! What machine code tells that unwind tables do not. Whoever has the code answers.

/// What the code says of a caller and a callee.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Edge {
    /// A direct call of the function of the callee, or of one that jumps on to it.
    Calls,
    /// A call of it, or of another function: through a register, memory, or a stub of the linker.
    MayCall,
    /// No call, or a direct one of a function from which the callee is not reached.
    Impossible,
    /// The code of the caller is not at hand, or was not made to be told.
    Unknown,
}

/// The frame of a function at an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes from the stack pointer to the return address, if they are known.
    pub from_sp: Option<u64>,
    /// The same from the frame pointer, if that points into the frame. It holds also where a function has aligned its stack, or
    /// called one that took its arguments away.
    pub from_fp: Option<u64>,
    /// The caller's frame pointer.
    pub fp: CallersFp,
}

impl Shape {
    /// Where the return address lies.
    pub fn slot(&self, sp: u64, fp: Option<u64>) -> Option<u64> {
        let by_fp = fp.zip(self.from_fp).map(|(fp, bytes)| fp.wrapping_add(bytes));
        by_fp.or_else(|| self.from_sp.map(|bytes| sp.wrapping_add(bytes)))
    }
}

/// Where the caller's frame pointer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallersFp {
    /// In its register.
    Kept,
    /// So many bytes below the return address.
    Saved(u64),
    /// It cannot be told.
    Lost,
}
