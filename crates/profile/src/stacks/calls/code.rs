//! Reads the code of one image: its bytes, where its functions begin and end, and which function reaches which.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use object::{Object, ObjectSymbol, SymbolKind};

use super::depth;
use super::flow::Reach;
use super::opened::Opened;
use super::{Before, aarch64, x86_64};
use crate::map::Map;
use icecore_elf::plt;
use icecore_symbolize::image::{ElfFile, FileOff, Svma};
use icecore_unwind::{Edge, Shape};
use icecore_unwind::{Machine, UnwindTables};

/// The longest call instruction, with a prefix.
const MAX_CALL_LEN: u64 = 8;
/// The most instructions of an image that are followed, which takes two seconds.
const MAX_STEPS: usize = 50_000_000;
/// The most labels that are searched for the beginning of a function.
const MAX_LABELS: usize = 256;
/// The longest function without unwind tables whose instructions are followed, bytes.
const MAX_FUNCTION_LEN: u64 = 64 << 10;

/// The code of an image whose file is available.
#[derive(Debug)]
pub(super) struct Code<'a> {
    opened: &'a Opened,
    tables: Option<UnwindTables<'a>>,
    /// Sections of PLT stubs.
    stubs: Vec<Range<Svma>>,
    symbols: OnceLock<Vec<Symbol>>,
    reached: Mutex<Map<Svma, Arc<Reach>>>,
    /// How many instructions may still be followed: a hostile recording may carry code that takes for ever.
    left: AtomicUsize,
    /// Frames by first instruction and program counter.
    shapes: Mutex<Map<(Svma, Svma), Option<Shape>>>,
}

/// A symbol of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    start: Svma,
    end: Svma,
    /// The symbol table says that this is a function; else it may be a label in one.
    is_function: bool,
}

impl<'a> Code<'a> {
    pub(super) fn new(opened: &'a Opened, tables: Option<UnwindTables<'a>>) -> Self {
        let sections = opened.files.image.layout.sections.iter();
        let stubs = sections
            .filter(|section| plt::is_stubs(section) || section.is_executable && section.name == b".iplt");
        let stubs = stubs.map(|section| section.at..Svma(section.at.0.saturating_add(section.len))).collect();
        Self {
            opened,
            tables,
            stubs,
            symbols: OnceLock::new(),
            reached: Mutex::default(),
            left: AtomicUsize::new(MAX_STEPS),
            shapes: Mutex::default(),
        }
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
    fn function(&self, at: Svma) -> Option<Range<Svma>> {
        let described = self.tables.as_ref().and_then(|tables| tables.extent(at));
        described.or_else(|| self.symbol(at).map(|symbol| symbol.start..symbol.end))
    }

    /// Finds the symbol of the function that holds an address, else the last label before it: functions of assembly have labels.
    fn symbol(&self, at: Svma) -> Option<Symbol> {
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

    /// Judges the call before a return address. The callee is at `own` in this image, else where `other` says.
    pub(super) fn edge<'c>(
        &self,
        return_address: Svma,
        own: Option<Svma>,
        other: impl Fn() -> Option<(&'c Code<'a>, Svma)>,
        is_outermost: bool,
    ) -> Edge
    where
        'a: 'c,
    {
        let Some(Before { direct, is_indirect }) = self.before(return_address) else {
            return Edge::Unknown;
        };
        if is_indirect {
            return Edge::MayCall;
        }
        let found = match direct {
            Some(target) => self.leads(Svma(target), own),
            None => Edge::Impossible,
        };
        if found != Edge::Impossible {
            return found;
        }
        // The kernel puts frames of signals on stacks, and nobody called them.
        let here = own.map(|own| (self, own));
        let is_put = |(code, at): (&Code<'_>, Svma)| code.is_put(at);
        let is_excused = self.is_signal_return(return_address)
            || self.is_signal_return(return_address.wrapping_sub(1))
            || is_outermost && direct.is_none() && self.is_begin(return_address)
            || here.is_some_and(is_put)
            || own.is_none() && other().is_some_and(|(code, at)| code.is_put(at));
        if is_excused { Edge::Unknown } else { Edge::Impossible }
    }

    /// Finds the calls before an address; `None` if there is no code.
    fn before(&self, return_address: Svma) -> Option<Before> {
        let code = self.bytes_before(return_address)?;
        Some(super::before(self.machine(), code, return_address.0))
    }

    /// Returns whether control reaches an address from the target of a call without another call.
    fn leads(&self, target: Svma, callee: Option<Svma>) -> Edge {
        if self.bytes_from(target).is_none() {
            return Edge::Unknown;
        }
        if self.is_stub(target) {
            // It leads into another file or to another function of this one, or the callee is there.
            return Edge::MayCall;
        }
        let function = callee.and_then(|callee| self.function(callee));
        if function.as_ref().is_some_and(|function| function.contains(&target)) {
            return Edge::Calls;
        }
        let reach = self.reach(target);
        if callee.is_some_and(|callee| reach.has(callee))
            || function.as_ref().is_some_and(|function| reach.meets(function))
        {
            return Edge::Calls;
        }
        let is_part = function.is_some_and(|function| {
            // Exception handlers may lie in a part of the function that only the unwinder enters.
            !self.tables.as_ref().is_none_or(|tables| tables.is_entry(function.start))
        });
        if reach.is_open || !reach.stubs.is_empty() || is_part { Edge::MayCall } else { Edge::Impossible }
    }

    fn reach(&self, target: Svma) -> Arc<Reach> {
        let reached = || self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let known = reached().get(&target).cloned();
        known.unwrap_or_else(|| {
            let reach = Arc::new(Reach::from(self, target));
            reached().insert(target, Arc::clone(&reach));
            reach
        })
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

    fn is_signal_return(&self, at: Svma) -> bool {
        self.bytes_from(at).is_some_and(|code| match self.machine() {
            Machine::X86_64 => x86_64::is_signal_return(code),
            Machine::Aarch64 => aarch64::is_signal_return(code),
        })
    }

    /// Returns true if control does not run on into an address from the instruction before it, or only from the first of a
    /// function: a stack may begin there.
    fn is_begin(&self, at: Svma) -> bool {
        let is_first = self.function(at).is_some_and(|function| at.0.wrapping_sub(function.start.0) <= 4);
        is_first
            || match self.machine() {
                Machine::X86_64 => self.bytes_before(at).is_some_and(x86_64::ends_block),
                Machine::Aarch64 => self.bytes_before(at).is_some_and(aarch64::ends_block),
            }
    }

    /// Returns true if signals put the function at an address on stacks.
    fn is_put(&self, at: Svma) -> bool {
        let keeps_flags = || {
            let begin = self.function(at).and_then(|function| self.bytes_from(function.start));
            match self.machine() {
                Machine::X86_64 => begin.is_some_and(x86_64::keeps_flags),
                Machine::Aarch64 => false,
            }
        };
        self.is_signal_return(at) || self.is_signal_return(at.wrapping_add(1)) || keeps_flags()
    }

    /// Finds the frame of the function that holds an instruction, if a symbol names the function.
    pub(super) fn shape(&self, at: Svma, is_interrupted: bool) -> Option<Shape> {
        let symbol = self.symbol(at).filter(|symbol| symbol.is_function)?;
        self.shape_from(symbol.start, at, is_interrupted)
    }

    /// Finds the frame of a function that a direct call before a return address enters.
    pub(super) fn shape_behind(&self, return_address: Svma, at: Svma, is_interrupted: bool) -> Option<Shape> {
        let target = self.before(return_address)?.direct.map(Svma).filter(|target| !self.is_stub(*target))?;
        let is_near = target.0.abs_diff(at.0) <= MAX_FUNCTION_LEN;
        if is_near { self.shape_from(target, at, is_interrupted) } else { None }
    }

    fn shape_from(&self, start: Svma, at: Svma, is_interrupted: bool) -> Option<Shape> {
        // A return address lies after the call by which it is looked up.
        let pc = at.wrapping_add(u64::from(!is_interrupted));
        let shapes = || self.shapes.lock().unwrap_or_else(PoisonError::into_inner);
        let known = shapes().get(&(start, pc)).copied();
        known.unwrap_or_else(|| {
            let shape = depth::shape(self, start, pc);
            shapes().insert((start, pc), shape);
            shape
        })
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
