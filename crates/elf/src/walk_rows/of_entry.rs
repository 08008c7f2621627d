//! Adds the entry point of glibc's dynamic loader, which has no unwind tables. The kernel begins a process there: nobody calls it.

use object::read::ReadRef;

use super::{Compiler, Function, Row, RowKind};

/// How it begins: `mov %rsp, %rdi` and a call.
///
/// # Source  glibc, `sysdeps/x86_64/dl-machine.h` (`RTLD_START`)
const BEGIN: &[u8] = &[0x48, 0x89, 0xe7, 0xe8];
/// `endbr64`, where jumps are checked.
const ENDBR: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
/// How it goes to the program: `jmp *%r12`.
const END: &[u8] = &[0x41, 0xff, 0xe4];
/// It has 61 bytes.
const MAX_CODE_BYTES: u64 = 128;

/// Appends a row for the code of the entry point, if it is that code and no tables cover it.
pub(super) fn add<'d>(compiler: &mut Compiler<'_>, file: impl ReadRef<'d>) -> Option<()> {
    let entry = compiler.layout.entry;
    let mut places = compiler.places(entry, MAX_CODE_BYTES)?;
    let (off, _) = compiler.layout.rest_of_segment(entry)?;
    let code = file.read_bytes_at(off.0, places.len() as u64).ok()?;
    let is_it = code.strip_prefix(ENDBR).unwrap_or(code).starts_with(BEGIN);
    let len = code.windows(END.len()).position(|bytes| bytes == END)? + END.len();
    let is_covered = compiler.functions.iter().any(|function| function.places.contains(&places.start));
    if !is_it || is_covered {
        return None;
    }
    places.end = places.start + len as u32;
    let own = compiler.rows.len();
    compiler.rows.push(Row { kind: RowKind::Root, is_start: true, ..Row::unknown(places.start) });
    compiler.functions.push(Function { places, rows: own..own + 1 });
    Some(())
}
