//! Where CPython keeps its frames and its code objects.
//!
//! From 3.13 on the interpreter tells it, in a table at `_PyRuntime` (`_Py_DebugOffsets`), whose own form changes with each minor version. For
//! 3.11 and 3.12 the offsets are those of the debug information of builds of these versions.

use icecore_elf::{Avma, FileOff, Layout, Svma};
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object as _, ObjectSymbol as _};

/// The section that holds `_PyRuntime`.
const RUNTIME: &str = ".PyRuntime";
/// How the table begins.
const COOKIE: &[u8; 8] = b"xdebugpy";
/// The most words of the table that are read.
const TABLE_WORDS: usize = 96;
/// The symbol of the version of the interpreter, four bytes: 0x030b02f0 is 3.11.2.
const VERSION: &str = "Py_Version";
/// The most symbols that are looked at.
const MAX_SYMBOLS: usize = 64 << 10;
/// In a code object, how far behind its first line it has its number, which no other one gets (`co_version`, since 3.12).
const NUMBER_BEHIND_LINE: u32 = 24;
/// The largest offset that is believed.
const MAX_OFF: u64 = 1 << 20;

/// A build of CPython.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Python {
    /// An executable section: its address, and its offset in the file.
    code: (Svma, FileOff),
    runtime: Svma,
    pub(super) offsets: Offsets,
}

/// Offsets in bytes; 0 of what a version does not have.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Offsets {
    first_interpreter: u32,
    next_interpreter: u32,
    threads: u32,
    next_thread: u32,
    thread: u32,
    /// In a thread: the innermost frame, or run of the eval loop if it `has_runs`.
    frame: u32,
    has_runs: bool,
    run_frame: u32,
    /// Whether a run leads to the next one outwards, and where (3.11).
    outer_run: u32,
    previous: u32,
    pub(super) code: u32,
    instruction: u32,
    /// In a code object: file, name, name with the classes around it, lines, first line, number, first instruction.
    pub(super) file: u32,
    pub(super) name: u32,
    pub(super) qualified: u32,
    pub(super) lines: u32,
    pub(super) first_line: u32,
    pub(super) number: u32,
    /// The number alone does not tell it from others: the texts of file and name do, too.
    pub(super) is_told_by_name: bool,
    pub(super) instructions: u32,
    /// In a string of ASCII, its characters; in another one they lie so much further on.
    pub(super) characters: u32,
    pub(super) others_characters: u32,
}

const BEFORE_3_12: Offsets = Offsets {
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
    file: 112,
    name: 120,
    qualified: 128,
    lines: 136,
    first_line: 72,
    number: 72,
    is_told_by_name: true,
    instructions: 184,
    characters: 48,
    others_characters: 24,
};

const OF_3_12: Offsets = Offsets {
    threads: 72,
    thread: 136,
    run_frame: 0,
    outer_run: 0,
    previous: 8,
    code: 0,
    first_line: 68,
    number: 68 + NUMBER_BEHIND_LINE,
    is_told_by_name: false,
    instructions: 192,
    characters: 40,
    others_characters: 16,
    ..BEFORE_3_12
};

/// Where the table of a minor version has the offsets, in words: first interpreter; next one and its threads; next thread, its innermost
/// frame, its number; in a frame the previous one, the code, the instruction; in a code object the file, of which name, qualified name,
/// lines and first line follow, and its instructions.
const TABLES: [(u64, [usize; 11]); 3] = [
    (13, [5, 8, 9, 21, 23, 24, 29, 30, 31, 35, 43]),
    (14, [5, 8, 9, 24, 26, 27, 32, 33, 34, 40, 48]),
    (15, [5, 8, 9, 24, 26, 30, 40, 41, 42, 48, 56]),
];

impl Python {
    /// Finds CPython in a file; `None` if it is not there, or of a version that is not known.
    pub(crate) fn find<'d>(file: impl object::ReadRef<'d>, layout: &Layout) -> Option<Self> {
        let section = layout.section(RUNTIME).filter(|_| layout.machine == object::elf::EM_X86_64)?;
        let text = layout.sections.iter().find(|section| section.is_executable)?;
        let table = file.read_bytes_at(section.off.0, (TABLE_WORDS * 8) as u64).unwrap_or_default();
        let offsets = if table.starts_with(COOKIE) { of_table(table)? } else { of_version(version(file)?)? };
        Some(Self { code: (text.at, text.off), runtime: section.at, offsets })
    }

    /// An interpreter somewhere.
    #[cfg(test)]
    pub(super) fn of_3_12() -> Self {
        Self { code: (Svma(0), FileOff(0)), runtime: Svma(0), offsets: OF_3_12 }
    }

    /// The offset in the file of some code, by which a process shows where it has mapped the file.
    pub(crate) fn code_off(&self) -> FileOff {
        self.code.1
    }

    /// Encodes what the sampler must know, `struct interpreter` of bpf/wire.h; `code` is where the process has that code.
    pub(crate) fn bytes(&self, code: Avma) -> Vec<u8> {
        let runtime = code.0.wrapping_sub(self.code.0.0).wrapping_add(self.runtime.0);
        let Offsets { first_interpreter, next_interpreter, threads, next_thread, thread, frame, .. } =
            self.offsets;
        let Offsets { has_runs, run_frame, outer_run, previous, code, instruction, number, .. } =
            self.offsets;
        let texts = if self.offsets.is_told_by_name { self.offsets.file } else { 0 };
        let words = [
            first_interpreter,
            next_interpreter,
            threads,
            next_thread,
            thread,
            frame,
            u32::from(has_runs),
            run_frame,
            outer_run,
            previous,
            code,
            instruction,
            number,
            texts,
        ];
        runtime.to_ne_bytes().into_iter().chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect()
    }
}

/// Reads the table of an interpreter.
fn of_table(table: &[u8]) -> Option<Offsets> {
    let word = |at: usize| Some(u64::from_le_bytes(*table.get(8 * at..)?.first_chunk()?));
    let version = word(1)?;
    let minor = version >> 16 & 0xff;
    let (_, places) = TABLES.iter().find(|it| version >> 24 == 3 && it.0 == minor)?;
    // Without the global lock, code and frames are laid out in another way.
    if word(2)? != 0 {
        return None;
    }
    let off = |at: usize| word(at).filter(|off| *off < MAX_OFF).map(|off| off as u32);
    let [first, next, threads, next_thread, frame, thread, previous, code, instruction, file, instructions] =
        places.map(off);
    let after_file = |fields: usize| off(places[9] + fields);
    let first_line = after_file(4)?;
    Some(Offsets {
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
        file: file?,
        name: after_file(1)?,
        qualified: after_file(2)?,
        lines: after_file(3)?,
        first_line,
        number: first_line + NUMBER_BEHIND_LINE,
        instructions: instructions?,
        ..OF_3_12
    })
}

/// Reads the version of an interpreter that has no table.
fn version<'d>(file: impl object::ReadRef<'d>) -> Option<u32> {
    let file = ElfFile::<FileHeader64<Endianness>, _>::parse(file).ok()?;
    let symbol = file.dynamic_symbols().take(MAX_SYMBOLS).find(|it| it.name() == Ok(VERSION))?;
    let section = file.section_by_index(symbol.section_index()?).ok()?;
    let bytes = object::ObjectSection::data_range(&section, symbol.address(), 4).ok()??;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn of_version(version: u32) -> Option<Offsets> {
    match version >> 16 {
        0x030b => Some(BEFORE_3_12),
        0x030c => Some(OF_3_12),
        _ => None,
    }
}
