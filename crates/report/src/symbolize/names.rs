//! Asks blazesym for the names in one file.

use std::cell::OnceCell;
use std::marker::PhantomData;
use std::path::PathBuf;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Sym, Symbolized, Symbolizer};

use super::Function;
use super::mangled::{is_mangled, looks_like_a_type};
use crate::image::{ElfFile, Svma};

/// A symbol that begins at or before the address that was asked for.
pub(super) struct Found {
    /// Innermost first.
    pub(super) functions: Vec<Function>,
    pub(super) start: Svma,
    /// The symbol has a size and covers the address; without one it only is the nearest before it.
    pub(super) is_sized: bool,
    /// DWARF may have matched the address against ranges, of which neither start nor size is told.
    pub(super) may_have_ranges: bool,
}

/// The names in one file. It is neither Send nor Sync, and opens the file at the first look-up.
pub(super) struct Names<'f> {
    symbolizer: Symbolizer,
    /// The same without demangling; hardly ever needed.
    raw: OnceCell<Symbolizer>,
    source: Source<'static>,
    has_dwarf: bool,
    /// The path in `source` is good as long as the file is open.
    _file: PhantomData<&'f ElfFile>,
}

impl<'f> Names<'f> {
    /// Names from DWARF, with lines and inlined functions, and from symbol tables where DWARF has none.
    pub(super) fn with_dwarf(file: &'f ElfFile) -> Self {
        Self::new(file, true)
    }

    /// Names from `.symtab` and `.dynsym`. Links to other files are not followed.
    pub(super) fn of_tables(file: &'f ElfFile) -> Self {
        Self::new(file, false)
    }

    fn new(file: &'f ElfFile, debug_syms: bool) -> Self {
        let mut elf = Elf::new(file.reopen_path());
        elf.debug_syms = debug_syms;
        Self {
            symbolizer: symbolizer(true),
            raw: OnceCell::new(),
            source: Source::Elf(elf),
            has_dwarf: debug_syms,
            _file: PhantomData,
        }
    }

    /// Looks up addresses; `None` if the file cannot be read.
    ///
    /// Always by address: blazesym maps file offsets by the first segment that holds them, and in a debug file
    /// they mean nothing.
    pub(super) fn look_up(&self, addresses: &[u64]) -> Option<Vec<Option<Found>>> {
        let mut answers = self.ask(&self.symbolizer, addresses)?;
        let doubted: Vec<usize> = (0..answers.len()).filter(|&i| is_doubtful(answers[i].as_ref())).collect();
        if !doubted.is_empty() {
            let raw = self.raw.get_or_init(|| symbolizer(false));
            let addresses: Vec<u64> = doubted.iter().map(|&i| addresses[i]).collect();
            for (i, raw) in doubted.into_iter().zip(self.ask(raw, &addresses)?) {
                restore(answers[i].as_mut(), raw);
            }
        }
        Some(answers)
    }

    fn ask(&self, symbolizer: &Symbolizer, addresses: &[u64]) -> Option<Vec<Option<Found>>> {
        let answers = symbolizer.symbolize(&self.source, Input::VirtOffset(addresses)).ok()?;
        let found = |answer| found(answer, self.has_dwarf);
        // A short list would shift names to other addresses.
        (answers.len() == addresses.len()).then(|| answers.iter().map(found).collect())
    }
}

fn symbolizer(demangle: bool) -> Symbolizer {
    // No debug directories: links are followed by our own rules (`image::debug_file`).
    Symbolizer::builder()
        .enable_auto_reload(false)
        .enable_code_info(true)
        .enable_inlined_fns(true)
        .enable_demangling(demangle)
        .set_debug_dirs(Some::<[PathBuf; 0]>([]))
        .build()
}

fn is_doubtful(found: Option<&Found>) -> bool {
    found.is_some_and(|found| found.functions.iter().any(|function| looks_like_a_type(&function.name)))
}

/// Gives functions that never were mangled their own names back.
fn restore(found: Option<&mut Found>, raw: Option<Found>) {
    let (Some(found), Some(raw)) = (found, raw) else { return };
    for (function, raw) in found.functions.iter_mut().zip(raw.functions) {
        if !is_mangled(&raw.name) {
            function.name = raw.name;
        }
    }
}

fn found(answer: &Symbolized<'_>, has_dwarf: bool) -> Option<Found> {
    let Symbolized::Sym(sym) = answer else { return None };
    // DWARF may have a function without a name (its origin is in a file that is not here).
    if sym.name.is_empty() {
        return None;
    }
    let is_sized = sym.size.is_some();
    // A function of several ranges (its cold part lies elsewhere) is matched against them, then answered with
    // address 0 and no size.
    let may_have_ranges = has_dwarf && sym.addr == 0 && !is_sized;
    Some(Found { functions: functions(sym), start: Svma(sym.addr), is_sized, may_have_ranges })
}

fn functions(sym: &Sym<'_>) -> Vec<Function> {
    let inlined = sym.inlined.iter().rev().filter(|inlined| !inlined.name.is_empty());
    let mut functions: Vec<_> =
        inlined.map(|inlined| function(&inlined.name, inlined.code_info.as_ref())).collect();
    functions.push(function(&sym.name, sym.code_info.as_deref()));
    functions
}

fn function(name: &str, code: Option<&CodeInfo<'_>>) -> Function {
    Function {
        name: name.to_owned(),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()).filter(|path| !path.is_empty()),
        line: code.and_then(|code| code.line).filter(|&line| line > 0),
    }
}
