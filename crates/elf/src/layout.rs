//! Reads what the headers of an ELF file say: segments, sections, build-id.

use std::ops::Range;

use object::elf::{self, FileHeader32, FileHeader64};
use object::read::ReadRef;
use object::read::elf::{CompressionHeader, FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, FileKind};

use crate::build_id;
use crate::{Capped, FileOff, Svma};

/// The largest single piece of headers that is read, in bytes; 65,535 section headers need 4 MiB.
const MAX_READ_LEN: u64 = 16 << 20;
/// The most sections that are looked at; `-ffunction-sections` objects are not mapped for execution.
const MAX_SECTIONS: usize = 1 << 16;

/// Where things are in an ELF file.
#[derive(Debug, Clone)]
pub struct Layout {
    /// Empty if there is none.
    pub build_id: Vec<u8>,
    /// In the order of their headers.
    pub sections: Vec<Section>,
    /// Address, offset and length of `.eh_frame_hdr` by the program headers, which survive every kind of stripping.
    pub unwind_table: Option<(Svma, FileOff, u64)>,
    /// Byte order of its data.
    pub endian: Endianness,
    /// Bytes of an address.
    pub address_size: u8,
    /// As its header has it (`e_machine`).
    pub machine: elf::Machine,
    /// Where a program begins.
    pub entry: Svma,
    loads: Vec<Load>,
}

/// One section header.
#[derive(Debug, Clone)]
pub struct Section {
    /// Its name, such as `.text`.
    pub name: Vec<u8>,
    /// Where it lies in memory; 0 if it is not loaded.
    pub at: Svma,
    /// Where it lies in the file.
    pub off: FileOff,
    /// Bytes in the file.
    pub len: u64,
    /// Declared size after decompression, if it is compressed.
    pub compressed_from: Option<u64>,
    /// It has no bytes in the file.
    pub is_nobits: bool,
    /// It holds code.
    pub is_executable: bool,
}

/// One PT_LOAD segment.
#[derive(Debug, Clone, Copy)]
struct Load {
    at: Svma,
    off: FileOff,
    /// Bytes in the file.
    len: u64,
    /// Bytes in memory.
    memory_len: u64,
    is_executable: bool,
    is_writable: bool,
}

impl Layout {
    /// Reads the headers; `None` if this is not ELF, or they are broken.
    pub fn read<'d>(file: impl ReadRef<'d>) -> Option<Self> {
        let data = Capped { file, most_bytes: MAX_READ_LEN };
        match FileKind::parse(data).ok()? {
            FileKind::Elf32 => read::<FileHeader32<Endianness>, _>(data, 4),
            FileKind::Elf64 => read::<FileHeader64<Endianness>, _>(data, 8),
            _ => None,
        }
    }

    /// Maps a file offset to its address; executable segments first, because linkers let segments overlap in
    /// the file (the page at a border is mapped twice) and a sampled address is always in the executable one.
    ///
    /// ```text
    /// file     ───────[ off ─────── x ──── off+len ]────
    ///                   │           │
    /// SVMA     ────────[ at ─────── at + (x-off) ]──────
    /// ```
    pub fn svma(&self, x: FileOff) -> Option<Svma> {
        self.in_segment(x, true).or_else(|| self.in_segment(x, false))
    }

    fn in_segment(&self, x: FileOff, is_executable: bool) -> Option<Svma> {
        let inside = |load: &&Load| x >= load.off && x.0 - load.off.0 < load.len;
        let load = self.loads.iter().filter(|load| load.is_executable || !is_executable).find(inside)?;
        load.at.0.checked_add(x.0 - load.off.0).map(Svma)
    }

    /// Lists the code that a process has in a range of its memory if the file is mapped there: the addresses, and the offset of the first
    /// byte. `line` is another mapping of the file in that process: its first address, and the offset there. Where the segments of the
    /// file share a page, there are several answers, of which one is right.
    pub fn code_beside(&self, line: (u64, FileOff), memory: &Range<u64>) -> Vec<(Range<u64>, FileOff)> {
        const PAGE: u64 = 4096;
        let (start, off) = line;
        let maps =
            |load: &&Load| (load.off.0 & !(PAGE - 1)..load.off.0.saturating_add(load.len)).contains(&off.0);
        let bias = |load: &Load| start.wrapping_sub(off.0).wrapping_sub(load.at.0.wrapping_sub(load.off.0));
        let mut biases: Vec<u64> = self.loads.iter().filter(maps).map(bias).collect();
        biases.sort_unstable();
        biases.dedup();
        let code = |bias: u64| {
            let executable = self.loads.iter().filter(|load| load.is_executable);
            executable.filter_map(move |load| {
                let begin = load.at.0.wrapping_add(bias);
                let range = begin.max(memory.start)..begin.checked_add(load.len)?.min(memory.end);
                let off = load.off.0.checked_add(range.start - begin)?;
                (range.start < range.end).then_some((range, FileOff(off)))
            })
        };
        biases.into_iter().flat_map(code).collect()
    }

    /// Reports whether the executable segments are as the linker made them: then they have the same size in the
    /// file and in memory. A tool that takes code out and changes the offsets changes the size as well.
    pub fn has_code_offsets(&self) -> bool {
        let mut code = self.loads.iter().filter(|load| load.is_executable).peekable();
        code.peek().is_some() && code.all(|load| load.len == load.memory_len)
    }

    /// Leaves no bytes to sections of which one is missing: they read as zeros, and are none.
    pub fn keep_only(&mut self, is_there: impl Fn(FileOff, u64) -> bool) {
        for section in &mut self.sections {
            if !section.is_nobits && !is_there(section.off, section.len) {
                (section.is_nobits, section.compressed_from) = (true, None);
            }
        }
        self.unwind_table = self.unwind_table.filter(|(_, off, len)| is_there(*off, *len));
    }

    /// Reports whether the bytes of the code are in the file; in a debug file they are not.
    pub fn has_code(&self) -> bool {
        self.loads.iter().any(|load| load.is_executable && load.len > 0)
            && !self.sections.iter().any(|section| section.is_executable && section.is_nobits)
    }

    /// Reports whether there is DWARF, compressed in any way or not.
    pub fn has_dwarf(&self) -> bool {
        self.has(".debug_info") || self.has(".zdebug_info")
    }

    /// Finds a section by its name.
    pub fn section(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name.as_bytes())
    }

    /// Maps a file offset of code to its address; `None` if it is in no executable segment.
    pub fn code(&self, x: FileOff) -> Option<Svma> {
        self.in_segment(x, true)
    }

    /// Reports whether a process has a byte of the file in writable memory twice: the segment of the byte begins in the page in which an
    /// earlier writable segment ends, so that the page is mapped for both. Only the later copy is what the program uses.
    ///
    /// ```text
    /// file       ─────[ relro ][ data  x ]─────
    ///              │      page       │
    /// memory     ──[ relro  (x) ]──[ …  x ]────
    /// ```
    pub fn is_writable_twice(&self, x: FileOff, page_bytes: u64) -> bool {
        let page = page_bytes.max(1);
        let has = |load: &&Load| {
            let end = load.off.0.saturating_add(load.len).div_ceil(page).saturating_mul(page);
            load.is_writable && load.len > 0 && (load.off.0 / page * page..end).contains(&x.0)
        };
        self.loads.iter().filter(has).count() > 1
    }

    /// Reads the bytes of a section; `None` if it is compressed, torn, or has none in the file.
    pub fn bytes_of<'d>(&self, section: &Section, file: impl ReadRef<'d>) -> Option<&'d [u8]> {
        let is_plain = section.compressed_from.is_none() && !section.is_nobits;
        is_plain.then(|| file.read_bytes_at(section.off.0, section.len).ok())?
    }

    /// Reports whether a section is there and has bytes.
    pub fn has(&self, name: &str) -> bool {
        self.section(name).is_some_and(|section| section.len > 0 && !section.is_nobits)
    }

    /// The address of the first loadable segment, to which addresses of profiles are relative; 0 if there is none.
    pub fn begin(&self) -> Svma {
        self.loads.first().map_or(Svma(0), |load| load.at)
    }

    /// The lowest address of an executable segment; 0 if there is none.
    pub fn code_begin(&self) -> Svma {
        self.loads.iter().filter(|load| load.is_executable).map(|load| load.at).min().unwrap_or(Svma(0))
    }

    /// Reports whether two addresses are in the same section.
    pub fn are_in_one_section(&self, a: Svma, b: Svma) -> bool {
        let has = |section: &Section, at: Svma| at >= section.at && at.0 - section.at.0 < section.len;
        self.sections.iter().any(|section| section.is_executable && has(section, a) && has(section, b))
    }

    /// Reports whether an address is in an executable segment.
    pub fn is_code(&self, at: Svma) -> bool {
        self.loads.iter().any(|load| load.is_executable && at >= load.at && at.0 - load.at.0 < load.len)
    }

    /// The addresses of executable segments.
    pub fn code_segments(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let code = self.loads.iter().filter(|load| load.is_executable);
        code.map(|load| load.at.0..load.at.0.saturating_add(load.len))
    }

    /// The offsets of executable segments in the file.
    pub fn code_offsets(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let code = self.loads.iter().filter(|load| load.is_executable);
        code.map(|load| load.off.0..load.off.0.saturating_add(load.len))
    }

    /// Reports whether the file is of 64 bits and little-endian, as those of each [`Machine`](crate::Machine) are.
    pub fn is_little_64(&self) -> bool {
        self.address_size == 8 && self.endian == Endianness::Little
    }

    /// Finds the bytes in the file from an address to the end of its segment.
    pub fn rest_of_segment(&self, at: Svma) -> Option<(FileOff, u64)> {
        let load = self.loads.iter().find(|load| at >= load.at && at.0 - load.at.0 < load.len)?;
        let skip = at.0 - load.at.0;
        Some((FileOff(load.off.0.checked_add(skip)?), load.len - skip))
    }
}

fn read<'d, E, R>(data: R, address_size: u8) -> Option<Layout>
where
    E: FileHeader<Endian = Endianness>,
    R: ReadRef<'d>,
{
    let header = E::parse(data).ok()?;
    let endian = header.endian().ok()?;
    let segments = header.program_headers(endian, data).ok()?;
    let table = header.sections(endian, data).ok()?;

    let build_id = build_id::of_segments(segments, endian, data);
    let mut layout = Layout {
        build_id: build_id.or_else(|| build_id::of_sections(&table, endian, data)).unwrap_or_default(),
        sections: Vec::new(),
        unwind_table: None,
        endian,
        address_size,
        machine: header.e_machine(endian),
        entry: Svma(header.e_entry(endian).into()),
        loads: Vec::new(),
    };
    for segment in segments {
        let (at, off) = (Svma(segment.p_vaddr(endian).into()), FileOff(segment.p_offset(endian).into()));
        let len = segment.p_filesz(endian).into();
        match segment.p_type(endian) {
            elf::PT_LOAD => {
                let is_executable = segment.p_flags(endian).contains(elf::PF_X);
                let memory_len = segment.p_memsz(endian).into();
                let is_writable = segment.p_flags(endian).contains(elf::PF_W);
                layout.loads.push(Load { at, off, len, memory_len, is_executable, is_writable });
            }
            elf::PT_GNU_EH_FRAME => layout.unwind_table = Some((at, off, len)),
            _ => {}
        }
    }
    for section in table.iter().take(MAX_SECTIONS) {
        let len = section.sh_size(endian).into();
        layout.sections.push(Section {
            name: table.section_name(endian, section).unwrap_or_default().to_vec(),
            at: Svma(section.sh_addr(endian).into()),
            off: FileOff(section.sh_offset(endian).into()),
            len,
            compressed_from: match section.compression(endian, data) {
                Ok(None) => None,
                Ok(Some((header, _, _))) => Some(header.ch_size(endian).into()),
                Err(_) => Some(u64::MAX),
            },
            is_nobits: section.sh_type(endian) == elf::SHT_NOBITS,
            is_executable: section.sh_flags(endian).contains(elf::SHF_EXECINSTR),
        });
    }
    Some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(loads: Vec<Load>) -> Layout {
        Layout {
            build_id: Vec::new(),
            sections: Vec::new(),
            unwind_table: None,
            endian: Endianness::Little,
            address_size: 8,
            machine: elf::EM_X86_64,
            entry: Svma(0),
            loads,
        }
    }

    fn load(off: u64, at: u64, len: u64, is_executable: bool) -> Load {
        Load {
            at: Svma(at),
            off: FileOff(off),
            len,
            memory_len: len,
            is_executable,
            is_writable: !is_executable,
        }
    }

    #[test]
    fn a_page_of_two_writable_segments_is_in_memory_twice() {
        // As lld lays out a program: code, data that is read-only after the start, data.
        let mut layout = layout(vec![
            load(0x7c0, 0x17c0, 0x2e0, true),
            load(0xaa0, 0x2aa0, 0x1d8, false),
            load(0xc78, 0x3c78, 0x60, false),
        ]);
        for (off, page, expected) in
            [(0xc88, 0x1000, true), (0xaa0, 0x1000, true), (0xc88, 0x10, false), (0x1c88, 0x1000, false)]
        {
            assert_eq!(layout.is_writable_twice(FileOff(off), page), expected, "{off:#x}");
        }
        // As GNU ld does: both are one segment.
        layout.loads.remove(1);
        assert!(!layout.is_writable_twice(FileOff(0xc88), 0x1000));
    }

    #[test]
    fn an_offset_in_two_segments_is_in_the_executable_one() {
        let both = layout(vec![load(0, 0x1000, 0x900, false), load(0x800, 0x3800, 0x100, true)]);
        assert_eq!(both.svma(FileOff(0x7ff)), Some(Svma(0x17ff)));
        assert_eq!(both.svma(FileOff(0x800)), Some(Svma(0x3800)));
        assert_eq!(both.svma(FileOff(0x8ff)), Some(Svma(0x38ff)));
        assert_eq!(both.svma(FileOff(0x900)), None);
        assert!(both.is_code(Svma(0x38ff)) && !both.is_code(Svma(0x17ff)) && !both.is_code(Svma(0x3900)));
        assert_eq!(both.rest_of_segment(Svma(0x38f0)), Some((FileOff(0x8f0), 0x10)));
    }

    #[test]
    fn segments_at_the_end_of_the_numbers_do_not_overflow() {
        let last = layout(vec![load(u64::MAX - 1, u64::MAX, u64::MAX, true)]);
        assert_eq!(last.svma(FileOff(u64::MAX - 1)), Some(Svma(u64::MAX)));
        assert_eq!(last.svma(FileOff(u64::MAX)), None);
        assert_eq!(last.rest_of_segment(Svma(u64::MAX)), Some((FileOff(u64::MAX - 1), u64::MAX)));
    }
}
