//! What a loader is told to write where, as far as names depend on it.

use object::Endianness;

use crate::image::{ElfFile, Layout};

/// Bytes of an `Elf64_Rela`: place, symbol and kind, addend; 8 each.
const LEN: usize = 24;

/// One relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Relocation {
    /// Address of what is written.
    pub(super) place: u64,
    /// Position in `.dynsym`; 0 if it needs no symbol.
    pub(super) symbol: u32,
    pub(super) addend: u64,
}

/// Hands over the relocations of a section until one is enough; of images of 64 bits, with addends.
pub(super) fn each<T>(
    file: &ElfFile,
    layout: &Layout,
    section: &str,
    mut take: impl FnMut(Relocation) -> Option<T>,
) -> Option<T> {
    let section = layout.section(section).filter(|_| layout.address_size == 8)?;
    let bytes = file.section_bytes(section)?;
    let number = |row: &[u8], off: usize| {
        let number = row[off..].first_chunk().copied().unwrap_or_default();
        match layout.endian {
            Endianness::Little => u64::from_le_bytes(number),
            Endianness::Big => u64::from_be_bytes(number),
        }
    };
    bytes.chunks_exact(LEN).find_map(|row| {
        let symbol = (number(row, 8) >> 32) as u32;
        take(Relocation { place: number(row, 0), symbol, addend: number(row, 16) })
    })
}
