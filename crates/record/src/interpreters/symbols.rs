//! Symbols that a file exports.

use std::ops::Range;

use icecore_elf::Svma;
use object::elf::{FileHeader64, SHT_DYNSYM, gnu_hash};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use object::{Endianness, ReadRef};

/// The size of a constant.
const CONSTANT_BYTES: u64 = 4;

/// Finds symbols by name, as a linker does (`.gnu.hash`): the addresses that each extends over, in the order of `names`.
pub(super) fn exported<'d, const N: usize>(
    file: impl ReadRef<'d>,
    names: [&str; N],
) -> Option<[Option<Range<Svma>>; N]> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let (hashes, _) = sections.gnu_hash(endian, file).ok()??;
    let symbols = sections.symbols(endian, file, SHT_DYNSYM).ok()?;
    let versions = sections.versions(endian, file).ok()?.unwrap_or_default();
    Some(names.map(|name| {
        let name = name.as_bytes();
        let (_, symbol) = hashes.find(endian, name, gnu_hash(name), None, &symbols, &versions)?;
        let start = symbol.st_value(endian);
        Some(Svma(start)..Svma(start.saturating_add(symbol.st_size(endian))))
    }))
}

/// Reads a constant of a file, of four bytes.
pub(super) fn constant<'d>(file: impl ReadRef<'d>, at: Svma) -> Option<u32> {
    let header = FileHeader64::<Endianness>::parse(file).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, file).ok()?;
    let section = sections.iter().find(|section| {
        let start = section.sh_addr(endian);
        start > 0 && (start..start.saturating_add(section.sh_size(endian))).contains(&at.0)
    })?;
    let off = section.sh_offset(endian).checked_add(at.0 - section.sh_addr(endian))?;
    let bytes = file.read_bytes_at(off, CONSTANT_BYTES).ok()?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
