//! Finds functions in the table that Go's runtime names its own stacks with, which stripping leaves.
//!
//! ```text
//! header │ names │ … │ functions: (address, offset of what is known of it)…, end │ what is known: address, name, …
//! ```

use object::read::ReadRef;
use object::read::elf::{Rela as _, SectionHeader as _};
use object::{Endian as _, Endianness};

use super::elf_file::{ElfFile, MAX_NAME_BYTES, MAX_TABLE_BYTES};
use super::functions::{Around, Asked};

/// Its section; the second in an executable that may lie anywhere.
const SECTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];
/// Bytes before the numbers of the header (magic, two zeros, unit of code, bytes of an address), and of the longest header.
const NUMBERS_OFF: usize = 8;
const HEADER_LEN: usize = NUMBERS_OFF + 8 * 8;
/// The number that says where the code begins.
const TEXT: usize = 2;
/// What the name of the function that a program begins with begins with.
const ENTRY: &[u8] = b"_rt0_";

/// A table, its parts found; of programs of 64 bits.
struct Table<'d, R> {
    file: R,
    endian: Endianness,
    /// What addresses count from.
    text: u64,
    /// Bytes of an address in the list of functions, and in what is known of one.
    address_len: usize,
    /// Rows of an address and an offset; at the end an address alone.
    functions: &'d [u8],
    /// Offsets in the file: what offsets of what is known count from, and those of names.
    known_off: u64,
    names_off: u64,
}

/// Finds the functions around addresses; nothing if this is no program of Go.
pub(super) fn around<'d>(file: impl ReadRef<'d>, asked: &[Asked]) -> Option<Vec<Option<Around>>> {
    let table = Table::read(&ElfFile::read(file)?)?;
    Some(asked.iter().map(|asked| table.around(asked.address)).collect())
}

impl<'d, R: ReadRef<'d>> Table<'d, R> {
    fn read(elf: &ElfFile<'d, R>) -> Option<Self> {
        let (file, endian) = (elf.bytes, elf.endian);
        let section = SECTIONS.iter().find_map(|name| elf.sections.section_by_name(endian, name))?.1;
        let begin = section.sh_offset(endian);
        let header = file.read_bytes_at(begin, HEADER_LEN as u64).ok()?;
        let word = |position: usize| number(header, NUMBERS_OFF + 8 * position, 8, endian);
        // Versions of Go from 1.2, 1.16, 1.18 (addresses count from the beginning of the code) and 1.20.
        let (address_len, names, functions, known) = match number(header, 0, 4, endian)? {
            0xffff_fffb => (8, 0, (NUMBERS_OFF + 8) as u64, 0),
            0xffff_fffa => (8, word(2)?, word(6)?, word(6)?),
            0xffff_fff0 | 0xffff_fff1 => (4, word(3)?, word(7)?, word(7)?),
            _ => return None,
        };
        let len = word(0)?.checked_mul(2)?.checked_add(1)?.checked_mul(address_len as u64)?;
        if header[7] != 8 || len > MAX_TABLE_BYTES {
            return None;
        }
        let functions = file.read_bytes_at(begin.checked_add(functions)?, len).ok()?;
        let (names_off, known_off) = (begin.checked_add(names)?, begin.checked_add(known)?);
        let mut table = Self { file, endian, text: 0, address_len, functions, known_off, names_off };
        if address_len == 4 {
            table.text = match word(TEXT)? {
                0 => table.moved_text(elf, section.sh_addr(endian))?,
                text => text,
            };
        }
        Some(table)
    }

    /// Where the code of an executable begins that may lie anywhere: the loader is told, but since Go 1.26 no longer. A
    /// program without C begins with `.text`, and is entered in Go: if so, the table names its entry.
    fn moved_text(&mut self, elf: &ElfFile<'d, R>, table_at: u64) -> Option<u64> {
        let place = table_at.checked_add((NUMBERS_OFF + 8 * TEXT) as u64);
        let relocations = elf.relocations(".rela.dyn");
        let told = relocations.iter().find(|row| Some(row.r_offset(self.endian)) == place);
        if let Some(told) = told {
            return u64::try_from(told.r_addend(self.endian)).ok();
        }
        self.text = elf.sections.section_by_name(self.endian, b".text")?.1.sh_addr(self.endian);
        let first = self.around(elf.entry)?;
        (first.start == elf.entry && first.name.starts_with(ENTRY)).then_some(self.text)
    }

    /// Finds the function around an address.
    fn around(&self, at: u64) -> Option<Around> {
        let (mut low, mut high) = (0, self.functions.len() / self.address_len / 2 + 1);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.address(middle)? <= at { low = middle + 1 } else { high = middle }
        }
        let position = low.checked_sub(1)?;
        // Behind the last one there is an address, but nothing is known.
        let (start, end) = (self.address(position)?, self.address(position + 1)?);
        let off =
            number(self.functions, (2 * position + 1) * self.address_len, self.address_len, self.endian)?;
        let name_at = self.known_off.checked_add(off)?.checked_add(self.address_len as u64)?;
        let name_at = number(self.file.read_bytes_at(name_at, 4).ok()?, 0, 4, self.endian)?;
        let name_at = self.names_off.checked_add(name_at)?;
        let name_end = name_at.checked_add(MAX_NAME_BYTES as u64)?.min(self.file.len().ok()?);
        let name = self.file.read_bytes_at_until(name_at..name_end, 0).ok()?;
        let len = end.checked_sub(start).filter(|_| !name.is_empty())?;
        Some(Around { start, len, name: name.to_vec() })
    }

    fn address(&self, position: usize) -> Option<u64> {
        let relative =
            number(self.functions, 2 * position * self.address_len, self.address_len, self.endian)?;
        self.text.checked_add(relative)
    }
}

/// A number of 4 or 8 bytes.
fn number(bytes: &[u8], off: usize, len: usize, endian: Endianness) -> Option<u64> {
    let bytes = bytes.get(off..off.checked_add(len)?)?;
    match len {
        4 => Some(endian.read_u32(*bytes.first_chunk()?).into()),
        _ => Some(endian.read_u64(*bytes.first_chunk()?)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::functions::fixture::{asked, assembled};

    /// A program with functions at 0x10010, 0x10020 and 0x10030, up to 0x10038, and the table of them in a layout:
    /// the numbers behind the first, how an address is written, what offsets of names and of what is known count from.
    fn program(magic: u32, numbers: &str, address: &str, base: &str, names: &str, known: &str) -> Vec<u8> {
        let row = |at: u32, name: &str| format!("{address} {base}{at:#x}; {address} of_{name} - {known};");
        let of =
            |at: u32, name: &str| format!("of_{name}: {address} {base}{at:#x}; .long name_{name} - {names};");
        let functions = [(0x10, "main"), (0x20, "rt0"), (0x30, "last")];
        let rows: String = functions.iter().map(|(at, name)| row(*at, name)).collect();
        let known: String = functions.iter().map(|(at, name)| of(*at, name)).collect();
        assembled(&format!(
            ".globl _start; .fill 32; _start: .fill 32
             .section .gopclntab,\"a\"
             table: .long {magic:#x}; .byte 0, 0, 1, 8; .quad 3{numbers}
             functions: {rows} {address} {base}0x38; {known}
             names: .byte 0; name_main: .asciz \"main.main\"; name_rt0: .asciz \"_rt0_amd64_linux\"
             name_last: .asciz \"main.F[...]\"\n"
        ))
    }

    #[test]
    fn functions_are_found_in_all_layouts() {
        let text = "0x10000 + ";
        let from_go_1_16 = ", 0, names - table, 0, 0, 0, functions - table";
        let from_go_1_18 = |text: u64| format!(", 0, {text:#x}, names - table, 0, 0, 0, functions - table");
        let programs = [
            program(0xffff_fffb, "", ".quad", text, "table", "table"),
            program(0xffff_fffa, from_go_1_16, ".quad", text, "names", "functions"),
            program(0xffff_fff0, &from_go_1_18(0x10000), ".long", "", "names", "functions"),
            program(0xffff_fff1, &from_go_1_18(0x10000), ".long", "", "names", "functions"),
            program(0xffff_fff1, &from_go_1_18(0), ".long", "", "names", "functions"),
        ];
        let asked = asked(&[0x1000f, 0x10010, 0x1001f, 0x10020, 0x10037, 0x10038]);
        for (number, program) in programs.iter().enumerate() {
            let found = around(&program[..], &asked).expect("a table").into_iter().flatten();
            let found: Vec<_> =
                found.map(|it| (it.start, it.len, String::from_utf8_lossy(&it.name).into_owned())).collect();
            let expected = [
                (0x10010, 16, "main.main"),
                (0x10010, 16, "main.main"),
                (0x10020, 16, "_rt0_amd64_linux"),
                (0x10030, 8, "main.F[...]"),
            ]
            .map(|(start, len, name)| (start, len, name.to_owned()));
            assert_eq!(found, expected, "{number}");
        }
    }

    #[test]
    fn what_no_go_has_written_has_no_functions() {
        for magic in [0, 0xffff_fffc] {
            let program = program(magic, "", ".quad", "", "table", "table");
            assert_eq!(around(&program[..], &asked(&[0x10010])), None);
        }
    }
}
