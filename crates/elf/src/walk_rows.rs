//! Compiles unwind tables (CFI) into rows that a walk in the kernel can use: on x86-64, where nearly all code needs no more than the
//! stack pointer and the frame pointer.
//!
//! ```text
//! .eh_frame, Go's table ─► functions, in order ─► rows: from here on, CFA = rsp + 16, rbp saved at CFA - 16
//! ```
//!
//! Rules that need another register or an expression become [`RowKind::Unknown`], except for the three expressions that every program
//! has: of stubs (PLT), of signal frames, and of functions that align their stack. A walk that comes to an unknown row ends there.

mod of_entry;
mod of_go;

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EndianSlice, Register, RegisterRule, RunTimeEndian, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindSection, UnwindTableRow,
};
use object::Endian as _;
use object::read::ReadRef;

use crate::{EhFrameHdr, Layout, Machine, Svma, cfi};

/// The longest `.eh_frame` that is read, bytes. The longest of some hundred programs and libraries, in rustc, has 22 MiB.
pub const MAX_EH_FRAME_BYTES: u64 = 64 << 20;
/// The most rows of a file: 32 MiB of them.
pub const MAX_ROWS: usize = 4 << 20;
/// The largest [`Row::cfa`]: 4 MiB. Frames of half a MiB are in rustc.
const MAX_CFA: u32 = (1 << 19) - 1;
/// `r` of [`Row::fp`]: the frame pointer is the caller's.
pub const FP_SAME: u8 = 0;
/// The frame pointer of the caller is unknown.
pub const FP_LOST: u8 = 255;

const FP: Register = Register(6);
/// Registers that a function saves in order to return what it likes in them (`__builtin_eh_return`): rax and rdx.
const RESULTS: [Register; 2] = [Register(0), Register(1)];
/// One that a function saves besides these only if it saves all arguments of its caller (`_mcount`, `__fentry__`): rcx.
const ARGUMENT: Register = Register(2);
const SP: Register = Register(7);
const PC: Register = Register(16);
const WORD: i64 = 8;

/// What holds from a place on, until the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Distance of the place from [`WalkRows::begin`], bytes.
    pub at: u32,
    /// By the kind: words or bytes from the base to the CFA, 19 bits.
    pub cfa: u32,
    /// Words from the CFA down to the saved frame pointer; or [`FP_SAME`], [`FP_LOST`].
    pub fp: u8,
    /// How the caller is found.
    pub kind: RowKind,
    /// A function begins here.
    pub is_start: bool,
}

/// How the caller of a frame is found. Its return address lies below the CFA, unless the kind says something else. The numbers are
/// those of `enum row_kind` in bpf/wire.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum RowKind {
    /// No tables cover the place, or a rule needs more than a row holds.
    Unknown = 0,
    /// CFA = rsp + 8 · `cfa`.
    Sp = 1,
    /// CFA = rbp + 8 · `cfa`.
    Fp = 2,
    /// There is no caller: the return address is declared undefined.
    Root = 3,
    /// The kernel has made the frame for a signal, in the form of `struct rt_sigframe`.
    Signal = 4,
    /// CFA = rsp + 8, and 8 more from the `cfa`th byte of a 16-byte stub on.
    Stub = 5,
    /// CFA = the word at rbp − `cfa`, and the caller's rbp is the word at rbp: the function aligns its stack.
    Aligned = 6,
    /// A function of Go has switched to another stack. With `cfa` 0 Go has noted where it left the old one. Else the word that is `fp`
    /// words above rsp is the goroutine, and the word below it how deep its stack is there; the CFA is `cfa` words above. If the
    /// goroutine is 0, it is the same stack, and the word below a stack pointer.
    Switch = 7,
    /// As [`Sp`](Self::Sp): the place that Go notes where it leaves a stack. Nobody is called from there.
    Mark = 8,
}

/// The rows of a file, in the order of their places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WalkRows {
    /// The offset in the file from which places count.
    pub begin: u64,
    /// At most [`MAX_ROWS`], in ascending order of [`Row::at`], one for each place. The first row of a function has [`Row::is_start`]; neighbours in a function differ.
    pub rows: Vec<Row>,
}

/// Evaluates at most 7 nested `DW_CFA_remember_state`, and 64 registers.
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); 64];
    type Stack = Box<[UnwindTableRow<usize, Self>; 8]>;
}

type Slice<'d> = EndianSlice<'d, RunTimeEndian>;
type Context = UnwindContext<usize, Storage>;

/// A function: its places, and its rows in the order in which they were read.
struct Function {
    places: Range<u32>,
    rows: Range<usize>,
}

impl Row {
    /// The row as the kernel has it: place, CFA, frame pointer, kind from the lowest bit on.
    pub fn bits(self) -> u64 {
        let kind = self.kind as u64 | u64::from(self.is_start) << 4;
        u64::from(self.at) | u64::from(self.cfa) << 32 | u64::from(self.fp) << 51 | kind << 59
    }

    fn unknown(at: u32) -> Self {
        Self { at, cfa: 0, fp: FP_LOST, kind: RowKind::Unknown, is_start: false }
    }

    fn has_rule_of(&self, other: &Self) -> bool {
        (self.cfa, self.fp, self.kind) == (other.cfa, other.fp, other.kind)
    }
}

impl WalkRows {
    /// Compiles the `.eh_frame` of a file, and Go's table of stack depths; `None` if it has neither, is of another machine, or is
    /// too large. Before each function it asks whether it `goes_on`, and gives up if not.
    ///
    /// # Cost  one pass over `.eh_frame`: 0.1 µs a row; 2 µs a function of Go; the sections and 8 bytes a row in memory. A hostile file costs
    /// more: what functions have in common is evaluated for each of them (1 KiB at most: 12 µs), and their own rules (128 KiB: 2 ms).
    pub fn of_file<'d>(
        file: impl ReadRef<'d>,
        layout: &Layout,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Option<Self> {
        let is_known = Machine::of_elf(layout.machine.0) == Some(Machine::X86_64) && layout.is_little_64();
        let begin = layout.code_offsets().map(|code| code.start).min().filter(|_| is_known)?;
        let mut compiler = Compiler { layout, begin, rows: Vec::new(), functions: Vec::new() };
        let mut context = Context::new_in();
        if let Some((at, bytes)) = section(file, layout) {
            let (section, bases) = cfi::eh_frame(layout, bytes, at);
            let table = EhFrameHdr::of_file(file, layout).filter(EhFrameHdr::is_sorted);
            for (off, fde) in cfi::fdes(&section, &bases) {
                if !goes_on() {
                    return None;
                }
                // A tool that rewrites programs leaves the older description of a function behind the one that counts.
                let (start, fde_at) = (Svma(fde.initial_address()), Svma(at.wrapping_add(off as u64)));
                let listed = table.and_then(|table| table.before(start)).filter(|listed| listed.0 == start);
                if listed.is_some_and(|(_, listed_at)| listed_at != fde_at) {
                    continue;
                }
                compiler.function(&section, &bases, &fde, &mut context);
                if compiler.rows.len() > MAX_ROWS {
                    return None;
                }
            }
        }
        of_entry::add(&mut compiler, file);
        of_go::add(&mut compiler, file, layout, &mut context, goes_on);
        (1..=MAX_ROWS).contains(&compiler.rows.len()).then(|| compiler.rows())
    }
}

/// Returns the address and the bytes of `.eh_frame`; without section headers `.eh_frame_hdr` leads to it, and to its last description.
fn section<'d>(file: impl ReadRef<'d>, layout: &Layout) -> Option<(u64, &'d [u8])> {
    if let Some(section) = layout.section(".eh_frame").filter(|section| !section.is_nobits) {
        return (section.len <= MAX_EH_FRAME_BYTES)
            .then(|| Some((section.at.0, layout.bytes_of(section, file)?)))?;
    }
    let table = EhFrameHdr::of_file(file, layout)?;
    let at = table.eh_frame();
    let (off, rest) = layout.rest_of_segment(at)?;
    let last = table.last_entry().0.checked_sub(at.0).filter(|last| *last < rest)?;
    let len = layout.endian.read_u32(*file.read_bytes_at(off.0.checked_add(last)?, 4).ok()?.first_chunk()?);
    let len = last.checked_add(4 + u64::from(len))?.min(rest);
    Some((at.0, file.read_bytes_at(off.0, len.min(MAX_EH_FRAME_BYTES)).ok()?))
}

struct Compiler<'l> {
    layout: &'l Layout,
    begin: u64,
    rows: Vec<Row>,
    functions: Vec<Function>,
}

impl Compiler<'_> {
    /// Appends the rows of a function, and returns them. A function whose rules cannot be read has none from there on.
    fn function<'d, S: UnwindSection<Slice<'d>>>(
        &mut self,
        section: &S,
        bases: &BaseAddresses,
        fde: &cfi::Fde<'d, RunTimeEndian>,
        context: &mut Context,
    ) -> &mut [Row] {
        let start = Svma(fde.initial_address());
        let Some(Range { start: first, end }) = self.places(start, fde.len()) else { return &mut [] };
        let own = self.rows.len();
        let mut next = first;
        if let Ok(mut table) = fde.rows(section, bases, context) {
            while let Ok(Some(row)) = table.next_row() {
                let at = row.start_address().checked_sub(start.0);
                let Some(at) = at.and_then(|at| u32::try_from(at).ok()?.checked_add(first)) else { break };
                if at < next || at >= end || self.rows.len() > MAX_ROWS {
                    break;
                }
                let row = compiled(at, row, fde.is_signal_trampoline(), section);
                // An advance by no byte: of several rules for a place, the last one holds.
                if self.rows[own..].last().is_some_and(|last| last.at == at) {
                    self.rows.pop();
                }
                let last = self.rows[own..].last();
                if last.is_none_or(|last| !last.has_rule_of(&row)) {
                    self.rows.push(Row { is_start: at == first, ..row });
                }
                next = at;
            }
        }
        if self.rows.len() == own && end > first {
            self.rows.push(Row { is_start: true, ..Row::unknown(first) });
        }
        self.functions.push(Function { places: first..end, rows: own..self.rows.len() });
        &mut self.rows[own..]
    }

    /// Returns the places of a function of so many bytes, if it lies in code.
    fn places(&self, start: Svma, len: u64) -> Option<Range<u32>> {
        let (off, rest) = self.layout.rest_of_segment(start).filter(|_| self.layout.is_code(start))?;
        let place = |off: u64| off.checked_sub(self.begin).and_then(|at| u32::try_from(at).ok());
        Some(place(off.0)?..place(off.0.checked_add(len.min(rest))?)?)
    }

    /// Puts the functions in order, and unknown rows between them. Where two overlap, the second is right from its start on.
    fn rows(mut self) -> WalkRows {
        self.functions.sort_by_key(|function| (function.places.start, function.places.end));
        let mut rows: Vec<Row> = Vec::with_capacity(self.rows.len() + self.functions.len());
        let mut end = 0;
        for Function { places, rows: own } in self.functions {
            if places.start > end && !rows.is_empty() {
                rows.push(Row::unknown(end));
            }
            while rows.last().is_some_and(|last| last.at >= places.start) {
                rows.pop();
            }
            rows.extend_from_slice(&self.rows[own]);
            end = places.end;
        }
        if !rows.is_empty() {
            rows.push(Row::unknown(end));
        }
        WalkRows { begin: self.begin, rows }
    }
}

/// Makes a row of the rules from a place on.
fn compiled<'d>(
    at: u32,
    row: &UnwindTableRow<usize, Storage>,
    is_signal: bool,
    section: &impl UnwindSection<Slice<'d>>,
) -> Row {
    let unknown = Row::unknown(at);
    if row.register(PC) == Some(RegisterRule::Undefined) {
        return Row { kind: RowKind::Root, ..unknown };
    }
    if is_signal {
        let is_known = is_signal_frame(row, section);
        return if is_known { Row { kind: RowKind::Signal, ..unknown } } else { unknown };
    }
    let moves_sp = !matches!(row.register(SP), None | Some(RegisterRule::SameValue));
    // Before it goes to the handler of an exception, the unwinder overwrites its own frame: what is saved there is the handler's.
    let saves = |register: &Register| matches!(row.register(*register), Some(RegisterRule::Offset(_)));
    let installs = RESULTS.iter().any(saves) && !saves(&ARGUMENT);
    if row.register(PC) != Some(RegisterRule::Offset(-WORD)) || moves_sp || installs {
        return unknown;
    }
    let fp = match row.register(FP) {
        None | Some(RegisterRule::SameValue) => FP_SAME,
        Some(RegisterRule::Offset(off)) => words(-off).filter(|fp| *fp < FP_LOST).unwrap_or(FP_LOST),
        Some(_) => FP_LOST,
    };
    let (kind, cfa) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => {
            match (*register, words(*offset).filter(|cfa| *cfa <= MAX_CFA)) {
                (SP, Some(cfa)) => (RowKind::Sp, cfa),
                (FP, Some(cfa)) => (RowKind::Fp, cfa),
                _ => return unknown,
            }
        }
        CfaRule::Expression(expression) => match *bytes(section, expression) {
            // DW_OP_breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus
            [0x77, 8, 0x80, 0, 0x3f, 0x1a, from @ 0x31..=0x3f, 0x2a, 0x33, 0x24, 0x22] => {
                (RowKind::Stub, u32::from(from - 0x30))
            }
            // DW_OP_breg6 -N, deref
            [0x76, off @ 0x40..=0x7f, 0x06] if is_saved_at_fp(row, section) => {
                (RowKind::Aligned, u32::from(0x80 - off))
            }
            _ => return unknown,
        },
    };
    Row { cfa, fp, kind, ..unknown }
}

/// Returns whole words; `None` also for none at all, and more than fit.
fn words<N: TryFrom<i64>>(bytes: i64) -> Option<N> {
    N::try_from(bytes / WORD).ok().filter(|_| bytes > 0 && bytes % WORD == 0)
}

/// Returns true if the caller's frame pointer is the word at the frame pointer (`DW_OP_breg6 0`).
fn is_saved_at_fp<'d>(row: &UnwindTableRow<usize, Storage>, section: &impl UnwindSection<Slice<'d>>) -> bool {
    let Some(RegisterRule::Expression(place)) = row.register(FP) else { return false };
    bytes(section, &place) == [0x76, 0]
}

/// Returns true if the rules of a signal frame are those of `struct rt_sigframe`: registers lie at fixed distances from the stack pointer.
fn is_signal_frame<'d>(
    row: &UnwindTableRow<usize, Storage>,
    section: &impl UnwindSection<Slice<'d>>,
) -> bool {
    // DW_OP_breg7 N, in two bytes of LEB128
    let saved = |register, at: u8| {
        let Some(RegisterRule::Expression(place)) = row.register(register) else { return false };
        bytes(section, &place) == [0x77, at | 0x80, at >> 7]
    };
    let CfaRule::Expression(cfa) = row.cfa() else { return false };
    // DW_OP_breg7 160, deref
    bytes(section, cfa) == [0x77, 0xa0, 1, 0x06] && saved(FP, 120) && saved(PC, 168)
}

fn bytes<'d>(section: &impl UnwindSection<Slice<'d>>, expression: &UnwindExpression<usize>) -> &'d [u8] {
    expression.get(section).map(|expression| expression.0.slice()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
