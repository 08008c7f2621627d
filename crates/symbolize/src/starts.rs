//! Finds where functions begin by their unwind tables, which stripping leaves.

use std::cell::OnceCell;
use std::ops::Range;

use icecore_elf::{EhFrameHdr, cfi};
use memmap2::Mmap;

use crate::image::{ElfFile, Layout, Readable, Svma};

/// The functions of one image. Nothing is read before the first request.
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

    /// Finds the addresses in ranges that the image refers to.
    pub(super) fn referred(&self, wanted: &[Range<Svma>]) -> Option<Vec<Svma>> {
        let map = self.map.get_or_init(|| self.file.map()).as_ref()?;
        icecore_elf::referred(self.file.readable(map), self.layout, wanted)
    }

    /// Lists all functions, except those with broken unwind tables.
    fn index(&self, file: Readable<'_>) -> Option<Vec<(u64, u64)>> {
        let layout = self.layout;
        let frames = layout.section(".eh_frame")?;
        let (section, bases) = cfi::eh_frame(layout, layout.bytes_of(frames, file)?, frames.at.0);
        let reach = |begin: u64, len| Some((begin, begin.checked_add(len)?));
        let reaches =
            cfi::fdes(&section, &bases).filter_map(|(_, fde)| reach(fde.initial_address(), fde.len()));
        let mut index: Vec<(u64, u64)> = reaches.collect();
        index.sort_unstable();
        Some(index)
    }
}
