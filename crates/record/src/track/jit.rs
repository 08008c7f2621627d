//! Interpreters of virtual machines, and JIT code of address spaces.

use std::ops::Range;

use icecore_jit::Piece;

/// The interpreter of a virtual machine, which keeps a frame pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// Its machine code.
    pub(crate) code: Range<u64>,
    /// How far below the frame pointer a frame has its method, and its instruction (bytecode).
    pub(crate) method_below: u64,
    pub(crate) instruction_below: u64,
    /// The instructions of the methods that are known, ascending.
    pub(crate) methods: Vec<Range<u64>>,
}

impl Interpreter {
    /// Returns true if a word is an instruction of a method that is known, and thus no secret.
    pub(crate) fn knows(&self, instruction: u64) -> bool {
        let behind = self.methods.partition_point(|it| it.start <= instruction);
        behind.checked_sub(1).is_some_and(|at| self.methods[at].contains(&instruction))
    }
}

/// A piece of code of one address space.
#[derive(Debug, Clone)]
pub(crate) struct Made {
    pub(crate) tgid: u32,
    pub(crate) piece: Piece,
}
