//! Reads GSYM through blazesym: functions, what was inlined into them, and source lines of the addresses of one file.
//!
//! The format is LLVM's: `llvm-gsymutil --convert` makes it of DWARF and symbol tables. A table of addresses leads to
//! one record per function, which has its size, its name, its lines, and the tree of what was inlined into it.
//!
//! blazesym follows that tree by recursion, adds numbers of the file without a check, and copies every name, however long.
//! So `record` checks each record before blazesym reads it, and a [`Guard`] bounds what all addresses together may cost. Of
//! a record that is not sound only the name is read.

mod record;

use std::os::unix::ffi::OsStrExt as _;

use blazesym::symbolize::source::{Gsym, GsymData, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::Function;
use super::dwarf::FoundFunctions;
use super::guard::{Broken, Guard};
use super::strings::Strings;
use crate::image::budget::Held;
use icecore_elf::Svma;
use record::Records;

/// blazesym reads tables in place if they are aligned to so many bytes.
const ALIGNMENT: usize = 8;
/// Steps for each address: one for each byte of its record. Records of large functions of C have a few ten thousand.
const STEPS_PER_ADDRESS: usize = 64 << 10;

/// Finds the functions at addresses, which ascend and differ. `reaches(start, at)` decides whether a function without a
/// size, as assembly has them, reaches so far.
///
/// # Shape   one answer per address, in the same order
/// # Errors  [`Broken`] if its tables do not fit into it, or it asks for more work than its size and the addresses justify
pub(super) fn look_up(
    bytes: &[u8],
    at: &[Svma],
    reaches: &dyn Fn(Svma, Svma) -> bool,
    strings: &Strings,
) -> Result<FoundFunctions, Broken> {
    let (mut copy, _held);
    let bytes = if bytes.as_ptr().align_offset(ALIGNMENT) == 0 {
        bytes
    } else {
        _held = Held::take(bytes.len() as u64).ok_or(Broken)?;
        copy = vec![0; bytes.len() + ALIGNMENT];
        aligned(bytes, &mut copy)?
    };
    let guard = Guard::with_steps(bytes.len(), at.len().saturating_mul(STEPS_PER_ADDRESS));
    let mut records = Records::open(bytes)?;
    let source = Source::Gsym(Gsym::Data(GsymData::new(bytes)));
    let builder = || Symbolizer::builder().enable_demangling(false);
    let (whole, names_only) = (builder().build(), builder().enable_code_info(false).build());
    let ask = |symbolizer: &Symbolizer, at: Svma| {
        let answer = symbolizer.symbolize_single(&source, Input::VirtOffset(at.0));
        match answer.map_err(|_| Broken)? {
            Symbolized::Sym(symbol) => {
                let named = GsymAnswer::new(&symbol, strings);
                // A broken file may lead to an empty string.
                let has_names = named.functions.iter().all(|function| !function.name.is_empty());
                if has_names { Ok(Some(named)) } else { Err(Broken) }
            }
            Symbolized::Unknown(_) => Ok(None),
        }
    };
    let mut functions = Vec::with_capacity(at.len());
    for &at in at {
        let Some(record) = records.check(at, &guard)? else {
            functions.push(None);
            continue;
        };
        guard.spend(record.bytes)?;
        let named = if record.is_sound { ask(&whole, at) } else { Err(Broken) };
        // A broken record loses its lines and inlined calls; only its name is read.
        let named = named.or_else(|Broken| {
            guard.note();
            ask(&names_only, at)
        });
        let named = named.ok().flatten().filter(|named| named.is_sized || reaches(named.start, at));
        // Answers must not become more than the file and the addresses justify.
        guard.spend(named.as_ref().map_or(0, |named| named.text_len))?;
        functions.push(named.map(|named| named.functions));
    }
    Ok(FoundFunctions { functions, is_broken: guard.is_broken() })
}

/// Copies bytes to where they are aligned; a section of an image may lie anywhere.
fn aligned<'c>(bytes: &[u8], copy: &'c mut [u8]) -> Result<&'c [u8], Broken> {
    let begin = copy.as_ptr().align_offset(ALIGNMENT);
    let place = copy.get_mut(begin..).and_then(|rest| rest.get_mut(..bytes.len())).ok_or(Broken)?;
    place.copy_from_slice(bytes);
    Ok(place)
}

/// An answer of blazesym.
struct GsymAnswer {
    functions: Vec<Function>,
    start: Svma,
    /// It has a size; without one it may reach up to the next.
    is_sized: bool,
    /// Bytes of names and paths in it.
    text_len: usize,
}

impl GsymAnswer {
    /// Orders functions from the innermost call outwards.
    fn new(symbol: &Sym<'_>, strings: &Strings) -> Self {
        let calls = symbol.inlined.iter().rev().map(|call| (&call.name, call.code_info.as_ref()));
        let around = (&symbol.name, symbol.code_info.as_deref());
        let mut text_len = 0;
        let functions = calls.chain([around]).map(|(name, code)| {
            let path = code.map(CodeInfo::to_path).filter(|path| !path.as_os_str().is_empty());
            text_len += name.len() + path.as_ref().map_or(0, |path| path.as_os_str().len());
            Function {
                calls: None,
                name: strings.name(name.as_bytes()),
                origin: Default::default(),
                file: path.map(|path| strings.path(path.as_os_str().as_bytes())),
                line: code.and_then(|code| code.line).filter(|line| *line > 0),
            }
        });
        let functions = functions.collect();
        let is_sized = symbol.size.is_none_or(|size| size > 0);
        Self { functions, start: Svma(symbol.addr), is_sized, text_len }
    }
}

#[cfg(test)]
mod tests;
