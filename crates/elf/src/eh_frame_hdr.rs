//! Finds functions and their unwind tables by `.eh_frame_hdr`, the sorted table that linkers write of `.eh_frame`.
//!
//! The table is read by hand: gimli's search trusts the count of rows.

use std::ops::Range;

use gimli::{EhFrame, UnwindSection as _};
use object::read::ReadRef;
use object::{Endian as _, Endianness};

use crate::cfi::MAX_ENTRY_BYTES;
use crate::{Layout, Svma, cfi};

/// Version 1; address of `.eh_frame` relative to itself, 4 bytes; count, 4 bytes; rows relative to the section, 2 × 4
/// bytes. Every linker writes that.
const HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// Bytes before the rows: the above, address, count.
const HEADER_LEN: usize = 12;

/// Functions by their first address.
#[derive(Debug, Clone, Copy)]
pub struct EhFrameHdr<'d> {
    at: Svma,
    eh_frame: Svma,
    endian: Endianness,
    /// First address of a function and address of its FDE, relative to the header.
    rows: &'d [[[u8; 4]; 2]],
}

/// The entries of `.eh_frame` for a function, each from its length on.
#[derive(Debug, Clone, Copy)]
pub struct Entries<'d> {
    /// Those of the function alone (FDE).
    pub fde: &'d [u8],
    /// What several functions share (CIE).
    pub cie: &'d [u8],
    /// Where that lies in memory.
    pub cie_at: Svma,
}

/// Reads where `.eh_frame` begins from `.eh_frame_hdr`, which program headers lead to where no section headers are left.
pub fn eh_frame_at(header: &[u8], at: Svma, endian: Endianness) -> Option<Svma> {
    let [1, 0x1b, _, _, pointer @ ..] = header else { return None };
    Some(relative(at.0.wrapping_add(4), *pointer.first_chunk()?, endian))
}

fn relative(at: u64, distance: [u8; 4], endian: Endianness) -> Svma {
    Svma(at.wrapping_add_signed(endian.read_i32(distance).into()))
}

impl<'d> EhFrameHdr<'d> {
    /// Takes the bytes of `.eh_frame_hdr`, which lies at an address; `None` if they are of another format, torn, or list nothing.
    pub fn parse(bytes: &'d [u8], at: Svma, endian: Endianness) -> Option<Self> {
        let eh_frame = eh_frame_at(bytes, at, endian).filter(|_| bytes.starts_with(&HEADER))?;
        let count = endian.read_u32(*bytes.get(8..)?.first_chunk()?) as usize;
        let rows = bytes.get(HEADER_LEN..)?.as_chunks::<4>().0.as_chunks::<2>().0;
        let rows = rows.get(..count).filter(|rows| !rows.is_empty())?;
        Some(Self { at, eh_frame, endian, rows })
    }

    /// Reads the table of a file.
    pub fn of_file(file: impl ReadRef<'d>, layout: &Layout) -> Option<Self> {
        let (at, off, len) = layout.unwind_table?;
        Self::parse(file.read_bytes_at(off.0, len).ok()?, at, layout.endian)
    }

    /// Where `.eh_frame` begins.
    pub fn eh_frame(&self) -> Svma {
        self.eh_frame
    }

    /// Reports whether the rows ascend, so that they can be searched.
    pub fn is_sorted(&self) -> bool {
        self.rows.is_sorted_by_key(|[function, _]| self.endian.read_i32(*function))
    }

    /// The address of the last FDE in memory to which a row leads.
    pub(crate) fn last_entry(&self) -> Svma {
        let entries = self.rows.iter().map(|[_, fde]| relative(self.at.0, *fde, self.endian));
        entries.max().unwrap_or(self.eh_frame)
    }

    /// The first address of a function and the address of its FDE, by its number.
    pub fn row(&self, number: usize) -> Option<(Svma, Svma)> {
        let [function, fde] = self.rows.get(number)?;
        Some((relative(self.at.0, *function, self.endian), relative(self.at.0, *fde, self.endian)))
    }

    /// The same of the last function that begins at or before an address.
    #[inline]
    pub fn before(&self, at: Svma) -> Option<(Svma, Svma)> {
        let after = self.rows.partition_point(|row| relative(self.at.0, row[0], self.endian) <= at);
        self.row(after.checked_sub(1)?)
    }

    /// The numbers of the functions that begin in a range of addresses.
    pub fn within(&self, code: &Range<u64>) -> Range<usize> {
        let before = |at| self.rows.partition_point(|row| relative(self.at.0, row[0], self.endian).0 < at);
        before(code.start)..before(code.end)
    }

    /// Finds the first address of the function that covers an address: the table does not say how far functions reach.
    pub fn start<'f>(&self, file: impl ReadRef<'f>, layout: &Layout, at: Svma) -> Option<Svma> {
        self.extent(file, layout, at).map(|extent| extent.start)
    }

    /// Finds where the function that covers an address begins and ends.
    pub fn extent<'f>(&self, file: impl ReadRef<'f>, layout: &Layout, at: Svma) -> Option<Range<Svma>> {
        let (_, fde_at) = self.before(at)?;
        let entries = Entries::read(file, layout, fde_at)?;
        let (bytes, begin) = entries.section(layout.endian)?;
        let (section, bases) = cfi::eh_frame(layout, &bytes, fde_at.0.wrapping_sub(begin as u64));
        let fde = section.fde_from_offset(&bases, begin.into(), EhFrame::cie_from_offset).ok()?;
        let start = fde.initial_address();
        let end = start.checked_add(fde.len())?;
        (start..end).contains(&at.0).then_some(Svma(start)..Svma(end))
    }
}

impl<'d> Entries<'d> {
    /// Reads the FDE at an address, and the CIE that it refers to.
    pub fn read(file: impl ReadRef<'d>, layout: &Layout, fde_at: Svma) -> Option<Self> {
        let entry = |at: Svma| {
            let (off, _) = layout.rest_of_segment(at)?;
            let len = layout.endian.read_u32(*file.read_bytes_at(off.0, 4).ok()?.first_chunk()?);
            let is_taken = (1..=MAX_ENTRY_BYTES).contains(&len);
            is_taken.then(|| file.read_bytes_at(off.0, u64::from(len) + 4).ok())?
        };
        let fde = entry(fde_at)?;
        let back = layout.endian.read_u32(*fde.get(4..8)?.first_chunk()?);
        let cie_at = fde_at.0.checked_add(4)?.checked_sub(back.into()).filter(|_| back != 0).map(Svma)?;
        Some(Self { fde, cie: entry(cie_at)?, cie_at })
    }

    /// Makes a section of these two, CIE first; returns the offset of the FDE as well, which refers to the CIE by its distance.
    pub(crate) fn section(&self, endian: Endianness) -> Option<(Vec<u8>, usize)> {
        let mut bytes = [self.cie, self.fde].concat();
        let begin = self.cie.len();
        let distance = u32::try_from(begin + 4).ok()?;
        bytes.get_mut(begin + 4..begin + 8)?.copy_from_slice(&endian.write_u32(distance));
        Some((bytes, begin))
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
    fn every_function_of_the_own_program_leads_to_its_entries() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let layout = Layout::read(&elf[..]).expect("ELF");
        let table = EhFrameHdr::of_file(&elf[..], &layout).expect("a linker made it");
        assert!(table.is_sorted() && table.rows.len() > 1000 && here() == 7);
        assert_eq!(Some(table.eh_frame()), layout.section(".eh_frame").map(|section| section.at));
        for (start, fde_at) in (0..table.rows.len()).filter_map(|number| table.row(number)) {
            assert!(Entries::read(&elf[..], &layout, fde_at).is_some_and(|it| it.cie.len() > 8));
            assert_eq!(table.before(start), Some((start, fde_at)));
            assert_eq!(table.start(&elf[..], &layout, start), Some(start));
        }
        let (first, _) = table.row(0).expect("more than none");
        assert_eq!(table.before(Svma(first.0 - 1)), None);
        assert_eq!(table.within(&(first.0..u64::MAX)), 0..table.rows.len());
    }

    #[test]
    fn a_function_with_long_unwind_tables_is_found() {
        // As large functions of compilers have them: more than 16 KiB.
        let source = ".globl _start; _start: .cfi_startproc
            .rept 4000; nop; .cfi_adjust_cfa_offset 8; nop; .cfi_adjust_cfa_offset -8; .endr
            nop; .cfi_endproc";
        let elf = crate::fixture::assembled(source);
        let layout = Layout::read(&elf[..]).expect("ELF");
        let table = EhFrameHdr::of_file(&elf[..], &layout).expect("the linker made it");
        let (start, fde_at) = table.row(0).expect("a function");
        let entries = Entries::read(&elf[..], &layout, fde_at).expect("its tables are read");
        assert!(entries.fde.len() > 20_000, "{}", entries.fde.len());
        assert_eq!(table.start(&elf[..], &layout, Svma(start.0 + 7_999)), Some(start));
    }

    #[test]
    fn a_table_that_is_torn_or_of_another_format_is_none() {
        let elf = std::fs::read("/proc/self/exe").expect("we are running");
        let layout = Layout::read(&elf[..]).expect("ELF");
        let section = layout.section(".eh_frame_hdr").expect("a linker made it");
        let bytes = layout.bytes_of(section, &elf[..]).expect("whole");
        let is_one = |bytes: &[u8]| EhFrameHdr::parse(bytes, section.at, layout.endian).is_some();
        assert!(is_one(bytes));
        for len in [0, 3, 7, 11, 12, 19, HEADER_LEN + 8 * 1000] {
            assert!(!is_one(&bytes[..len]), "{len}");
        }
        let other = [&bytes[..3], &[0x1b], &bytes[4..]].concat();
        assert!(!is_one(&other) && !is_one(&[0; 64]));
    }
}
