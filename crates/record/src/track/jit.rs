//! JIT code, as its process reports it.

use std::ops::Range;
use std::sync::Arc;

use icecore_elf::Avma;
pub(crate) use icecore_format::records::Language;

/// A piece of JIT code that a process reports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Piece {
    pub start: Avma,
    pub end: Avma,
    /// 0 if unknown, as in the next.
    pub(crate) since_ns: u64,
    pub(crate) until_ns: u64,
    pub name: Vec<u8>,
    /// Its unwind tables; empty if there are none.
    pub rules: Vec<u8>,
    /// The lines that contain a requested address, ascending.
    pub(crate) lines: Vec<Line>,
    pub(crate) language: Language,
}

/// The source line of a piece of code from an offset on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) off: u64,
    /// Empty if unknown.
    pub(crate) file: Arc<[u8]>,
    /// 0 if unknown.
    pub(crate) line: u32,
    /// The functions that are inlined there, innermost first.
    pub(crate) inlined: Vec<Inlined>,
}

/// A function that is inlined into the next one, or the last into that of the piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inlined {
    pub(crate) name: Arc<[u8]>,
    /// Where it is called; empty if unknown.
    pub(crate) call_file: Arc<[u8]>,
    /// 0 if unknown.
    pub(crate) call_line: u32,
}

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
