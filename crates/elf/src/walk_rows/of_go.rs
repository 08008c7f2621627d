//! Adds the functions of Go: Go's own table shows how deep the stack is at each instruction.

use gimli::{BaseAddresses, DebugFrame, RunTimeEndian};
use object::read::ReadRef;

use super::{Compiler, Context, MAX_ROWS, Row, RowKind};
use crate::{Layout, Machine, cfi, go};

/// The most code that is read of a function that switches stacks.
const MAX_CODE_BYTES: u64 = 512;

/// Appends the rows of all functions of Go, until there are too many.
pub(super) fn add<'d>(
    compiler: &mut Compiler<'_>,
    file: impl ReadRef<'d>,
    layout: &Layout,
    context: &mut Context,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<()> {
    let file = go::Loaded::of(file, layout)?;
    let table = go::open(file, layout)?;
    let text = layout.section(".text")?;
    let code = |at: u64, len: u64| {
        let off = text.off.0.checked_add(at.checked_sub(text.at.0)?)?;
        file.read_bytes_at(off, len).ok()
    };
    let mut bytes = go::shared(Machine::X86_64).to_vec();
    let shared = bytes.len();
    let bases = BaseAddresses::default();
    for function in table.functions().filter(|function| !is_injected(function.name)) {
        let Some(rule) = go::rule(Machine::X86_64, &table, &function, code) else { continue };
        bytes.truncate(shared);
        bytes.extend(rule.bytes);
        let mut section = DebugFrame::new(&bytes, RunTimeEndian::Little);
        section.set_address_size(layout.address_size);
        let fde = cfi::fde(&section, &bases, shared, &mut None);
        let rows = fde.map(|fde| compiler.function(&section, &bases, &fde, context));
        let slot = || g_slot(code(function.start, (function.end - function.start).min(MAX_CODE_BYTES))?);
        switch(rows.unwrap_or_default(), function.name, slot);
        if compiler.rows.len() > MAX_ROWS || !goes_on() {
            return None;
        }
    }
    Some(())
}

/// Returns true for functions into which the runtime leads a thread from any instruction: that one did not call them.
fn is_injected(name: &[u8]) -> bool {
    let name = name.strip_prefix(b"runtime.").unwrap_or_default();
    matches!(name, b"asyncPreempt" | b"sigpanic" | b"sigpanic0") || name.starts_with(b"debugCall")
}

/// Says in the rows of the runtime where a walk goes over to another stack. `slot` finds where `asmcgocall` keeps the goroutine.
///
/// ```text
/// systemstack, morestack   call on no stack but that of the thread: Go has noted where it left that of the goroutine
/// asmcgocall               sp + slot      the goroutine; 0: it has stayed on this stack
///                          sp + slot - 8  the depth of its stack there; the stack pointer
/// ```
///
/// # Source  `runtime/asm_amd64.s` of Go 1.19 to 1.27
fn switch(rows: &mut [Row], name: &[u8], slot: impl Fn() -> Option<u8>) {
    // On the stack that is left, the CFA is as far from the stack pointer as where it was left.
    let mut left = 0;
    for row in rows {
        let (kind, cfa, fp) = match (name, row.kind) {
            (b"runtime.systemstack" | b"runtime.morestack", RowKind::Unknown) => (RowKind::Switch, 0, 0),
            (b"runtime.asmcgocall", RowKind::Unknown) => match slot() {
                Some(slot) if left > 0 => (RowKind::Switch, left, slot / 8),
                _ => continue,
            },
            (b"runtime.systemstack_switch", RowKind::Sp) => (RowKind::Mark, row.cfa, row.fp),
            (_, RowKind::Sp) => {
                left = row.cfa;
                continue;
            }
            _ => continue,
        };
        *row = Row { kind, cfa, fp, ..*row };
    }
}

/// Finds where a function keeps the goroutine above the stack pointer, bytes: `mov [rsp+slot], rdi`.
fn g_slot(code: &[u8]) -> Option<u8> {
    let saves = code.windows(5).find(|bytes| bytes.starts_with(&[0x48, 0x89, 0x7c, 0x24]))?;
    Some(saves[4]).filter(|slot| slot.is_multiple_of(8) && (8..128).contains(slot))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: RowKind, cfa: u32) -> Row {
        Row { kind, cfa, ..Row::unknown(0) }
    }

    #[test]
    fn functions_that_switch_stacks_lead_to_that_of_the_goroutine() {
        let told = |name: &[u8], slot: Option<u8>| {
            let mut rows = [row(RowKind::Sp, 1), row(RowKind::Sp, 2), row(RowKind::Unknown, 0)];
            switch(&mut rows, name, || slot);
            rows.map(|row| (row.kind, row.cfa, row.fp))
        };
        let [first, second, unknown] = told(b"main.other", Some(48));
        assert_eq!(unknown.0, RowKind::Unknown);
        assert_eq!(told(b"runtime.systemstack", None), [first, second, (RowKind::Switch, 0, 0)]);
        assert_eq!(told(b"runtime.asmcgocall", Some(48)), [first, second, (RowKind::Switch, 2, 6)]);
        assert_eq!(told(b"runtime.asmcgocall", None), [first, second, unknown]);
        assert_eq!(told(b"runtime.systemstack_switch", None)[0].0, RowKind::Mark);
    }

    #[test]
    fn the_slot_of_the_goroutine_is_in_the_code() {
        assert_eq!(g_slot(b"\x48\x83\xec\x40\x48\x89\x7c\x24\x30\x90"), Some(48));
        assert_eq!(g_slot(b"\x48\x89\x7c\x24\x08"), Some(8));
        for none in [&b"\x48\x89\x7c\x24\x04"[..], b"\x48\x89\x7c\x24", b"\x48\x89\x7c\x24\x00", b""] {
            assert_eq!(g_slot(none), None);
        }
    }
}
