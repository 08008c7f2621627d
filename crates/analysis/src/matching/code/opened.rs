//! Opens an image whose code is compared: finds its functions, and the targets of addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use icecore_elf::{Symbol, SymbolTable, readable};
use object::{Object, ObjectSymbol, ObjectSymbolTable, RelocationTarget, elf};
use rayon::prelude::*;

use super::{Doubt, NamedAddress, Parts, Thing};
use crate::matching::function;
use icecore_symbolize::image::{ElfFile, Files, Finder, Identity, Layout, Section, Svma};
use icecore_symbolize::stub_names;

/// The largest constant that is compared, bytes: a register of AVX-512.
const MAX_CONSTANT_LEN: usize = 64;
/// The longest text that is compared.
const MAX_TEXT_LEN: u64 = 4096;
/// The sections of constants: those that are not written to.
const CONSTANTS: &[u8] = b".rodata";
/// The name of a stub begins so if its slot has no symbol.
const NAMELESS: &str = "*ABS*+0x";
/// Programs at a fixed address begin above this; everything else begins at 0.
const MIN_FIXED: u64 = 1 << 16;

/// An opened image.
#[derive(Debug)]
pub struct Code {
    file: ElfFile,
    layout: Layout,
    /// Ordered by address; one of several names at one address.
    functions: Vec<Function>,
    /// The image is at a fixed address: numbers may be addresses.
    is_fixed: bool,
    /// The contents of the slots that the loader fills.
    slots: BTreeMap<u64, Slot>,
}

#[derive(Debug)]
struct Function {
    place: Range<u64>,
    name: String,
    key: String,
}

/// The content of a slot.
#[derive(Debug)]
enum Slot {
    Symbol(String),
    Address(u64),
}

impl Code {
    /// Opens an image, and reads its symbols.
    ///
    /// # Errors  why its code cannot be compared
    /// # Cost    demangles all names of the symbol table: open it once for all of its functions
    pub fn open(image: &Identity, finder: &Finder<'_>) -> Result<Self, Doubt> {
        let files = finder.look(image).files.map_err(Doubt::Image)?;
        let functions = all_functions(&files);
        let slots = slots(&files.image.file).unwrap_or_default();
        let layout = files.image.layout;
        let begin = layout.sections.iter().map(|section| section.at.0).filter(|at| *at > 0).min();
        let is_fixed = begin.is_some_and(|begin| begin >= MIN_FIXED);
        Ok(Self { file: files.image.file, layout, functions, is_fixed, slots })
    }

    pub(super) fn machine(&self) -> elf::Machine {
        self.layout.machine
    }

    /// Finds a function and its parts: sorted by name, then by address.
    pub(super) fn parts(&self, name: &str) -> Parts {
        let key = function(name);
        let mut parts: Vec<_> = self.functions.iter().filter(|function| function.key == key).collect();
        parts.sort_by(|a, b| (&a.name, a.place.start).cmp(&(&b.name, b.place.start)));
        let mut known = BTreeSet::new();
        // One address may have several names.
        parts.retain(|part| known.insert(part.place.start));
        let is_ambiguous = parts.windows(2).any(|two| two[0].name == two[1].name);
        Parts { places: parts.into_iter().map(|part| part.place.clone()).collect(), is_ambiguous }
    }

    /// Reads code; `None` if the file does not have it.
    pub(super) fn bytes(&self, at: u64, len: u64) -> Option<Vec<u8>> {
        let (off, rest) = self.layout.rest_of_segment(Svma(at))?;
        (len <= rest).then(|| self.file.bytes(off, len)).flatten()
    }

    /// Returns true if a number is an address of a program at a fixed address.
    pub(super) fn is_fixed_address(&self, at: u64) -> bool {
        let has = |section: &Section| at >= section.at.0 && at - section.at.0 < section.len;
        self.is_fixed && self.layout.sections.iter().any(|section| section.at.0 > 0 && has(section))
    }

    /// Finds the target of an address; `own` are the parts of the function that names it.
    pub(super) fn thing(&self, named: NamedAddress, own: &[Range<u64>]) -> Thing {
        let at = named.at;
        if let Some(part) = own.iter().position(|part| part.contains(&at)) {
            return Thing::Own(part, at - own[part].start);
        }
        match self.slots.get(&at) {
            Some(Slot::Symbol(name)) => return Thing::Function(name.clone(), 0),
            Some(Slot::Address(target)) => return self.function_at(*target),
            None => {}
        }
        match self.constant(named).or_else(|| named.is_number.then(|| self.text(at)).flatten()) {
            Some(bytes) => Thing::Constant(bytes),
            None => self.function_at(at),
        }
    }

    fn function_at(&self, at: u64) -> Thing {
        if let Some(function) = self.around(at) {
            return Thing::Function(function.key.clone(), at - function.place.start);
        }
        let Some(stub) = stub_names(&self.file, &self.layout, &[Svma(at)]).pop().flatten() else {
            return Thing::Unknown;
        };
        // The stub of a function that selects its code at program start is named by the address of that function.
        let chosen = stub.strip_prefix(NAMELESS).and_then(|rest| rest.strip_suffix("@plt"));
        let chosen = chosen.and_then(|address| self.around(u64::from_str_radix(address, 16).ok()?));
        Thing::Function(chosen.map_or_else(|| function(&stub).into_owned(), |chosen| chosen.key.clone()), 0)
    }

    fn around(&self, at: u64) -> Option<&Function> {
        let before = self.functions.partition_point(|function| function.place.start <= at).checked_sub(1)?;
        Some(&self.functions[before]).filter(|function| function.place.contains(&at))
    }

    /// Returns the printable text at an address; `None` if there is none.
    fn text(&self, at: u64) -> Option<Vec<u8>> {
        self.section(at).filter(|section| section.name.starts_with(CONSTANTS))?;
        let (off, rest) = self.layout.rest_of_segment(Svma(at))?;
        let bytes = self.file.bytes(off, rest.min(MAX_TEXT_LEN))?;
        let text = bytes.split(|byte| *byte == 0).next()?;
        let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
        (!text.is_empty() && text.len() < bytes.len() && text.iter().all(is_text)).then(|| text.to_vec())
    }

    fn section(&self, at: u64) -> Option<&Section> {
        self.layout.sections.iter().find(|it| at >= it.at.0 && at - it.at.0 < it.len)
    }

    fn constant(&self, named: NamedAddress) -> Option<Vec<u8>> {
        let NamedAddress { at, read_len, .. } = named;
        let section = self.section(at)?;
        let is_constant = section.name.starts_with(CONSTANTS) && (1..=MAX_CONSTANT_LEN).contains(&read_len);
        if is_constant { self.bytes(at, read_len as u64) } else { None }
    }
}

/// Lists the functions of the first full symbol table, else of the table of exported symbols.
fn all_functions(files: &Files) -> Vec<Function> {
    let debug = files.debug.as_ref().map(|found| (&found.file, &found.layout));
    let mini = files.mini.as_ref().map(|(file, layout)| (file, layout));
    let image = (&files.image.file, &files.image.layout);
    let tables = [debug, Some(image), mini].into_iter().flatten().filter(|(_, layout)| layout.has(".symtab"));
    let mut found = tables.map(|(file, _)| functions(file, SymbolTable::Static));
    let found = found.find(|functions| !functions.is_empty());
    found.unwrap_or_else(|| functions(image.0, SymbolTable::Dynamic))
}

/// Lists the functions of a symbol table; nothing if it is malformed.
fn functions(file: &ElfFile, table: SymbolTable) -> Vec<Function> {
    let Some(map) = file.map() else { return Vec::new() };
    let mut symbols = table.functions(&*map);
    symbols.sort_by(|a, b| (a.start, a.len, &a.name).cmp(&(b.start, b.len, &b.name)));
    let function = |Symbol { start, len, name, .. }: Symbol<'_>| {
        let (place, name) = (start.0..start.0.checked_add(len)?, readable(&name));
        Some(Function { place, key: function(&name).into_owned(), name })
    };
    symbols.into_par_iter().filter_map(function).collect()
}

/// Reads the contents of slots: symbols of other files, or addresses of this one.
fn slots(file: &ElfFile) -> Option<BTreeMap<u64, Slot>> {
    let map = file.map()?;
    let elf = object::File::parse(&*map).ok()?;
    let symbols = elf.dynamic_symbol_table()?;
    let slot = |(at, relocation): (u64, object::Relocation)| {
        let slot = match relocation.target() {
            RelocationTarget::Symbol(index) => {
                let symbol = symbols.symbol_by_index(index).ok()?;
                Slot::Symbol(function(&readable(symbol.name_bytes().ok()?)).into_owned())
            }
            _ => Slot::Address(u64::try_from(relocation.addend()).ok()?),
        };
        Some((at, slot))
    };
    Some(elf.dynamic_relocations()?.filter_map(slot).collect())
}
