//! Reads the instructions of one function: its bytes, what they call, and the source lines and inlined functions of each.

mod no_code;
mod stored;

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
use icecore_symbolize::{Answer, Function, Wanted, symbolize};
use icecore_unwind::UnwindTables;

pub use no_code::NoCode;
pub use stored::CodeFinder;

/// The longest function whose instructions are listed, bytes.
pub const MAX_FUNCTION_BYTES: u64 = 1 << 20;

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

/// Where the code of a function lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Its addresses.
    pub range: Range<Svma>,
    /// The offset of the first byte in the file of the image.
    pub begin: FileOff,
    /// Bytes in the file, at most [`MAX_FUNCTION_BYTES`].
    pub len: u64,
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
        let stretch = self.stretches(&[off]).pop().unwrap_or(Err(NoCode::NoBounds))?;
        self.listed(&[stretch]).pop().unwrap_or(Err(NoCode::Unreadable))
    }

    /// Finds the functions around offsets, which ascend.
    ///
    /// # Errors  for each offset, why that is impossible
    /// # Cost    one pass over each symbol table
    pub fn stretches(&mut self, offs: &[FileOff]) -> Vec<Result<Stretch, NoCode>> {
        let extents = self.extents(offs);
        let stretch = |extent: Option<(Svma, Option<Range<Svma>>)>| {
            let range = extent.and_then(|(_, range)| range).ok_or(NoCode::NoBounds)?;
            let (begin, rest) = self.layout().rest_of_segment(range.start).ok_or(NoCode::NoBounds)?;
            let len = range.end.0.checked_sub(range.start.0).ok_or(NoCode::NoBounds)?.min(rest);
            let range = range.start..range.start.wrapping_add(len);
            if len > MAX_FUNCTION_BYTES { Err(NoCode::TooLong) } else { Ok(Stretch { range, begin, len }) }
        };
        extents.into_iter().map(stretch).collect()
    }

    /// Lists the instructions of functions.
    ///
    /// # Errors  [`NoCode::Unreadable`] for each function whose bytes cannot be read
    /// # Cost    names all instructions: reads the DWARF of the units of the functions, once for all of them
    pub fn listed(&self, stretches: &[Stretch]) -> Vec<Result<FunctionCode, NoCode>> {
        let read = |it: &Stretch| self.files.image.file.bytes(it.begin, it.len);
        let bytes: Vec<Option<Vec<u8>>> = stretches.iter().map(read).collect();
        let readable = || stretches.iter().zip(&bytes).filter_map(|(it, bytes)| Some((it, bytes.as_ref()?)));
        let decoded = readable().map(|(it, bytes)| decode(self.machine, bytes, it.range.start)).collect();
        let mut listed = self.described(readable().collect(), decoded).into_iter();
        bytes
            .iter()
            .map(|bytes| bytes.as_ref().and_then(|_| listed.next()).ok_or(NoCode::Unreadable))
            .collect()
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

    /// Adds to the instructions of functions what is known of them.
    fn described(
        &self,
        functions: Vec<(&Stretch, &Vec<u8>)>,
        decoded: Vec<Vec<Decoded>>,
    ) -> Vec<FunctionCode> {
        let of_functions = || functions.iter().map(|(it, _)| *it).zip(&decoded);
        let outside = of_functions().flat_map(|(it, decoded)| {
            decoded.iter().filter_map(|it| it.target.or(it.names)).filter(|at| !it.range.contains(at))
        });
        let mut outside: Vec<Svma> = outside.collect();
        outside.sort_unstable();
        outside.dedup();
        let code_off = |at: &Svma| self.layout().rest_of_segment(*at).filter(|_| self.layout().is_code(*at));
        let own = of_functions().flat_map(|(it, decoded)| decoded.iter().map(|row| it.off(row.at)));
        let mut wanted: Vec<FileOff> =
            own.chain(outside.iter().filter_map(code_off).map(|it| it.0)).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let answers = symbolize(&[Wanted { image: self.image, offsets: &wanted }], self.finder, &|_| ());
        let answers = answers.into_iter().next().unwrap_or_default();
        let functions_at = |off: FileOff| match wanted.binary_search(&off).ok().and_then(|at| answers.get(at))
        {
            Some(Answer::Named(functions)) => &functions[..],
            _ => &[],
        };
        let (extents, data) = (self.symbols(&outside), data(&self.map, &outside));
        let names_of = |at: Svma| {
            if let Some((name, offset)) = data.get(&at) {
                return Some((name.clone(), *offset));
            }
            let name = functions_at(code_off(&at)?.0).last()?.name.clone();
            let extent = outside.binary_search(&at).ok().and_then(|position| extents[position].as_ref());
            Some((name, at.0.saturating_sub(extent.map_or(at, |it| it.start).0)))
        };
        let source = self.files.image.source;
        let all = functions.iter().zip(&decoded).map(|((it, bytes), decoded)| {
            let name = functions_at(it.begin).last().map(|function| function.name.clone());
            let known =
                Known { name, source, functions: &|at| functions_at(it.off(at)).to_vec(), names: &names_of };
            FunctionCode::new(it, bytes, decoded, known)
        });
        all.collect()
    }
}

impl Stretch {
    /// Returns the offset of an address of the function.
    fn off(&self, at: Svma) -> FileOff {
        FileOff(self.begin.0.wrapping_add(at.0.wrapping_sub(self.range.start.0)))
    }
}

/// What is known of the instructions of a function.
struct Known<'k> {
    /// The name of the function.
    name: Option<Arc<str>>,
    source: FileSource,
    /// Finds the functions that an instruction belongs to, innermost first.
    functions: &'k dyn Fn(Svma) -> Vec<Function>,
    /// Finds the name of what lies at an address outside of the function, and the distance from where it begins.
    names: &'k dyn Fn(Svma) -> Option<(Arc<str>, u64)>,
}

impl FunctionCode {
    /// Joins the instructions of a function with what is known of them.
    fn new(stretch: &Stretch, bytes: &[u8], decoded: &[Decoded], known: Known<'_>) -> Self {
        let Stretch { range, .. } = stretch;
        let Known { name, source, functions, names } = known;
        let refers = |at: Svma, is_code| {
            let (name, offset) = match range.contains(&at) {
                true => (name.clone(), at.0 - range.start.0),
                false => names(at).map_or((None, 0), |(name, offset)| (Some(name), offset)),
            };
            Referred { at, is_code, name, offset }
        };
        let mut rest = bytes;
        let instructions = decoded.iter().map(|it| {
            let (own, after) = rest.split_at_checked(it.len).unwrap_or((rest, &[]));
            rest = after;
            let target = it.target.map(|at| refers(at, true));
            Instruction {
                off: stretch.off(it.at),
                at: it.at,
                bytes: own.to_vec(),
                text: it.text.clone(),
                is_call: it.is_call,
                refers: target.or_else(|| it.names.map(|at| refers(at, false))),
                functions: functions(it.at),
            }
        });
        let instructions = instructions.collect();
        Self { range: range.clone(), name, source, instructions }
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
