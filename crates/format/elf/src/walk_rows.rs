//! Compiles unwind tables (CFI) into rows that a walk in the kernel can use: on x86-64, where nearly all code needs no more than the
//! stack pointer and the frame pointer.
//!
//! ```text
//! .eh_frame ─► functions, in order ─► rows: from here on, CFA = rsp + 16, rbp saved at CFA - 16
//! ```
//!
//! Rules that need another register or an expression become [`RowKind::Unknown`], except for the three expressions that every program
//! has: of stubs (PLT), of signal frames, and of functions that align their stack. A walk that comes to an unknown row ends there.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, Register, RegisterRule, RunTimeEndian, UnwindContext,
    UnwindContextStorage, UnwindExpression, UnwindTableRow,
};
use object::read::ReadRef;

use crate::{EhFrameHdr, Layout, Machine, Svma, cfi};

/// The longest `.eh_frame` that is read, bytes. The longest of some hundred programs and libraries, in rustc, has 22 MiB.
pub const MAX_EH_FRAME_BYTES: u64 = 64 << 20;
/// The most rows of a file: 32 MiB of them.
pub const MAX_ROWS: usize = 4 << 20;
/// `r` of [`Row::fp`]: the frame pointer is the caller's.
pub const FP_SAME: u8 = 0;
/// The frame pointer of the caller is unknown.
pub const FP_LOST: u8 = 255;

const FP: Register = Register(6);
const SP: Register = Register(7);
const PC: Register = Register(16);
const WORD: i64 = 8;

/// What holds from a place on, until the next row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Distance of the place from [`WalkRows::begin`], bytes.
    pub at: u32,
    /// By the kind: words or bytes from the base to the CFA.
    pub cfa: u16,
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
}

/// The rows of a file, in the order of their places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WalkRows {
    /// The offset in the file from which places count.
    pub begin: u64,
    /// At most [`MAX_ROWS`]. The first row of a function has [`Row::is_start`]; neighbours in a function differ.
    pub rows: Vec<Row>,
}

/// Evaluates at most 7 nested `DW_CFA_remember_state`, and 64 registers.
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(Register, RegisterRule<usize>); 64];
    type Stack = Box<[UnwindTableRow<usize, Self>; 8]>;
}

type Section<'d> = EhFrame<EndianSlice<'d, RunTimeEndian>>;

/// A function: its places, and its rows in the order in which they were read.
struct Function {
    places: Range<u32>,
    rows: Range<usize>,
}

impl Row {
    /// The row as the kernel has it: place, CFA, frame pointer, kind from the lowest bit on.
    pub fn bits(self) -> u64 {
        let kind = self.kind as u64 | u64::from(self.is_start) << 7;
        u64::from(self.at) | u64::from(self.cfa) << 32 | u64::from(self.fp) << 48 | kind << 56
    }

    fn unknown(at: u32) -> Self {
        Self { at, cfa: 0, fp: FP_LOST, kind: RowKind::Unknown, is_start: false }
    }

    fn has_rule_of(&self, other: &Self) -> bool {
        (self.cfa, self.fp, self.kind) == (other.cfa, other.fp, other.kind)
    }
}

impl WalkRows {
    /// Compiles the `.eh_frame` of a file; `None` if it has none, is of another machine, or is too large.
    ///
    /// # Cost  one pass over `.eh_frame`: 0.1 µs a row; the section and 8 bytes a row in memory
    pub fn of_file<'d>(file: impl ReadRef<'d>, layout: &Layout) -> Option<Self> {
        let is_known = Machine::of_elf(layout.machine.0) == Some(Machine::X86_64) && layout.is_little_64();
        let (at, bytes) = is_known.then(|| section(file, layout))??;
        let (section, bases) = cfi::eh_frame(layout, bytes, at);
        let begin = layout.code_offsets().map(|code| code.start).min()?;
        let mut compiler = Compiler { layout, begin, rows: Vec::new(), functions: Vec::new() };
        let mut context = UnwindContext::<usize, Storage>::new_in();
        for (_, fde) in cfi::fdes(&section, &bases) {
            compiler.function(&section, &bases, &fde, &mut context);
            if compiler.rows.len() > MAX_ROWS {
                return None;
            }
        }
        Some(compiler.rows())
    }
}

/// Returns the address and the bytes of `.eh_frame`; without section headers `.eh_frame_hdr` leads to it, and it marks its own end.
fn section<'d>(file: impl ReadRef<'d>, layout: &Layout) -> Option<(u64, &'d [u8])> {
    if let Some(section) = layout.section(".eh_frame").filter(|section| !section.is_nobits) {
        return (section.len <= MAX_EH_FRAME_BYTES)
            .then(|| Some((section.at.0, layout.bytes_of(section, file)?)))?;
    }
    let at = EhFrameHdr::of_file(file, layout)?.eh_frame();
    let (off, len) = layout.rest_of_segment(at)?;
    Some((at.0, file.read_bytes_at(off.0, len.min(MAX_EH_FRAME_BYTES)).ok()?))
}

struct Compiler<'l> {
    layout: &'l Layout,
    begin: u64,
    rows: Vec<Row>,
    functions: Vec<Function>,
}

impl Compiler<'_> {
    /// Appends the rows of a function. A function whose rules cannot be read has none from there on.
    fn function(
        &mut self,
        section: &Section<'_>,
        bases: &BaseAddresses,
        fde: &cfi::Fde<'_, RunTimeEndian>,
        context: &mut UnwindContext<usize, Storage>,
    ) {
        let start = Svma(fde.initial_address());
        let Some((off, rest)) = self.layout.rest_of_segment(start).filter(|_| self.layout.is_code(start))
        else {
            return;
        };
        let place = |off: u64| off.checked_sub(self.begin).and_then(|at| u32::try_from(at).ok());
        let Some(first) = place(off.0) else { return };
        let Some(end) = off.0.checked_add(fde.len().min(rest)).and_then(place) else { return };
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
fn compiled<S: UnwindContextStorage<usize>>(
    at: u32,
    row: &UnwindTableRow<usize, S>,
    is_signal: bool,
    section: &Section<'_>,
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
    if row.register(PC) != Some(RegisterRule::Offset(-WORD)) || moves_sp {
        return unknown;
    }
    let fp = match row.register(FP) {
        None | Some(RegisterRule::SameValue) => FP_SAME,
        Some(RegisterRule::Offset(off)) => words(-off).filter(|fp| *fp < FP_LOST).unwrap_or(FP_LOST),
        Some(_) => FP_LOST,
    };
    let (kind, cfa) = match row.cfa() {
        CfaRule::RegisterAndOffset { register, offset } => match (*register, words(*offset)) {
            (SP, Some(cfa)) => (RowKind::Sp, cfa),
            (FP, Some(cfa)) => (RowKind::Fp, cfa),
            _ => return unknown,
        },
        CfaRule::Expression(expression) => match *bytes(section, expression) {
            // DW_OP_breg7 8, breg16 0, lit15, and, litN, ge, lit3, shl, plus
            [0x77, 8, 0x80, 0, 0x3f, 0x1a, from @ 0x31..=0x3f, 0x2a, 0x33, 0x24, 0x22] => {
                (RowKind::Stub, u16::from(from - 0x30))
            }
            // DW_OP_breg6 -N, deref
            [0x76, off @ 0x40..=0x7f, 0x06] if is_saved_at_fp(row, section) => {
                (RowKind::Aligned, u16::from(0x80 - off))
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
fn is_saved_at_fp<S: UnwindContextStorage<usize>>(
    row: &UnwindTableRow<usize, S>,
    section: &Section<'_>,
) -> bool {
    let Some(RegisterRule::Expression(place)) = row.register(FP) else { return false };
    bytes(section, &place) == [0x76, 0]
}

/// Returns true if the rules of a signal frame are those of `struct rt_sigframe`: registers lie at fixed distances from the stack pointer.
fn is_signal_frame<S: UnwindContextStorage<usize>>(
    row: &UnwindTableRow<usize, S>,
    section: &Section<'_>,
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

fn bytes<'d>(section: &Section<'d>, expression: &UnwindExpression<usize>) -> &'d [u8] {
    expression.get(section).map(|expression| expression.0.slice()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::assembled;

    fn rows_of(elf: &[u8]) -> WalkRows {
        WalkRows::of_file(elf, &Layout::read(elf).expect("ELF")).expect("unwind tables")
    }

    /// Returns the row that holds at a distance from the begin of the code.
    fn row(rows: &WalkRows, at: u32) -> Row {
        let after = rows.rows.partition_point(|row| row.at <= at);
        rows.rows[after.checked_sub(1).expect("a row before it")]
    }

    /// Returns kind, CFA and frame pointer at each of so many bytes of the only function of a source, and after it.
    fn told(directives: &str, len: u32) -> Vec<(RowKind, u16, u8)> {
        let source = format!(".globl _start; _start: .cfi_startproc; {directives}; .cfi_endproc");
        let elf = assembled(&source);
        let rows = rows_of(&elf);
        let layout = Layout::read(&elf[..]).expect("ELF");
        let (off, _) = layout.rest_of_segment(layout.entry).expect("code");
        let first = (off.0 - rows.begin) as u32;
        assert!(row(&rows, first).is_start);
        let told = |at| {
            let Row { kind, cfa, fp, .. } = row(&rows, first + at);
            (kind, cfa, fp)
        };
        (0..=len).map(told).collect()
    }

    const UNKNOWN: (RowKind, u16, u8) = (RowKind::Unknown, 0, FP_LOST);

    #[test]
    fn rows_say_what_the_directives_say() {
        let frame = "push %rbp; .cfi_def_cfa_offset 16; .cfi_offset %rbp, -16
            nop; .cfi_def_cfa_register %rbp; nop; .cfi_def_cfa %rsp, 8; nop";
        let expected = [
            (RowKind::Sp, 1, FP_SAME),
            (RowKind::Sp, 2, 2),
            (RowKind::Fp, 2, 2),
            (RowKind::Sp, 1, 2),
            UNKNOWN,
        ];
        assert_eq!(told(frame, 4), expected);
        let root = ".cfi_undefined %rip; nop";
        assert_eq!(told(root, 1), [(RowKind::Root, 0, FP_LOST), UNKNOWN]);
        // The frame pointer lies too far from the CFA, and is somewhere else.
        for lost in [".cfi_offset %rbp, -2040", ".cfi_register %rbp, %rax", ".cfi_undefined %rbp"] {
            assert_eq!(told(&format!("{lost}; nop"), 1)[0], (RowKind::Sp, 1, FP_LOST), "{lost}");
        }
        assert_eq!(told(".cfi_offset %rbp, -2032; nop", 1)[0], (RowKind::Sp, 1, 254));
    }

    #[test]
    fn expressions_that_every_program_has_are_known() {
        let stub = ".cfi_escape 0x0f, 11, 0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22; nop";
        assert_eq!(told(stub, 1)[0], (RowKind::Stub, 11, FP_SAME));
        let aligned = ".cfi_escape 0x0f, 3, 0x76, 0x78, 6; .cfi_escape 0x10, 6, 2, 0x76, 0; nop";
        assert_eq!(told(aligned, 1)[0], (RowKind::Aligned, 8, FP_LOST));
        let signal = ".cfi_signal_frame
            .cfi_escape 0x0f, 4, 0x77, 0xa0, 1, 6; .cfi_escape 0x10, 6, 3, 0x77, 0xf8, 0
            .cfi_escape 0x10, 16, 3, 0x77, 0xa8, 1; nop";
        assert_eq!(told(signal, 1)[0], (RowKind::Signal, 0, FP_LOST));
    }

    #[test]
    fn rules_that_do_not_fit_are_unknown() {
        for unknown in [
            // A CFA from another register, of no whole words, behind the stack pointer, and too large.
            ".cfi_def_cfa %rbx, 16",
            ".cfi_def_cfa_offset 12",
            ".cfi_def_cfa_offset -8",
            ".cfi_def_cfa_offset 524288",
            // A return address elsewhere.
            ".cfi_offset %rip, -16",
            ".cfi_register %rip, %rcx",
            // The caller's stack pointer is not the CFA.
            ".cfi_offset %rsp, -24",
            // An aligned stack whose frame pointer is elsewhere, and an expression of another form.
            ".cfi_escape 0x0f, 3, 0x76, 0x78, 6",
            ".cfi_escape 0x0f, 3, 0x77, 0x78, 6; .cfi_escape 0x10, 6, 2, 0x76, 0",
            // A signal frame of another form.
            ".cfi_signal_frame",
        ] {
            assert_eq!(told(&format!("{unknown}; nop"), 1)[0], UNKNOWN, "{unknown}");
        }
    }

    #[test]
    fn functions_that_overlap_and_gaps_between_them_are_cut() {
        let source = ".globl _start; _start: .cfi_startproc; nop; nop
            .cfi_endproc; nop; nop
            second: .cfi_startproc; nop; .cfi_def_cfa_offset 16; nop; .cfi_endproc";
        let rows = rows_of(&assembled(source));
        let last = &rows.rows[rows.rows.len() - 5..];
        let first = last[0].at;
        let told: Vec<_> = last.iter().map(|row| (row.at - first, row.kind, row.cfa, row.is_start)).collect();
        let expected = [
            (0, RowKind::Sp, 1, true),
            (2, RowKind::Unknown, 0, false),
            (4, RowKind::Sp, 1, true),
            (5, RowKind::Sp, 2, false),
            (6, RowKind::Unknown, 0, false),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn rows_of_a_real_program_ascend_and_nearly_all_are_known() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let rows = rows_of(&elf).rows;
        assert!(rows.is_sorted_by(|a, b| a.at < b.at) && rows.len() > 10_000);
        let unknown = rows
            .iter()
            .zip(&rows[1..])
            .filter(|(row, next)| row.kind == RowKind::Unknown && next.at - row.at >= 16);
        assert!(unknown.count() * 1000 < rows.len());
        assert_eq!(WalkRows::of_file(&b"no ELF"[..], &Layout::read(&elf[..]).expect("ELF")), None);
    }

    #[test]
    fn the_bits_of_a_row_are_those_of_the_walk() {
        let row = Row { at: 0x1234_5678, cfa: 0x9abc, fp: 0xde, kind: RowKind::Aligned, is_start: true };
        assert_eq!(row.bits(), 0x86de_9abc_1234_5678);
    }
}
