//! Finds functions in the table that Go's runtime names its own stacks with, which stripping leaves.

use std::collections::BTreeMap;

use icecore_elf::go::{self, FDE_AT, MAX_BEGINNINGS, SECTIONS, Source, Table, Where};
use icecore_elf::{Machine, Svma, Symbol};
use object::Endianness;
use object::read::ReadRef;
use object::read::elf::{Rela as _, SectionHeader as _};

use super::elf_file::ElfFile;
use super::functions::{Asked, Found};
use super::rules::Rule;

/// How many bytes of a section are searched for the table, and how many of them are read at once.
const MAX_SEARCHED_BYTES: u64 = 64 << 20;
const SEARCHED_BYTES: u64 = 64 << 10;

/// The table in a file.
#[derive(Clone, Copy)]
pub(crate) struct Section<R> {
    file: R,
    begin: u64,
    len: u64,
}

impl<'d, R: ReadRef<'d>> Source<'d> for Section<R> {
    fn bytes(self, off: u64, len: u64) -> Option<&'d [u8]> {
        let is_inside = off.checked_add(len).is_some_and(|end| end <= self.len);
        is_inside.then(|| self.file.read_bytes_at(self.begin.checked_add(off)?, len).ok())?
    }

    fn byte_len(self) -> u64 {
        self.len
    }
}

/// Finds the functions around addresses; nothing if this is no program of Go.
pub(super) fn around<'d>(file: impl ReadRef<'d>, at: &[Svma]) -> Found<'d> {
    let table = table(&ElfFile::read(file)?)?;
    let around = |at: &Svma| {
        let function = table.function(at.0)?;
        let (start, len) = (Svma(function.start), function.end - function.start);
        Some(Symbol { start, len, name: function.name.into() })
    };
    Some(at.iter().map(around).collect())
}

/// Makes the unwind tables of the functions around addresses, each once; none if this is no program of Go.
pub(super) fn rules<'d>(file: impl ReadRef<'d>, asked: &[Asked]) -> Option<Vec<Rule>> {
    let elf = ElfFile::read(file)?;
    let table = table(&elf)?;
    let machine = Machine::of_elf(elf.machine.0)?;
    let mut rules: BTreeMap<u64, Rule> = BTreeMap::new();
    for asked in asked {
        let Some(function) = table.function(asked.at.0).filter(|it| !rules.contains_key(&it.start)) else {
            continue;
        };
        // Code lies in the file as in memory, from one function to the next.
        let bias = asked.at.0.wrapping_sub(asked.off.0);
        let code = |at: u64, len| file.read_bytes_at(at.checked_sub(bias)?, len).ok();
        let Some(made) = go::rule(machine, &table, &function, code) else { continue };
        let at = FDE_AT | function.start;
        let start = function.start.wrapping_sub(bias);
        rules.insert(function.start, Rule { at, start, bias, bytes: made.bytes });
    }
    Some(rules.into_values().collect())
}

/// Opens the table of a file.
pub(crate) fn table<'d, R: ReadRef<'d>>(elf: &ElfFile<'d, R>) -> Option<Table<'d, Section<R>>> {
    let endian = elf.endian;
    let of_name = |name: &str| elf.sections.section_by_name(endian, name.as_bytes()).map(|(_, it)| it);
    let beside = |name: &str| of_name(name).is_some();
    let named = SECTIONS.iter().filter(|it| beside(it.1));
    let (section, is_its_own) =
        named.filter_map(|(name, other)| Some((of_name(name)?, name == other))).next()?;
    let place = Where {
        is_big_endian: endian == Endianness::Big,
        word_len: 8,
        text: of_name(".text").map(|text| text.sh_addr(endian)),
        entry: elf.entry,
    };
    let (begin, len) = (section.sh_offset(endian), section.sh_size(endian));
    let open = |off: u64| {
        let told_text = |into: u64| {
            let place = section.sh_addr(endian).checked_add(off)?.checked_add(into)?;
            let told = elf.relocations(".rela.dyn").iter().find(|row| row.r_offset(endian) == place);
            told.and_then(|told| u64::try_from(told.r_addend(endian)).ok())
        };
        let section = Section { file: elf.bytes, begin: begin.checked_add(off)?, len: len - off };
        Table::open(section, place, told_text)
    };
    // Reading stops where the table begins.
    let most = if is_its_own { 1 } else { MAX_SEARCHED_BYTES };
    let parts = (0..len.min(most)).step_by(SEARCHED_BYTES as usize);
    parts
        .flat_map(|part| {
            beginnings_of(elf, begin.saturating_add(part), len - part).map(move |off| part + off)
        })
        .take(MAX_BEGINNINGS)
        .find_map(open)
}

/// Lists the offsets at which a table may begin in a part of a section.
fn beginnings_of<'d, R: ReadRef<'d>>(
    elf: &ElfFile<'d, R>,
    begin: u64,
    len: u64,
) -> impl Iterator<Item = u64> {
    let bytes = elf.bytes.read_bytes_at(begin, len.min(SEARCHED_BYTES)).unwrap_or_default();
    go::beginnings(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::functions::fixture::assembled;

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
        let asked = [0x1000f, 0x10010, 0x1001f, 0x10020, 0x10037, 0x10038].map(Svma);
        for (number, program) in programs.iter().enumerate() {
            let found = around(&program[..], &asked).expect("a table").into_iter().flatten();
            let found: Vec<_> = found
                .map(|it| (it.start.0, it.len, String::from_utf8_lossy(&it.name).into_owned()))
                .collect();
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
            assert_eq!(around(&program[..], &[Svma(0x10010)]), None);
        }
    }
}
