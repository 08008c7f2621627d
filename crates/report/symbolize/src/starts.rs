//! Finds where functions begin by their unwind tables, which stripping leaves.

use std::cell::OnceCell;

use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use icecore_elf::EhFrameHdr;
use memmap2::Mmap;
use object::Endianness;

use crate::image::{ElfFile, Layout, Readable, Svma};

/// The functions of one image. Nothing is read before it is asked.
pub(super) struct Starts<'a> {
    file: &'a ElfFile,
    layout: &'a Layout,
    map: OnceCell<Option<Mmap>>,
    /// Begin and end of all functions, sorted; built if there is no sorted table.
    index: OnceCell<Vec<(u64, u64)>>,
}

impl<'a> Starts<'a> {
    /// Prepares to look into an image.
    pub(super) fn new(file: &'a ElfFile, layout: &'a Layout) -> Self {
        Self { file, layout, map: OnceCell::new(), index: OnceCell::new() }
    }

    /// Finds the first address of the function that covers an address.
    pub(super) fn around(&self, at: Svma) -> Option<Svma> {
        let map = self.map.get_or_init(|| self.file.map()).as_ref()?;
        let file = self.file.readable(map);
        let start = match EhFrameHdr::of_file(file, self.layout) {
            Some(table) => table.start(file, self.layout, at),
            None => {
                let index = self.index.get_or_init(|| self.index(file).unwrap_or_default());
                let before = index.partition_point(|&(begin, _)| begin <= at.0).checked_sub(1)?;
                let (begin, end) = index[before];
                (at.0 < end).then_some(Svma(begin))
            }
        };
        // Unwind tables of functions that the linker dropped begin at 0.
        start.filter(|&start| self.layout.is_code(start))
    }

    /// Lists all functions; what lies behind broken unwind tables is left out.
    fn index(&self, file: Readable<'_>) -> Option<Vec<(u64, u64)>> {
        let layout = self.layout;
        let frames = layout.section(".eh_frame")?;
        let endian = match layout.endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        };
        let mut section: EhFrame<EndianSlice<'_, _>> = EhFrame::new(layout.bytes_of(frames, file)?, endian);
        section.set_address_size(layout.address_size);
        let text = layout.section(".text").map_or(0, |section| section.at.0);
        let bases = BaseAddresses::default().set_eh_frame(frames.at.0).set_text(text);
        let mut entries = section.entries(&bases);
        let mut index = Vec::new();
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(fde) = entry else { continue };
            if let Ok(fde) = fde.parse(EhFrame::cie_from_offset) {
                let begin = fde.initial_address();
                index.extend(begin.checked_add(fde.len()).map(|end| (begin, end)));
            }
        }
        index.sort_unstable();
        Some(index)
    }
}
