//! Reads the instructions of one function: its bytes, what they call, and the source lines and inlined functions of each.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use icecore_elf::{Beginnings, Machine, SymbolTable};
use memmap2::Mmap;

use super::data::data;
use super::decode::{Decoded, decode};
use icecore_profile::recording::load::clean;
use icecore_profile::stacks::calls::with_code;
use icecore_profile::stacks::unwind_tables;
use icecore_symbolize::image::{ElfFile, FileOff, FileSource, Files, Finder, Identity, Layout, Svma};
use icecore_symbolize::{Answer, Function, Reason, Wanted, symbolize};
use icecore_unwind::UnwindTables;

/// The longest function whose instructions are listed, bytes.
pub const MAX_FUNCTION_BYTES: u64 = 1 << 20;

/// Why there are no instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoCode {
    /// The file of the image is not available.
    Image(Reason),
    /// The recording has the file without its code, and no file with code is available.
    Sections,
    /// The file cannot be read any more.
    Unreadable,
    /// Code of this processor is not decoded.
    Processor,
    /// No symbol and no unwind table says where the function begins and ends.
    NoBounds,
    /// The function is longer than [`MAX_FUNCTION_BYTES`].
    TooLong,
}

impl NoCode {
    /// Returns the name in JSON; these names never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Image(reason) => reason.code(),
            Self::Sections => "no_code",
            Self::Unreadable => "unreadable",
            Self::Processor => "processor",
            Self::NoBounds => "no_bounds",
            Self::TooLong => "too_long",
        }
    }
}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(reason) => write!(f, "{reason}"),
            Self::Sections => f.write_str("the files that were found have no code"),
            Self::Unreadable => f.write_str("its file cannot be read any more"),
            Self::Processor => f.write_str("code of this processor is not decoded"),
            Self::NoBounds => f.write_str("no symbol and no unwind table says where the function ends"),
            Self::TooLong => write!(f, "the function is longer than {} KiB", MAX_FUNCTION_BYTES >> 10),
        }
    }
}

/// The code of an image.
#[derive(Debug)]
pub struct Code<'a> {
    image: &'a Identity,
    finder: &'a Finder<'a>,
    files: Files,
    map: Mmap,
    machine: Machine,
    unwind_tables: Option<unwind_tables::Opened>,
}

/// The instructions of a function, or of a part of it that lies elsewhere (`.cold`).
#[derive(Debug, Clone)]
pub struct FunctionCode {
    /// Its addresses.
    pub range: Range<Svma>,
    /// The name of the function that these instructions are; inlined ones are at the instructions.
    pub name: Option<Arc<str>>,
    /// Where the bytes were found.
    pub source: FileSource,
    /// In the order of their addresses, without gaps.
    pub instructions: Vec<Instruction>,
}

/// An instruction, with what is known of it.
#[derive(Debug, Clone)]
pub struct Instruction {
    /// Its offset in the file of the image.
    pub off: FileOff,
    /// Its address in the image.
    pub at: Svma,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Mnemonic and operands.
    pub text: String,
    /// It calls a function.
    pub is_call: bool,
    /// What it jumps to, calls, or names.
    pub refers: Option<Referred>,
    /// The functions that it belongs to, innermost first, each with its source line; empty if nothing is known.
    pub functions: Vec<Function>,
}

/// What an instruction refers to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Referred {
    /// The address.
    pub at: Svma,
    /// It is code, to which control goes; else data, or an address that is computed.
    pub is_code: bool,
    /// The function or the data there; `None` if nothing names it.
    pub name: Option<Arc<str>>,
    /// Bytes from where that begins.
    pub offset: u64,
}

impl Instruction {
    /// Returns the instruction as text, with the name of what it refers to.
    pub fn shown(&self) -> String {
        let Some(refers) = &self.refers else { return self.text.clone() };
        let name = match (&refers.name, refers.offset) {
            (Some(name), 0) => format!(" <{name}>"),
            (Some(name), offset) => format!(" <{name}+{offset:#x}>"),
            (None, _) => String::new(),
        };
        // The text of jumps and calls has the address.
        let shown = match refers.is_code {
            true => format!("{}{name}", self.text),
            false => format!("{}  # {:#x}{name}", self.text, refers.at.0),
        };
        clean(shown.as_bytes()).into()
    }
}

impl<'a> Code<'a> {
    /// Opens the file of an image that has its code.
    ///
    /// # Errors  why there is none
    pub fn open(image: &'a Identity, finder: &'a Finder<'a>) -> Result<Self, NoCode> {
        let files =
            with_code(image, finder).map_err(|reason| reason.map_or(NoCode::Sections, NoCode::Image))?;
        let machine = Machine::of_elf(files.image.layout.machine.0).ok_or(NoCode::Processor)?;
        let map = files.image.file.map().ok_or(NoCode::Unreadable)?;
        Ok(Self { image, finder, files, map, machine, unwind_tables: None })
    }

    /// Lists the instructions of the function around an offset.
    ///
    /// # Errors  why that is impossible
    /// # Cost    names all instructions: reads the DWARF of the units of the function
    pub fn function(&mut self, off: FileOff) -> Result<FunctionCode, NoCode> {
        let at = self.layout().code(off).ok_or(NoCode::NoBounds)?;
        let range = self.extent(off, at).ok_or(NoCode::NoBounds)?;
        let (begin, rest) = self.layout().rest_of_segment(range.start).ok_or(NoCode::NoBounds)?;
        let len = (range.end.0 - range.start.0).min(rest);
        if len > MAX_FUNCTION_BYTES {
            return Err(NoCode::TooLong);
        }
        let bytes = self.files.image.file.bytes(begin, len).ok_or(NoCode::Unreadable)?;
        let decoded = decode(self.machine, &bytes, range.start);
        let (name, instructions) = self.described(decoded, &bytes, begin, &range);
        Ok(FunctionCode { range, name, source: self.files.image.source, instructions })
    }

    /// Returns the processor of the code.
    pub fn machine(&self) -> Machine {
        self.machine
    }

    /// Finds the addresses of offsets, which ascend, and those of their functions.
    ///
    /// # Cost    one pass over each symbol table
    pub fn extents(&mut self, offs: &[FileOff]) -> Vec<Option<(Svma, Option<Range<Svma>>)>> {
        let at: Vec<Option<Svma>> = offs.iter().map(|off| self.layout().code(*off)).collect();
        let mut known: Vec<Svma> = at.iter().flatten().copied().collect();
        known.sort_unstable();
        known.dedup();
        let by_symbols = self.symbols(&known);
        let wanted: Vec<u64> = offs.iter().map(|off| off.0).collect();
        self.unwind_tables = unwind_tables::Opened::of(&self.files, self.machine, &wanted);
        let tables =
            self.unwind_tables.as_ref().map(|opened| UnwindTables::new(opened.sections(self.machine)));
        let extent = |at: Svma| {
            let by_symbol = known.binary_search(&at).ok().and_then(|position| by_symbols[position].clone());
            (at, by_symbol.or_else(|| tables.as_ref()?.extent(at)))
        };
        at.into_iter().map(|at| at.map(extent)).collect()
    }

    fn layout(&self) -> &Layout {
        &self.files.image.layout
    }

    /// Finds where the function around an address begins and ends: by symbols, else by unwind tables.
    fn extent(&mut self, off: FileOff, at: Svma) -> Option<Range<Svma>> {
        let by_symbol = self.symbols(&[at]).pop().flatten();
        by_symbol.or_else(|| {
            let (files, machine) = (&self.files, self.machine);
            self.unwind_tables = unwind_tables::Opened::of(files, machine, &[off.0]);
            let opened = self.unwind_tables.as_ref()?;
            UnwindTables::new(opened.sections(machine)).extent(at)
        })
    }

    /// Finds the extents of the symbols around addresses, which ascend.
    fn symbols(&self, at: &[Svma]) -> Vec<Option<Range<Svma>>> {
        let debug = self.files.debug.as_ref().map(|debug| (&debug.file, &debug.layout));
        let mini = self.files.mini.as_ref().map(|(file, layout)| (file, layout));
        let files = debug.into_iter().chain([(&self.files.image.file, self.layout())]).chain(mini);
        let mut found = vec![None; at.len()];
        for (file, layout) in files {
            for table in SymbolTable::ALL.into_iter().filter(|table| layout.has(table.section())) {
                let Some(around) = around(table, file, at) else { continue };
                found.iter_mut().zip(around).for_each(|(found, new)| *found = found.take().or(new));
            }
        }
        found
    }

    /// Adds to instructions what is known of them; also returns the name of the function.
    fn described(
        &self,
        decoded: Vec<Decoded>,
        bytes: &[u8],
        begin: FileOff,
        range: &Range<Svma>,
    ) -> (Option<Arc<str>>, Vec<Instruction>) {
        let off = |at: Svma| FileOff(begin.0.wrapping_add(at.0.wrapping_sub(range.start.0)));
        let mut outside: Vec<Svma> = decoded.iter().filter_map(|it| it.target.or(it.names)).collect();
        outside.retain(|at| !range.contains(at));
        outside.sort_unstable();
        outside.dedup();
        let code_off = |at: &Svma| self.layout().rest_of_segment(*at).filter(|_| self.layout().is_code(*at));
        let wanted = decoded.iter().map(|it| off(it.at));
        let mut wanted: Vec<FileOff> =
            wanted.chain(outside.iter().filter_map(code_off).map(|it| it.0)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let answers = symbolize(&[Wanted { image: self.image, offsets: &wanted }], self.finder, &|_| ());
        let answers = answers.into_iter().next().unwrap_or_default();
        let functions = |off: FileOff| match wanted.binary_search(&off).ok().and_then(|at| answers.get(at)) {
            Some(Answer::Named(functions)) => &functions[..],
            _ => &[],
        };
        let named = |at: &Svma| Some(functions(code_off(at)?.0).last()?.name.clone());
        let (extents, data) = (self.symbols(&outside), data(&self.map, &outside));
        let own = functions(begin).last().map(|function| function.name.clone());
        let refers = |at: Svma, is_code| {
            let position = outside.binary_search(&at);
            let start =
                position.ok().and_then(|position| extents[position].as_ref()).map_or(at, |it| it.start);
            let (name, offset) = match data.get(&at) {
                _ if range.contains(&at) => (own.clone(), at.0 - range.start.0),
                Some((name, offset)) => (Some(name.clone()), *offset),
                None => (named(&at), at.0.saturating_sub(start.0)),
            };
            Referred { at, is_code, name, offset }
        };
        let mut rest = bytes;
        let instructions = decoded.into_iter().map(|it| {
            let (own, after) = rest.split_at_checked(it.len).unwrap_or((rest, &[]));
            rest = after;
            let off = off(it.at);
            let refers =
                it.target.map(|at| refers(at, true)).or_else(|| it.names.map(|at| refers(at, false)));
            let functions = functions(off).to_vec();
            Instruction {
                off,
                at: it.at,
                bytes: own.to_vec(),
                text: it.text,
                is_call: it.is_call,
                refers,
                functions,
            }
        });
        let instructions = instructions.collect();
        (own, instructions)
    }
}

/// Finds the extents of the symbols with a size around addresses.
fn around(table: SymbolTable, file: &ElfFile, at: &[Svma]) -> Option<Vec<Option<Range<Svma>>>> {
    let map = file.map()?;
    let symbols = table.around(file.readable(&map), at, Beginnings::UNKNOWN)?;
    let extent = |symbol: icecore_elf::Symbol<'_>| {
        let end = symbol.start.0.checked_add(symbol.len)?;
        (symbol.len > 0).then_some(symbol.start..Svma(end))
    };
    Some(symbols.into_iter().map(|symbol| extent(symbol?)).collect())
}

#[cfg(test)]
mod tests;
