//! Tells from unwind tables whether code keeps frame pointers.
//!
//! A chain of frame pointers is whole only if every function in it keeps one; a function that does not makes its caller
//! vanish, or ends the chain anywhere. No file records the options of its compiler, but unwind tables show them: on x86-64 the CFA of a
//! function with a frame pointer is computed from rbp, on aarch64 x29 and x30 are saved side by side.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindSection as _, UnwindTableRow, Vendor,
};
use object::Endianness;
use object::read::ReadRef;

use crate::{EhFrameHdr, Entries, Layout, Machine};

/// Gaps between functions up to this length do not count: they align the next function. The start code of a program, which is in no
/// chain, is not longer either.
const PADDING_BYTES: u64 = 256;
/// `DW_OP_breg6`: an expression that begins with rbp.
const BREG6: u8 = 0x76;
/// `DW_OP_breg7 8`, `DW_OP_breg16 0`: what linkers write for stubs, the CFA by the place in the stub.
const STUB: [u8; 4] = [0x77, 8, 0x80, 0];

/// Bytes of code by what their functions do with the frame pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Frames {
    /// Functions that keep one.
    pub keeping: u64,
    /// Functions that use no stack, stubs, and those from which nobody returns: they do not break a chain.
    pub frameless: u64,
    /// Functions that use the stack without one.
    pub lacking: u64,
    /// Code without unwind tables, or with some that cannot be read.
    pub unknown: u64,
}

impl Frames {
    /// The share of the code with frames that keeps frame pointers, 0 to 1; code of which nothing is known counts against it.
    pub fn share(&self) -> f64 {
        let all = self.keeping.saturating_add(self.lacking).saturating_add(self.unknown);
        if all == 0 { 0.0 } else { self.keeping as f64 / all as f64 }
    }
}

/// Counts the code of a file by so many functions at most, evenly spread; `None` if it has no sorted table of its functions, or
/// is of another machine. `go` is the code that Go has made: it keeps frame pointers, and its unwind tables are elsewhere.
///
/// # Cost  all rows of the unwind tables of each counted function
pub fn frames<'d>(file: impl ReadRef<'d>, layout: &Layout, most: usize, go: &Range<u64>) -> Option<Frames> {
    let machine = Machine::of_elf(layout.machine.0).filter(|_| layout.is_little_64())?;
    let table = EhFrameHdr::of_file(file, layout)?;
    let mut counter = Counter {
        machine,
        frames: Frames { keeping: go.end - go.start, ..Frames::default() },
        context: UnwindContext::new(),
    };
    for code in layout.code_segments() {
        let functions = table.within(&code);
        let stride = 1 + functions.len() / most.max(1);
        let first = functions.clone().next().and_then(|number| Some(table.row(number)?.0.0));
        counter.undescribed(code.start..first.unwrap_or(code.end), go, 1);
        let last = functions.clone().next_back().filter(|last| (last - functions.start) % stride != 0);
        let looked_at = functions.step_by(stride).map(|number| (number, stride as u64));
        for (number, weight) in looked_at.chain(last.map(|last| (last, 1))) {
            let Some((start, fde_at)) = table.row(number) else { continue };
            let next = table.row(number + 1).map_or(code.end, |(next, _)| next.0.min(code.end));
            counter.function(start.0..next, Entries::read(file, layout, fde_at), go, weight);
        }
    }
    Some(counter.frames)
}

/// Reports whether the frame pointer leads to the caller's where these unwind tables hold. `section` is what they were read from.
pub fn keeps<S: UnwindContextStorage<usize>>(
    machine: Machine,
    row: &UnwindTableRow<usize, S>,
    section: &[u8],
) -> bool {
    let fp = u16::from(machine.fp());
    let place = |number: u8| match row.register(Register(number.into())) {
        Some(RegisterRule::Offset(place)) => Some(place),
        _ => None,
    };
    match (machine, row.cfa()) {
        (_, CfaRule::RegisterAndOffset { register, .. }) if register.0 == fp => true,
        (Machine::X86_64, CfaRule::Expression(expression)) => section.get(expression.offset) == Some(&BREG6),
        (Machine::X86_64, _) => false,
        (Machine::Aarch64, _) => place(machine.fp())
            .zip(place(machine.return_column()))
            .is_some_and(|(fp, link)| fp.checked_add(8) == Some(link)),
    }
}

/// Counts functions.
struct Counter {
    machine: Machine,
    frames: Frames,
    context: UnwindContext<usize>,
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

impl Counter {
    fn undescribed(&mut self, code: Range<u64>, go: &Range<u64>, weight: u64) {
        let of_go = code.end.min(go.end).saturating_sub(code.start.max(go.start));
        let len = code.end.saturating_sub(code.start).saturating_sub(of_go);
        if len > PADDING_BYTES {
            self.frames.unknown = self.frames.unknown.saturating_add(len.saturating_mul(weight));
        }
    }

    /// Counts a function, which stands for as many as its weight says, and the gap after it.
    fn function(&mut self, reach: Range<u64>, entries: Option<Entries<'_>>, go: &Range<u64>, weight: u64) {
        let function = entries.and_then(|entries| function(self.machine, &entries, &mut self.context));
        let len = reach.end.saturating_sub(reach.start);
        let described = function.as_ref().map_or(0, |function| function.len.min(len));
        self.undescribed(reach.start.saturating_add(described)..reach.start.saturating_add(len), go, weight);
        let bytes = match function.map(|function| function.keeping) {
            Some(Keeping::Keeps) => &mut self.frames.keeping,
            Some(Keeping::Frameless) => &mut self.frames.frameless,
            Some(Keeping::Lacks) => &mut self.frames.lacking,
            None => return,
        };
        *bytes = bytes.saturating_add(described.saturating_mul(weight));
    }
}

/// Judges a function by all rows of its unwind tables.
fn function(machine: Machine, entries: &Entries<'_>, context: &mut UnwindContext<usize>) -> Option<Function> {
    let (bytes, begin) = entries.section(Endianness::Little)?;
    let mut section: EhFrame<EndianSlice<'_, LittleEndian>> = EhFrame::new(&bytes, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(match machine {
        Machine::X86_64 => Vendor::Default,
        Machine::Aarch64 => Vendor::AArch64,
    });
    let bases = BaseAddresses::default().set_eh_frame(0);
    let fde = section.fde_from_offset(&bases, begin.into(), EhFrame::cie_from_offset).ok()?;
    if fde.cie().address_size() != 8 {
        return None;
    }
    let mut rows = fde.rows(&section, &bases, context).ok()?;
    let (mut keeping, mut is_settled) = (Keeping::Frameless, false);
    // All rows are read, so that broken ones are noticed.
    while let Some(row) = rows.next_row().ok()? {
        if is_settled {
            continue;
        } else if keeps(machine, row, &bytes) {
            (keeping, is_settled) = (Keeping::Keeps, true);
        } else if is_stub(row, &bytes) {
            (keeping, is_settled) = (Keeping::Frameless, true);
        } else if !is_frameless(machine, row) {
            keeping = Keeping::Lacks;
        }
    }
    Some(Function { len: fde.len(), keeping })
}

/// Reports whether unwind tables are those of the stubs of a linker.
fn is_stub(row: &UnwindTableRow<usize>, section: &[u8]) -> bool {
    let CfaRule::Expression(expression) = row.cfa() else { return false };
    section.get(expression.offset..).is_some_and(|rest| rest.starts_with(&STUB))
}

/// Reports whether the stack is as the caller left it, or there is no caller.
fn is_frameless(machine: Machine, row: &UnwindTableRow<usize>) -> bool {
    let return_column = Register(machine.return_column().into());
    let is_outermost = row.register(return_column) == Some(RegisterRule::Undefined);
    is_outermost
        || matches!(row.cfa(), CfaRule::RegisterAndOffset { register, offset }
            if register.0 == u16::from(machine.sp()) && *offset == machine.cfa_at_entry())
}

#[cfg(test)]
mod tests;
