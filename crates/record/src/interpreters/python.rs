//! Where CPython keeps its frames and its code objects.
//!
//! From 3.13 on the interpreter tells it, in a table at `_PyRuntime` (`_Py_DebugOffsets`), whose own form changes with each minor version. For
//! 3.9 to 3.12 the offsets are those of the debug information of builds of these versions.

use std::ops::Range;

use icecore_elf::{FileOff, Layout, Svma};
use icecore_format::records::Omission;

use super::list::List;
use super::symbols::{constant, exported};

/// The section that holds `_PyRuntime`.
const RUNTIME_SECTION: &str = ".PyRuntime";
const RUNTIME: &str = "_PyRuntime";
const EVAL: &str = "_PyEval_EvalFrameDefault";
/// The version of the interpreter, four bytes, since 3.11: 0x030b02f0 is 3.11.2.
const VERSION: &str = "Py_Version";
/// Functions that came with 3.10 and 3.9.
const SINCE_3_10: &str = "PyIter_Send";
const SINCE_3_9: &str = "PyInterpreterState_Get";
/// How the table begins.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// The most words of the table that are read.
const TABLE_WORDS: usize = 96;
/// In a code object, how far behind its first line it has its number, which no other one gets (`co_version`, since 3.12).
const NUMBER_BEHIND_LINE: u32 = 24;
/// The largest offset that is believed.
const MAX_OFF: u64 = 1 << 20;
/// All frames have something in the word of their type.
const ANY_BIT: u32 = u32::MAX;

/// Offsets in bytes; 0 of what a version does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(super) list: List,
    /// In a code object: file, name, name with the classes around it, lines, first line, number, first instruction.
    pub(super) file: u32,
    pub(super) name: u32,
    pub(super) qualified: u32,
    pub(super) lines: u32,
    pub(super) line_table: Lines,
    pub(super) first_line: u32,
    pub(super) number: u32,
    /// The number alone does not tell it from others: file, name and lines do, too.
    pub(super) is_told_by_name: bool,
    pub(super) instructions: u32,
    /// The instructions are an object of their own.
    pub(super) is_code_apart: bool,
    /// A frame has a number instead of the address of its instruction: bytes for one of them.
    pub(super) step_bytes: u32,
    /// In a string of ASCII, its characters; in another one they lie so much further on.
    pub(super) characters: u32,
    pub(super) others_characters: u32,
}

/// How the table of lines of a code object is encoded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lines {
    /// Since 3.11.
    #[default]
    Locations,
    /// 3.10.
    Ranges,
    /// Up to 3.9.
    Steps,
}

const OF_3_11: Offsets = Offsets {
    list: List {
        first_interpreter: 40,
        next_interpreter: 0,
        threads: 16,
        next_thread: 8,
        thread: 152,
        frame: 56,
        has_runs: true,
        run_frame: 8,
        outer_run: 16,
        previous: 48,
        code: 32,
        instruction: 56,
        flags: 0,
        entered: 0,
        frame_bytes: 64,
        frame_register: 0,
        instruction_register: 0,
        number: 72,
        file: 112,
        name: 128,
        class: 0,
        class_name: 0,
        lines: 136,
        builtin: 0,
        text_head: 16,
        is_hash_first: false,
        characters: 48,
        end_bytes: 32,
        line: 0,
        shared: 0,
        script: 0,
        script_number: 0,
        kind: 0,
        bytecode_kind: 0,
    },
    file: 112,
    name: 120,
    qualified: 128,
    lines: 136,
    line_table: Lines::Locations,
    first_line: 72,
    number: 72,
    is_told_by_name: true,
    instructions: 184,
    is_code_apart: false,
    step_bytes: 0,
    characters: 48,
    others_characters: 24,
};

const OF_3_12: Offsets = Offsets {
    list: List {
        threads: 72,
        thread: 136,
        run_frame: 0,
        outer_run: 0,
        previous: 8,
        code: 0,
        number: 68 + NUMBER_BEHIND_LINE,
        file: 0,
        name: 0,
        lines: 0,
        ..OF_3_11.list
    },
    first_line: 68,
    number: 68 + NUMBER_BEHIND_LINE,
    is_told_by_name: false,
    instructions: 192,
    characters: 40,
    others_characters: 16,
    ..OF_3_11
};

const OF_3_10: Offsets = Offsets {
    list: List {
        first_interpreter: 32,
        threads: 8,
        thread: 176,
        frame: 24,
        has_runs: false,
        run_frame: 0,
        outer_run: 0,
        previous: 24,
        code: 32,
        instruction: 96,
        flags: 8,
        entered: ANY_BIT,
        frame_bytes: 104,
        number: 40,
        file: 104,
        name: 112,
        lines: 120,
        ..OF_3_11.list
    },
    file: 104,
    name: 112,
    qualified: 0,
    lines: 120,
    line_table: Lines::Ranges,
    first_line: 40,
    number: 40,
    instructions: 48,
    is_code_apart: true,
    step_bytes: 2,
    ..OF_3_11
};

const OF_3_9: Offsets = Offsets {
    list: List { instruction: 104, frame_bytes: 112, ..OF_3_10.list },
    line_table: Lines::Steps,
    step_bytes: 1,
    ..OF_3_10
};

/// Where the table of a minor version has the offsets, in words: first interpreter; next one and its threads; next thread, its innermost
/// frame, its number; in a frame the previous one, the code, the instruction; in a code object the file, of which name, qualified name,
/// lines and first line follow, and its instructions.
const TABLES: [(u64, [usize; 11]); 3] = [
    (13, [5, 8, 9, 21, 23, 24, 29, 30, 31, 35, 43]),
    (14, [5, 8, 9, 24, 26, 27, 32, 33, 34, 40, 48]),
    (15, [5, 8, 9, 24, 26, 30, 40, 41, 42, 48, 56]),
];

/// What a file with CPython holds.
pub(super) struct Python {
    pub(super) runtime: Svma,
    /// Of those versions whose frames do not tell which machine frame runs them.
    pub(super) eval: Option<Range<Svma>>,
    pub(super) offsets: Offsets,
}

/// Finds CPython in a file; `None` if it is not there.
///
/// # Errors
/// If its frames are not known.
pub(super) fn find<'d>(file: impl object::ReadRef<'d>, layout: &Layout) -> Result<Option<Python>, Omission> {
    let section = layout.section(RUNTIME_SECTION);
    let table = |off: FileOff| file.read_bytes_at(off.0, (TABLE_WORDS * 8) as u64).unwrap_or_default();
    if let Some(section) = section
        && table(section.off).starts_with(COOKIE)
    {
        let offsets = of_table(table(section.off))?;
        return Ok(Some(Python { runtime: section.at, eval: None, offsets }));
    }
    let names = [RUNTIME, EVAL, VERSION, SINCE_3_10, SINCE_3_9];
    let found = exported(file, names).unwrap_or_default();
    let [runtime, eval, version, since_3_10, since_3_9] = found;
    let Some(runtime) = section.map(|section| section.at).or(runtime.map(|at| at.start)) else {
        return Ok(None);
    };
    let offsets = match version {
        Some(at) => constant(file, at.start).and_then(of_version),
        None if since_3_10.is_some() => Some(OF_3_10),
        None if since_3_9.is_some() => Some(OF_3_9),
        None => None,
    };
    let offsets = offsets.ok_or(Omission::INTERPRETER_VERSION)?;
    let eval = eval.filter(|_| offsets.list.entered != 0);
    if eval.is_none() && offsets.list.entered != 0 {
        return Err(Omission::INTERPRETER_BUILD);
    }
    Ok(Some(Python { runtime, eval, offsets }))
}

/// The offsets of 3.12.
#[cfg(test)]
pub(super) fn of_3_12() -> Offsets {
    OF_3_12
}

/// Reads the table of an interpreter.
fn of_table(table: &[u8]) -> Result<Offsets, Omission> {
    let word = |at: usize| Some(u64::from_le_bytes(*table.get(8 * at..)?.first_chunk()?));
    // Without the global lock, code and frames are laid out in another way.
    if word(2) != Some(0) {
        return Err(Omission::INTERPRETER_BUILD);
    }
    let version = word(1).unwrap_or_default();
    let known = TABLES.iter().find(|it| version >> 24 == 3 && it.0 == version >> 16 & 0xff);
    known.and_then(|(_, places)| at_places(places, word)).ok_or(Omission::INTERPRETER_VERSION)
}

/// Reads the offsets at their places in the table.
fn at_places(places: &[usize; 11], word: impl Fn(usize) -> Option<u64>) -> Option<Offsets> {
    let off = |at: usize| word(at).filter(|off| *off < MAX_OFF).map(|off| off as u32);
    let [first, next, threads, next_thread, frame, thread, previous, code, instruction, file, instructions] =
        places.map(off);
    let after_file = |fields: usize| off(places[9] + fields);
    let first_line = after_file(4)?;
    let number = first_line + NUMBER_BEHIND_LINE;
    Some(Offsets {
        list: List {
            first_interpreter: first?,
            next_interpreter: next?,
            threads: threads?,
            next_thread: next_thread?,
            thread: thread?,
            frame: frame?,
            has_runs: false,
            previous: previous?,
            code: code?,
            instruction: instruction?,
            number,
            ..OF_3_12.list
        },
        file: file?,
        name: after_file(1)?,
        qualified: after_file(2)?,
        lines: after_file(3)?,
        first_line,
        number,
        instructions: instructions?,
        ..OF_3_12
    })
}

fn of_version(version: u32) -> Option<Offsets> {
    match version >> 16 {
        0x030b => Some(OF_3_11),
        0x030c => Some(OF_3_12),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_read_of_a_code_object_than_it_has() {
        // `sys.getsizeof` of the smallest one; behind it, the next page may not be there.
        let sizes = [(OF_3_9, 176), (OF_3_10, 176), (OF_3_11, 192)];
        for (offsets, size) in sizes {
            assert!((1..=size).contains(&offsets.list.code_bytes()), "{}", offsets.list.code_bytes());
        }
    }
}
