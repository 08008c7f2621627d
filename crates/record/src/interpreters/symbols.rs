//! Symbols that a file exports.

use std::ops::Range;

use icecore_elf::Svma;
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{Endianness, Object as _, ObjectSection as _, ObjectSymbol as _};

/// The most symbols that are looked at.
const MAX_SYMBOLS: usize = 64 << 10;
/// The size of a constant.
const CONSTANT_BYTES: u64 = 4;

/// Finds symbols by name: the addresses that each extends over, in the order of `names`.
pub(super) fn exported<'d, const N: usize>(
    file: impl object::ReadRef<'d>,
    names: [&str; N],
) -> Option<[Option<Range<Svma>>; N]> {
    let file = ElfFile::<FileHeader64<Endianness>, _>::parse(file).ok()?;
    let mut found = [const { None }; N];
    for symbol in file.dynamic_symbols().take(MAX_SYMBOLS).filter(|it| it.is_definition() || it.size() > 0) {
        let Ok(name) = symbol.name() else { continue };
        if let Some(at) = names.iter().position(|it| *it == name) {
            found[at] = Some(Svma(symbol.address())..Svma(symbol.address().saturating_add(symbol.size())));
        }
    }
    Some(found)
}

/// Reads a constant of a file, of four bytes.
pub(super) fn constant<'d>(file: impl object::ReadRef<'d>, at: Svma) -> Option<u32> {
    let file = ElfFile::<FileHeader64<Endianness>, _>::parse(file).ok()?;
    let section = file.sections().find(|it| it.address() <= at.0 && at.0 - it.address() < it.size())?;
    let bytes = section.data_range(at.0, CONSTANT_BYTES).ok()??;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}
