//! Finds functions in symbol tables.
//!
//! Of the functions around an address the innermost is taken; of several names for one function one that other files know,
//! since a stripped file has no others, and of these the one that people know: `free`, not `__libc_free`. The recorder
//! chooses the same way, so that a recording has the same names wherever it is read.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader, Sym, SymbolTable};
use object::{Endianness, FileKind, SymbolIndex};
use rayon::prelude::*;

use super::mangled::unversioned;
use super::strings::Strings;
use icecore_elf::Svma;

/// The longest name that is kept, bytes.
const MAX_NAME_BYTES: usize = 4 << 10;

/// Which table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// `.symtab`: all functions.
    Static,
    /// `.dynsym`: what a stripped file still exports and imports.
    Dynamic,
}

impl Table {
    /// Both, the one that knows more first.
    pub(super) const ALL: [Self; 2] = [Self::Static, Self::Dynamic];

    /// The name of its section.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Static => ".symtab",
            Self::Dynamic => ".dynsym",
        }
    }

    fn kind(self) -> elf::SectionType {
        match self {
            Self::Static => elf::SHT_SYMTAB,
            Self::Dynamic => elf::SHT_DYNSYM,
        }
    }
}

/// A symbol at or before an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    /// Demangled.
    pub(super) name: Arc<str>,
    pub(super) start: Svma,
    /// It has a size, and covers the address; without one it only is the nearest before it, in the same section.
    pub(super) is_sized: bool,
}

/// Finds the symbol of each address, which ascend; `None` if the file has no such table, or a broken one.
///
/// # Cost    one pass over the table; names are read only where several share an address that is asked for
pub(super) fn look_up(
    file: &[u8],
    table: Table,
    at: &[Svma],
    strings: &Strings,
) -> Option<Vec<Option<Found>>> {
    match FileKind::parse(file).ok()? {
        FileKind::Elf32 => symbols::<FileHeader32<Endianness>>(file, table, at, strings),
        FileKind::Elf64 => symbols::<FileHeader64<Endianness>>(file, table, at, strings),
        _ => None,
    }
}

/// A symbol that covers an address, or may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    start: u64,
    /// 0: it has no size.
    size: u64,
    symbol: usize,
}

fn symbols<E: FileHeader<Endian = Endianness>>(
    file: &[u8],
    table: Table,
    at: &[Svma],
    strings: &Strings,
) -> Option<Vec<Option<Found>>> {
    let header = E::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let symbols = sections.symbols(endian, file, table.kind()).ok()?;
    let has_marks = matches!(header.e_machine(endian), elf::EM_ARM | elf::EM_AARCH64 | elf::EM_RISCV);
    let names = Names { endian, symbols, has_marks };
    let section_of = |candidate: &Candidate| -> Option<Range<u64>> {
        let index = SymbolIndex(candidate.symbol);
        let symbol = names.symbols.symbol(index).ok()?;
        let section = sections.section(names.symbols.symbol_section(endian, symbol, index).ok()??).ok()?;
        let begin: u64 = section.sh_addr(endian).into();
        Some(begin..begin.checked_add(section.sh_size(endian).into())?)
    };
    let may_reach = |candidate: &Candidate, at: u64| {
        (table == Table::Static || candidate.start == at)
            && section_of(candidate).is_some_and(|section| section.contains(&at))
    };
    let around = around(at, &names, may_reach);

    // Neighbours mostly lie in one function, and making its name readable costs more than all else.
    let mut distinct: Vec<Candidate> = around.iter().flatten().copied().collect();
    distinct.dedup();
    let raw: Vec<(&Candidate, Option<&[u8]>)> = distinct.iter().map(|it| (it, names.name(it))).collect();
    let found = raw.par_iter().map(|(candidate, name)| {
        let name = strings.name(unversioned((*name)?));
        Some(Found { name, start: Svma(candidate.start), is_sized: candidate.size > 0 })
    });
    let found: Vec<Option<Found>> = found.collect();
    let mut next = distinct.iter().zip(&found).peekable();
    let found_of = |candidate: Option<Candidate>| {
        let candidate = candidate?;
        while next.next_if(|(passed, _)| **passed != candidate).is_some() {}
        next.peek().and_then(|(_, found)| (*found).clone())
    };
    Some(around.into_iter().map(found_of).collect())
}

/// Finds the innermost symbol around each address: one that covers it, else one without a size that may reach it.
fn around<E: FileHeader<Endian = Endianness>>(
    at: &[Svma],
    names: &Names<'_, E>,
    may_reach: impl Fn(&Candidate, u64) -> bool,
) -> Vec<Option<Candidate>> {
    let Candidates { mut sized, mut sizeless, sized_before } = names.candidates(at);
    // Of several at one place the last is taken: the largest, under its best name.
    sized
        .sort_unstable_by(|a, b| (a.start, a.size).cmp(&(b.start, b.size)).then_with(|| names.by_rank(b, a)));
    sizeless.sort_unstable_by(|a, b| a.start.cmp(&b.start).then_with(|| names.by_rank(b, a)));
    let (mut sized, mut sizeless) = (sized.into_iter().peekable(), sizeless.into_iter().peekable());
    let (mut open, mut last_sizeless, mut last_sized): (Vec<Candidate>, Option<Candidate>, u64) =
        (Vec::new(), None, 0);
    let around = at.iter().zip(sized_before).map(|(&Svma(at), sized_before)| {
        last_sized = sized_before.max(last_sized);
        while let Some(candidate) = sized.next_if(|candidate| candidate.start <= at) {
            open.push(candidate);
        }
        while let Some(candidate) = sizeless.next_if(|candidate| candidate.start <= at) {
            last_sizeless = Some(candidate);
        }
        // What ends before this address ends before all that follow.
        while open.pop_if(|candidate| at - candidate.start >= candidate.size).is_some() {}
        let may_cover = |candidate: &Candidate| last_sized <= candidate.start && may_reach(candidate, at);
        open.last().copied().or_else(|| last_sizeless.filter(may_cover))
    });
    around.collect()
}

/// The symbols of code that may be around an address.
struct Candidates {
    sized: Vec<Candidate>,
    sizeless: Vec<Candidate>,
    /// Of each address the start of the last symbol with a size before it, and behind the address before: a symbol
    /// without a size does not reach beyond it.
    sized_before: Vec<u64>,
}

/// A symbol table with its names.
struct Names<'f, E: FileHeader> {
    endian: Endianness,
    symbols: SymbolTable<'f, E>,
    /// Compilers for this processor mark where code and data begin.
    has_marks: bool,
}

impl<'f, E: FileHeader<Endian = Endianness>> Names<'f, E> {
    fn candidates(&self, at: &[Svma]) -> Candidates {
        let (mut sized, mut sizeless, mut sized_before) = (Vec::new(), Vec::new(), vec![0; at.len()]);
        for (symbol, row) in self.symbols.iter().enumerate() {
            let is_code = matches!(row.st_type(), elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_NOTYPE)
                && row.st_shndx(self.endian) != elf::SHN_UNDEF
                && row.st_name(self.endian) != 0;
            if !is_code {
                continue;
            }
            let (start, size): (u64, u64) =
                (row.st_value(self.endian).into(), row.st_size(self.endian).into());
            let next = at.partition_point(|at| at.0 < start);
            let Some(next_at) = at.get(next) else { continue };
            if size == 0 {
                let candidate = Candidate { start, size, symbol };
                if !self.has_marks || !self.name(&candidate).is_some_and(is_mark) {
                    sizeless.push(candidate);
                }
                continue;
            }
            sized_before[next] = start.max(sized_before[next]);
            if next_at.0 - start < size {
                sized.push(Candidate { start, size, symbol });
            }
        }
        Candidates { sized, sizeless, sized_before }
    }

    fn name(&self, candidate: &Candidate) -> Option<&'f [u8]> {
        let symbol = self.symbols.symbol(SymbolIndex(candidate.symbol)).ok()?;
        let name = self.symbols.symbol_name(self.endian, symbol).ok()?;
        (1..=MAX_NAME_BYTES).contains(&name.len()).then_some(name)
    }

    /// Orders the names of one function, that which people know first.
    fn by_rank(&self, a: &Candidate, b: &Candidate) -> std::cmp::Ordering {
        let rank = |candidate: &Candidate| {
            let name = self.name(candidate).map(unversioned);
            let symbol = self.symbols.symbol(SymbolIndex(candidate.symbol));
            let is_local = symbol.is_ok_and(|symbol| symbol.st_bind() == elf::STB_LOCAL);
            // What has no name comes last.
            let underscores = name.map_or(usize::MAX, |name| name.iter().take_while(|b| **b == b'_').count());
            (
                name.is_none(),
                is_local,
                underscores,
                name.map_or(0, <[u8]>::len),
                name,
                Reverse(candidate.symbol),
            )
        };
        rank(a).cmp(&rank(b))
    }
}

/// Reports whether a name says what kind of bytes begin here: `$x`, `$d.12`, `$xrv64i2p1`.
fn is_mark(name: &[u8]) -> bool {
    matches!(
        name,
        [b'$', b'a' | b'd' | b't' | b'x']
            | [b'$', b'a' | b'd' | b't' | b'x', b'.', ..]
            | [b'$', b'x', b'r', b'v', ..]
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Names of the addresses in a file that was assembled.
    fn names(source: &str, at: &[u64]) -> Vec<String> {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::write(dir.path().join("x.s"), source).expect("written");
        let args = ["-nostdlib", "-static", "-Wl,-Ttext=0x10000", "-Wl,--build-id=none", "x.s", "-o", "x"];
        let status = Command::new("cc").args(args).current_dir(dir.path()).status().expect("a compiler");
        assert!(status.success());
        let file = std::fs::read(dir.path().join("x")).expect("just made");
        let at: Vec<Svma> = at.iter().map(|at| Svma(*at)).collect();
        let found = look_up(&file, Table::Static, &at, &Strings::default()).expect("a table");
        found
            .into_iter()
            .map(|found| found.map_or_else(String::new, |found| found.name.to_string()))
            .collect()
    }

    #[test]
    fn the_innermost_function_under_its_best_name_is_found() {
        let source = "
            .globl _start; .type _start,@function
            _start: .fill 16; .size _start, .-_start
            .type outer,@function; .type __inner,@function; .type inner,@function; .type in,@object
            outer: .fill 16
            __inner: inner: in: .fill 16; .size inner, .-inner; .size __inner, .-__inner; .size in, .-in
            .fill 16; .size outer, .-outer
            bare: .fill 16
            .section .other,\"ax\"; .fill 16
        ";
        let at = [0x10000, 0x1000f, 0x10010, 0x10020, 0x1002f, 0x10030, 0x1003f, 0x10040, 0x1004f, 0x10050];
        let found = ["_start", "_start", "outer", "inner", "inner", "outer", "outer", "bare", "bare", ""];
        assert_eq!(names(source, &at), found);
    }

    #[test]
    fn marks_of_code_and_data_are_no_names() {
        for name in ["$x", "$d", "$a.0", "$t.12", "$xrv64i2p1"] {
            assert!(is_mark(name.as_bytes()), "{name}");
        }
        for name in ["", "$", "x", "$foo", "$xy", "$data", "$draw"] {
            assert!(!is_mark(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn what_is_no_program_has_no_table() {
        for bytes in [&b""[..], b"text", b"\x7fELF", &[0x7f; 4096]] {
            assert_eq!(look_up(bytes, Table::Static, &[Svma(0)], &Strings::default()), None);
        }
    }
}
