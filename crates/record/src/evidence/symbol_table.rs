//! One symbol table of an ELF file, and the function that it has around an address.

use std::cmp::Reverse;

use object::elf::{self, Sym64};
use object::read::ReadRef;
use object::read::elf::{SectionHeader as _, Sym as _};
use object::{Endianness, SectionIndex};

use super::elf_file::{ElfFile, MAX_NAME_BYTES, Symbols};
use super::functions::{Around, Asked};

/// A symbol table.
pub(super) struct SymbolTable<'d, R: ReadRef<'d>> {
    elf: ElfFile<'d, R>,
    symbols: Symbols<'d, R>,
    is_dynamic: bool,
    /// Compilers for this processor mark where code and data begin.
    has_marks: bool,
}

/// A symbol that may be the function around an address. Of several at one place the greatest is taken: the largest, under
/// the name that people know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate<'d> {
    start: u64,
    size: u64,
    name: Reverse<Rank<'d>>,
    section: u16,
}

/// Whether only its own file knows it, underscores in front of a name, its length, and the name: `free` comes before
/// `__libc_free`. What other files know comes first, because a stripped file has no other names; for the same reason a
/// version counts for nothing, which only some tables have in the name.
type Rank<'d> = (bool, usize, usize, &'d [u8]);

impl<'d, R: ReadRef<'d>> SymbolTable<'d, R> {
    /// Reads a table of a file; `None` if it has none, or one that is too large.
    pub(super) fn read(file: R, kind: elf::SectionType) -> Option<Self> {
        let elf = ElfFile::read(file)?;
        let symbols = elf.symbols(kind)?;
        let has_marks = matches!(elf.machine, elf::EM_AARCH64 | elf::EM_RISCV);
        Some(Self { elf, symbols, is_dynamic: kind == elf::SHT_DYNSYM, has_marks })
    }

    /// Finds the innermost function around each address, which ascend: one that covers it, else one without a size that
    /// may reach it.
    pub(super) fn around(&self, asked: &[Asked]) -> Vec<Option<Around>> {
        let Candidates { mut sized, sizeless, sized_before } = self.candidates(asked);
        sized.sort_unstable();
        let mut sized = sized.into_iter().peekable();
        let (mut open, mut last_sizeless, mut last_sized): (Vec<Candidate<'d>>, Option<Candidate<'d>>, u64) =
            (Vec::new(), None, 0);
        let around = asked.iter().zip(sizeless).zip(sized_before).map(|((asked, sizeless), sized_before)| {
            let at = asked.address;
            (last_sizeless, last_sized) = (last_sizeless.max(sizeless), last_sized.max(sized_before));
            while let Some(candidate) = sized.next_if(|candidate| candidate.start <= at) {
                open.push(candidate);
            }
            // What ends before this address ends before all that follow.
            while open.pop_if(|candidate| at - candidate.start >= candidate.size).is_some() {}
            let may_cover = |c: &Candidate<'d>| last_sized <= c.start && self.may_reach(c, at);
            let Candidate { start, size: len, name: Reverse((.., name)), .. } =
                open.last().copied().or_else(|| last_sizeless.filter(may_cover))?;
            Some(Around { start, len, name: name.to_vec() })
        });
        around.collect()
    }

    fn candidates(&self, asked: &[Asked]) -> Candidates<'d> {
        let none = || vec![None; asked.len()];
        let mut candidates =
            Candidates { sized: Vec::new(), sizeless: none(), sized_before: vec![0; asked.len()] };
        for row in self.symbols.iter().filter(|row| self.is_code(row)) {
            let (start, size) = (row.st_value(self.elf.endian), row.st_size(self.elf.endian));
            let next = asked.partition_point(|asked| asked.address < start);
            let Some(next_at) = asked.get(next).map(|asked| asked.address) else { continue };
            if size > 0 {
                candidates.sized_before[next] = start.max(candidates.sized_before[next]);
            }
            if size > 0 && next_at - start >= size {
                continue;
            }
            let Some(name) = self.name(row) else { continue };
            let section = row.st_shndx(self.elf.endian).0;
            let is_local = row.st_bind() == elf::STB_LOCAL;
            let candidate = Candidate { start, size, name: Reverse(rank(is_local, name)), section };
            if size > 0 {
                candidates.sized.push(candidate);
            } else if !(self.has_marks && is_mark(name)) {
                candidates.sizeless[next] = candidates.sizeless[next].max(Some(candidate));
            }
        }
        candidates
    }

    /// Reports whether a symbol can name code.
    fn is_code(&self, row: &Sym64<Endianness>) -> bool {
        [elf::STT_FUNC, elf::STT_GNU_IFUNC, elf::STT_NOTYPE].contains(&row.st_type())
            && row.st_shndx(self.elf.endian) != elf::SHN_UNDEF
            && row.st_name(self.elf.endian) != 0
    }

    fn name(&self, row: &Sym64<Endianness>) -> Option<&'d [u8]> {
        let name = self.symbols.symbol_name(self.elf.endian, row).ok()?;
        (1..=MAX_NAME_BYTES).contains(&name.len()).then_some(name)
    }

    /// A symbol without size ends with its section at the latest, and in the sparse table of dynamic symbols at once.
    fn may_reach(&self, candidate: &Candidate<'_>, address: u64) -> bool {
        let section = self.elf.sections.section(SectionIndex(usize::from(candidate.section))).ok();
        let is_in_section = section.is_some_and(|section| {
            address.wrapping_sub(section.sh_addr(self.elf.endian)) < section.sh_size(self.elf.endian)
        });
        is_in_section && (!self.is_dynamic || candidate.start == address)
    }
}

/// The symbols of code that may be around an address.
struct Candidates<'d> {
    /// Those that cover one.
    sized: Vec<Candidate<'d>>,
    /// Of each address the last without a size before it, and behind the address before.
    sizeless: Vec<Option<Candidate<'d>>>,
    /// In the same way the start of the last with a size: one without does not reach beyond it.
    sized_before: Vec<u64>,
}

fn rank(is_local: bool, name: &[u8]) -> Rank<'_> {
    let name = unversioned(name);
    (is_local, name.iter().take_while(|byte| **byte == b'_').count(), name.len(), name)
}

/// `memcpy` of `memcpy@@GLIBC_2.14`.
fn unversioned(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|byte| *byte == b'@').filter(|end| *end > 0);
    &name[..end.unwrap_or(name.len())]
}

/// Reports whether a name says what kind of bytes begin here: `$x`, `$d.12`, `$xrv64i2p1`.
fn is_mark(name: &[u8]) -> bool {
    matches!(name, [b'$', b'd' | b'x'] | [b'$', b'd' | b'x', b'.', ..] | [b'$', b'x', b'r', b'v', ..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::functions::fixture::{asked, assembled};

    fn names(source: &str, at: &[u64]) -> Vec<String> {
        let file = assembled(source);
        let table = SymbolTable::read(&file[..], elf::SHT_SYMTAB).expect("a table");
        let around = table.around(&asked(at)).into_iter();
        around
            .map(|around| around.map_or_else(String::new, |it| String::from_utf8_lossy(&it.name).into()))
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
        for name in ["$x", "$d", "$x.0", "$d.12", "$xrv64i2p1"] {
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
}
