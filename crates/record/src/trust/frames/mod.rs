//! How much of the code of an ELF file keeps frame pointers, by its unwind tables.
//!
//! What a compiler was told is written nowhere, but rules show it: a function that keeps a frame pointer computes its CFA from
//! it (x86-64), or saves it beside the link register (aarch64).

use std::ops::Range;

use gimli::{
    BaseAddresses, CallFrameInstruction, EhFrame, EndianSlice, LittleEndian, Register, UnwindSection, Vendor,
};
use object::elf::{EM_AARCH64, EM_X86_64};
use object::read::ReadRef;

use crate::evidence::rules::{Shared, Table};

/// What lies between two functions and is shorter does not count: the second one is aligned. What every program begins with,
/// which is in no chain, is not longer either.
const PADDING_BYTES: u64 = 256;
/// `DW_OP_breg6`: an expression that begins with rbp.
const BREG6: u8 = 0x76;
/// `DW_OP_breg7 8`, `DW_OP_breg16 0`: what linkers write for stubs, the CFA by the place in the stub.
const STUB: [u8; 4] = [0x77, 8, 0x80, 0];

/// Bytes of code by what is done there with the frame pointer. Functions that leave the stack alone, stubs and outermost
/// functions are not among them: no chain breaks there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Frames {
    pub(super) keeping: u64,
    pub(super) lacking: u64,
    /// No rules, or none that can be read.
    pub(super) unknown: u64,
}

impl Frames {
    /// The share of the code that keeps frame pointers, 0 to 1.
    pub(super) fn share(&self) -> f64 {
        let all = self.keeping.saturating_add(self.lacking).saturating_add(self.unknown);
        if all == 0 { 0.0 } else { self.keeping as f64 / all as f64 }
    }
}

/// Counts the code of a file by so many functions at most, evenly spread; `None` if it has no sorted table of its functions, or
/// is of another machine. `go` is the code that Go has made: it keeps them, and its rules are elsewhere.
///
/// # Cost  3 µs a function
pub(super) fn frames<'d>(file: impl ReadRef<'d>, most: usize, go: &Range<u64>) -> Option<Frames> {
    let table = Table::read(file)?;
    let rules = match table.machine {
        EM_X86_64 => Rules { vendor: Vendor::Default, fp: 6, sp: 7, link: 16, at_entry: 8 },
        EM_AARCH64 => Rules { vendor: Vendor::AArch64, fp: 29, sp: 31, link: 30, at_entry: 0 },
        _ => return None,
    };
    let mut frames = Frames { keeping: go.end - go.start, ..Frames::default() };
    for code in table.code() {
        let functions = table.functions(&code);
        let stride = 1 + functions.len() / most.max(1);
        let first = functions.clone().next().and_then(|number| Some(table.function(number)?.0));
        frames.undescribed(code.start..first.unwrap_or(code.end), go, 1);
        let last = functions.clone().next_back().filter(|last| (last - functions.start) % stride != 0);
        let looked_at = functions.step_by(stride).map(|number| (number, stride as u64));
        for (number, weight) in looked_at.chain(last.map(|last| (last, 1))) {
            frames.function(file, &table, &rules, (&code, go), (number, weight));
        }
    }
    Some(frames)
}

impl Frames {
    fn undescribed(&mut self, code: Range<u64>, go: &Range<u64>, weight: u64) {
        let of_go = code.end.min(go.end).saturating_sub(code.start.max(go.start));
        let len = code.end.saturating_sub(code.start).saturating_sub(of_go);
        if len > PADDING_BYTES {
            self.unknown = self.unknown.saturating_add(len.saturating_mul(weight));
        }
    }

    /// Counts a function, which stands for as many as its weight says, and what lies between it and the next one.
    fn function<'d>(
        &mut self,
        file: impl ReadRef<'d>,
        table: &Table<'d>,
        rules: &Rules,
        (code, go): (&Range<u64>, &Range<u64>),
        (number, weight): (usize, u64),
    ) {
        let Some((start, at)) = table.function(number) else { return };
        let next = table.function(number + 1).map_or(code.end, |(next, _)| next.min(code.end));
        let reach = next.saturating_sub(start);
        let function = table.entries(file, at).and_then(|(entry, shared)| rules.function(entry, &shared));
        let described = function.as_ref().map_or(0, |function| function.len.min(reach));
        self.undescribed(start.saturating_add(described)..start.saturating_add(reach), go, weight);
        let bytes = match function.map(|function| function.keeping) {
            Some(Keeping::Keeps) => &mut self.keeping,
            Some(Keeping::Lacks) => &mut self.lacking,
            Some(Keeping::Frameless) | None => return,
        };
        *bytes = bytes.saturating_add(described.saturating_mul(weight));
    }
}

/// How a machine's rules are read.
struct Rules {
    vendor: Vendor,
    fp: u16,
    sp: u16,
    /// Column of the return address.
    link: u16,
    /// The CFA of a function that has done nothing yet, from the stack pointer on.
    at_entry: u64,
}

struct Function {
    len: u64,
    keeping: Keeping,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keeping {
    Keeps,
    Frameless,
    Lacks,
}

/// What an instruction tells.
enum Sign {
    /// The frame pointer leads to the caller's.
    Keeps,
    /// A stub of the linker, or there is no caller.
    BreaksNothing,
    UsesStack,
    Nothing,
}

type Section<'d> = EhFrame<EndianSlice<'d, LittleEndian>>;

impl Rules {
    /// Reads the rules of a function.
    fn function(&self, entry: &[u8], shared: &Shared<'_>) -> Option<Function> {
        // A section of these two: the entry refers to the other one by its distance.
        let mut bytes = [shared.bytes, entry].concat();
        let begin = shared.bytes.len();
        bytes.get_mut(begin + 4..begin + 8)?.copy_from_slice(&u32::try_from(begin + 4).ok()?.to_le_bytes());
        let mut section: Section<'_> = EhFrame::new(&bytes, LittleEndian);
        section.set_address_size(8);
        section.set_vendor(self.vendor);
        let bases = BaseAddresses::default().set_eh_frame(0);
        let function = section.fde_from_offset(&bases, begin.into(), EhFrame::cie_from_offset).ok()?;
        if function.cie().address_size() != 8 {
            return None;
        }
        let factor = function.cie().data_alignment_factor();
        let mut seen = Seen {
            rules: self,
            factor,
            bytes: &bytes,
            keeping: Keeping::Frameless,
            is_settled: false,
            saved: [None; 2],
        };
        let common = function.cie().instructions(&section, &bases);
        for mut instructions in [common, function.instructions(&section, &bases)] {
            while let Some(instruction) = instructions.next().ok()? {
                seen.instruction(&instruction);
            }
        }
        Some(Function { len: function.len(), keeping: seen.keeping })
    }
}

/// What the instructions of a function have told.
struct Seen<'a> {
    rules: &'a Rules,
    factor: i64,
    bytes: &'a [u8],
    keeping: Keeping,
    /// What follows does not matter.
    is_settled: bool,
    /// Where frame pointer and return address are saved, from the CFA on.
    saved: [Option<i64>; 2],
}

impl Seen<'_> {
    fn instruction(&mut self, instruction: &CallFrameInstruction<usize>) {
        use CallFrameInstruction as I;
        let sign = match instruction {
            I::DefCfa { register, offset } => self.cfa(*register, *offset),
            I::DefCfaSf { register, .. } => self.cfa(*register, u64::MAX),
            I::DefCfaRegister { register } => self.cfa(*register, self.rules.at_entry),
            I::DefCfaOffset { offset } => self.cfa(Register(self.rules.sp), *offset),
            I::DefCfaExpression { expression } => self.expression(self.bytes.get(expression.offset..)),
            I::Undefined { register } if register.0 == self.rules.link => Sign::BreaksNothing,
            I::Offset { register, factored_offset } => self.save(*register, *factored_offset),
            _ => Sign::Nothing,
        };
        if self.is_settled {
            return;
        }
        (self.keeping, self.is_settled) = match sign {
            Sign::Keeps => (Keeping::Keeps, true),
            Sign::BreaksNothing => (Keeping::Frameless, true),
            Sign::UsesStack => (Keeping::Lacks, false),
            Sign::Nothing => return,
        };
    }

    fn cfa(&self, register: Register, offset: u64) -> Sign {
        match register.0 {
            fp if fp == self.rules.fp => Sign::Keeps,
            sp if sp == self.rules.sp && offset == self.rules.at_entry => Sign::Nothing,
            _ => Sign::UsesStack,
        }
    }

    fn expression(&self, expression: Option<&[u8]>) -> Sign {
        match expression {
            Some([BREG6, ..]) if self.rules.fp == 6 => Sign::Keeps,
            Some(stub) if stub.starts_with(&STUB) => Sign::BreaksNothing,
            _ => Sign::UsesStack,
        }
    }

    /// On aarch64 a frame is two registers side by side.
    fn save(&mut self, register: Register, factored: u64) -> Sign {
        let place = i64::try_from(factored).ok().and_then(|factored| factored.checked_mul(self.factor));
        match register.0 {
            fp if fp == self.rules.fp => self.saved[0] = place,
            link if link == self.rules.link => self.saved[1] = place,
            _ => {}
        }
        let is_frame = self.rules.fp == 29
            && matches!(self.saved, [Some(fp), Some(link)] if fp.checked_add(8) == Some(link));
        if is_frame { Sign::Keeps } else { Sign::Nothing }
    }
}

#[cfg(test)]
mod tests;
