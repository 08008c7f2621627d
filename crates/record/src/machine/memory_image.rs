//! The ELF file of an image as its process has it in memory, for files that nobody else may open: not even root may on FUSE without
//! `allow_other`, or on NFS with `root_squash`.
//!
//! ```text
//! file      [ headers, names ][ code ][ .eh_frame ][ data ][ sections' headers ]
//! memory    [ r--            ][ r-x  ][ r--       ][ rw-  ]
//! here      the pages that are in memory, at their offsets in the file; the rest is zeros that nothing refers to
//! ```
//!
//! Only pages that are in memory are read: for others the kernel would ask the file system, whose server may never answer. Tables of which a
//! page is missing are left out.

use std::ops::Range;

use object::Endianness;
use object::elf::{self, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _, GnuHashTable, HashTable, ProgramHeader as _};

use super::identity::Identity;
use crate::foreign::Door;
use crate::foreign::memory::{Memory, PAGE};
use crate::proc::maps;

type Header = FileHeader64<Endianness>;

/// A file as it was put together.
#[derive(Debug)]
pub(crate) struct MemoryImage {
    pub(crate) bytes: Vec<u8>,
    /// It has unwind tables and dynamic symbols.
    pub(crate) is_whole: bool,
}

/// The pages of an image that are in memory.
struct Pages {
    bytes: Vec<u8>,
    there: Vec<bool>,
    /// The first address of the mapping whose offset in the file is 0.
    begin: u64,
}

/// Puts together what a process has in memory of a file; `None` if its headers are not there, it is not ELF of this machine's word size, or it
/// is larger than `most_bytes`.
/// The file has the sections `.dynsym` and `.dynstr` at most.
pub(crate) fn image(tgid: u32, identity: &Identity, most_bytes: u64, door: &Door) -> Option<MemoryImage> {
    let pages = Pages::read(identity, most_bytes, Memory::of(tgid, door))?;
    let (tables, dynamic) = pages.tables()?;
    let is_whole = tables.as_ref().is_some_and(|tables| tables.is_there) && dynamic.is_some();
    let mut bytes = pages.bytes;
    // The index of unwind tables is of no use without them.
    if let Some(header) = tables.filter(|tables| !tables.is_there).map(|tables| tables.header) {
        bytes[header..header + 4].copy_from_slice(&elf::PT_NULL.0.to_le_bytes());
    }
    add_sections(&mut bytes, dynamic);
    Some(MemoryImage { bytes, is_whole })
}

/// The unwind tables: where their program header is, and whether all of their pages are there.
struct UnwindTables {
    header: usize,
    is_there: bool,
}

/// Where the dynamic symbols and their names are: offset and bytes.
struct Dynamic {
    symbols: Range<u64>,
    strings: Range<u64>,
}

impl Pages {
    fn read(identity: &Identity, most_bytes: u64, memory: Memory<'_>) -> Option<Self> {
        let text = memory.maps().ok()?;
        let is_own = |line: &maps::MapsLine<'_>| {
            *line.path == *identity.path && line.inode != 0 && [0, line.inode].contains(&identity.inode)
        };
        let lines: Vec<_> = maps::all(&text).filter(|line| is_own(line) && !line.is_writable).collect();
        let len = lines.iter().map(|line| line.file_off.saturating_add(line.end - line.start)).max()?;
        let len = Some(len).filter(|len| (PAGE..=most_bytes).contains(len))?;
        let begin = lines.iter().find(|line| line.file_off == 0)?.start;
        let mut pages =
            Self { bytes: vec![0; len as usize], there: vec![false; (len / PAGE) as usize], begin };
        for line in &lines {
            memory.parts(line.start..line.end, |at, bytes| {
                let from = (at - line.start + line.file_off) as usize;
                for (number, page) in bytes.as_chunks::<{ PAGE as usize }>().0.iter().enumerate() {
                    let from = from + number * PAGE as usize;
                    // A page at the border of two segments is there twice; the first one is as in the file.
                    if !std::mem::replace(&mut pages.there[from / PAGE as usize], true) {
                        pages.bytes[from..from + PAGE as usize].copy_from_slice(page);
                    }
                }
            });
        }
        Some(pages)
    }

    /// Returns true if all of these bytes of the file are there.
    fn has(&self, range: &Range<u64>) -> bool {
        let pages = (range.start / PAGE) as usize..range.end.div_ceil(PAGE) as usize;
        range.start <= range.end
            && self.there.get(pages).is_some_and(|pages| pages.iter().all(|there| *there))
    }

    /// Finds the tables by the program headers; `None` if these are not there.
    fn tables(&self) -> Option<(Option<UnwindTables>, Option<Dynamic>)> {
        let data = &self.bytes[..];
        let header = Some(Header::parse(data).ok()?)
            .filter(|header| header.is_little_endian() && self.has(&(0..64)))?;
        let endian = header.endian().ok()?;
        let segments = header.program_headers(endian, data).ok()?;
        let headers_at = header.e_phoff(endian);
        self.has(&(headers_at..headers_at + size_of_val(segments) as u64)).then_some(())?;
        let loads = || segments.iter().filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let range = |segment: &elf::ProgramHeader64<Endianness>| {
            segment.p_offset(endian)..segment.p_offset(endian).saturating_add(segment.p_filesz(endian))
        };
        let unwind = segments.iter().position(|segment| segment.p_type(endian) == elf::PT_GNU_EH_FRAME);
        let unwind = unwind.map(|position| {
            let index = range(&segments[position]);
            // The tables follow their index, in the same segment; nothing tells where they end.
            let around = loads().map(range).find(|load| load.contains(&index.start));
            let is_there = around.is_some_and(|load| self.has(&(index.start..load.end)));
            UnwindTables { header: headers_at as usize + position * size_of_val(&segments[0]), is_there }
        });
        let dynamic = || {
            let table = segments.iter().find(|segment| segment.p_type(endian) == elf::PT_DYNAMIC)?;
            self.has(&range(table)).then_some(())?;
            let rows = table.dynamic(endian, data).ok()??;
            // The dynamic linker may have made addresses of the file to those of memory.
            let first = loads().next()?;
            let bias = self.begin.wrapping_sub(first.p_vaddr(endian).wrapping_sub(first.p_offset(endian)));
            let offset = |address: u64| {
                let of = |at: u64| {
                    let load = loads().find(|load| {
                        at.checked_sub(load.p_vaddr(endian)).is_some_and(|into| into < load.p_filesz(endian))
                    })?;
                    Some((at - load.p_vaddr(endian)).wrapping_add(load.p_offset(endian)))
                };
                of(address).or_else(|| of(address.wrapping_sub(bias)))
            };
            let value = |tag: elf::DynamicTag| {
                rows.iter().find(|row| row.tag(endian) == tag).map(|row| row.val(endian))
            };
            let (symbols, strings) = (offset(value(elf::DT_SYMTAB)?)?, offset(value(elf::DT_STRTAB)?)?);
            let hash = |tag| data.get(offset(value(tag)?)? as usize..);
            let count = hash(elf::DT_GNU_HASH)
                .and_then(|hash| {
                    GnuHashTable::<Header>::parse(endian, hash).ok()?.symbol_table_length(endian)
                })
                .or_else(|| {
                    Some(HashTable::<Header>::parse(endian, hash(elf::DT_HASH)?).ok()?.symbol_table_length())
                })?;
            let symbol_bytes = u64::from(count) * size_of::<elf::Sym64<Endianness>>() as u64;
            let found = Dynamic {
                symbols: symbols..symbols.checked_add(symbol_bytes)?,
                strings: strings..strings.checked_add(value(elf::DT_STRSZ)?)?,
            };
            (self.has(&found.symbols) && self.has(&found.strings)).then_some(found)
        };
        Some((unwind, dynamic()))
    }
}

/// Gives the file the headers of sections for its dynamic symbols, or of none.
///
/// # Source
/// System V ABI, "Section Header" and the offsets of the fields of an ELF-64 header
fn add_sections(bytes: &mut Vec<u8>, dynamic: Option<Dynamic>) {
    const NAMES: &[u8] = b"\0.dynsym\0.dynstr\0.shstrtab\0";
    const SECTIONS_AT: usize = 40;
    const ENTRY_BYTES_AT: usize = 58;
    const COUNT_AT: usize = 60;
    const NAMES_AT: usize = 62;
    let names = bytes.len() as u64..(bytes.len() + NAMES.len()) as u64;
    bytes.extend_from_slice(NAMES);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let headers_at = bytes.len() as u64;
    let mut count = 0_u16;
    if let Some(Dynamic { symbols, strings }) = dynamic {
        let entry = size_of::<elf::Sym64<Endianness>>() as u64;
        // Name, kind, place, the section of the names and the first global symbol, bytes of an entry.
        let sections = [
            (0, elf::SHT_NULL, 0..0, [0, 0], 0),
            (1, elf::SHT_DYNSYM, symbols, [2, 1], entry),
            (9, elf::SHT_STRTAB, strings, [0, 0], 0),
            (17, elf::SHT_STRTAB, names, [0, 0], 0),
        ];
        for (name, kind, Range { start, end }, links, entry) in sections {
            [name, kind.0].iter().for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
            [0, 0, start, end - start].iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
            links.iter().for_each(|word: &u32| bytes.extend(word.to_le_bytes()));
            [1, entry].iter().for_each(|word: &u64| bytes.extend(word.to_le_bytes()));
            count += 1;
        }
    }
    let headers_at = if count > 0 { headers_at } else { 0 };
    bytes[SECTIONS_AT..SECTIONS_AT + 8].copy_from_slice(&headers_at.to_le_bytes());
    for (at, value) in [(ENTRY_BYTES_AT, 64), (COUNT_AT, count), (NAMES_AT, count.saturating_sub(1))] {
        bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use icecore_elf::{Beginnings, FileOff, Layout, Svma, SymbolTable};

    use super::*;
    use crate::machine::identity::Identities;

    /// A mapping of the C library in this process, and its bytes in the file.
    fn library() -> (Identity, Vec<u8>, Vec<(u64, u64)>) {
        let text = std::fs::read("/proc/self/maps").expect("we are running");
        let is_it = |line: &maps::MapsLine<'_>| String::from_utf8_lossy(&line.path).ends_with("/libc.so.6");
        let lines: Vec<_> = maps::all(&text).filter(is_it).collect();
        let identity = Identities::new(Door::of_test()).of_maps_line(std::process::id(), &lines[0]);
        let file = std::fs::read(String::from_utf8_lossy(&lines[0].path).as_ref()).expect("it is there");
        (identity, file, lines.iter().map(|line| (line.start, line.end)).collect())
    }

    #[test]
    fn the_image_of_a_library_has_its_code_tables_and_names() {
        let (identity, file, lines) = library();
        let mem = File::open("/proc/self/mem").expect("our own");
        for (start, end) in lines {
            // Reading brings it into memory.
            let _ = mem.read_exact_at(&mut vec![0; (end - start) as usize], start);
        }
        let (own, door) = (std::process::id(), Door::of_test());
        let MemoryImage { bytes, is_whole } = image(own, &identity, 64 << 20, &door).expect("it is mapped");
        assert!(is_whole);
        let (here, there) = (Layout::read(&bytes[..]).expect("ELF"), Layout::read(&file[..]).expect("ELF"));
        assert_eq!((&here.build_id, here.unwind_table), (&there.build_id, there.unwind_table));
        for Range { start, end } in there.code_offsets() {
            assert!(bytes[start as usize..end as usize] == file[start as usize..end as usize]);
        }
        let (_, FileOff(tables), len) = there.unwind_table.expect("it has tables");
        let tables = tables as usize..(tables + len) as usize;
        assert!(bytes[tables.clone()] == file[tables]);
        let none = Beginnings { unwound: &|_| None, referred: &|_| None };
        let code = there.code_segments().next().expect("it has code");
        let at: Vec<Svma> = (code.start..code.end).step_by(4096).map(Svma).collect();
        let names = |file: &[u8]| -> Vec<Option<Svma>> {
            let found = SymbolTable::Dynamic.around(file, &at, none).expect("it has names");
            found.into_iter().map(|symbol| symbol.map(|symbol| symbol.start)).collect()
        };
        assert_eq!(names(&bytes), names(&file));
        assert!(names(&bytes).iter().flatten().count() > 20);
        assert!(image(own, &identity, 4096, &door).is_none());
        assert!(image(u32::MAX, &identity, 64 << 20, &door).is_none());
    }

    #[test]
    fn headers_that_lie_are_not_followed() {
        let (identity, _, _) = library();
        let door = Door::of_test();
        let memory = Memory::of(std::process::id(), &door);
        let whole = Pages::read(&identity, 64 << 20, memory).expect("it is mapped");
        let headers = 64 + 56 * 16;
        for at in 0..headers {
            for byte in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.bytes[..64 << 10].to_vec();
                let there = vec![true; bytes.len() / PAGE as usize];
                bytes[at] = byte;
                let pages = Pages { bytes, there, begin: whole.begin };
                let (end, found) = (pages.bytes.len() as u64, pages.tables());
                let Some((_, Some(dynamic))) = found else { continue };
                assert!(dynamic.symbols.end <= end && dynamic.strings.end <= end, "byte {byte} at {at}");
            }
        }
    }
}
