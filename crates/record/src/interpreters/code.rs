//! Reads the code objects of CPython in the memory of a process.

use std::sync::Arc;

use crate::foreign::memory::Memory;
use crate::interpreters::python::Offsets;
use crate::track::jit::Line;

/// The most bytes of a name, of the path of a file, and of a table of lines.
const MAX_NAME_BYTES: usize = 4 << 10;
const MAX_LINES_BYTES: usize = 256 << 10;
/// The most lines of a code object; the line of what follows is not known.
const MAX_LINES: usize = 32 << 10;
/// An object: how often it is referred to, where its type is, where the name of a type is, and how many elements it has.
const REFERENCES: u64 = 0;
const TYPE: u64 = 8;
const TYPE_NAME: u64 = 24;
const LEN: u64 = 16;
const STRING_HASH: usize = 24;
const STRING_STATE: usize = 32;
/// Where its flags begin in its state, in bits.
const STRING_FLAGS: u32 = 2;
const STRING_HEAD: usize = 56;
/// Where a string of 3.11 has its characters if they are ASCII.
const STRING_CHARACTERS: usize = 48;
const BYTES: u64 = 32;
/// An instruction has this many bytes.
const UNIT: u64 = 2;
/// The path and the name of a code object that the interpreter makes itself: it runs `__init__` after it has made an object.
const SHIM: &[u8] = b"__init__";
/// The name of the code object of entry frames in 3.12.
const TRAMPOLINE: &[u8] = b"<interpreter trampoline>";

/// A code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Code {
    /// The addresses of its instructions, and of the place of one in front of them: there a frame of 3.11 and 3.12 is before it begins.
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) name: Vec<u8>,
    /// That place has the line of its declaration.
    pub(super) lines: Vec<Line>,
}

/// What lies at the address of a code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Found {
    Function(Code),
    /// Code that the interpreter itself needs, and no function of a program.
    Machinery,
    /// Not, or no more, the code object that a sample has seen.
    Gone,
}

/// Reads what lies at an address. `code_type` is the address of the type of code objects, once it is known.
pub(super) fn read(
    memory: &Memory<'_>,
    of: &Offsets,
    at: u64,
    check: u32,
    code_type: &mut Option<u64>,
) -> Found {
    let Some(kind) = live(memory, at) else { return Found::Gone };
    if code_type.is_none() && is_code_type(memory, kind) {
        *code_type = Some(kind);
    }
    if code_type.is_none_or(|known| known != kind) {
        return if is_no_code(memory, kind) { Found::Machinery } else { Found::Gone };
    }
    let code = function(memory, of, at, check);
    // What was read meanwhile belongs to it if it is there, and the same, before and after. A freed object keeps most of its words.
    match code {
        Some(code) if current_check(memory, of, at) == Some(check) && live(memory, at) == Some(kind) => code,
        _ => Found::Gone,
    }
}

/// Returns the address of the type of an object; `None` if it is freed: then its first word is 0, or leads to other memory that is free.
/// Above the number of references, 32 bits, lie 16 that are 0 and, since 3.14, 16 flags.
fn live(memory: &Memory<'_>, at: u64) -> Option<u64> {
    let references = word(memory, at.checked_add(REFERENCES)?)?;
    let is_live = references as u32 > 0 && references >> 32 & 0xffff == 0;
    word(memory, at.checked_add(TYPE)?).filter(|_| is_live)
}

fn function(memory: &Memory<'_>, of: &Offsets, at: u64, check: u32) -> Option<Found> {
    let field = |off: u32| at.checked_add(off.into());
    let pointer = |off: u32| word(memory, field(off)?);
    let (first_line, number) = (half(memory, field(of.first_line)?)?, half(memory, field(of.number)?)?);
    let (file, name) = (text(memory, of, pointer(of.file)?)?, text(memory, of, pointer(of.name)?)?);
    // Other objects may come and go at this address meanwhile: the texts that are shown must be those that were checked.
    if of.is_told_by_name && mixed(number, &file, &name)? != check {
        return None;
    }
    let (file, name) = (file.utf8, name.utf8);
    if name == TRAMPOLINE || file == SHIM && name == SHIM {
        return Some(Found::Machinery);
    }
    let name = text(memory, of, pointer(of.qualified)?)?.utf8;
    let units = word(memory, at.checked_add(LEN)?)?;
    let start = field(of.instructions)?.checked_sub(UNIT)?;
    let end = start.checked_add(units.checked_mul(UNIT).filter(|len| *len < 1 << 30)? + UNIT)?;
    let table = pointer(of.lines)?;
    let table_len = usize::try_from(word(memory, table.checked_add(LEN)?)?).ok()?;
    let table = memory.read_up_to(table.checked_add(BYTES)?, table_len.min(MAX_LINES_BYTES));
    let file: Arc<[u8]> = file.into();
    let line = |(off, line)| Line { off, file: Arc::clone(&file), line };
    let own = lines(&table, first_line).into_iter().map(|(off, line)| (off + UNIT, line));
    let lines = std::iter::once((0, first_line)).chain(own).map(line).collect();
    Some(Found::Function(Code { start, end, name, lines }))
}

/// What tells the code object at an address from others there, as the sampler reads it (bpf/interpreted.h).
fn current_check(memory: &Memory<'_>, of: &Offsets, at: u64) -> Option<u32> {
    let number = half(memory, at.checked_add(of.number.into())?)?;
    if !of.is_told_by_name {
        return Some(number);
    }
    let text = |off: u32| text(memory, of, word(memory, at.checked_add(off.into())?)?);
    mixed(number, &text(of.file)?, &text(of.name)?)
}

/// Mixes what tells a code object of 3.11 from others.
fn mixed(number: u32, file: &Text, name: &Text) -> Option<u32> {
    let mixed = file.check?.wrapping_mul(3).wrapping_add(name.check?);
    Some(number.wrapping_mul(0x9e37_79b1).wrapping_add(mixed as u32).wrapping_add((mixed >> 32) as u32))
}

fn word(memory: &Memory<'_>, at: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    memory.read(at, &mut bytes).then(|| u64::from_le_bytes(bytes))
}

fn half(memory: &Memory<'_>, at: u64) -> Option<u32> {
    let mut bytes = [0; 4];
    memory.read(at, &mut bytes).then(|| u32::from_le_bytes(bytes))
}

fn type_name(memory: &Memory<'_>, kind: u64) -> Option<Vec<u8>> {
    let name = word(memory, kind.checked_add(TYPE_NAME)?)?;
    let bytes = memory.read_up_to(name, 16);
    let len = bytes.iter().position(|byte| *byte == 0)?;
    Some(bytes[..len].to_vec())
}

fn is_code_type(memory: &Memory<'_>, kind: u64) -> bool {
    type_name(memory, kind).as_deref() == Some(b"code")
}

/// Returns true if a type is that of `None`, which entry frames have since 3.13 instead of code.
fn is_no_code(memory: &Memory<'_>, kind: u64) -> bool {
    type_name(memory, kind).as_deref() == Some(b"NoneType")
}

/// A string.
struct Text {
    utf8: Vec<u8>,
    /// What tells it from others: its hash, or if that is not known its end; `None` if it is too long for that.
    check: Option<u64>,
}

/// Reads a string, all of it at once.
fn text(memory: &Memory<'_>, of: &Offsets, at: u64) -> Option<Text> {
    let head = memory.read_up_to(at, STRING_HEAD);
    let state = |bytes: &[u8]| Some(u32::from_le_bytes(*bytes.get(STRING_STATE..)?.first_chunk()?));
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let flags = state(&head)? >> STRING_FLAGS;
    let (width, is_compact, is_ascii) = ((flags & 7) as usize, flags & 8 != 0, flags & 16 != 0);
    if !is_compact || !matches!(width, 1 | 2 | 4) {
        return None;
    }
    let len = usize::try_from(word(&head, LEN as usize)?).ok()?;
    let kept = len.min(MAX_NAME_BYTES / width);
    let begin = of.characters as usize + if is_ascii { 0 } else { of.others_characters as usize };
    let bytes = memory.read_up_to(at, (begin + kept * width).max(STRING_HEAD));
    // Another string may lie there by now.
    if state(&bytes) != state(&head) || word(&bytes, LEN as usize) != word(&head, LEN as usize) {
        return None;
    }
    let hash = word(&bytes, STRING_HASH)?;
    let end_of = || {
        let end = (STRING_CHARACTERS + len).checked_sub(32).filter(|_| kept == len)?;
        let word = |at: usize| word(&bytes, end + 8 * at);
        Some(word(0)? ^ word(1)?.wrapping_mul(3) ^ word(2)?.wrapping_mul(5) ^ word(3)?.wrapping_mul(7))
    };
    let check = if hash == u64::MAX { end_of() } else { Some(hash) };
    let character = |bytes: &[u8]| {
        let mut number = [0; 4];
        number[..width].copy_from_slice(bytes);
        char::from_u32(u32::from_le_bytes(number)).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    let characters = bytes.get(begin..begin + kept * width)?.chunks_exact(width);
    Some(Text { utf8: characters.map(character).collect::<String>().into_bytes(), check })
}

/// Decodes the lines of instructions: the offset from which on each counts, bytes.
///
/// # Source
/// CPython, InternalDocs/code_objects.md (3.11: Objects/locations.md), "Format of the locations table"
fn lines(table: &[u8], first_line: u32) -> Vec<(u64, u32)> {
    let (mut at, mut off, mut line) = (0, 0, i64::from(first_line));
    let mut all: Vec<(u64, u32)> = Vec::new();
    while let Some(first) = table.get(at).copied().filter(|first| first & 0x80 != 0) {
        at += 1;
        let mut number = || {
            let (mut value, mut shift) = (0_u64, 0);
            while let Some(byte) = table.get(at) {
                at += 1;
                if shift < 60 {
                    value |= u64::from(byte & 0x3f) << shift;
                }
                shift += 6;
                if byte & 0x40 == 0 {
                    break;
                }
            }
            value
        };
        let signed = |value: u64| {
            let size = (value >> 1) as i64;
            if value & 1 == 1 { -size } else { size }
        };
        let mut has_line = true;
        match first >> 3 & 15 {
            15 => has_line = false,
            14 => {
                line = line.saturating_add(signed(number()));
                (0..3).for_each(|_| _ = number());
            }
            13 => line = line.saturating_add(signed(number())),
            code @ 10..=12 => {
                line = line.saturating_add(i64::from(code) - 10);
                at += 2;
            }
            _ => at += 1,
        }
        let shown = if has_line { u32::try_from(line).unwrap_or(0) } else { 0 };
        if all.last().is_none_or(|last| last.1 != shown) {
            all.push((off, shown));
        }
        off += UNIT * u64::from(first & 7) + UNIT;
        if all.len() >= MAX_LINES {
            break;
        }
    }
    let is_cut = all.len() >= MAX_LINES || table.len() >= MAX_LINES_BYTES;
    all.extend(is_cut.then_some((off, 0)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_instructions() {
        // Two units in the first line, one two lines on, one without a line, three in the line before.
        let table = [0x80 | 10 << 3 | 1, 0, 0, 0x80 | 12 << 3, 0, 0, 0x80 | 15 << 3, 0x80 | 13 << 3 | 2, 3];
        assert_eq!(lines(&table, 10), [(0, 10), (4, 12), (6, 0), (8, 11)]);
        let long = [0x80 | 14 << 3, 0x40 | 2, 1, 0, 0, 0, 0x80 | 3 << 3, 7];
        assert_eq!(lines(&long, 10), [(0, 10 + 33)]);
    }

    proptest::proptest! {
        #[test]
        fn no_table_of_lines_does_harm(table: Vec<u8>, first_line: u32) {
            let lines = lines(&table, first_line);
            proptest::prop_assert!(lines.windows(2).all(|pair| pair[0].0 < pair[1].0));
        }
    }
}
