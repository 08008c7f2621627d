//! Reads the code objects of CPython in the memory of a process.

use std::sync::Arc;

use super::code::{Code, Found, MAX_LINES, MAX_NAME_BYTES, apart, half, mixed, word};
use super::python::{Lines, Offsets};
use crate::foreign::memory::{Memory, Pages};
use icecore_jit::Line;

/// The most bytes of a table of lines.
const MAX_LINES_BYTES: usize = 256 << 10;
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
    let (first, second) = (Pages::default(), Pages::default());
    let code = function(&memory.through(&first), of, at, check);
    let again = memory.through(&second);
    // What was read meanwhile belongs to it if it is there, and the same, before and after. A freed object keeps most of its words.
    match code {
        Some(code) if current_check(&again, of, at) == Some(check) && live(memory, at) == Some(kind) => code,
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
    let qualified = if of.qualified == 0 { None } else { Some(text(memory, of, pointer(of.qualified)?)?) };
    let table = bytes(memory, pointer(of.lines)?)?;
    let is_internal = name.utf8 == TRAMPOLINE || file.utf8 == SHIM && name.utf8 == SHIM;
    let name = qualified.unwrap_or(name);
    // Other objects may come and go at this address meanwhile: what is shown must be what was checked.
    if of.is_told_by_name && mixed(number, file.check?, name.check?, 0, table.check?) != check {
        return None;
    }
    if is_internal {
        return Some(Found::Machinery);
    }
    let (file, name): (Arc<[u8]>, _) = (file.utf8.into(), name.utf8);
    let (instructions, len) = instructions(memory, of, at)?;
    let place = if of.is_code_apart {
        apart(at, len + UNIT)?
    } else {
        instructions.checked_sub(UNIT)?..instructions.checked_add(len)?
    };
    let line = |(off, line)| Line { off, file: Arc::clone(&file), line, ..Line::default() };
    let own = match of.line_table {
        Lines::Locations => locations(&table.bytes, first_line),
        Lines::Ranges => ranges(&table.bytes, first_line),
        Lines::Steps => steps(&table.bytes, first_line),
    };
    let own = own.into_iter().map(|(off, line)| (off + UNIT, line));
    let lines = std::iter::once((0, first_line)).chain(own).map(line).collect();
    Some(Found::Function(Code { place, instructions, name, lines, is_builtin: false }))
}

/// Returns the address of an instruction; `instruction` is what a frame has of it.
pub(super) fn instruction(of: &Offsets, code: &Code, instruction: u64) -> u64 {
    match of.step_bytes {
        0 => instruction,
        // A number in four bytes, -1 before the first instruction.
        bytes => {
            let off = i64::from(instruction as u32 as i32) * i64::from(bytes);
            code.place.start.wrapping_add(UNIT).wrapping_add_signed(off)
        }
    }
}

/// Returns the address of the instructions of a code object, and how many bytes they have.
fn instructions(memory: &Memory<'_>, of: &Offsets, at: u64) -> Option<(u64, u64)> {
    let field = at.checked_add(of.instructions.into())?;
    let (start, units) = if of.is_code_apart {
        let bytes = word(memory, field)?;
        (bytes.checked_add(BYTES)?, word(memory, bytes.checked_add(LEN)?)? / UNIT)
    } else {
        (field, word(memory, at.checked_add(LEN)?)?)
    };
    let len = units.checked_mul(UNIT).filter(|len| *len < 1 << 30)?;
    Some((start, len))
}

/// What tells the code object at an address from others there, as the sampler reads it (bpf/interpreted.h).
fn current_check(memory: &Memory<'_>, of: &Offsets, at: u64) -> Option<u32> {
    let number = half(memory, at.checked_add(of.number.into())?)?;
    if !of.is_told_by_name {
        return Some(number);
    }
    let pointer = |off: u32| word(memory, at.checked_add(off.into())?);
    let text = |off: u32| text(memory, of, pointer(off)?)?.check;
    let name = if of.qualified == 0 { of.name } else { of.qualified };
    Some(mixed(number, text(of.file)?, text(name)?, 0, bytes(memory, pointer(of.lines)?)?.check?))
}

/// An object of bytes.
struct Bytes {
    bytes: Vec<u8>,
    /// What tells them from others: their number and their end; `None` if there are too many for that.
    check: Option<u64>,
}

/// Reads bytes, all of them at once.
fn bytes(memory: &Memory<'_>, at: u64) -> Option<Bytes> {
    let len = word(memory, at.checked_add(LEN)?)?;
    let kept = usize::try_from(len).ok()?.min(MAX_LINES_BYTES);
    let mut object = memory.read_up_to(at, BYTES as usize + kept);
    let word = |at: usize| Some(u64::from_le_bytes(*object.get(at..)?.first_chunk()?));
    // Others may lie there by now.
    (object.len() == BYTES as usize + kept && word(LEN as usize)? == len).then_some(())?;
    let checked = match len {
        0..24 => 16,
        24..56 => 32,
        _ => 64,
    };
    let end = object.len() - checked;
    let words = (0..8).map(|number| if 8 * number < checked { word(end + 8 * number) } else { Some(0) });
    let mix = words.into_iter().try_fold(len, |mixed, word| Some(mixed.wrapping_mul(31).wrapping_add(word?)));
    let check = mix.filter(|_| kept as u64 == len);
    Some(Bytes { bytes: object.split_off(BYTES as usize), check })
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
    let check = if matches!(hash, 0 | u64::MAX) { end_of() } else { Some(hash) };
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
fn locations(table: &[u8], first_line: u32) -> Vec<(u64, u32)> {
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

/// Decodes the lines of 3.10: ranges of instructions, each with a step from the line before; -128 has none.
///
/// # Source
/// CPython 3.10, Objects/lnotab_notes.txt, PEP 626
fn ranges(table: &[u8], first_line: u32) -> Vec<(u64, u32)> {
    let (mut off, mut line) = (0, i64::from(first_line));
    let mut all = Vec::new();
    for [len, step] in table.as_chunks().0.iter().take(MAX_LINES) {
        let step = i64::from(*step as i8);
        let has_line = step != -128;
        line += if has_line { step } else { 0 };
        if *len > 0 {
            all.push((off, if has_line { u32::try_from(line).unwrap_or(0) } else { 0 }));
        }
        off += u64::from(*len);
    }
    end_lines(table, off, all)
}

/// Decodes the lines up to 3.9: steps of instructions and lines.
///
/// # Source
/// CPython 3.9, Objects/lnotab_notes.txt
fn steps(table: &[u8], first_line: u32) -> Vec<(u64, u32)> {
    let (mut off, mut line) = (0, i64::from(first_line));
    let mut all = vec![(0, first_line)];
    for [len, step] in table.as_chunks().0.iter().take(MAX_LINES) {
        off += u64::from(*len);
        line += i64::from(*step as i8);
        if *len > 0 {
            all.push((off, 0));
        }
        if let Some(last) = all.last_mut() {
            last.1 = u32::try_from(line).unwrap_or(0);
        }
    }
    end_lines(table, off, all)
}

/// Ends lines of which not all were decoded.
fn end_lines(table: &[u8], off: u64, mut all: Vec<(u64, u32)>) -> Vec<(u64, u32)> {
    let is_cut = table.len() >= MAX_LINES_BYTES || table.len() / 2 > MAX_LINES;
    all.extend((is_cut && all.last().is_none_or(|last| last.0 < off)).then_some((off, 0)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_those_of_the_instructions() {
        // Two units in the first line, one two lines on, one without a line, three in the line before.
        let table = [0x80 | 10 << 3 | 1, 0, 0, 0x80 | 12 << 3, 0, 0, 0x80 | 15 << 3, 0x80 | 13 << 3 | 2, 3];
        assert_eq!(locations(&table, 10), [(0, 10), (4, 12), (6, 0), (8, 11)]);
        let long = [0x80 | 14 << 3, 0x40 | 2, 1, 0, 0, 0, 0x80 | 3 << 3, 7];
        assert_eq!(locations(&long, 10), [(0, 10 + 33)]);
    }

    #[test]
    fn lines_of_older_versions_are_those_of_the_instructions() {
        // 3.10: four bytes in the first line, two without one, two in the third.
        assert_eq!(ranges(&[4, 0, 2, 0x80, 2, 2], 10), [(0, 10), (4, 0), (6, 12)]);
        // 3.9: four bytes in the first line, two in the third, and then one line back; steps of more than 127 lines are two.
        assert_eq!(steps(&[4, 2, 2, 0xff], 10), [(0, 10), (4, 12), (6, 11)]);
        assert_eq!(steps(&[0, 127, 0, 3, 6, 1], 10), [(0, 140), (6, 141)]);
    }

    proptest::proptest! {
        #[test]
        fn no_table_of_lines_does_harm(table: Vec<u8>, first_line: u32) {
            for lines in [locations, ranges, steps].map(|decode| decode(&table, first_line)) {
                proptest::prop_assert!(lines.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
        }
    }
}
