//! Writes requested files of images into the recording, in pieces; holds one block in memory at a time.

use std::io;
use std::ops::Range;

use icecore_format::records::{ImagePartsV1, LeftOut, Omission, Piece};
use object::read::ReadCache;
use rustc_hash::FxHashMap;

use super::sections;
use crate::foreign::{Door, ForeignFile};
use crate::machine::build_id;

/// The most bytes of all pieces in one block. With the columns beside them a block stays below a MiB: up to there a reader
/// accepts any ratio of compression, so pieces of zeros are compressed as well (FORMAT.md §3).
const BLOCK_BYTES: usize = (1 << 20) - (16 << 10);
/// Memory of so many bytes is written whole.
const SMALL_BYTES: u64 = 64 << 10;
/// The most pieces in one block.
const BLOCK_PIECES: usize = 512;
/// One file may use this part of the space for all files: a quarter.
const PART_OF_ONE: u64 = 4;

/// How much of a file is requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// The sections that name its code, or show how to unwind through it.
    Sections,
    /// The whole file.
    Whole,
}

/// The content of an image.
#[derive(Debug)]
pub(super) enum Content {
    File(ForeignFile),
    Memory(Vec<u8>),
}

/// What the recording contains of the requested files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// The number of files that it contains whole, and in sections.
    pub(crate) whole: u64,
    pub(crate) in_sections: u64,
    /// The size of their pieces before compression.
    pub(crate) bytes: u64,
    /// Files that it lacks or has only in part, in the order of their turns.
    pub(crate) left_out: Vec<Omitted>,
}

/// A requested file that the recording lacks or has only in part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Omitted {
    pub(crate) row: LeftOut,
    pub(crate) path: String,
}

impl Omitted {
    /// Makes a row without sizes: nobody looked how large the file is.
    pub(crate) fn of(image: u32, path: &[u8], why: Omission) -> Self {
        let path = String::from_utf8_lossy(path).into_owned();
        Self { row: LeftOut { image, why, needed_bytes: 0, free_bytes: 0 }, path }
    }
}

/// Writes files until their space is used up, or the receiver takes no more.
pub(super) struct Carrier<'a> {
    extent: Extent,
    max_bytes: u64,
    door: &'a Door,
    /// Files that are in the recording, by build-id and length: several images can have equal files.
    known: FxHashMap<(Vec<u8>, u64), Vec<Content>>,
    /// Takes a block; returns false if it wants no more.
    put: &'a mut dyn FnMut(ImagePartsV1) -> bool,
    carried: Carried,
}

/// Why a file was not written to its end.
enum NotTaken {
    Unreadable,
    Unwanted,
}

impl<'a> Carrier<'a> {
    pub(super) fn new(
        extent: Extent,
        max_bytes: u64,
        door: &'a Door,
        put: &'a mut dyn FnMut(ImagePartsV1) -> bool,
    ) -> Self {
        let (known, carried) = Default::default();
        Self { extent, max_bytes, door, known, put, carried }
    }

    /// Writes the file of an image; returns false if the receiver takes no more.
    pub(super) fn carry(&mut self, image: u32, path: &[u8], content: Option<Content>) -> bool {
        let planned = content.and_then(|content| {
            let plan = Plan::of(&content, self.extent, self.door)?;
            Some((content, plan))
        });
        let Some((content, plan)) = planned else {
            self.leave_out(Omitted::of(image, path, Omission::UNREADABLE));
            return true;
        };
        let key = (plan.build_id.clone().unwrap_or_default(), plan.len);
        let same = self.known.get(&key).into_iter().flatten();
        if !key.0.is_empty() && same.into_iter().any(|known| content.is_equal(known, plan.len, self.door)) {
            return true;
        }
        let free_bytes = self.free_bytes();
        let too_much = |why, needed_bytes| {
            let omitted = Omitted::of(image, path, why);
            Omitted { row: LeftOut { needed_bytes, free_bytes, ..omitted.row }, ..omitted }
        };
        let ranges = match plan.whole {
            Some(whole) if plan.len <= free_bytes => whole,
            is_reduced => {
                let bytes = plan.sections.iter().map(|stretch| stretch.end - stretch.start).sum();
                if bytes > free_bytes {
                    self.leave_out(too_much(Omission::TOO_LARGE, bytes));
                    return true;
                }
                if is_reduced.is_some() {
                    self.leave_out(too_much(Omission::REDUCED, plan.len));
                }
                plan.sections
            }
        };
        let is_whole = ranges.len() == 1 && ranges[0] == (0..plan.len);
        match self.copy(image, &content, plan.len, &ranges) {
            Ok(()) => {
                *if is_whole { &mut self.carried.whole } else { &mut self.carried.in_sections } += 1;
                self.known.entry(key).or_default().push(content);
            }
            Err(NotTaken::Unreadable) => self.leave_out(Omitted::of(image, path, Omission::UNREADABLE)),
            Err(NotTaken::Unwanted) => return false,
        }
        true
    }

    fn leave_out(&mut self, omitted: Omitted) {
        self.carried.left_out.push(omitted);
    }

    /// Returns how many bytes the next file may use.
    fn free_bytes(&self) -> u64 {
        (self.max_bytes / PART_OF_ONE).min(self.max_bytes.saturating_sub(self.carried.bytes))
    }

    /// Returns the result; `left` are the files that were not written, or not to their end.
    pub(super) fn end(mut self, left: Vec<Omitted>) -> Carried {
        self.carried.left_out.extend(left);
        self.carried
    }

    fn copy(
        &mut self,
        image: u32,
        content: &Content,
        file_bytes: u64,
        ranges: &[Range<u64>],
    ) -> Result<(), NotTaken> {
        let mut block: Vec<Piece> = Vec::new();
        let mut room = BLOCK_BYTES;
        for stretch in ranges {
            let mut off = stretch.start;
            while off < stretch.end {
                let len = (stretch.end - off).min(room as u64);
                let mut bytes = vec![0; len as usize];
                content.read(&mut bytes, off, self.door).map_err(|_| NotTaken::Unreadable)?;
                block.push(Piece { off, bytes });
                off += len;
                room -= len as usize;
                if room == 0 || block.len() == BLOCK_PIECES {
                    self.put(image, file_bytes, &block)?;
                    block.clear();
                    room = BLOCK_BYTES;
                }
            }
        }
        self.put(image, file_bytes, &block)
    }

    fn put(&mut self, image: u32, file_bytes: u64, block: &[Piece]) -> Result<(), NotTaken> {
        if block.is_empty() {
            return Ok(());
        }
        if !(self.put)(ImagePartsV1::from_rows(image, file_bytes, block)) {
            return Err(NotTaken::Unwanted);
        }
        self.carried.bytes += block.iter().map(|piece| piece.bytes.len() as u64).sum::<u64>();
        Ok(())
    }
}

/// The requested parts of a file.
struct Plan {
    build_id: Option<Vec<u8>>,
    len: u64,
    /// The whole file, if that is requested.
    whole: Option<Vec<Range<u64>>>,
    sections: Vec<Range<u64>>,
}

impl Plan {
    /// Examines a file; `None` if it is no ELF file.
    fn of(content: &Content, extent: Extent, door: &Door) -> Option<Self> {
        let (len, build_id, ranges) = match content {
            Content::File(file) => {
                let cache = ReadCache::new(file.read(door));
                (file.meta().size_bytes, build_id::of_elf(&cache), sections::ranges(&cache)?)
            }
            Content::Memory(bytes) => {
                let (len, bytes) = (bytes.len() as u64, &bytes[..]);
                // All of the vDSO, of two pages, counts as sections.
                let all = || std::iter::once(0..len).collect();
                let ranges = if len <= SMALL_BYTES { all() } else { sections::ranges(bytes)? };
                (len, build_id::of_elf(bytes), ranges)
            }
        };
        let inside = ranges.into_iter().map(|stretch| stretch.start.min(len)..stretch.end.min(len));
        let whole = (extent == Extent::Whole).then(|| std::iter::once(0..len).collect());
        Some(Self { build_id, len, whole, sections: inside.filter(|stretch| !stretch.is_empty()).collect() })
    }
}

impl Content {
    /// Returns true if this and another one of the same length have the same bytes. An equal build-id does not prove it.
    fn is_equal(&self, other: &Self, len: u64, door: &Door) -> bool {
        let mut bytes = [vec![0; BLOCK_BYTES], vec![0; BLOCK_BYTES]];
        (0..len).step_by(BLOCK_BYTES).all(|off| {
            let part = (len - off).min(BLOCK_BYTES as u64) as usize;
            let [own, others] = &mut bytes;
            let is_read = |content: &Self, into: &mut [u8]| content.read(into, off, door).is_ok();
            is_read(self, &mut own[..part])
                && is_read(other, &mut others[..part])
                && own[..part] == others[..part]
        })
    }

    fn read(&self, out: &mut [u8], off: u64, door: &Door) -> io::Result<()> {
        match self {
            Self::File(file) => file.read(door).read_exact_at(out, off),
            Self::Memory(bytes) => {
                let from = usize::try_from(off).ok().and_then(|off| bytes.get(off..)?.get(..out.len()));
                out.copy_from_slice(from.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use icecore_format::records::Payload as _;

    fn found(path: &Path, door: &Door) -> Content {
        let path = path.canonicalize().expect("it is there");
        Content::File(
            door.below(Path::new("/"), path.as_os_str().as_encoded_bytes(), false).expect("it is there"),
        )
    }

    fn own(door: &Door) -> Content {
        found(Path::new("/proc/self/exe"), door)
    }

    /// Writes this program as several images to a receiver that takes `taken` blocks; returns the result, and how many blocks
    /// were taken.
    fn carry(extent: Extent, max_bytes: u64, images: &[u32], taken: usize) -> (Carried, usize) {
        let mut blocks = 0;
        let mut put = |parts: ImagePartsV1| {
            assert!(parts.bytes.len() <= BLOCK_BYTES && parts.items() > 0);
            blocks += usize::from(blocks < taken);
            blocks < taken
        };
        let door = Door::of_test();
        let mut carrier = Carrier::new(extent, max_bytes, &door, &mut put);
        let carried =
            images.iter().take_while(|image| carrier.carry(**image, b"/own", Some(own(&door)))).count();
        let left = images[carried..].iter().map(|image| Omitted::of(*image, b"/own", Omission::INTERRUPTED));
        (carrier.end(left.collect()), blocks)
    }

    fn left_out(why: Omission, needed_bytes: u64, free_bytes: u64) -> Vec<Omitted> {
        vec![Omitted { row: LeftOut { image: 3, why, needed_bytes, free_bytes }, path: "/own".into() }]
    }

    #[test]
    fn a_file_is_carried_once_however_many_images_it_is() {
        let len = std::fs::metadata("/proc/self/exe").expect("we are running").len();
        let (carried, blocks) = carry(Extent::Whole, 1 << 40, &[3, 4, 5], usize::MAX);
        assert_eq!(carried, Carried { whole: 1, bytes: len, ..Carried::default() });
        assert_eq!(blocks as u64, len.div_ceil(BLOCK_BYTES as u64));
    }

    #[test]
    fn a_file_with_the_build_id_and_the_length_of_another_is_carried_for_itself() {
        let (door, mut blocks) = (Door::of_test(), Vec::new());
        let mut put = |parts: ImagePartsV1| {
            blocks.push(parts.image);
            true
        };
        let mut bytes = std::fs::read("/proc/self/exe").expect("we are running");
        *bytes.last_mut().expect("it has bytes") ^= 1;
        let mut other = tempfile::NamedTempFile::new().expect("a folder for temporary files");
        std::io::Write::write_all(&mut other, &bytes).expect("room");
        let mut carrier = Carrier::new(Extent::Whole, 1 << 40, &door, &mut put);
        for (image, content) in [(3, own(&door)), (4, found(other.path(), &door)), (5, own(&door))] {
            assert!(carrier.carry(image, b"/own", Some(content)));
        }
        assert_eq!(carrier.end(Vec::new()).whole, 2);
        blocks.dedup();
        assert_eq!(blocks, [3, 4]);
    }

    #[test]
    fn a_file_that_is_too_large_is_reduced_to_sections_and_then_to_nothing_and_that_is_told() {
        let len = std::fs::metadata("/proc/self/exe").expect("we are running").len();
        let (sections, _) = carry(Extent::Sections, 1 << 40, &[3], usize::MAX);
        assert!(sections.in_sections == 1 && sections.bytes < len);
        let (carried, _) = carry(Extent::Whole, 4 * (len - 1), &[3], usize::MAX);
        let reduced = left_out(Omission::REDUCED, len, len - 1);
        let expected = Carried { in_sections: 1, bytes: sections.bytes, left_out: reduced, whole: 0 };
        assert_eq!(carried, expected);
        let (carried, blocks) = carry(Extent::Whole, 4000, &[3], usize::MAX);
        let too_large = left_out(Omission::TOO_LARGE, sections.bytes, 1000);
        assert_eq!((carried, blocks), (Carried { left_out: too_large, ..Carried::default() }, 0));
    }

    #[test]
    fn nothing_more_is_read_when_nobody_takes_it() {
        let (carried, blocks) = carry(Extent::Whole, 1 << 40, &[3, 4], 2);
        let left: Vec<(u32, Omission)> =
            carried.left_out.iter().map(|left| (left.row.image, left.row.why)).collect();
        let expected = [3, 4].map(|image| (image, Omission::INTERRUPTED));
        assert_eq!((&left[..], carried.whole, blocks), (&expected[..], 0, 2));
    }

    #[test]
    fn what_is_gone_or_no_program_is_told() {
        let mut put = |_| panic!("there is nothing to put");
        let door = Door::of_test();
        let mut carrier = Carrier::new(Extent::Sections, 1 << 40, &door, &mut put);
        let text = found(Path::new("Cargo.toml"), &door);
        assert!(carrier.carry(1, b"/gone", None) && carrier.carry(2, b"/text", Some(text)));
        let left_out = carrier.end(Vec::new()).left_out;
        let listed: Vec<_> =
            left_out.iter().map(|left| (&*left.path, left.row.image, left.row.why)).collect();
        let why = Omission::UNREADABLE;
        assert_eq!(listed, [("/gone", 1, why), ("/text", 2, why)]);
    }
}
