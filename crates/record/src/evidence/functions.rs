//! Which functions of an ELF file lie around some of its offsets, as its symbol tables tell it.

use object::elf::{self, FileHeader64, Sym64};
use object::read::ReadRef;
use object::read::elf::{
    FileHeader as _, ProgramHeader as _, SectionHeader as _, SectionTable, Sym as _, SymbolTable,
};
use object::{Endianness, SectionIndex, SymbolIndex};
use rustc_hash::FxHashMap;

/// The largest symbol table that is read, bytes: more than two million symbols.
const MAX_TABLE_BYTES: u64 = 64 << 20;
/// The most sections of a file that is looked into.
const MAX_SECTIONS: u32 = 64 << 10;
/// The longest name that is kept, bytes.
const MAX_NAME_BYTES: usize = 4 << 10;

/// A function, by offsets in its file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Function {
    pub(crate) start: u64,
    /// Behind its last byte; of a symbol without size, behind the last offset that was asked for.
    pub(crate) end: u64,
    /// As the table has it, mangled.
    pub(crate) name: Vec<u8>,
}

/// An offset that is asked for, and the address that the file gives it.
#[derive(Debug, Clone, Copy)]
struct Asked {
    off: u64,
    address: u64,
}

/// A symbol that may be the function around an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    start: u64,
    size: u64,
    symbol: usize,
}

/// Finds the functions around offsets of a file; each once, in their order. `debug` is a file of debug information that
/// belongs to it. What they do not tell, or tell in a way that makes no sense, is left out: they may be anybody's.
pub(crate) fn functions<'d, 'e, R: ReadRef<'d>, D: ReadRef<'e>>(
    file: R,
    debug: Option<D>,
    offsets: impl Iterator<Item = u64>,
) -> Vec<Function> {
    let Some(mut asked) = addresses(file, offsets) else { return Vec::new() };
    asked.sort_unstable_by_key(|asked| asked.address);
    asked.dedup_by_key(|asked| asked.address);
    let mut found = Vec::new();
    for table in [elf::SHT_SYMTAB, elf::SHT_DYNSYM] {
        look_up(file, table, &mut asked, &mut found);
    }
    if let Some(debug) = debug {
        look_up(debug, elf::SHT_SYMTAB, &mut asked, &mut found);
    }
    found.sort_unstable();
    // A function is found once for each of its offsets. Of symbols without size the longest stretch comes last.
    let mut functions: Vec<Function> = Vec::new();
    for function in found {
        match functions.last_mut() {
            Some(last) if last.start == function.start => *last = function,
            _ => functions.push(function),
        }
    }
    functions
}

/// The addresses at which a file wants offsets of its code to be.
fn addresses<'d>(file: impl ReadRef<'d>, offsets: impl Iterator<Item = u64>) -> Option<Vec<Asked>> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, file).ok()?.iter().filter(|segment| {
        segment.p_type(endian) == elf::PT_LOAD && segment.p_flags(endian).0 & elf::PF_X.0 != 0
    });
    let asked = |off: u64| {
        segments.clone().find_map(|segment| {
            let into = off.checked_sub(segment.p_offset(endian))?;
            let address = segment.p_vaddr(endian).checked_add(into)?;
            (into < segment.p_filesz(endian)).then_some(Asked { off, address })
        })
    };
    Some(offsets.filter_map(asked).collect())
}

/// Finds the functions around addresses, which ascend, in one table of a file, and leaves those that are in none.
fn look_up<'d, R: ReadRef<'d>>(
    file: R,
    table: elf::SectionType,
    asked: &mut Vec<Asked>,
    found: &mut Vec<Function>,
) {
    if asked.is_empty() {
        return;
    }
    let Some(table) = Table::read(file, table) else { return };
    let nearest = table.nearest(asked);
    let names = table.names(nearest.iter().flatten());
    let mut left = Vec::new();
    for (asked, nearest) in asked.iter().zip(nearest) {
        let function = nearest.and_then(|nearest| {
            let name = names.get(&(nearest.start, nearest.size))?;
            let start = asked.off.checked_sub(asked.address - nearest.start)?;
            let end = if nearest.size > 0 { start.checked_add(nearest.size)? } else { asked.off + 1 };
            Some(Function { start, end, name: name.to_vec() })
        });
        match function {
            Some(function) => found.push(function),
            None => left.push(*asked),
        }
    }
    *asked = left;
}

/// A symbol table.
struct Table<'d, R: ReadRef<'d>> {
    endian: Endianness,
    sections: SectionTable<'d, FileHeader64<Endianness>, R>,
    symbols: SymbolTable<'d, FileHeader64<Endianness>, R>,
    is_dynamic: bool,
}

impl<'d, R: ReadRef<'d>> Table<'d, R> {
    fn read(file: R, table: elf::SectionType) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok()?;
        if header.shnum(endian, file).ok()? > MAX_SECTIONS {
            return None;
        }
        let sections = header.sections(endian, file).ok()?;
        let is_read = |kind| kind == table || kind == elf::SHT_SYMTAB_SHNDX;
        let read = sections.iter().filter(|section| is_read(section.sh_type(endian)));
        if read.fold(0, |sum: u64, section| sum.saturating_add(section.sh_size(endian))) > MAX_TABLE_BYTES {
            return None;
        }
        let symbols = sections.symbols(endian, file, table).ok()?;
        Some(Self { endian, sections, symbols, is_dynamic: table == elf::SHT_DYNSYM })
    }

    /// The symbols that can name code, with their numbers.
    fn code(&self) -> impl Iterator<Item = (usize, &'d Sym64<Endianness>)> + '_ {
        let kinds = [elf::STT_FUNC, elf::STT_GNU_IFUNC, elf::STT_NOTYPE];
        self.symbols.iter().enumerate().filter(move |(_, symbol)| {
            kinds.contains(&symbol.st_type())
                && symbol.st_shndx(self.endian) != elf::SHN_UNDEF
                && symbol.st_name(self.endian) != 0
        })
    }

    /// The symbol around each address, if there is one.
    fn nearest(&self, asked: &[Asked]) -> Vec<Option<Candidate>> {
        // The last symbol in front of each address, with and without size: noted at the first address behind it, and
        // carried on from there to all others.
        let (mut sized, mut sizeless) = (vec![None; asked.len()], vec![None; asked.len()]);
        for (symbol, row) in self.code() {
            let (start, size) = (row.st_value(self.endian), row.st_size(self.endian));
            let last = if size > 0 { &mut sized } else { &mut sizeless };
            if let Some(last) = last.get_mut(asked.partition_point(|asked| asked.address < start)) {
                *last = (*last).max(Some(Candidate { start, size, symbol }));
            }
        }
        let (mut last_sized, mut last_sizeless): (Option<Candidate>, Option<Candidate>) = (None, None);
        let nearest = asked.iter().zip(sized).zip(sizeless).map(|((asked, sized), sizeless)| {
            (last_sized, last_sizeless) = (last_sized.max(sized), last_sizeless.max(sizeless));
            let covers = |c: &Candidate| asked.address - c.start < c.size;
            let is_behind = |c: &Candidate| last_sized.is_none_or(|sized| sized.start <= c.start);
            let may_cover = |c: &Candidate| is_behind(c) && self.may_cover(c, asked.address);
            last_sized.filter(covers).or_else(|| last_sizeless.filter(may_cover))
        });
        nearest.collect()
    }

    /// A symbol without size ends with its section at the latest, and in the sparse table of dynamic symbols at once.
    fn may_cover(&self, candidate: &Candidate, address: u64) -> bool {
        let symbol = self.symbols.symbol(SymbolIndex(candidate.symbol)).ok();
        let section = symbol.map(|symbol| SectionIndex(usize::from(symbol.st_shndx(self.endian).0)));
        let section = section.and_then(|section| self.sections.section(section).ok());
        let is_in_section = section.is_some_and(|section| {
            address.wrapping_sub(section.sh_addr(self.endian)) < section.sh_size(self.endian)
        });
        is_in_section && (!self.is_dynamic || candidate.start == address)
    }

    /// The names of symbols by start and size. Of several the one that people know: `free`, not `__libc_free`.
    fn names<'c>(&self, wanted: impl Iterator<Item = &'c Candidate>) -> FxHashMap<(u64, u64), &'d [u8]> {
        let mut names: FxHashMap<(u64, u64), &[u8]> =
            wanted.map(|wanted| ((wanted.start, wanted.size), &[][..])).collect();
        for (_, row) in self.code() {
            let at = (row.st_value(self.endian), row.st_size(self.endian));
            let Some(known) = names.get_mut(&at) else { continue };
            let Ok(name) = self.symbols.symbol_name(self.endian, row) else { continue };
            if (1..=MAX_NAME_BYTES).contains(&name.len()) && (known.is_empty() || rank(name) < rank(known)) {
                *known = name;
            }
        }
        names.retain(|_, name| !name.is_empty());
        names
    }
}

/// Orders names of one function: few underscores in front, short.
fn rank(name: &[u8]) -> (usize, usize, &[u8]) {
    (name.iter().take_while(|byte| **byte == b'_').count(), name.len(), name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Offsets and names of some functions of this very program.
    #[inline(never)]
    fn here() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn the_own_program_knows_the_function_at_an_offset() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let maps = std::fs::read("/proc/self/maps").expect("we are running");
        let address = here as fn() -> u64 as usize as u64;
        assert_eq!(here(), 7);
        let line =
            crate::proc::maps::executable(&maps).find(|line| (line.start..line.end).contains(&address));
        let line = line.expect("our code is mapped");
        let off = address - line.start + line.file_off;
        let found = functions(&elf[..], None::<&[u8]>, [off, off + 1, 0].into_iter());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].start, off);
        assert!(String::from_utf8_lossy(&found[0].name).contains("here"), "{found:?}");
    }

    #[test]
    fn what_is_no_program_has_no_functions() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        for bytes in [&[][..], &elf[..64], &elf[..elf.len() / 2], &[0; 4096]] {
            assert_eq!(functions(bytes, Some(bytes), [0, 64, u64::MAX].into_iter()), []);
        }
    }

    #[test]
    fn names_that_people_know_come_first() {
        let mut names = ["__libc_free", "cfree", "free", "__GI___libc_free"].map(str::as_bytes);
        names.sort_by_key(|name| rank(name));
        assert_eq!(names[0], b"free");
    }
}
