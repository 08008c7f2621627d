//! Adds the functions of Go: Go's own table shows how deep the stack is at each instruction.

use gimli::{BaseAddresses, DebugFrame, RunTimeEndian};
use object::read::ReadRef;

use super::{Compiler, Context, MAX_ROWS, Row, RowKind};
use crate::{Layout, Machine, cfi, go};

/// Appends the rows of all functions of Go, until there are too many.
pub(super) fn add<'d>(
    compiler: &mut Compiler<'_>,
    file: impl ReadRef<'d>,
    layout: &Layout,
    context: &mut Context,
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
        rows.into_iter().flatten().for_each(|row| switch(row, function.name));
        if compiler.rows.len() > MAX_ROWS {
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

/// Says in the rows of the runtime where a walk goes over to another stack. Go calls `systemstack` and `morestack` on no stack but
/// that of a goroutine, if they come to call anything; `asmcgocall` is also called on that of the thread.
fn switch(row: &mut Row, name: &[u8]) {
    let (kind, cfa) = match (name, row.kind) {
        (b"runtime.systemstack" | b"runtime.morestack", RowKind::Unknown) => (RowKind::Switch, 0),
        (b"runtime.asmcgocall", RowKind::Unknown) => (RowKind::Switch, 1),
        (b"runtime.systemstack_switch", RowKind::Sp) => (RowKind::Mark, row.cfa),
        _ => return,
    };
    *row = Row { kind, cfa, ..*row };
}
