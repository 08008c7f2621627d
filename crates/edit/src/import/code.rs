//! Converts addresses of processes to code of images.

use icecore_elf::Avma;
use icecore_format::records::{Image, ImageKind, Location};

use icecore_profile::recording::spaces::{SpaceId, Spaces, offset_in};

/// Finds the code at addresses of one process at a moment.
#[derive(Debug)]
pub(super) struct Code<'a> {
    spaces: &'a Spaces,
    images: &'a [Image],
    /// Cached pages, each in the one slot where it can be.
    seen: Vec<Slot>,
    /// Addresses of code in no file, found since the last `take_nameless`.
    nameless: Vec<Avma>,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    space: SpaceId,
    page: u64,
    found: PageContent,
}

/// The content of a page.
#[derive(Debug, Clone, Copy)]
enum PageContent {
    NoCode,
    /// Code in no file, or in one that the process has mapped twice.
    Nameless,
    /// The image, and what is added to an address to get the offset in its file.
    Image(u32, u64),
}

const PAGE_BITS: u32 = 12;
const SLOT_BITS: u32 = 14;

impl<'a> Code<'a> {
    pub(super) fn new(spaces: &'a Spaces, images: &'a [Image]) -> Self {
        let nothing = Slot { space: SpaceId(u32::MAX), page: u64::MAX, found: PageContent::NoCode };
        Self { spaces, images, seen: vec![nothing; 1 << SLOT_BITS], nameless: Vec::new() }
    }

    /// Finds the code at an address; `None` if there is none.
    pub(super) fn at(&mut self, space: SpaceId, address: Avma) -> Option<Location> {
        let page = address.0 >> PAGE_BITS;
        let hash = (page ^ u64::from(space.0) << 40).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let slot = (hash >> (64 - SLOT_BITS)) as usize;
        if (self.seen[slot].space, self.seen[slot].page) != (space, page) {
            self.seen[slot] = Slot { space, page, found: self.find(space, address) };
        }
        match self.seen[slot].found {
            PageContent::NoCode => None,
            PageContent::Nameless => {
                self.nameless.push(address);
                Some(Location::Address(address.0))
            }
            PageContent::Image(image, add) => {
                Some(Location::Image { image, file_off: address.0.wrapping_add(add) })
            }
        }
    }

    /// Takes the addresses of code in no file that were found since the last call.
    pub(super) fn take_nameless(&mut self) -> impl Iterator<Item = Avma> + '_ {
        self.nameless.drain(..)
    }

    /// Finds the code before a return address; the location is that of the return address itself.
    pub(super) fn before(&mut self, space: SpaceId, address: Avma) -> Option<Location> {
        Some(match self.at(space, address.wrapping_sub(1))? {
            Location::Image { image, file_off } => {
                Location::Image { image, file_off: file_off.wrapping_add(1) }
            }
            Location::Address(_) => Location::Address(address.0),
        })
    }

    fn find(&self, space: SpaceId, address: Avma) -> PageContent {
        let Some(mapping) = self.spaces.find(space, address) else { return PageContent::NoCode };
        let is_file = self.images.get(mapping.image as usize);
        let is_file =
            is_file.is_some_and(|image| image.kind == ImageKind::FILE || image.kind == ImageKind::VDSO);
        let add = mapping.file_off.wrapping_sub(mapping.start);
        // If the offset does not determine the address, the location has to be an address.
        let off = offset_in(mapping, address);
        let is_unique = self.spaces.address(space, mapping.image, off) == Some(address);
        if is_file && is_unique { PageContent::Image(mapping.image, add) } else { PageContent::Nameless }
    }
}
