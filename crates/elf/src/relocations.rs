//! Reads the relocations that name symbols: which address the loader writes to which location.

use object::Endian as _;
use object::read::ReadRef;

use crate::{Layout, Svma};

/// Bytes of an `Elf64_Rela`: place, symbol and kind, addend; 8 each.
const LEN: usize = 24;

/// One relocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Relocation {
    /// Address of what is written.
    pub(crate) place: Svma,
    /// Position in `.dynsym`; 0 if it needs no symbol.
    pub(crate) symbol: u32,
    pub(crate) addend: u64,
}

/// Lists the relocations of a section; of images of 64 bits, with addends.
pub(crate) fn of<'d>(
    file: impl ReadRef<'d>,
    layout: &Layout,
    section: &str,
) -> impl Iterator<Item = Relocation> {
    let section = layout.section(section).filter(|_| layout.address_size == 8);
    let bytes = section.and_then(|section| layout.bytes_of(section, file)).unwrap_or_default();
    let endian = layout.endian;
    bytes.as_chunks::<LEN>().0.iter().map(move |row| {
        let [place, info, addend] = [0, 1, 2].map(|word| endian.read_u64(row.as_chunks().0[word]));
        Relocation { place: Svma(place), symbol: (info >> 32) as u32, addend }
    })
}
