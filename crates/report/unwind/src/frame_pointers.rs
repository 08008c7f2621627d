//! Tells from unwind tables whether code keeps frame pointers.
//!
//! A chain of frame pointers is whole only if every function in it keeps one; a function that does not makes its caller
//! vanish, or ends the chain anywhere. What a compiler was told is written nowhere, but unwind tables show it: on x86-64 the CFA of a
//! function with a frame pointer is computed from rbp, on aarch64 x29 and x30 are saved side by side.
//!
//! This file needs gimli and nothing else of the report.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, Register, RegisterRule, UnwindContext,
    UnwindContextStorage, UnwindSection, UnwindTableRow, Vendor,
};

/// The most functions of an image that are looked at, evenly spread; their share is within half a percent of all.
const MAX_FUNCTIONS: usize = 20_000;
/// Bytes of unwind tables per function; real images have 40 to 60.
const BYTES_PER_FUNCTION: usize = 48;
/// The longest description that is read, bytes: the work for one function is bounded by it.
const MAX_LEN: u32 = 128 << 10;
/// `DW_OP_breg6`: an expression that begins with rbp.
const BREG6: u8 = 0x76;
/// `DW_OP_breg7 8`, `DW_OP_breg16 0`: what linkers write for stubs, the CFA by the place in the stub.
const STUB: [u8; 4] = [0x77, 8, 0x80, 0];

/// Machines as ELF headers number them.
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;

/// Bytes of code by what their functions do with the frame pointer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Census {
    /// Functions that keep one.
    pub keeping: u64,
    /// Functions that use no stack, stubs, and those from which nobody returns: they do not break a chain.
    pub frameless: u64,
    /// Functions that use the stack without one.
    pub lacking: u64,
}

impl Census {
    /// The share of the code with frames that keeps frame pointers, 0 to 1; `None` if there is none.
    pub fn share(&self) -> Option<f64> {
        let with_frames = self.keeping + self.lacking;
        (with_frames > 0).then(|| self.keeping as f64 / with_frames as f64)
    }
}

/// Counts the code of an image. `machine` is `e_machine` of its ELF header; of others than x86-64 and aarch64 nothing is counted.
///
/// # Cost  0.3 µs per function, 20,000 functions at most, and one pass over the lengths of the others
pub fn census(machine: u16, eh_frame: &[u8], eh_frame_at: u64) -> Census {
    let mut section = EhFrame::new(eh_frame, LittleEndian);
    section.set_address_size(8);
    section.set_vendor(match machine {
        EM_X86_64 => Vendor::Default,
        EM_AARCH64 => Vendor::AArch64,
        _ => return Census::default(),
    });
    let bases = BaseAddresses::default().set_eh_frame(eh_frame_at);
    let stride = 1 + eh_frame.len() / (MAX_FUNCTIONS * BYTES_PER_FUNCTION);
    let mut context = UnwindContext::new();
    let mut census = Census::default();
    for off in descriptions(eh_frame).step_by(stride) {
        let Some(function) = function(machine, &section, &bases, off, &mut context) else { continue };
        let bytes = match function.keeping {
            Keeping::Keeps => &mut census.keeping,
            Keeping::Frameless => &mut census.frameless,
            Keeping::Lacks => &mut census.lacking,
        };
        *bytes = bytes.saturating_add(function.len);
    }
    census
}

/// Offsets of the descriptions of functions.
fn descriptions(section: &[u8]) -> impl Iterator<Item = usize> {
    let mut next = 0_usize;
    let entries = std::iter::from_fn(move || {
        let off = next;
        let head = section.get(off..)?.first_chunk::<8>()?;
        let [a, b, c, d, kind @ ..] = *head;
        let len = u32::from_le_bytes([a, b, c, d]);
        next = off.checked_add(4)?.checked_add(len as usize)?;
        (len > 0).then_some((off, len, u32::from_le_bytes(kind)))
    });
    // A description leads to the common part that it belongs to; that itself has 0 there.
    entries.filter(|(_, len, common)| *common != 0 && *len <= MAX_LEN).map(|(off, ..)| off)
}

struct Function {
    len: u64,
    keeping: Keeping,
}

enum Keeping {
    Keeps,
    Frameless,
    Lacks,
}

type Section<'d> = EhFrame<EndianSlice<'d, LittleEndian>>;

fn function(
    machine: u16,
    section: &Section<'_>,
    bases: &BaseAddresses,
    off: usize,
    context: &mut UnwindContext<usize>,
) -> Option<Function> {
    let fde = section.fde_from_offset(bases, off.into(), EhFrame::cie_from_offset).ok()?;
    if fde.cie().address_size() != 8 {
        return None;
    }
    let bytes = gimli::Section::reader(section).slice();
    let mut rows = fde.rows(section, bases, context).ok()?;
    let mut keeping = Keeping::Frameless;
    while let Some(row) = rows.next_row().ok()? {
        if keeps(machine, row, bytes) {
            keeping = Keeping::Keeps;
            break;
        }
        if is_stub(row, bytes) {
            keeping = Keeping::Frameless;
            break;
        }
        if !is_frameless(machine, row) {
            keeping = Keeping::Lacks;
        }
    }
    Some(Function { len: fde.len(), keeping })
}

/// Tells whether the frame pointer leads to the caller's where these rules hold. `section` is what they were read from.
pub(super) fn keeps<S: UnwindContextStorage<usize>>(
    machine: u16,
    row: &UnwindTableRow<usize, S>,
    section: &[u8],
) -> bool {
    let place = |number| match row.register(Register(number)) {
        Some(RegisterRule::Offset(place)) => Some(place),
        _ => None,
    };
    match (machine, row.cfa()) {
        (EM_AARCH64, CfaRule::RegisterAndOffset { register: Register(29), .. }) => true,
        (EM_AARCH64, _) => place(29).zip(place(30)).is_some_and(|(fp, link)| fp.checked_add(8) == Some(link)),
        (_, CfaRule::RegisterAndOffset { register, .. }) => register.0 == 6,
        (_, CfaRule::Expression(expression)) => section.get(expression.offset) == Some(&BREG6),
    }
}

/// Tells whether rules are of the stubs of a linker.
fn is_stub(row: &UnwindTableRow<usize>, section: &[u8]) -> bool {
    let CfaRule::Expression(expression) = row.cfa() else { return false };
    section.get(expression.offset..).is_some_and(|rest| rest.starts_with(&STUB))
}

/// Tells whether the stack is as the caller left it, or there is no caller.
fn is_frameless(machine: u16, row: &UnwindTableRow<usize>) -> bool {
    let (sp, at_entry, return_column) = if machine == EM_X86_64 { (7, 8, 16) } else { (31, 0, 30) };
    let is_outermost = row.register(Register(return_column)) == Some(RegisterRule::Undefined);
    is_outermost
        || matches!(row.cfa(), CfaRule::RegisterAndOffset { register, offset }
            if register.0 == sp && *offset == at_entry)
}

#[cfg(test)]
mod tests {
    use gimli::write::CallFrameInstruction::{self, Cfa, CfaOffset, Offset, Undefined};

    use super::super::Machine;
    use super::super::fixture::{Function, rules};
    use super::*;

    fn counted(machine: Machine, functions: Vec<Vec<CallFrameInstruction>>) -> Census {
        let functions = functions.into_iter().enumerate();
        let functions = functions.map(|(i, rules)| Function::new(0x100 * (i as u32 + 1), rules));
        census(machine.elf(), rules(machine, functions.collect(), false), 0)
    }

    #[test]
    fn on_x86_64_a_frame_pointer_is_what_the_cfa_is_computed_from() {
        let (rbp, rsp, rip) = (Register(6), Register(7), Register(16));
        let keeps = vec![Cfa(rbp, 16), Offset(rbp, -16)];
        let saves = vec![CfaOffset(32), Offset(rbp, -16)];
        let beside = vec![Cfa(rsp, 8)];
        let outermost = vec![CfaOffset(64), Undefined(rip)];
        let census = counted(Machine::X86_64, vec![keeps, saves, beside, outermost]);
        assert_eq!(census, Census { keeping: 16, lacking: 16, frameless: 32 });
        assert_eq!(census.share(), Some(0.5));
    }

    #[test]
    fn on_aarch64_a_frame_is_a_pair_of_registers() {
        let (fp, link) = (Register(29), Register(30));
        let pair = vec![CfaOffset(32), Offset(fp, -32), Offset(link, -24)];
        let apart = vec![CfaOffset(32), Offset(fp, -32), Offset(link, -8)];
        let alone = vec![CfaOffset(16), Offset(link, -16)];
        let by_fp = vec![Cfa(fp, 16)];
        let census = counted(Machine::Aarch64, vec![pair, apart, alone, by_fp, vec![]]);
        assert_eq!(census, Census { keeping: 32, lacking: 32, frameless: 16 });
    }

    #[test]
    fn nothing_is_counted_where_nothing_can_be_read() {
        for bytes in [&[][..], &[0xff; 40], &[4, 0, 0, 0, 9], &[8, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9]] {
            assert_eq!(census(EM_X86_64, bytes, 0).share(), None);
        }
    }
}
