//! What all readers of symbols need of an ELF file of 64 bits: its sections, and what a loader is told to write where.

use object::Endianness;
use object::elf::{self, FileHeader64, Rela64};
use object::read::ReadRef;
use object::read::elf::{FileHeader as _, SectionHeader as _, SectionTable, SymbolTable};

/// The largest table that is read, bytes: more than two million symbols.
pub(super) const MAX_TABLE_BYTES: u64 = 64 << 20;
/// The longest name that is kept, bytes.
pub(super) const MAX_NAME_BYTES: usize = 4 << 10;
/// The most sections of a file that is looked into.
const MAX_SECTIONS: u32 = 64 << 10;

/// A file, and its sections.
pub(crate) struct ElfFile<'d, R: ReadRef<'d>> {
    pub(crate) bytes: R,
    pub(crate) endian: Endianness,
    pub(crate) machine: elf::Machine,
    /// Address that the program begins at.
    pub(crate) entry: u64,
    pub(crate) sections: SectionTable<'d, FileHeader64<Endianness>, R>,
}

impl<'d, R: ReadRef<'d>> ElfFile<'d, R> {
    /// Reads the headers.
    pub(crate) fn read(bytes: R) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
        let endian = header.endian().ok()?;
        if header.shnum(endian, bytes).ok()? > MAX_SECTIONS {
            return None;
        }
        let sections = header.sections(endian, bytes).ok()?;
        let (machine, entry) = (header.e_machine(endian), header.e_entry(endian));
        Some(Self { bytes, endian, machine, entry, sections })
    }

    /// Finds a symbol table; `None` if there is too much of it.
    pub(super) fn symbols(
        &self,
        kind: elf::SectionType,
    ) -> Option<SymbolTable<'d, FileHeader64<Endianness>, R>> {
        let is_read = |other| other == kind || other == elf::SHT_SYMTAB_SHNDX;
        let read = self.sections.iter().filter(|section| is_read(section.sh_type(self.endian)));
        let len = read.fold(0, |sum: u64, section| sum.saturating_add(section.sh_size(self.endian)));
        (len <= MAX_TABLE_BYTES).then(|| self.sections.symbols(self.endian, self.bytes, kind).ok())?
    }

    /// Lists the relocations of a section; none if there are too many.
    pub(super) fn relocations(&self, section: &str) -> &'d [Rela64<Endianness>] {
        let section = self.sections.section_by_name(self.endian, section.as_bytes());
        let section = section.filter(|(_, section)| section.sh_size(self.endian) <= MAX_TABLE_BYTES);
        let rows = section.and_then(|(_, section)| section.rela(self.endian, self.bytes).ok().flatten());
        rows.map_or(&[], |(rows, _)| rows)
    }
}
