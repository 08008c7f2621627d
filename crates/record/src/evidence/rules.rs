//! Which unwind tables of an ELF file are for some of its offsets: entries of `.eh_frame`, found by the sorted table of
//! `.eh_frame_hdr`. They are copied, not understood.

use std::collections::BTreeSet;
use std::ops::Range;

use object::Endianness;
use object::elf::{self, FileHeader64, Machine, ProgramHeader64};
use object::read::ReadRef;
use object::read::elf::{FileHeader as _, ProgramHeader as _};

/// The longest entry that is taken, bytes; real ones have tens.
pub(super) const MAX_ENTRY_BYTES: u32 = 16 << 10;
/// The most functions of one table: those of the largest programs are a tenth.
const MAX_FUNCTIONS: u32 = 4 << 20;
/// `.eh_frame_hdr` as linkers write it: version 1, pointer to `.eh_frame` relative to itself, count as u32, table of pairs
/// of i32 relative to the header.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
const HEADER_LEN: u64 = 12;

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rule {
    /// Where it lies in memory, as the file has it.
    pub(crate) at: u64,
    /// Offset in the file of its function; 0 if several share it.
    pub(crate) start: u64,
    /// What is added to that to get the function's address; 0 if several share it.
    pub(crate) bias: u64,
    pub(crate) bytes: Vec<u8>,
}

/// Finds the rules for offsets, each entry once, in the order of their addresses. What makes no sense is left out: the file
/// may be anybody's.
pub(crate) fn rules<'d>(file: impl ReadRef<'d>, offsets: impl Iterator<Item = u64>) -> Vec<Rule> {
    let Some(table) = Table::read(file) else { return Vec::new() };
    let wanted: BTreeSet<(u64, u64, u64)> = offsets.filter_map(|off| table.find(off)).collect();
    let mut rules = BTreeSet::new();
    for (at, start, bias) in wanted {
        let Some((bytes, shared)) = table.entries(file, at) else { continue };
        rules.insert(Rule { at: shared.at, start: 0, bias: 0, bytes: shared.bytes.to_vec() });
        rules.insert(Rule { at, start, bias, bytes: bytes.to_vec() });
    }
    rules.into_iter().collect()
}

/// An entry that several functions share.
pub(crate) struct Shared<'d> {
    pub(crate) at: u64,
    pub(crate) bytes: &'d [u8],
}

/// Functions by address.
pub(crate) struct Table<'d> {
    loads: Vec<&'d ProgramHeader64<Endianness>>,
    endian: Endianness,
    pub(crate) machine: Machine,
    /// Where the header lies in memory.
    at: u64,
    /// Function and entry, relative to the header; sorted by the first.
    rows: &'d [[[u8; 4]; 2]],
}

impl<'d> Table<'d> {
    pub(crate) fn read(file: impl ReadRef<'d>) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(file).ok()?;
        let endian = header.endian().ok().filter(|endian| *endian == Endianness::Little)?;
        let segments = header.program_headers(endian, file).ok()?;
        let of_type = |kind| segments.iter().filter(move |segment| segment.p_type(endian) == kind);
        let segment = of_type(elf::PT_GNU_EH_FRAME).next()?;
        let off = segment.p_offset(endian);
        let head = file.read_bytes_at(off, HEADER_LEN).ok().filter(|head| head.starts_with(&HEADER))?;
        let count = u32::from_le_bytes(*head.get(8..)?.first_chunk()?);
        if count > MAX_FUNCTIONS {
            return None;
        }
        let rows = file.read_bytes_at(off.checked_add(HEADER_LEN)?, u64::from(count) * 8).ok()?;
        let rows = rows.as_chunks::<4>().0.as_chunks::<2>().0;
        let (loads, machine) = (of_type(elf::PT_LOAD).collect(), header.e_machine(endian));
        Some(Self { loads, endian, machine, at: segment.p_vaddr(endian), rows })
    }

    /// The addresses of code.
    pub(crate) fn code(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let loads = self.loads.iter().filter(|load| load.p_flags(self.endian).0 & elf::PF_X.0 != 0);
        loads.map(|load| {
            let start = load.p_vaddr(self.endian);
            start..start.saturating_add(load.p_filesz(self.endian))
        })
    }

    /// Which functions lie in a range of addresses, by their numbers.
    pub(crate) fn functions(&self, code: &Range<u64>) -> Range<usize> {
        let before = |address| self.rows.partition_point(|row| self.address(row[0]) < address);
        before(code.start)..before(code.end)
    }

    /// The address of a function, and that of its entry.
    pub(crate) fn function(&self, number: usize) -> Option<(u64, u64)> {
        let [function, entry] = self.rows.get(number)?;
        Some((self.address(*function), self.address(*entry)))
    }

    /// The entry of a function, and what it shares with others.
    pub(crate) fn entries(&self, file: impl ReadRef<'d>, at: u64) -> Option<(&'d [u8], Shared<'d>)> {
        let bytes = self.entry(file, at)?;
        let back = u32::from_le_bytes(*bytes.get(4..8)?.first_chunk()?);
        let at = at.checked_add(4)?.checked_sub(back.into()).filter(|_| back != 0)?;
        Some((bytes, Shared { at, bytes: self.entry(file, at)? }))
    }

    /// Where the rules for an offset of code lie in memory, the offset at which they begin to hold, and the bias of that code.
    fn find(&self, off: u64) -> Option<(u64, u64, u64)> {
        let endian = self.endian;
        let load = self.loads.iter().find(|load| {
            let into = off.checked_sub(load.p_offset(endian));
            load.p_flags(endian).0 & elf::PF_X.0 != 0 && into.is_some_and(|into| into < load.p_filesz(endian))
        })?;
        let bias = load.p_vaddr(endian).wrapping_sub(load.p_offset(endian));
        let address = off.wrapping_add(bias);
        let after = self.rows.partition_point(|row| self.address(row[0]) <= address);
        let [function, entry] = self.rows.get(after.checked_sub(1)?)?;
        Some((self.address(*entry), self.address(*function).wrapping_sub(bias), bias))
    }

    /// The first address of the function that covers an address.
    pub(crate) fn start(&self, file: impl ReadRef<'d>, address: u64) -> Option<u64> {
        let after = self.rows.partition_point(|row| self.address(row[0]) <= address);
        let (begin, at) = self.function(after.checked_sub(1)?)?;
        // Length, what it shares, beginning, and how far it reaches: of four bytes each where the header is as usual.
        let len = u32::from_le_bytes(*self.entry(file, at)?.get(12..)?.first_chunk()?);
        (address - begin < u64::from(len)).then_some(begin)
    }

    fn address(&self, relative: [u8; 4]) -> u64 {
        self.at.wrapping_add_signed(i32::from_le_bytes(relative).into())
    }

    /// The entry at an address.
    fn entry(&self, file: impl ReadRef<'d>, at: u64) -> Option<&'d [u8]> {
        let load = self.loads.iter().find(|load| {
            at.checked_sub(load.p_vaddr(self.endian)).is_some_and(|into| into < load.p_filesz(self.endian))
        })?;
        let off = load.p_offset(self.endian).checked_add(at - load.p_vaddr(self.endian))?;
        let len = u32::from_le_bytes(*file.read_bytes_at(off, 4).ok()?.first_chunk()?);
        (1..=MAX_ENTRY_BYTES)
            .contains(&len)
            .then(|| file.read_bytes_at(off, u64::from(len) + 4).ok())
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn here() -> u64 {
        std::hint::black_box(7)
    }

    #[test]
    fn the_own_program_has_rules_for_its_code_and_what_they_share() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let maps = std::fs::read("/proc/self/maps").expect("we are running");
        let address = here as fn() -> u64 as usize as u64;
        assert_eq!(here(), 7);
        let line =
            crate::proc::maps::executable(&maps).find(|line| (line.start..line.end).contains(&address));
        let line = line.expect("our code is mapped");
        let off = address - line.start + line.file_off;
        let found = rules(&elf[..], [off, off + 1].into_iter());
        assert_eq!(found.len(), 2, "one function and what it shares with others: {found:?}");
        let id = |rule: &Rule| u32::from_le_bytes(*rule.bytes[4..].first_chunk().expect("an entry"));
        assert_eq!(found.iter().filter(|rule| id(rule) == 0).count(), 1);
        let function = found.iter().find(|rule| id(rule) != 0).expect("not shared");
        let shared = found.iter().find(|rule| id(rule) == 0).expect("shared");
        assert_eq!(function.at + 4 - u64::from(id(function)), shared.at);
        assert!(found.iter().all(|rule| rule.bytes.len() < 200), "{found:?}");
    }

    #[test]
    fn what_is_no_program_has_no_rules() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        for bytes in [&[][..], &elf[..64], &[0; 4096]] {
            assert_eq!(rules(bytes, [0, 64, u64::MAX].into_iter()), []);
        }
    }
}
