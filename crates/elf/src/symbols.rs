//! Finds functions in symbol tables.
//!
//! Of the functions around an address the innermost is taken; of several names for one function one that other files know,
//! since a stripped file has no others, and of these the one that people know: `free`, not `__libc_free`. A recording so has the
//! same names wherever it is read.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{self as read, FileHeader, SectionHeader as _, SectionTable, Sym as _};
use object::{Endianness, FileKind, SymbolIndex};

use crate::{Svma, go};

/// The longest name that is kept, bytes.
const MAX_NAME_BYTES: usize = 4 << 10;

/// Which symbol table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymbolTable {
    /// `.symtab`: all functions.
    Static,
    /// `.dynsym`: what a stripped file still exports and imports.
    Dynamic,
}

/// A function around an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol<'d> {
    /// Its first address.
    pub start: Svma,
    /// Bytes; 0 if nothing tells its size. Then it only is the nearest before the address, in the same section.
    pub len: u64,
    /// As the file has it: mangled, with its version.
    pub name: Cow<'d, [u8]>,
}

impl<'d> From<go::Function<'d>> for Symbol<'d> {
    fn from(function: go::Function<'d>) -> Self {
        Self { start: Svma(function.start), len: function.end - function.start, name: function.name.into() }
    }
}

impl SymbolTable {
    /// Both, the one that knows more first.
    pub const ALL: [Self; 2] = [Self::Static, Self::Dynamic];

    /// The name of its section.
    pub fn section(self) -> &'static str {
        match self {
            Self::Static => ".symtab",
            Self::Dynamic => ".dynsym",
        }
    }

    /// Finds the innermost function around each address, which ascend: one that covers it, else one without a size that may reach
    /// it. `None` if the file has no such table, or a broken one.
    ///
    /// # Cost    one pass over the table; names are read only where several share a requested address
    pub fn around<'d>(self, file: impl ReadRef<'d>, at: &[Svma]) -> Option<Vec<Option<Symbol<'d>>>> {
        match FileKind::parse(file).ok()? {
            FileKind::Elf32 => {
                Symbols::<FileHeader32<Endianness>, _>::read(self, file).map(|it| it.around(at))
            }
            FileKind::Elf64 => {
                Symbols::<FileHeader64<Endianness>, _>::read(self, file).map(|it| it.around(at))
            }
            _ => None,
        }
    }

    /// Lists all functions that have a size, in the order of the table; none if the file has no such table, or a broken one.
    pub fn functions<'d>(self, file: impl ReadRef<'d>) -> Vec<Symbol<'d>> {
        self.listed(file, elf::STT_FUNC)
    }

    /// Lists the functions that return which function stands for them (IFUNC), as [`Self::functions`] lists the others.
    pub fn resolvers<'d>(self, file: impl ReadRef<'d>) -> Vec<Symbol<'d>> {
        self.listed(file, elf::STT_GNU_IFUNC)
    }

    fn listed<'d>(self, file: impl ReadRef<'d>, kind: elf::SymbolType) -> Vec<Symbol<'d>> {
        let functions = match FileKind::parse(file) {
            Ok(FileKind::Elf32) => {
                Symbols::<FileHeader32<Endianness>, _>::read(self, file).map(|it| it.listed(kind))
            }
            Ok(FileKind::Elf64) => {
                Symbols::<FileHeader64<Endianness>, _>::read(self, file).map(|it| it.listed(kind))
            }
            _ => None,
        };
        functions.unwrap_or_default()
    }

    fn kind(self) -> elf::SectionType {
        match self {
            Self::Static => elf::SHT_SYMTAB,
            Self::Dynamic => elf::SHT_DYNSYM,
        }
    }
}

/// Takes the version from a name: `memcpy` of `memcpy@@GLIBC_2.14`.
pub fn unversioned(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == b'@').filter(|end| *end > 0);
    &name[..end.unwrap_or(name.len())]
}

/// A symbol that covers an address, or may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Candidate {
    start: u64,
    /// 0: it has no size.
    size: u64,
    symbol: SymbolIndex,
}

/// The symbols of code that may be around an address.
struct Candidates {
    /// Those that cover one.
    sized: Vec<Candidate>,
    /// For each address, the last symbol without a size that begins between the previous address and this one.
    sizeless: Vec<Option<Candidate>>,
    /// Likewise the start of the last symbol with a size: a symbol without one does not reach beyond it.
    sized_before: Vec<u64>,
}

/// A symbol table with its names.
struct Symbols<'d, E: FileHeader, R: ReadRef<'d>> {
    table: SymbolTable,
    endian: Endianness,
    sections: SectionTable<'d, E, R>,
    symbols: read::SymbolTable<'d, E, R>,
    /// Compilers for this processor mark where code and data begin.
    has_marks: bool,
}

impl<'d, E: FileHeader<Endian = Endianness>, R: ReadRef<'d>> Symbols<'d, E, R> {
    fn read(table: SymbolTable, file: R) -> Option<Self> {
        let header = E::parse(file).ok()?;
        let endian = header.endian().ok()?;
        let sections = header.sections(endian, file).ok()?;
        let symbols = sections.symbols(endian, file, table.kind()).ok()?;
        let has_marks = matches!(header.e_machine(endian), elf::EM_ARM | elf::EM_AARCH64 | elf::EM_RISCV);
        Some(Self { table, endian, sections, symbols, has_marks })
    }

    fn around(&self, at: &[Svma]) -> Vec<Option<Symbol<'d>>> {
        let Candidates { mut sized, sizeless, sized_before } = self.candidates(at);
        sized.sort_unstable_by(|a, b| self.order(a, b));
        let mut sized = sized.into_iter().peekable();
        let (mut open, mut last_sizeless, mut last_sized): (Vec<Candidate>, Option<Candidate>, u64) =
            (Vec::new(), None, 0);
        let around =
            at.iter().zip(sizeless).zip(sized_before).map(|((&Svma(at), sizeless), sized_before)| {
                (last_sizeless, last_sized) = (sizeless.or(last_sizeless), last_sized.max(sized_before));
                while let Some(candidate) = sized.next_if(|candidate| candidate.start <= at) {
                    open.push(candidate);
                }
                // What ends before this address ends before all that follow.
                while open.pop_if(|candidate| at - candidate.start >= candidate.size).is_some() {}
                let may_cover =
                    |candidate: &Candidate| last_sized <= candidate.start && self.may_reach(candidate, at);
                let found = open.last().copied().or_else(|| last_sizeless.filter(may_cover))?;
                Some(Symbol { start: Svma(found.start), len: found.size, name: self.name(&found)?.into() })
            });
        around.collect()
    }

    fn listed(&self, kind: elf::SymbolType) -> Vec<Symbol<'d>> {
        let function = |row: &E::Sym| {
            let (start, len) = (Svma(row.st_value(self.endian).into()), row.st_size(self.endian).into());
            let section = row.st_shndx(self.endian);
            let is_defined = !section.is_special() || section == elf::SHN_XINDEX;
            let is_taken = row.st_type() == kind && is_defined && len > 0;
            let name = self.symbols.symbol_name(self.endian, row).ok().filter(|_| is_taken)?;
            Some(Symbol { start, len, name: name.into() })
        };
        self.symbols.iter().filter_map(function).collect()
    }

    fn candidates(&self, at: &[Svma]) -> Candidates {
        let (mut sized, mut sizeless, mut sized_before) =
            (Vec::new(), vec![None::<Candidate>; at.len()], vec![0; at.len()]);
        for (symbol, row) in self.symbols.enumerate() {
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
            let candidate = Candidate { start, size, symbol };
            if size == 0 {
                let last = &mut sizeless[next];
                let is_mark = || self.has_marks && self.name(&candidate).is_some_and(is_mark);
                if last.is_none_or(|last| self.order(&last, &candidate).is_lt()) && !is_mark() {
                    *last = Some(candidate);
                }
                continue;
            }
            sized_before[next] = start.max(sized_before[next]);
            if next_at.0 - start < size {
                sized.push(candidate);
            }
        }
        Candidates { sized, sizeless, sized_before }
    }

    fn name(&self, candidate: &Candidate) -> Option<&'d [u8]> {
        let symbol = self.symbols.symbol(candidate.symbol).ok()?;
        let name = self.symbols.symbol_name(self.endian, symbol).ok()?;
        (1..=MAX_NAME_BYTES).contains(&name.len()).then_some(name)
    }

    /// A symbol without size ends with its section at the latest, and in the sparse table of dynamic symbols at once.
    fn may_reach(&self, candidate: &Candidate, at: u64) -> bool {
        let section = || {
            let symbol = self.symbols.symbol(candidate.symbol).ok()?;
            let index = self.symbols.symbol_section(self.endian, symbol, candidate.symbol).ok()??;
            self.sections.section(index).ok()
        };
        let is_in = |section: &E::SectionHeader| {
            at.wrapping_sub(section.sh_addr(self.endian).into()) < section.sh_size(self.endian).into()
        };
        (self.table == SymbolTable::Static || candidate.start == at) && section().is_some_and(is_in)
    }

    /// Orders functions. Of several at one place the last is taken: the largest, under its best name.
    fn order(&self, a: &Candidate, b: &Candidate) -> Ordering {
        let rank = |candidate: &Candidate| {
            let symbol = self.symbols.symbol(candidate.symbol);
            let is_local = symbol.is_ok_and(|symbol| symbol.st_bind() == elf::STB_LOCAL);
            let name = self.name(candidate).map(|name| rank(is_local, name));
            // What has no name comes last.
            (name.is_none(), name, Reverse(candidate.symbol.0))
        };
        (a.start, a.size).cmp(&(b.start, b.size)).then_with(|| rank(b).cmp(&rank(a)))
    }
}

/// Orders the names of a function: global names before local ones, then by the number of leading underscores, the length, and the
/// name, so that `free` precedes `__libc_free`. A stripped file has only global names. Versions do not count, because only some
/// tables have them in the names.
fn rank(is_local: bool, name: &[u8]) -> (bool, usize, usize, &[u8]) {
    let name = unversioned(name);
    (is_local, name.iter().take_while(|byte| **byte == b'_').count(), name.len(), name)
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
    use super::*;
    use crate::fixture::assembled;

    /// Names of the addresses in a file that was assembled.
    fn names(source: &str, at: &[u64]) -> Vec<String> {
        let file = assembled(source);
        let at: Vec<Svma> = at.iter().copied().map(Svma).collect();
        let found = SymbolTable::Static.around(&file[..], &at).expect("a table").into_iter();
        found.map(|it| it.map_or_else(String::new, |it| String::from_utf8_lossy(&it.name).into())).collect()
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
        for name in ["$x", "$d", "$x.0", "$d.12", "$a.0", "$t.12", "$xrv64i2p1"] {
            assert!(is_mark(name.as_bytes()), "{name}");
        }
        for name in ["", "$", "x", "$foo", "$xy", "$data", "$draw"] {
            assert!(!is_mark(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_that_people_know_come_first() {
        let first = |names: &[(bool, &'static str)]| {
            let rank = |(is_local, name): &(bool, &'static str)| rank(*is_local, name.as_bytes());
            names.iter().min_by_key(|name| rank(name)).expect("some").1
        };
        let mut names =
            vec![(false, "__libc_free"), (false, "cfree"), (false, "free"), (true, "__GI___libc_free")];
        assert_eq!(first(&names), "free");
        names.push((true, "f"));
        assert_eq!(first(&names), "free", "a stripped file has no other");
        let start = [(true, "__libc_start_main_impl"), (false, "__libc_start_main@@GLIBC_2.34")];
        assert_eq!(first(&start), "__libc_start_main@@GLIBC_2.34");
        assert_eq!(rank(false, b"x@@V2"), rank(false, b"x"));
    }

    #[test]
    fn what_is_no_program_has_no_table() {
        for bytes in [&b""[..], b"text", b"\x7fELF", &[0x7f; 4096]] {
            assert_eq!(SymbolTable::Static.around(bytes, &[Svma(0)]), None);
        }
    }
}
