//! Finds where functions begin by their unwind tables, which stripping leaves.

use std::cell::OnceCell;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EhFrameOffset, EndianSlice, RunTimeEndian, UnwindSection};
use object::Endianness;

use crate::image::{ElfFile, Layout, Svma};

/// Version and encodings of the only `.eh_frame_hdr` that linkers write: pointer to `.eh_frame` pcrel sdata4,
/// count udata4, table datarel sdata4. Any other is answered from `.eh_frame` itself.
const USUAL_HEADER: [u8; 4] = [1, 0x1b, 0x03, 0x3b];
/// Bytes before the table.
const HEADER_LEN: usize = 12;
/// Bytes of one row: initial location, address of its FDE; both relative to the header.
const ROW_LEN: usize = 8;

/// The functions of one image. Nothing is read before it is asked.
pub(super) struct Starts<'a> {
    file: &'a ElfFile,
    layout: &'a Layout,
    rules: OnceCell<Option<Rules>>,
}

impl<'a> Starts<'a> {
    /// Prepares to look into an image.
    pub(super) fn new(file: &'a ElfFile, layout: &'a Layout) -> Self {
        Self { file, layout, rules: OnceCell::new() }
    }

    /// Finds the first address of the function that covers an address.
    pub(super) fn around(&self, at: Svma) -> Option<Svma> {
        let rules = self.rules.get_or_init(|| Rules::read(self.file, self.layout)).as_ref()?;
        // Rules of functions that the linker dropped begin at 0.
        rules.start(at).filter(|&start| self.layout.is_code(start))
    }
}

/// The sections of unwind tables.
struct Rules {
    table: Option<Table>,
    frames: Vec<u8>,
    frames_at: Svma,
    endian: RunTimeEndian,
    address_size: u8,
    bases: BaseAddresses,
    /// Begin and end of all functions, sorted; built if there is no sorted table.
    index: OnceCell<Vec<(u64, u64)>>,
}

impl Rules {
    fn read(file: &ElfFile, layout: &Layout) -> Option<Self> {
        let endian = match layout.endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        };
        let table =
            layout.unwind_table.and_then(|(at, off, len)| Table::new(at, file.bytes(off, len)?, endian));
        let section = layout.section(".eh_frame").and_then(|it| Some((it.at, file.section_bytes(it)?)));
        let (frames_at, frames) = section.or_else(|| {
            // Without section headers the table says where the rules begin; they say where they end.
            let at = table.as_ref()?.frames_at();
            Some((at, file.segment_bytes(layout, at)?))
        })?;
        let text = layout.section(".text").map_or(0, |section| section.at.0);
        let bases = BaseAddresses::default().set_eh_frame(frames_at.0).set_text(text);
        let address_size = layout.address_size;
        Some(Self { table, frames, frames_at, endian, address_size, bases, index: OnceCell::new() })
    }

    fn start(&self, at: Svma) -> Option<Svma> {
        match &self.table {
            Some(table) => self.fde_start(table.fde_before(at)?, at),
            None => {
                let index = self.index.get_or_init(|| self.index());
                let before = index.partition_point(|&(begin, _)| begin <= at.0).checked_sub(1)?;
                let (begin, end) = index[before];
                (at.0 < end).then_some(Svma(begin))
            }
        }
    }

    /// Reads the rules at an address: the table says where they begin, but not how far they reach.
    fn fde_start(&self, fde: Svma, at: Svma) -> Option<Svma> {
        let off = usize::try_from(fde.0.checked_sub(self.frames_at.0)?).ok()?;
        if off >= self.frames.len() {
            return None;
        }
        let fde = self.section().fde_from_offset(&self.bases, EhFrameOffset(off), EhFrame::cie_from_offset);
        let fde = fde.ok()?;
        let begin = fde.initial_address();
        (at.0.checked_sub(begin)? < fde.len()).then_some(Svma(begin))
    }

    fn section(&self) -> EhFrame<EndianSlice<'_, RunTimeEndian>> {
        let mut section = EhFrame::new(&self.frames, self.endian);
        section.set_address_size(self.address_size);
        section
    }

    /// Lists all functions; what lies behind broken rules is left out.
    fn index(&self) -> Vec<(u64, u64)> {
        let section = self.section();
        let mut entries = section.entries(&self.bases);
        let mut index = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(fde) = entry else { continue };
            if let Ok(fde) = fde.parse(EhFrame::cie_from_offset) {
                let begin = fde.initial_address();
                index.extend(begin.checked_add(fde.len()).map(|end| (begin, end)));
            }
        }
        index.sort_unstable();
        index
    }
}

/// A sorted table of the usual encoding. Read by hand: gimli's search trusts the count of rows.
struct Table {
    at: Svma,
    bytes: Vec<u8>,
    endian: RunTimeEndian,
    row_count: usize,
}

impl Table {
    fn new(at: Svma, bytes: Vec<u8>, endian: RunTimeEndian) -> Option<Self> {
        let rows = bytes.len().checked_sub(HEADER_LEN)? / ROW_LEN;
        let mut table = Self { at, bytes, endian, row_count: 0 };
        table.row_count = usize::try_from(table.word(8) as u32).ok()?;
        (table.bytes.starts_with(&USUAL_HEADER) && (1..=rows).contains(&table.row_count)).then_some(table)
    }

    /// Address of `.eh_frame`: relative to its own place, 4 bytes into the header.
    fn frames_at(&self) -> Svma {
        Svma(self.at.0.wrapping_add(4).wrapping_add_signed(self.word(4).into()))
    }

    /// Finds the address of the last rules that begin at or before an address.
    fn fde_before(&self, at: Svma) -> Option<Svma> {
        let column = |row: usize, column: usize| {
            let word = self.word(HEADER_LEN + row * ROW_LEN + 4 * column);
            self.at.0.wrapping_add_signed(word.into())
        };
        let (mut low, mut high) = (0, self.row_count);
        while low < high {
            let middle = low + (high - low) / 2;
            if column(middle, 0) <= at.0 { low = middle + 1 } else { high = middle }
        }
        Some(Svma(column(low.checked_sub(1)?, 1)))
    }

    /// Reads a word; `off` is within the rows counted in [`Table::new`].
    fn word(&self, off: usize) -> i32 {
        let bytes = [self.bytes[off], self.bytes[off + 1], self.bytes[off + 2], self.bytes[off + 3]];
        match self.endian {
            RunTimeEndian::Little => i32::from_le_bytes(bytes),
            RunTimeEndian::Big => i32::from_be_bytes(bytes),
        }
    }
}
