//! Takes code from the recording, and from the files of images where the recording has none.

use std::ops::Range;

use super::{Code, FunctionCode, Known, NoCode, Stretch};
use crate::decode::decode;
use icecore_elf::Machine;
use icecore_profile::recording::code::{StoredCode, StoredStretch};
use icecore_symbolize::image::{FileOff, FileSource, Finder, Identity, Svma};

/// Where code is found: in the recording, else in the files of images.
#[derive(Debug, Clone, Copy)]
pub struct CodeFinder<'a> {
    /// The images, by position.
    pub images: &'a [Identity],
    /// Where the files of images are searched.
    pub finder: &'a Finder<'a>,
    /// The code that the recording has.
    pub stored: &'a StoredCode<'a>,
}

impl CodeFinder<'_> {
    /// Lists the instructions of the function around an offset in an image, a position.
    ///
    /// # Errors  why that is impossible
    pub fn function(&self, image: u32, off: FileOff) -> Result<FunctionCode, NoCode> {
        let open = || Code::open(&self.images[image as usize], self.finder)?.function(off);
        self.stored.find(image, off).and_then(|it| FunctionCode::stored(&it)).map_or_else(open, Ok)
    }

    /// Finds the addresses of offsets in an image, a position, which ascend, and those of their functions.
    ///
    /// # Cost    one pass over each symbol table, unless the recording has all of these functions
    pub fn extents(&self, image: u32, offs: &[FileOff]) -> Vec<Option<(Svma, Option<Range<Svma>>)>> {
        let stored = |off: &FileOff| self.stored.extent(image, *off).map(|(at, range)| (at, Some(range)));
        let mut extents: Vec<_> = offs.iter().map(stored).collect();
        let open: Vec<usize> = (0..offs.len()).filter(|position| extents[*position].is_none()).collect();
        if !open.is_empty()
            && let Ok(mut code) = Code::open(&self.images[image as usize], self.finder)
        {
            let offs: Vec<FileOff> = open.iter().map(|position| offs[*position]).collect();
            open.into_iter().zip(code.extents(&offs)).for_each(|(position, it)| extents[position] = it);
        }
        extents
    }
}

impl FunctionCode {
    /// Lists the instructions of a stretch that the recording has; `None` if this build does not decode code of its processor.
    pub fn stored(stored: &StoredStretch) -> Option<Self> {
        let machine = Machine::of_elf(stored.machine)?;
        let StoredStretch { begin, address, bytes, .. } = stored;
        let len = bytes.len() as u64;
        let stretch = Stretch { range: *address..address.wrapping_add(len), begin: *begin, len };
        let functions = |at: Svma| {
            let distance = u32::try_from(at.0.wrapping_sub(address.0)).unwrap_or(u32::MAX);
            stored
                .places
                .range(..=distance)
                .next_back()
                .map(|(_, functions)| functions.clone())
                .unwrap_or_default()
        };
        let known = Known {
            name: stored.name.clone(),
            source: FileSource::Embedded,
            functions: &functions,
            names: &|at| stored.refers.get(&at).cloned(),
        };
        Some(Self::new(&stretch, bytes, &decode(machine, bytes, *address), known))
    }
}
