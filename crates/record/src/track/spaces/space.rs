//! One address space: which code lies where.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use icecore_elf::{Avma, FileOff};
use icecore_format::records::Location;

use super::MODEST;
use crate::track::jit::Interpreter;
use crate::track::tally::Held;

/// If a process maps an image more often than this, all of the image is treated as mapped twice.
pub(super) const OFTEN: usize = 64;

/// One address space. A process that was forked shares its parent's until one of them maps something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space {
    /// Different contents have different numbers.
    pub(super) version: u32,
    /// The regions by first address; they do not overlap.
    pub(super) regions: BTreeMap<Avma, Region>,
    /// The first addresses of the regions that show images, by image.
    pub(super) by_image: BTreeSet<(u32, Avma)>,
    /// Counts these regions among those of all processes.
    pub(super) held: Held,
    /// All executable mappings are known.
    pub(super) is_complete: bool,
    /// The interpreter whose frames are looked for.
    pub(super) interpreter: Option<Arc<Interpreter>>,
}

/// How an address space compares with a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// It has all of the mapping, and nothing else there.
    Whole,
    /// It has a part of the mapping, and nothing else there.
    Part,
    /// It has something else there.
    Other,
}

/// Executable memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Region {
    /// Address after the last byte.
    pub(crate) end: Avma,
    /// The id of the mapped image; `None` for code that is in no file.
    pub(crate) image: Option<u32>,
    /// The file offset of its first byte.
    pub(crate) file_off: FileOff,
    /// The time of the mapping, ns `CLOCK_MONOTONIC`.
    pub(crate) since_ns: u64,
    /// The process has mapped the same part of the image elsewhere, too, so that a file offset does not determine the address.
    pub(crate) is_twice: bool,
    /// The id of what the mapping shows, also if that is no file.
    pub(crate) shown: u32,
    /// The process has moved the code of a file there ([`icecore_format::records::Origin::MOVED`]).
    pub(crate) is_moved: bool,
}

impl Region {
    /// Returns the file offset of an address, given the first address.
    fn off_at(&self, start: Avma, address: Avma) -> FileOff {
        FileOff(self.file_off.0.wrapping_add(address.0 - start.0))
    }
}

impl Space {
    /// Returns the interpreter that is in it, if it is known.
    pub(crate) fn interpreter(&self) -> Option<&Interpreter> {
        self.interpreter.as_deref()
    }

    /// Returns a number that no other contents have.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Returns true if all executable mappings are known, so that an unmapped address is not code.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Returns the regions with their first addresses, ascending.
    pub(crate) fn regions(&self) -> impl Iterator<Item = (Avma, &Region)> {
        self.regions.iter().map(|(start, region)| (*start, region))
    }

    /// Returns the mapped images, each once; `None` for code that is in no file.
    pub(crate) fn images(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        let first = self.by_image.first().map(|(image, _)| *image);
        let next = |image: &u32| {
            self.by_image.range((image.checked_add(1)?, Avma(0))..).next().map(|(next, _)| *next)
        };
        let in_no_file = (self.by_image.len() < self.regions.len()).then_some(None);
        in_no_file.into_iter().chain(std::iter::successors(first, next).map(Some))
    }

    /// Returns true if there may be no room for more regions.
    pub(crate) fn may_be_full(&self) -> bool {
        self.regions.len() >= MODEST
    }

    /// Finds the address of a file offset of an image; `None` if it is not mapped, or mapped several times.
    pub(crate) fn address(&self, image: u32, file_off: FileOff) -> Option<Avma> {
        let mut found = self.showing(image).filter_map(|(start, region)| {
            let into =
                file_off.0.checked_sub(region.file_off.0).filter(|into| *into < region.end.0 - start.0)?;
            Some(Avma(start.0 + into))
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// Returns the first address of code, and the one after the last.
    pub(crate) fn bounds(&self) -> (Avma, Avma) {
        let first = self.regions.first_key_value().map_or(Avma(u64::MAX), |(start, _)| *start);
        (first, self.regions.last_key_value().map_or(Avma(0), |(_, region)| region.end))
    }

    /// Finds the code at an address; `None` if nothing executable is known to be mapped there.
    pub(crate) fn locate(&self, address: Avma) -> Option<Location> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        (address < region.end).then(|| match region.image {
            Some(image) if !region.is_twice => {
                Location::Image { image, file_off: region.off_at(*start, address).0 }
            }
            _ => Location::Address(address.0),
        })
    }

    /// Finds the code in no file at an address: its range, and since when it has been there, ns `CLOCK_MONOTONIC`.
    pub(crate) fn in_no_file(&self, address: Avma) -> Option<(Range<Avma>, u64)> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        let is_it = address < region.end && region.image.is_none();
        is_it.then_some((*start..region.end, region.since_ns))
    }

    /// Finds the image at an address and the offset in its file, even if the process has it mapped twice.
    pub(crate) fn code(&self, address: Avma) -> Option<(u32, FileOff)> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        let image = region.image.filter(|_| address < region.end)?;
        Some((image, region.off_at(*start, address)))
    }

    /// Compares a range of memory with a mapping of one of these images, `None` for code in no file, that begins at
    /// a file offset.
    pub(crate) fn shows(&self, memory: Range<Avma>, images: &[Option<u32>], file_off: FileOff) -> Shown {
        let below = self.regions.range(..memory.start).next_back();
        let below = below.filter(|(_, region)| region.end > memory.start);
        let (mut known, mut is_whole) = (memory.start, true);
        for (at, region) in below.into_iter().chain(self.regions.range(memory.clone())) {
            let off = FileOff(file_off.0.wrapping_add(at.0.wrapping_sub(memory.start.0)));
            if !images.contains(&region.image) || region.image.is_some() && region.file_off != off {
                return Shown::Other;
            }
            is_whole &= *at <= known;
            known = region.end;
        }
        if is_whole && known >= memory.end { Shown::Whole } else { Shown::Part }
    }

    /// Returns the address space with only the regions that touch one of these ranges, which are in order.
    pub(crate) fn within(mut self, ranges: &[Range<Avma>]) -> Self {
        self.not_in(ranges).into_iter().for_each(|start| self.take(start));
        self
    }

    pub(super) fn not_in(&self, ranges: &[Range<Avma>]) -> Vec<Avma> {
        let is_there = |start: Avma, end: Avma| {
            let behind = ranges.partition_point(|range| range.end <= start);
            ranges.get(behind).is_some_and(|range| range.start < end)
        };
        let gone = self.regions.iter().filter(|(start, region)| !is_there(**start, region.end));
        gone.map(|(start, _)| *start).collect()
    }

    /// Returns the address space with another region mapped.
    pub(crate) fn with(mut self, start: Avma, region: Region) -> Self {
        self.map(start, region);
        self
    }

    /// Returns the regions that show an image, and their first addresses.
    fn showing(&self, image: u32) -> impl Iterator<Item = (Avma, &Region)> + '_ {
        let starts = self.by_image.range((image, Avma(0))..=(image, Avma(u64::MAX)));
        starts.filter_map(|(_, start)| Some((*start, self.regions.get(start)?)))
    }

    /// Marks the regions that map a part of the file that a new region maps, too; returns true if there are any. If an image
    /// is mapped often, all its regions are marked, since comparing each with all others would take quadratic time.
    fn show_the_same(&mut self, start: Avma, region: &Region) -> bool {
        let Some(image) = region.image else { return false };
        let shown =
            |start: Avma, r: &Region| r.file_off..FileOff(r.file_off.0.saturating_add(r.end.0 - start.0));
        let new = shown(start, region);
        let others = self.showing(image).take(OFTEN + 1).map(|(at, old)| (at, shown(at, old)));
        let others: Vec<(Avma, Range<FileOff>)> = others.collect();
        if others.len() > OFTEN {
            return true;
        }
        let is_often = others.len() == OFTEN;
        let same =
            others.into_iter().filter(|(_, part)| is_often || part.start < new.end && new.start < part.end);
        let same: Vec<Avma> = same.map(|(at, _)| at).collect();
        for at in &same {
            if let Some(old) = self.regions.get_mut(at) {
                old.is_twice = true;
            }
        }
        !same.is_empty()
    }

    pub(super) fn put(&mut self, start: Avma, region: Region) {
        self.by_image.extend(region.image.map(|image| (image, start)));
        self.regions.insert(start, region);
        self.held.change(self.regions.len());
    }

    pub(super) fn take(&mut self, start: Avma) {
        if let Some(image) = self.regions.remove(&start).and_then(|region| region.image) {
            self.by_image.remove(&(image, start));
        }
        self.held.change(self.regions.len());
    }

    pub(super) fn map(&mut self, start: Avma, region: Region) {
        let below = self.regions.range(..start).next_back().filter(|(_, old)| old.end > start);
        let inside = self.regions.range(start..region.end);
        let covered: Vec<(Avma, Region)> =
            below.into_iter().chain(inside).map(|(at, old)| (*at, *old)).collect();
        for (at, old) in covered {
            self.take(at);
            if at < start {
                self.put(at, Region { end: start, ..old });
            }
            if old.end > region.end {
                let file_off = old.off_at(at, region.end);
                self.put(region.end, Region { file_off, ..old });
            }
        }
        if start < region.end {
            let is_twice = self.show_the_same(start, &region);
            self.put(start, Region { is_twice, ..region });
        }
    }
}
