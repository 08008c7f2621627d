//! Finds functions in the table that Go's runtime names its own stacks with, which stripping leaves: `.gopclntab`.
//!
//! Lines are in it as well, but not what was inlined: a line would be that of an inlined function, under the name of the
//! one around it. So they are not read.

use std::sync::Arc;

use icecore_elf::go::{MAX_BEGINNINGS, SECTIONS, Table, Where, beginnings};
use object::Endianness;

use super::relocations;
use super::strings::Strings;
use crate::image::{ElfFile, Layout, Section, Svma};

/// Finds the names of the functions around addresses; nothing if this is no program of Go.
pub(super) fn look_up(
    file: &ElfFile,
    layout: &Layout,
    at: &[Svma],
    strings: &Strings,
) -> Vec<Option<Arc<str>>> {
    let none = || vec![None; at.len()];
    let Some(section) = section(layout).filter(|_| !at.is_empty()) else { return none() };
    let Some(bytes) = file.section_bytes(section) else { return none() };
    let Some(table) = table(file, layout, &bytes) else { return none() };
    at.iter().map(|at| Some(strings.name(table.function(at.0)?.name))).collect()
}

/// The section that the table lies in, if this is a program of Go.
pub fn section(layout: &Layout) -> Option<&Section> {
    let is_there = |name: &str| layout.section(name).is_some();
    SECTIONS.iter().filter(|(_, beside)| is_there(beside)).find_map(|(name, _)| layout.section(name))
}

/// Opens the table that lies in these bytes of its section.
pub fn table<'d>(file: &ElfFile, layout: &Layout, bytes: &'d [u8]) -> Option<Table<'d, &'d [u8]>> {
    let at = section(layout)?.at.0;
    let place = Where {
        is_big_endian: layout.endian == Endianness::Big,
        word_len: layout.address_size,
        text: layout.section(".text").map(|text| text.at.0),
        entry: layout.entry.0,
    };
    beginnings(bytes).take(MAX_BEGINNINGS).find_map(|begin| {
        let told_text = |off: u64| {
            let place = at.checked_add(begin)?.checked_add(off)?;
            let is_it = |it: relocations::Relocation| (it.place == place).then_some(it.addend);
            relocations::each(file, layout, ".rela.dyn", is_it)
        };
        Table::open(&bytes[begin as usize..], place, told_text)
    })
}
