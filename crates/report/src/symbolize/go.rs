//! Finds functions in the table that Go's runtime names its own stacks with, which stripping leaves: `.gopclntab`.
//!
//! ```text
//! header │ names │ … │ functions: (address, offset of what is known of it)…, end │ what is known: address, name, …
//! ```
//!
//! Lines are in it as well, but not what was inlined: a line would be that of an inlined function, under the name of the
//! one around it. So they are not read.

use std::sync::Arc;

use gimli::{EndianSlice, Reader, RunTimeEndian};
use object::Endianness;

use super::relocations;
use super::strings::Strings;
use crate::image::{ElfFile, Layout, Svma};

/// Its section; the second in an executable that may lie anywhere.
const SECTIONS: [&str; 2] = [".gopclntab", ".data.rel.ro.gopclntab"];
/// Bytes before the first number of the header: magic, two zeros, unit of code, bytes of an address.
const NUMBERS_OFF: usize = 8;
/// The longest name that is kept, bytes.
const MAX_NAME_LEN: usize = 4 << 10;
/// What the name of the function that a program begins with begins with.
const ENTRY: &[u8] = b"_rt0_";

/// How the table is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Version {
    Go1_2,
    Go1_16,
    /// Addresses count from the beginning of the code; 1.20 changed what is not read here.
    Go1_18,
}

impl Version {
    fn of(magic: u32) -> Option<Self> {
        match magic {
            0xffff_fffb => Some(Self::Go1_2),
            0xffff_fffa => Some(Self::Go1_16),
            0xffff_fff0 | 0xffff_fff1 => Some(Self::Go1_18),
            _ => None,
        }
    }
}

/// Finds the names of the functions around addresses; nothing if this is no program of Go.
pub(super) fn look_up(
    file: &ElfFile,
    layout: &Layout,
    at: &[Svma],
    strings: &Strings,
) -> Vec<Option<Arc<str>>> {
    let bytes = || {
        let section = SECTIONS.iter().find_map(|name| layout.section(name))?;
        Some((section.at, file.section_bytes(section)?))
    };
    let none = || vec![None; at.len()];
    let Some((begin, bytes)) = bytes().filter(|_| !at.is_empty()) else { return none() };
    let moved_text = || {
        let place = begin.0.checked_add((NUMBERS_OFF + 2 * usize::from(layout.address_size)) as u64)?;
        let is_it = |it: relocations::Relocation| (it.place == place).then_some(it.addend);
        relocations::each(file, layout, ".rela.dyn", is_it)
    };
    let Some(table) = Table::open(&bytes, layout, moved_text) else { return none() };
    at.iter().map(|at| Some(strings.name(table.function(*at)?.1))).collect()
}

/// A table, its parts found.
#[derive(Debug)]
struct Table<'d> {
    endian: RunTimeEndian,
    /// What addresses count from.
    text: u64,
    /// Bytes of an address in the list of functions, and in what is known of one.
    address_len: usize,
    count: usize,
    functions: &'d [u8],
    /// What offsets of what is known count from.
    known: &'d [u8],
    names: &'d [u8],
}

impl<'d> Table<'d> {
    /// Finds the parts; `None` if this is none of the known versions, or it is torn. `moved_text` tells where the code
    /// begins if only the loader knows.
    fn open(bytes: &'d [u8], layout: &Layout, moved_text: impl FnOnce() -> Option<u64>) -> Option<Self> {
        let endian = match layout.endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        };
        let version = Version::of(EndianSlice::new(bytes, endian).read_u32().ok()?)?;
        let word_len = usize::from(*bytes.get(7)?);
        if word_len != usize::from(layout.address_size) {
            return None;
        }
        let number = |position: usize| {
            let mut word = EndianSlice::new(bytes.get(NUMBERS_OFF + position * word_len..)?, endian);
            word.read_uint(word_len).ok()
        };
        let part = |position: usize| bytes.get(usize::try_from(number(position)?).ok()?..);
        let count = usize::try_from(number(0)?).ok()?;
        let (address_len, names, functions, known) = match version {
            Version::Go1_2 => (word_len, bytes, bytes.get(NUMBERS_OFF + word_len..)?, bytes),
            Version::Go1_16 => (word_len, part(2)?, part(6)?, part(6)?),
            Version::Go1_18 => (4, part(3)?, part(7)?, part(7)?),
        };
        // The last one ends with an address alone.
        let functions = functions.get(..count.checked_mul(2)?.checked_add(1)?.checked_mul(address_len)?)?;
        let mut table = Self { endian, text: 0, address_len, count, functions, known, names };
        if version == Version::Go1_18 {
            table.text = match number(2)? {
                0 => moved_text().or_else(|| table.text_by_entry(layout))?,
                text => text,
            };
        }
        Some(table)
    }

    /// Go 1.26 no longer writes where its code begins. A program without C begins with `.text`, and is entered in Go: if so,
    /// the table names its entry.
    fn text_by_entry(&mut self, layout: &Layout) -> Option<u64> {
        self.text = layout.section(".text")?.at.0;
        let (begin, name) = self.function(layout.entry)?;
        (begin == layout.entry && name.starts_with(ENTRY)).then_some(self.text)
    }

    /// Finds where the function around an address begins, and its name.
    fn function(&self, at: Svma) -> Option<(Svma, &'d [u8])> {
        let (mut low, mut high) = (0, self.count + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.address(middle)? <= at { low = middle + 1 } else { high = middle }
        }
        // Behind the end there is none.
        let position = low.checked_sub(1).filter(|position| *position < self.count)?;
        let off = self.number(self.functions, (2 * position + 1) * self.address_len, self.address_len)?;
        let known = self.known.get(usize::try_from(off).ok()?..)?;
        let name = usize::try_from(self.number(known, self.address_len, 4)?).ok()?;
        let name = self.names.get(name..)?;
        let len = name.iter().take(MAX_NAME_LEN).position(|byte| *byte == 0)?;
        Some((self.address(position)?, &name[..len])).filter(|_| len > 0)
    }

    fn address(&self, position: usize) -> Option<Svma> {
        let relative = self.number(self.functions, 2 * position * self.address_len, self.address_len)?;
        self.text.checked_add(relative).map(Svma)
    }

    fn number(&self, bytes: &[u8], off: usize, len: usize) -> Option<u64> {
        EndianSlice::new(bytes.get(off..)?, self.endian).read_uint(len).ok()
    }
}

#[cfg(test)]
mod tests {
    use object::elf;

    use super::*;
    use crate::image::fixture::Fixture;

    /// A table with functions at 0x10, 0x20, 0x30 behind the beginning of the code, up to 0x38.
    fn table(version: Version, text: u64) -> Vec<u8> {
        let names = b"\0main.main\0_rt0_amd64_linux\0main.F[...]\0";
        let name_offs = [1_u32, 11, 28];
        let magic = [0xffff_fffb_u32, 0xffff_fffa, 0xffff_fff1][version as usize];
        let number_count = [1, 7, 8][version as usize];
        let names_off = 8 + 8 * number_count as u64;
        let functions_off = names_off + names.len() as u64;
        let numbers = match version {
            Version::Go1_2 => vec![3],
            Version::Go1_16 => vec![3, 0, names_off, 0, 0, 0, functions_off],
            Version::Go1_18 => vec![3, 0, text, names_off, 0, 0, 0, functions_off],
        };
        let len: usize = if version == Version::Go1_18 { 4 } else { 8 };
        let base = if version == Version::Go1_18 { 0 } else { text };
        // In the oldest, functions come first, and all counts from the beginning.
        let is_old = version == Version::Go1_2;
        let list_len = 7 * len as u64;
        let known_off = if is_old { 16 + list_len } else { list_len };
        let (mut list, mut known) = (Vec::new(), Vec::new());
        let names_at = if is_old { 16 + list_len as u32 + 3 * 12 } else { 0 };
        for (at, name) in [0x10, 0x20, 0x30].into_iter().zip(name_offs) {
            let begin: u64 = base + at;
            list.extend(&begin.to_le_bytes()[..len]);
            list.extend(&(known_off + known.len() as u64).to_le_bytes()[..len]);
            known.extend(&begin.to_le_bytes()[..len]);
            known.extend((names_at + name).to_le_bytes());
        }
        list.extend(&(base + 0x38).to_le_bytes()[..len]);
        let head = [&magic.to_le_bytes()[..], &[0, 0, 1, 8]].concat();
        let numbers: Vec<u8> = numbers.into_iter().flat_map(u64::to_le_bytes).collect();
        match is_old {
            true => [&head[..], &numbers, &list, &known, names].concat(),
            false => [&head[..], &numbers, names, &list, &known].concat(),
        }
    }

    fn layout() -> Layout {
        let file = ElfFile::open(&Fixture::shared().with_symbols).expect("opens");
        let layout = file.layout().expect("ELF");
        assert_eq!((layout.machine, layout.address_size), (elf::EM_X86_64, 8));
        layout
    }

    fn names(table: &Table<'_>) -> Vec<String> {
        let name = |at| {
            table
                .function(Svma(table.text.max(0x4000).wrapping_add(at)))
                .map_or(&b""[..], |function| function.1)
        };
        let at = [0, 0xf, 0x10, 0x1f, 0x20, 0x30, 0x37, 0x38, 0x1000];
        at.into_iter().map(|at| String::from_utf8_lossy(name(at)).into_owned()).collect()
    }

    const NAMES: [&str; 9] =
        ["", "", "main.main", "main.main", "_rt0_amd64_linux", "main.F[...]", "main.F[...]", "", ""];

    #[test]
    fn all_versions_name_functions_up_to_the_end() {
        for version in [Version::Go1_2, Version::Go1_16, Version::Go1_18] {
            let bytes = table(version, 0x4000);
            let table = Table::open(&bytes, &layout(), || None).expect("sound");
            assert_eq!(names(&table), NAMES, "{version:?}");
        }
    }

    #[test]
    fn where_the_code_begins_is_told_by_the_loader_or_proven_by_the_entry() {
        let bytes = table(Version::Go1_18, 0);
        let moved = Table::open(&bytes, &layout(), || Some(0x7000)).expect("sound");
        assert_eq!((moved.text, names(&moved)), (0x7000, NAMES.map(str::to_owned).to_vec()));
        let mut layout = layout();
        let text = layout.section(".text").expect("code").at.0;
        layout.entry = Svma(text + 0x20);
        assert_eq!(Table::open(&bytes, &layout, || None).expect("proven").text, text);
        for wrong in [0x10, 0x21, 0x30, 0x100] {
            layout.entry = Svma(text + wrong);
            assert!(Table::open(&bytes, &layout, || None).is_none(), "{wrong:#x}");
        }
    }

    #[test]
    fn cut_and_flipped_tables_are_no_panic() {
        let layout = layout();
        for version in [Version::Go1_2, Version::Go1_16, Version::Go1_18] {
            let whole = table(version, 0x4000);
            for len in 0..whole.len() {
                Table::open(&whole[..len], &layout, || None).map(|table| names(&table));
            }
            for off in 0..whole.len() {
                for value in [0, 0x7f, 0x80, 0xff] {
                    let mut bytes = whole.clone();
                    bytes[off] = value;
                    Table::open(&bytes, &layout, || Some(u64::MAX)).map(|table| names(&table));
                }
            }
        }
    }
}
