//! Where PHP keeps its frames, and what its functions are.
//!
//! Builds without threads have one list of frames, which begins in `executor_globals`. A function of a program is an array of operations, each of
//! which knows its line.

use std::ops::Range;
use std::sync::Arc;

use icecore_elf::{Layout, Svma};
use icecore_format::records::Omission;
use memchr::memmem;

use super::code::{Code, Found, MAX_LINES, MAX_NAME_BYTES, apart, half, mixed, word};
use super::list::List;
use super::symbols::exported;
use crate::foreign::memory::{Memory, Pages};
use crate::kernel::wire::InterpretedFrame;
use icecore_jit::Line;

const EXECUTOR: &str = "executor_globals";
const EVAL: &str = "execute_ex";
/// What stands before the version in the read-only data.
const BEFORE_VERSION: &[u8] = b"X-Powered-By: PHP/";
const CONSTANTS: &str = ".rodata";
/// The most bytes in which the version is searched.
const MAX_CONSTANTS: u64 = 16 << 20;
/// The kind of a function that is part of PHP, of one of a program, and of code that `eval` runs; they are in its first byte.
const BUILTIN: u8 = 1;
const USER: u8 = 2;
const EVAL_CODE: u8 = 4;
/// The bits of an address; above it the sampler puts bits of a line.
const ADDRESS: u64 = (1 << 48) - 1;
const NAME: u64 = 8;
const CLASS: u64 = 16;
const CLASS_NAME: u64 = 8;
/// A string has its hash, its length and its characters here.
const HASH: usize = 8;
const LEN: usize = 16;
const CHARACTERS: usize = 24;
/// Not all strings have a hash: then so many bytes at the end tell them, which may be its length and that hash, too.
const END: usize = 16;
/// Behind the file of a function come its first and its last line.
const FIRST_LINE: u64 = 8;
const LAST_LINE: u64 = 12;
/// The size of an operation, and its line.
const OPERATION: u64 = 32;
const OPERATION_LINE: usize = 24;
/// What is shown of an operation lies so far behind its begin; in front of that lies the place of one that is not known.
const SHOWN: u64 = 2;
const UNKNOWN: u64 = 1;
/// The name of code outside functions.
const MAIN: &[u8] = b"{main}";

/// Offsets in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(super) list: List,
    /// In a function: its file, the number of its operations, and where they are.
    file: u32,
    len: u32,
    operations: u32,
}

/// Of minor versions: in the state the innermost frame; in a function as above.
///
/// # Source
/// Builds of 7.4, 8.2 and 8.4; of others `Zend/zend_compile.h` and `Zend/zend_globals.h`
const VERSIONS: [((u32, u32), [u32; 4]); 7] = [
    ((7, 4), [488, 136, 60, 64]),
    ((8, 0), [488, 144, 68, 72]),
    ((8, 1), [488, 144, 68, 72]),
    ((8, 2), [488, 152, 80, 88]),
    ((8, 3), [488, 144, 76, 80]),
    ((8, 4), [488, 168, 96, 104]),
    ((8, 5), [512, 168, 96, 104]),
];

/// What a file with PHP holds.
pub(super) struct Php {
    pub(super) runtime: Svma,
    pub(super) eval: Range<Svma>,
    pub(super) offsets: Offsets,
}

/// Finds PHP in a file; `None` if it is not there.
///
/// # Errors
/// If its frames are not known.
pub(super) fn find<'d>(file: impl object::ReadRef<'d>, layout: &Layout) -> Result<Option<Php>, Omission> {
    let [runtime, eval] = exported(file, [EXECUTOR, EVAL]).unwrap_or_default();
    let Some(eval) = eval else { return Ok(None) };
    // With threads, each has its own.
    let runtime = runtime.ok_or(Omission::INTERPRETER_BUILD)?.start;
    let constants = layout.section(CONSTANTS).filter(|section| section.len <= MAX_CONSTANTS);
    let version = constants.and_then(|section| version(layout.bytes_of(section, file)?));
    let known = VERSIONS.into_iter().find(|it| Some(it.0) == version);
    let (_, [frame, of_file, len, operations]) = known.ok_or(Omission::INTERPRETER_VERSION)?;
    let list = List {
        frame,
        previous: 48,
        code: 24,
        flags: 40,
        entered: 1 << 17,
        frame_bytes: 56,
        frame_register: 14,
        instruction_register: 15,
        number: of_file + FIRST_LINE as u32,
        file: of_file,
        name: NAME as u32,
        class: CLASS as u32,
        class_name: CLASS_NAME as u32,
        builtin: BUILTIN.into(),
        text_head: HASH as u32,
        is_hash_first: true,
        characters: CHARACTERS as u32,
        end_bytes: END as u32,
        line: OPERATION_LINE as u32,
        ..List::default()
    };
    Ok(Some(Php { runtime, eval, offsets: Offsets { list, file: of_file, len, operations } }))
}

fn version(constants: &[u8]) -> Option<(u32, u32)> {
    let begin = memmem::find(constants, BEFORE_VERSION)? + BEFORE_VERSION.len();
    let rest = constants.get(begin..)?;
    let mut numbers = rest.get(..8).unwrap_or(rest).split(|byte| !byte.is_ascii_digit());
    let mut number = || std::str::from_utf8(numbers.next()?).ok()?.parse().ok();
    Some((number()?, number()?))
}

/// Reads the function at an address.
pub(super) fn read(memory: &Memory<'_>, of: &Offsets, at: u64, check: u32) -> Found {
    let (first, second) = (Pages::default(), Pages::default());
    match function(&memory.through(&first), of, at, check) {
        Some(code) if is_same(&memory.through(&second), of, at, check) => Found::Function(code),
        _ => Found::Gone,
    }
}

fn function(memory: &Memory<'_>, of: &Offsets, at: u64, check: u32) -> Option<Code> {
    let known = checked(memory, of, at).filter(|known| known.check == check)?;
    let own = if known.name.is_empty() { MAIN.to_vec() } else { known.name };
    let name = if known.class.is_empty() { own } else { [&known.class[..], b"::", &own].concat() };
    if known.is_builtin {
        return Some(Code {
            place: apart(at, SHOWN)?,
            instructions: 0,
            name,
            lines: Vec::new(),
            is_builtin: true,
        });
    }
    let field = |off: u32| at.checked_add(off.into());
    let (start, len) = (word(memory, field(of.operations)?)?, half(memory, field(of.len)?)?);
    let last_line = half(memory, field(of.file)?.checked_add(LAST_LINE)?)?;
    let kept = (len as usize).min(MAX_LINES);
    let bytes = memory.read_up_to(start, kept * OPERATION as usize);
    let file: Arc<[u8]> = known.file.into();
    let mut lines = vec![(0, known.first_line), (UNKNOWN, 0)];
    for (off, operation) in (SHOWN..).step_by(OPERATION as usize).zip(bytes.chunks_exact(OPERATION as usize))
    {
        let line = u32::from_le_bytes(*operation.get(OPERATION_LINE..)?.first_chunk()?);
        // Then these are no operations of it.
        (line >= known.first_line && (line <= last_line || last_line < known.first_line)).then_some(())?;
        if lines.last().is_none_or(|last| last.1 != line) {
            lines.push((off, line));
        }
    }
    if bytes.len() < len as usize * OPERATION as usize {
        lines.push((SHOWN + bytes.len() as u64, 0));
    }
    let lines = lines
        .into_iter()
        .map(|(off, line)| Line { off, file: Arc::clone(&file), line, ..Line::default() })
        .collect();
    let place = apart(at, SHOWN + u64::from(len) * OPERATION)?;
    (len > 0).then_some(Code { place, instructions: start, name, lines, is_builtin: false })
}

/// Returns the address that is shown of an operation. The innermost frame of a list has its operation in a register, and writes it down before
/// some operations only. Native code that it calls uses these registers for other things: then they hold no operation of this function.
pub(super) fn instruction(code: &Code, frame: &InterpretedFrame) -> u64 {
    let is_known = !code.is_builtin && (frame.is_in_registers || !frame.is_innermost);
    let off = operation(code, frame).filter(|_| is_known).map_or(UNKNOWN, |off| off + SHOWN);
    code.place.start.saturating_add(off)
}

/// Returns how far behind the first operation that of a frame is; `None` if it is none of this function.
fn operation(code: &Code, frame: &InterpretedFrame) -> Option<u64> {
    let off = (frame.instruction & ADDRESS).checked_sub(code.instructions)?;
    (off % OPERATION == 0 && off < code.place.end - code.place.start).then_some(off)
}

/// Returns false if the operation of a frame has had another line than it has in the function: then other operations lie there now.
pub(super) fn agrees(code: &Code, frame: &InterpretedFrame) -> bool {
    let Some(off) = operation(code, frame).filter(|_| !code.is_builtin) else { return true };
    let after = code.lines.partition_point(|line| line.off <= off + SHOWN);
    let line = after.checked_sub(1).map_or(0, |last| code.lines[last].line);
    line == 0 || line as u16 == (frame.instruction >> 48) as u16
}

/// What tells a function from others at its address.
struct Checked {
    check: u32,
    is_builtin: bool,
    name: Vec<u8>,
    class: Vec<u8>,
    file: Vec<u8>,
    first_line: u32,
}

fn checked(memory: &Memory<'_>, of: &Offsets, at: u64) -> Option<Checked> {
    let kind = half(memory, at)?.to_le_bytes()[0];
    let (name, name_hash) = string(memory, at.checked_add(NAME)?)?;
    let of_file = at.checked_add(of.file.into())?;
    let (file, file_hash, first_line) = match kind {
        BUILTIN => Default::default(),
        USER | EVAL_CODE => {
            let (file, hash) = string(memory, of_file)?;
            (file, hash, half(memory, of_file.checked_add(FIRST_LINE)?)?)
        }
        _ => return None,
    };
    let class = word(memory, at.checked_add(CLASS)?)?;
    let (class, class_hash) =
        if class == 0 { Default::default() } else { string(memory, class.checked_add(CLASS_NAME)?)? };
    let check = mixed(first_line, file_hash, name_hash, class_hash, 0);
    Some(Checked { check, is_builtin: kind == BUILTIN, name, class, file, first_line })
}

fn is_same(memory: &Memory<'_>, of: &Offsets, at: u64, check: u32) -> bool {
    checked(memory, of, at).is_some_and(|known| known.check == check)
}

/// Reads the string to which a field leads, and what tells it from others; an empty one if it leads nowhere.
fn string(memory: &Memory<'_>, field: u64) -> Option<(Vec<u8>, u64)> {
    let at = word(memory, field)?;
    if at == 0 {
        return Some(Default::default());
    }
    let head = memory.read_up_to(at, CHARACTERS);
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let len = usize::try_from(word(&head, LEN)?).ok()?;
    let end = CHARACTERS + len.min(MAX_NAME_BYTES);
    // All of it at once: another string may lie there by now.
    let mut bytes = memory.read_up_to(at, end);
    let is_same = bytes.len() == end && bytes[HASH..CHARACTERS] == head[HASH..CHARACTERS];
    let end_of = || {
        let at = end - END;
        Some(word(&bytes, at)? ^ word(&bytes, at + 8)?.wrapping_mul(3)).filter(|_| len <= MAX_NAME_BYTES)
    };
    let check = match word(&bytes, HASH)? {
        0 | u64::MAX => end_of()?,
        hash => hash,
    };
    is_same.then(|| (bytes.split_off(CHARACTERS), check))
}
