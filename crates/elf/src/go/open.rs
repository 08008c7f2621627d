//! Finds Go's table of functions in a file.

use std::ops::Range;

use object::Endianness;
use object::read::ReadRef;

use super::pclntab::{MAX_BEGINNINGS, Pclntab, SECTIONS, SectionBytes, Where, beginnings};
use crate::{Layout, Section, relocations};

/// How many bytes of a section are searched for the table, and how many of them are read at once. The search ends where the table
/// begins.
const MAX_SEARCHED_BYTES: u64 = 64 << 20;
const SEARCHED_BYTES: u64 = 64 << 10;

/// The part of a section from an offset on, in a file.
#[derive(Debug, Clone, Copy)]
pub struct Part<R> {
    file: R,
    begin: u64,
    len: u64,
}

impl<'d, R: ReadRef<'d>> SectionBytes<'d> for Part<R> {
    fn bytes(self, off: u64, len: u64) -> Option<&'d [u8]> {
        let is_inside = off.checked_add(len).is_some_and(|end| end <= self.len);
        is_inside.then(|| self.file.read_bytes_at(self.begin.checked_add(off)?, len).ok())?
    }

    fn byte_len(self) -> u64 {
        self.len
    }
}

/// The longest section that [`Loaded`] reads.
const MAX_LOADED_BYTES: u64 = 64 << 20;

/// A Go program whose table and code were read at once, for readers of all of its functions.
#[derive(Debug, Clone, Copy)]
pub struct Loaded<'d, R> {
    file: R,
    /// Offsets in the file, and the bytes there.
    parts: [(u64, &'d [u8]); 2],
}

impl<'d, R: ReadRef<'d>> Loaded<'d, R> {
    /// Reads both; `None` if the file is not a Go program. Sections of more than 64 MiB are read piece by piece.
    pub fn of(file: R, layout: &Layout) -> Option<Self> {
        let part = |section: &Section| {
            let len = Some(section.len).filter(|len| *len <= MAX_LOADED_BYTES && !section.is_nobits)?;
            Some((section.off.0, file.read_bytes_at(section.off.0, len).ok()?))
        };
        let sections = [Some(section(layout)?), layout.section(".text")];
        Some(Self { file, parts: sections.map(|section| section.and_then(part).unwrap_or_default()) })
    }
}

impl<'d, R: ReadRef<'d>> ReadRef<'d> for Loaded<'d, R> {
    fn len(self) -> Result<u64, ()> {
        self.file.len()
    }

    fn read_bytes_at(self, offset: u64, size: u64) -> Result<&'d [u8], ()> {
        let part = |(begin, bytes): (u64, &'d [u8])| {
            let at = usize::try_from(offset.checked_sub(begin)?).ok()?;
            bytes.get(at..at.checked_add(usize::try_from(size).ok()?)?)
        };
        self.parts.into_iter().find_map(part).map_or_else(|| self.file.read_bytes_at(offset, size), Ok)
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'d [u8], ()> {
        self.file.read_bytes_at_until(range, delimiter)
    }
}

/// Finds the section that contains the table, if this is a Go program.
fn section(layout: &Layout) -> Option<&Section> {
    let named = SECTIONS.iter().filter(|(_, beside)| layout.section(beside).is_some());
    named.filter_map(|(name, _)| layout.section(name)).next()
}

/// Opens the table of a file; `None` if the file is not a Go program.
pub fn open<'d, R: ReadRef<'d>>(file: R, layout: &Layout) -> Option<Pclntab<'d, Part<R>>> {
    let section =
        section(layout).filter(|section| !section.is_nobits && section.compressed_from.is_none())?;
    let place = Where {
        is_big_endian: layout.endian == Endianness::Big,
        word_len: layout.address_size,
        text: layout.section(".text").map(|text| text.at.0),
        entry: layout.entry.0,
    };
    let part = |off: u64| {
        Some(Part { file, begin: section.off.0.checked_add(off)?, len: section.len.checked_sub(off)? })
    };
    let searched = (0..section.len.min(MAX_SEARCHED_BYTES)).step_by(SEARCHED_BYTES as usize);
    let begins = searched.flat_map(|off| {
        let bytes = part(off).and_then(|part| part.bytes(0, part.len.min(SEARCHED_BYTES)));
        beginnings(bytes.unwrap_or_default()).map(move |begin| off + begin)
    });
    begins.take(MAX_BEGINNINGS).find_map(|begin| {
        let told_text = |off: u64| {
            let own = section.at.0.checked_add(begin)?.checked_add(off)?;
            relocated(file, layout, own).or_else(|| text_of_module(file, layout))
        };
        Pclntab::open(part(begin)?, place, told_text)
    })
}

/// Returns the address that a loader writes at a place.
fn relocated<'d, R: ReadRef<'d>>(file: R, layout: &Layout, place: u64) -> Option<u64> {
    let mut relocations = relocations::of(file, layout, ".rela.dyn");
    Some(relocations.find(|relocation| relocation.place.0 == place)?.addend)
}

/// Returns where the code begins by `runtime.firstmoduledata`, which has a section of its own since Go 1.26. If a linker of C makes the
/// program, nothing else says it.
///
/// # Source  `runtime/symtab.go`, `moduledata.text`, of Go 1.26 and 1.27
fn text_of_module<'d, R: ReadRef<'d>>(file: R, layout: &Layout) -> Option<u64> {
    const TEXT_OFF: u64 = 176;
    let (module, text) = (layout.section(".go.module")?, layout.section(".text")?);
    if layout.endian != Endianness::Little || module.is_nobits || module.len < TEXT_OFF + 8 {
        return None;
    }
    let bytes = file.read_bytes_at(module.off.0.checked_add(TEXT_OFF)?, 8).ok()?;
    let told = match u64::from_le_bytes(*bytes.first_chunk()?) {
        0 => relocated(file, layout, module.at.0.checked_add(TEXT_OFF)?)?,
        told => told,
    };
    let into = told.checked_sub(text.at.0)?;
    (into < text.len).then_some(told)
}

#[cfg(test)]
mod tests {
    use super::super::Function;
    use super::*;
    use crate::fixture::assembled;

    /// First addresses, lengths and names of the functions around addresses; `None` if there is no table.
    fn around(file: &[u8], at: &[u64]) -> Option<Vec<(u64, u64, String)>> {
        let layout = Layout::read(file).expect("ELF");
        let table = open(file, &layout)?;
        let found = at.iter().filter_map(|at| table.function(*at));
        let function =
            |it: Function<'_>| (it.start, it.end - it.start, String::from_utf8_lossy(it.name).into_owned());
        Some(found.map(function).collect())
    }

    /// A program with functions at 0x10010, 0x10020 and 0x10030, up to 0x10038, and the table of them in a layout:
    /// the numbers after the first, the directive of an address, and the bases of the offsets of names and of the functions' data.
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
        let asked = [0x1000f, 0x10010, 0x1001f, 0x10020, 0x10037, 0x10038];
        for (number, program) in programs.iter().enumerate() {
            let expected = [
                (0x10010, 16, "main.main"),
                (0x10010, 16, "main.main"),
                (0x10020, 16, "_rt0_amd64_linux"),
                (0x10030, 8, "main.F[...]"),
            ]
            .map(|(start, len, name)| (start, len, name.to_owned()));
            assert_eq!(around(program, &asked), Some(expected.to_vec()), "{number}");
        }
    }

    #[test]
    fn what_no_go_has_written_has_no_functions() {
        for magic in [0, 0xffff_fffc] {
            let program = program(magic, "", ".quad", "", "table", "table");
            assert_eq!(around(&program, &[0x10010]), None);
        }
    }
}
