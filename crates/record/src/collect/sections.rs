//! Finds the bytes of an ELF file that name its code or show how to unwind through it: headers, symbol tables, unwind tables,
//! notes, PLT stubs. It takes no other code, no data, and no DWARF except unwind tables.

use std::ops::Range;

use icecore_elf::{Svma, eh_frame_at, go};
use object::elf;
use object::read::ReadRef;
use object::read::elf::{Dyn as _, FileHeader, ProgramHeader as _, SectionHeader as _};
use object::{Endianness, FileKind};

/// The most sections and segments of a file that is examined; the reader may read 4 KiB for the name of each section.
const MAX_SECTIONS: u32 = 4 << 10;
const MAX_SEGMENTS: u16 = 1024;
/// The largest table of headers that is read, bytes.
const MAX_HEADERS_BYTES: u64 = 8 << 20;
/// The largest dynamic section that is read, bytes.
const MAX_DYNAMIC_BYTES: u64 = 64 << 10;

/// The beginnings of the names of sections that are taken.
const EMBEDDED: [&[u8]; 10] = [
    b".eh_frame",
    b".debug_frame",
    b".zdebug_frame",
    b".gnu_debugdata",
    b".gnu_debuglink",
    b".gnu_debugaltlink",
    b".note.",
    b".plt",
    b".rela.plt",
    b".rel.plt",
];

/// Lists the requested byte ranges of a file, ascending and apart; `None` if it is no ELF file. A range may reach beyond the end
/// of the file.
pub fn ranges<'d>(file: impl ReadRef<'d>) -> Option<Vec<Range<u64>>> {
    match FileKind::parse(file).ok()? {
        FileKind::Elf32 => of::<elf::FileHeader32<Endianness>>(file),
        FileKind::Elf64 => of::<elf::FileHeader64<Endianness>>(file),
        _ => None,
    }
}

fn of<'d, E: FileHeader<Endian = Endianness>>(file: impl ReadRef<'d>) -> Option<Vec<Range<u64>>> {
    let header = E::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let (sections, segments) = (header.shnum(endian, file).ok()?, header.e_phnum(endian));
    let sections_bytes = u64::from(sections) * u64::from(header.e_shentsize(endian));
    if sections > MAX_SECTIONS || segments > MAX_SEGMENTS || sections_bytes > MAX_HEADERS_BYTES {
        return None;
    }
    let mut ranges = Stretches::default();
    ranges.add(0, size_of::<E>() as u64);
    ranges.add(header.e_phoff(endian).into(), u64::from(segments) * u64::from(header.e_phentsize(endian)));
    ranges.add(header.e_shoff(endian).into(), sections_bytes);
    for segment in header.program_headers(endian, file).ok()? {
        if [elf::PT_NOTE, elf::PT_DYNAMIC, elf::PT_GNU_EH_FRAME].contains(&segment.p_type(endian)) {
            ranges.add(segment.p_offset(endian).into(), segment.p_filesz(endian).into());
        }
    }
    if sections == 0 {
        by_segments::<E>(header, endian, file, &mut ranges);
        return Some(ranges.settled());
    }
    let table = header.sections(endian, file).ok()?;
    let of_names = header.shstrndx(endian, file).ok()?;
    let is_there = |name: &str| table.section_by_name(endian, name.as_bytes()).is_some();
    let of_go = go::SECTIONS.iter().filter(|(_, beside)| is_there(beside)).map(|(name, _)| name.as_bytes());
    for (number, section) in table.iter().enumerate() {
        let kind = section.sh_type(endian);
        let is_table = [elf::SHT_SYMTAB, elf::SHT_DYNSYM].contains(&kind);
        let name = table.section_name(endian, section).unwrap_or_default();
        let is_wanted = is_table
            || [elf::SHT_SYMTAB_SHNDX, elf::SHT_NOTE].contains(&kind)
            || number == of_names as usize
            || EMBEDDED.iter().any(|first| name.starts_with(first))
            || of_go.clone().any(|table| name == table);
        let names = is_table.then(|| section.link(endian)).and_then(|link| table.section(link).ok());
        for section in is_wanted.then_some(section).into_iter().chain(names) {
            if section.sh_type(endian) != elf::SHT_NOBITS {
                ranges.add(section.sh_offset(endian).into(), section.sh_size(endian).into());
            }
        }
    }
    Some(ranges.settled())
}

/// Takes a file without section headers: finds dynamic symbols by the dynamic section, and unwind tables by `.eh_frame_hdr`.
fn by_segments<'d, E: FileHeader<Endian = Endianness>>(
    header: &E,
    endian: Endianness,
    file: impl ReadRef<'d>,
    ranges: &mut Stretches,
) {
    let Ok(segments) = header.program_headers(endian, file) else { return };
    // Returns the offset of an address, and how much of its segment follows there.
    let place = |address: u64| {
        let loads = segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        loads.into_iter().find_map(|load| {
            let into = address.checked_sub(load.p_vaddr(endian).into())?;
            let left = load.p_filesz(endian).into().checked_sub(into)?;
            Some((load.p_offset(endian).into().checked_add(into)?, left))
        })
    };
    for segment in segments {
        match segment.p_type(endian) {
            elf::PT_GNU_EH_FRAME => {
                let table = file.read_bytes_at(segment.p_offset(endian).into(), 8).unwrap_or_default();
                let Some(at) = eh_frame_at(table, Svma(segment.p_vaddr(endian).into()), endian) else {
                    continue;
                };
                // Unwind tables mark their own end.
                if let Some((off, left)) = place(at.0) {
                    ranges.add(off, left);
                }
            }
            elf::PT_DYNAMIC if segment.p_filesz(endian).into() <= MAX_DYNAMIC_BYTES => {
                let rows = segment.dynamic(endian, file).ok().flatten().unwrap_or_default();
                let value = |tag| {
                    let row = rows.iter().find(|row| row.d_tag(endian) == tag)?;
                    Some(row.d_val(endian).into())
                };
                // Linkers put hashes, symbols and names one after the other.
                let tables = [elf::DT_HASH, elf::DT_GNU_HASH, elf::DT_SYMTAB, elf::DT_STRTAB].map(value);
                let first = tables.into_iter().flatten().filter_map(&place).min();
                let names = value(elf::DT_STRTAB).and_then(place).zip(value(elf::DT_STRSZ));
                if let (Some((first, _)), Some(((names, _), names_len))) = (first, names) {
                    ranges.add(first, (names - first).saturating_add(names_len));
                }
            }
            _ => {}
        }
    }
}

/// Byte ranges of a file.
#[derive(Debug, Default)]
struct Stretches(Vec<Range<u64>>);

impl Stretches {
    fn add(&mut self, off: u64, len: u64) {
        let end = off.saturating_add(len);
        if off < end {
            self.0.push(off..end);
        }
    }

    /// Sorts the ranges, and joins those that touch or overlap.
    fn settled(mut self) -> Vec<Range<u64>> {
        self.0.sort_unstable_by_key(|stretch| (stretch.start, stretch.end));
        let mut settled: Vec<Range<u64>> = Vec::new();
        for stretch in self.0 {
            match settled.last_mut() {
                Some(last) if stretch.start <= last.end => last.end = last.end.max(stretch.end),
                _ => settled.push(stretch),
            }
        }
        settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object as _, ObjectSection as _};

    fn own() -> Vec<u8> {
        std::fs::read("/proc/self/exe").expect("we are running")
    }

    fn has(ranges: &[Range<u64>], off: u64, len: u64) -> bool {
        ranges.iter().any(|stretch| stretch.start <= off && off + len <= stretch.end)
    }

    #[test]
    fn symbols_and_unwind_rules_are_wanted_and_neither_code_nor_lines() {
        let bytes = own();
        let ranges = ranges(&bytes[..]).expect("ELF");
        let file = object::File::parse(&bytes[..]).expect("ELF");
        let place = |name| file.section_by_name(name).and_then(|section| section.file_range());
        let names = [".symtab", ".strtab", ".dynsym", ".dynstr", ".eh_frame", ".eh_frame_hdr", ".shstrtab"];
        for (off, len) in names.into_iter().filter_map(place) {
            assert!(has(&ranges, off, len), "{off}");
        }
        for (off, len) in [".text", ".rodata", ".debug_info", ".debug_line"].into_iter().filter_map(place) {
            assert!(!ranges.iter().any(|stretch| stretch.contains(&(off + len / 2))), "{off}");
        }
        assert!(ranges.is_sorted_by(|a, b| a.end < b.start) && has(&ranges, 0, 64));
        assert!(
            ranges.iter().map(|stretch| stretch.end - stretch.start).sum::<u64>() < bytes.len() as u64 / 2
        );
    }

    #[test]
    fn without_section_headers_the_segments_lead_to_the_same() {
        let mut bytes = own();
        let (rules, symbols) = {
            let file = object::File::parse(&bytes[..]).expect("ELF");
            let place = |name| file.section_by_name(name).and_then(|section| section.file_range());
            (place(".eh_frame").expect("unwind tables"), place(".dynsym").expect("it is linked dynamically"))
        };
        // e_shoff, and e_shnum with e_shstrndx.
        bytes[40..48].fill(0);
        bytes[60..64].fill(0);
        let ranges = ranges(&bytes[..]).expect("ELF");
        assert!(has(&ranges, rules.0, rules.1) && has(&ranges, symbols.0, symbols.1), "{ranges:x?}");
    }

    #[test]
    fn what_is_no_program_wants_nothing_and_what_is_torn_does_no_harm() {
        let bytes = own();
        for len in [0, 3, 63, 64, 200, bytes.len() / 2] {
            drop(ranges(&bytes[..len]));
        }
        assert_eq!(ranges(&[0; 4096][..]), None);
    }
}
