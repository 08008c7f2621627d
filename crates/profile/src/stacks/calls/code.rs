//! Reads the code of one image: its bytes, and where its functions begin and end.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use object::{Object, ObjectSymbol, SymbolKind};

use super::{Before, aarch64, x86_64};
use crate::stacks::unwind_tables;
use icecore_elf::plt;
use icecore_symbolize::image::{self, ElfFile, FileOff, Svma};
use icecore_unwind::{Machine, UnwindTables};

/// The longest call instruction, with a prefix.
const MAX_CALL_LEN: u64 = 8;
/// The most instructions of an image that are followed, which takes two seconds.
const MAX_STEPS: usize = 50_000_000;
/// The most labels that are searched for the beginning of a function.
const MAX_LABELS: usize = 256;

/// What this module reads of one image.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) machine: Machine,
    pub(super) files: image::Files,
    pub(super) map: memmap2::Mmap,
    pub(super) tables: Option<unwind_tables::Opened>,
}

impl Opened {
    /// Maps files; `None` if calls of their machine are not decoded.
    pub(super) fn of(files: image::Files) -> Option<Self> {
        let machine = Machine::of_elf(files.image.layout.machine.0)?;
        let map = files.image.file.map()?;
        let tables = unwind_tables::Opened::of(&files, machine, &[]);
        Some(Self { machine, files, map, tables })
    }
}

/// The code of an image whose file is available.
#[derive(Debug)]
pub(super) struct Code<'a> {
    opened: &'a Opened,
    pub(super) tables: Option<UnwindTables<'a>>,
    /// Sections of PLT stubs.
    stubs: Vec<Range<Svma>>,
    symbols: OnceLock<Vec<Symbol>>,
    /// How many instructions may still be followed: a hostile recording may carry code that takes for ever.
    left: AtomicUsize,
}

/// A symbol of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Symbol {
    pub(super) start: Svma,
    end: Svma,
    /// The symbol table says that this is a function; else it may be a label in one.
    pub(super) is_function: bool,
}

impl<'a> Code<'a> {
    pub(super) fn new(opened: &'a Opened, tables: Option<UnwindTables<'a>>) -> Self {
        let sections = opened.files.image.layout.sections.iter();
        let stubs = sections
            .filter(|section| plt::is_stubs(section) || section.is_executable && section.name == b".iplt");
        let stubs = stubs.map(|section| section.at..Svma(section.at.0.saturating_add(section.len))).collect();
        Self { opened, tables, stubs, symbols: OnceLock::new(), left: AtomicUsize::new(MAX_STEPS) }
    }

    pub(super) fn machine(&self) -> Machine {
        self.opened.machine
    }

    pub(super) fn svma(&self, off: FileOff) -> Option<Svma> {
        self.opened.files.image.layout.svma(off)
    }

    /// Returns the code from an address to the end of its segment.
    pub(super) fn bytes_from(&self, at: Svma) -> Option<&[u8]> {
        let layout = &self.opened.files.image.layout;
        let (off, len) = layout.rest_of_segment(at).filter(|_| layout.is_code(at))?;
        let begin = usize::try_from(off.0).ok()?;
        self.opened.map.get(begin..begin.checked_add(usize::try_from(len).ok()?)?)
    }

    pub(super) fn is_stub(&self, at: Svma) -> bool {
        self.stubs.iter().any(|stubs| stubs.contains(&at))
    }

    /// Finds the function that holds an address, by unwind tables, else by symbols.
    pub(super) fn function(&self, at: Svma) -> Option<Range<Svma>> {
        let described = self.tables.as_ref().and_then(|tables| tables.extent(at));
        described.or_else(|| self.symbol(at).map(|symbol| symbol.start..symbol.end))
    }

    /// Finds the symbol of the function that holds an address, else the last label before it: functions of assembly have labels.
    pub(super) fn symbol(&self, at: Svma) -> Option<Symbol> {
        let symbols = self.symbols.get_or_init(|| symbols(self.opened));
        let before = &symbols[..symbols.partition_point(|symbol| symbol.start <= at)];
        let mut near = before.iter().rev().take(MAX_LABELS).filter(|symbol| at < symbol.end);
        let function = near.clone().find(|symbol| symbol.is_function);
        function.or_else(|| near.next()).copied()
    }

    /// Returns true if two addresses are known to be in two different functions.
    pub(super) fn parts(&self, at: Svma, other: Svma) -> bool {
        self.function(at).is_some_and(|function| !function.contains(&other))
    }

    /// Returns the bytes before an address in which a call may lie.
    fn bytes_before(&self, at: Svma) -> Option<&[u8]> {
        let mut lens = (1..=MAX_CALL_LEN).rev();
        let (len, code) = lens.find_map(|len| Some((len, self.bytes_from(at.wrapping_sub(len))?)))?;
        code.get(..len as usize)
    }

    /// Finds the calls before an address; `None` if there is no code.
    pub(super) fn before(&self, return_address: Svma) -> Option<Before> {
        let code = self.bytes_before(return_address)?;
        Some(super::before(self.machine(), code, return_address.0))
    }

    /// Reserves up to `most` instructions of those that may still be followed; returns how many it reserved.
    pub(super) fn take_steps(&self, most: usize) -> usize {
        let taken = |left: usize| Some(left - left.min(most));
        self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).map_or(0, |left| left.min(most))
    }

    /// Gives back reserved instructions that were not needed.
    pub(super) fn return_steps(&self, steps: usize) {
        self.left.fetch_add(steps, Ordering::Relaxed);
    }

    pub(super) fn is_signal_return(&self, at: Svma) -> bool {
        self.bytes_from(at).is_some_and(|code| match self.machine() {
            Machine::X86_64 => x86_64::is_signal_return(code),
            Machine::Aarch64 => aarch64::is_signal_return(code),
        })
    }

    /// Returns true if control does not run on into an address from the instruction before it, or only from the first of a
    /// function: a stack may begin there.
    pub(super) fn is_begin(&self, at: Svma) -> bool {
        let is_first = self.function(at).is_some_and(|function| at.0.wrapping_sub(function.start.0) <= 4);
        is_first
            || match self.machine() {
                Machine::X86_64 => self.bytes_before(at).is_some_and(x86_64::ends_block),
                Machine::Aarch64 => self.bytes_before(at).is_some_and(aarch64::ends_block),
            }
    }

    /// Returns true if signals put the function at an address on stacks.
    pub(super) fn is_put(&self, at: Svma) -> bool {
        let keeps_flags = || {
            let begin = self.function(at).and_then(|function| self.bytes_from(function.start));
            match self.machine() {
                Machine::X86_64 => begin.is_some_and(x86_64::keeps_flags),
                Machine::Aarch64 => false,
            }
        };
        self.is_signal_return(at) || self.is_signal_return(at.wrapping_add(1)) || keeps_flags()
    }
}

/// Reads the code symbols of all tables.
fn symbols(opened: &Opened) -> Vec<Symbol> {
    let files = &opened.files;
    let debug = files.debug.as_ref().map(|found| &found.file);
    let mini = files.mini.as_ref().map(|(file, _)| file);
    let mut symbols = Vec::new();
    for file in [Some(&files.image.file), debug, mini].into_iter().flatten() {
        read(file, &mut symbols);
    }
    symbols.sort_unstable_by_key(|symbol| (symbol.start, !symbol.is_function, std::cmp::Reverse(symbol.end)));
    symbols.dedup_by_key(|symbol| symbol.start);
    // Labels have no length: each extends to the next one.
    let starts: Vec<Svma> = symbols.iter().skip(1).map(|next| next.start).collect();
    for (symbol, next) in symbols.iter_mut().zip(starts) {
        if symbol.end == symbol.start {
            symbol.end = next;
        }
    }
    symbols
}

fn read(file: &ElfFile, symbols: &mut Vec<Symbol>) {
    let Some(map) = file.map() else { return };
    let Ok(elf) = object::File::parse(&*map) else { return };
    let of_code = elf.symbols().chain(elf.dynamic_symbols()).filter_map(|symbol| {
        let is_function = symbol.kind() == SymbolKind::Text;
        let is_label = matches!(symbol.kind(), SymbolKind::Unknown | SymbolKind::Label);
        let is_here = symbol.is_definition() || is_label && symbol.section_index().is_some();
        let start = symbol.address();
        (is_here && (is_function || is_label)).then(|| Symbol {
            start: Svma(start),
            end: Svma(start.saturating_add(symbol.size())),
            is_function,
        })
    });
    symbols.extend(of_code);
}
