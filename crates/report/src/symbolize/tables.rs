//! Finds functions in symbol tables.
//!
//! Of the functions around an address the innermost is taken; of several names for one function the one that people know:
//! `free`, not `__libc_free`. The recorder chooses the same way, so that a recording has the same names wherever it is
//! read.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::Arc;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::elf::{FileHeader, SectionHeader, Sym, SymbolTable};
use object::{Endianness, FileKind, SectionIndex, SymbolIndex};

use super::strings::Strings;
use crate::image::Svma;

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
    pub(super) fn section(self) -> &'static str {
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
pub(super) struct Found {
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
    let names = Names { endian, symbols };
    let Candidates { mut sized, mut sizeless, sized_before } = names.candidates(at);
    sized
        .sort_unstable_by(|a, b| (a.start, a.size).cmp(&(b.start, b.size)).then_with(|| names.by_rank(b, a)));
    sizeless.sort_unstable_by(|a, b| a.start.cmp(&b.start).then_with(|| names.by_rank(b, a)));

    let section_of = |candidate: &Candidate| -> Option<Range<u64>> {
        let symbol = names.symbols.symbol(SymbolIndex(candidate.symbol)).ok()?;
        let index = names.symbols.symbol_section(endian, symbol, SymbolIndex(candidate.symbol)).ok()??;
        let section = sections.section(SectionIndex(index.0)).ok()?;
        let begin: u64 = section.sh_addr(endian).into();
        Some(begin..begin.checked_add(section.sh_size(endian).into())?)
    };
    let (mut open, mut sized, mut sizeless) =
        (Vec::new(), sized.iter().peekable(), sizeless.iter().peekable());
    let (mut last_sizeless, mut last_sized) = (None, 0);
    let found = at.iter().zip(sized_before).map(|(&Svma(at), sized_before)| {
        last_sized = sized_before.max(last_sized);
        while let Some(candidate) = sized.next_if(|candidate| candidate.start <= at) {
            open.push(candidate);
        }
        while let Some(candidate) = sizeless.next_if(|candidate| candidate.start <= at) {
            last_sizeless = Some(candidate);
        }
        // What ends before this address ends before all that follow.
        let has_ended = |candidate: &&Candidate| at - candidate.start >= candidate.size;
        while open.last().is_some_and(has_ended) {
            open.pop();
        }
        let may_cover = |candidate: &&Candidate| {
            last_sized <= candidate.start
                && (table == Table::Static || candidate.start == at)
                && section_of(candidate).is_some_and(|section| section.contains(&at))
        };
        let candidate = open.last().copied().or_else(|| last_sizeless.filter(may_cover))?;
        let name = strings.name(unversioned(names.name(candidate)?));
        Some(Found { name, start: Svma(candidate.start), is_sized: candidate.size > 0 })
    });
    Some(found.collect())
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
                sizeless.push(Candidate { start, size, symbol });
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
        let rank = |candidate| {
            let name = self.name(candidate);
            // What has no name comes last.
            let underscores = name.map_or(usize::MAX, |name| name.iter().take_while(|b| **b == b'_').count());
            (underscores, name.map_or(0, <[u8]>::len), name, Reverse(candidate.symbol))
        };
        rank(a).cmp(&rank(b))
    }
}

/// `memcpy` of `memcpy@@GLIBC_2.14`.
fn unversioned(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == b'@').filter(|end| *end > 0);
    &name[..end.unwrap_or(name.len())]
}
