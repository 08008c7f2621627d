//! Address spaces as they are at the moment that is being tracked: which code lies where in every process.
//!
//! Pure. [`crate::track::tracker`] replays changes of tasks and mappings in the order of time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use icecore_format::records::Location;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::track::tally::{Held, Tally};

/// Regions of one process that are kept; and that it may have without being given up, when it is looked at: the kernel does not
/// report what is unmapped, so that more are known than are there. A browser has some hundred.
const MAX_REGIONS: usize = 16 << 10;
pub(crate) const MAX_MAPPED: usize = MAX_REGIONS / 2;
/// Regions of all processes that are kept, about 100 bytes each; from the half on, a process may have no more than so many.
const MAX_ALL_REGIONS: usize = 1 << 20;
const MODEST: usize = 1024;
/// If a process maps an image more often than this, all of the image is treated as mapped twice.
const OFTEN: usize = 64;

/// The address spaces of all processes.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    by_tgid: FxHashMap<u32, Arc<Space>>,
    /// Processes that ended: the last samples of a thread come after its end was told.
    ended: Vec<u32>,
    /// Processes whose address space is another than when this was taken.
    changed: FxHashSet<u32>,
    versions: u32,
    /// Reports of mappings that were made up to this moment may be missing; 0 if none is.
    lacking_until_ns: u64,
    /// What was proven of processes since reports were missing.
    proven: FxHashMap<u32, Proven>,
    /// The number of all regions.
    regions: Tally,
}

/// When the address space of a process is known to be as it is here although reports of mappings are missing.
#[derive(Debug, Clone, Copy, Default)]
struct Proven {
    /// Not up to this moment.
    not_until_ns: u64,
    /// But up to this one.
    until_ns: u64,
    /// Reports of its own that were made up to this moment are missing.
    lacking_until_ns: u64,
    /// When it was given up, since it has too many mappings: it is not looked at any more; 0 if it was not.
    given_up_ns: u64,
}

impl Proven {
    /// Keeps what was noted after an address space began, and forgets what was noted of the one before it. The tracker notes
    /// missing reports at once, and replays the fork or exec later, in the order of time.
    fn since(self, time_ns: u64) -> Self {
        let later = |moment_ns: u64| if moment_ns > time_ns { moment_ns } else { 0 };
        let (lacking_until_ns, given_up_ns) = (later(self.lacking_until_ns), later(self.given_up_ns));
        Self { lacking_until_ns, given_up_ns, ..self }
    }
}

/// One address space. A process that was forked shares its parent's until one of them maps something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space {
    /// Another number for other contents.
    version: u32,
    /// By first address; they do not overlap.
    regions: BTreeMap<u64, Region>,
    /// First addresses of those that show images, by image.
    by_image: BTreeSet<(u32, u64)>,
    /// Counts the regions among those of all.
    held: Held,
    /// Nothing was mapped before the first region that is known.
    is_complete: bool,
}

/// What a space has of a stretch of memory that shows something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shown {
    /// All of it, and nothing else.
    Whole,
    /// Some is missing.
    Part,
    /// Something else is there.
    Other,
}

/// Executable memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Region {
    /// Address behind the last byte.
    pub(crate) end: u64,
    /// What it shows, an image id; `None` for code that is in no file.
    pub(crate) image: Option<u32>,
    /// Offset of its first byte in the file.
    pub(crate) file_off: u64,
    /// Since when, ns `CLOCK_MONOTONIC`.
    pub(crate) since_ns: u64,
    /// The process has mapped the same part of the image elsewhere, too: an offset does not tell the address.
    pub(crate) is_twice: bool,
}

impl Spaces {
    /// Finds the address space of a process.
    pub(crate) fn of(&self, tgid: u32) -> Option<&Space> {
        self.by_tgid.get(&tgid).map(|space| &**space)
    }

    /// All that a process has mapped will be told: it was looked at.
    pub(crate) fn complete(&mut self, tgid: u32) {
        self.changed.insert(tgid);
        self.changing(tgid).is_complete = true;
    }

    /// Reports of mappings that were made up to a moment may be missing, of whatever process.
    pub(crate) fn lack_until(&mut self, time_ns: u64) {
        self.lacking_until_ns = time_ns;
    }

    /// The same of one process.
    pub(crate) fn lack_of(&mut self, tgid: u32, until_ns: u64) {
        let proven = self.proven.entry(tgid).or_default();
        proven.lacking_until_ns = proven.lacking_until_ns.max(until_ns);
    }

    /// A process has more mappings than can be followed: nothing is known of it until it runs another program.
    pub(crate) fn give_up(&mut self, tgid: u32, time_ns: u64) {
        self.proven.entry(tgid).or_default().given_up_ns = time_ns;
        self.by_tgid.remove(&tgid);
        self.changed.insert(tgid);
    }

    /// Returns true if nothing will be known of a process.
    pub(crate) fn is_given_up(&self, tgid: u32) -> bool {
        self.proven.get(&tgid).is_some_and(|proven| proven.given_up_ns > 0)
    }

    /// The address space of a process was compared with that of `/proc` at a moment: it is right up to then, and will be, or
    /// from then on.
    pub(crate) fn prove(&mut self, tgid: u32, time_ns: u64, was_right: bool) {
        let proven = self.proven.entry(tgid).or_default();
        proven.until_ns = proven.until_ns.max(time_ns);
        if !was_right {
            proven.not_until_ns = time_ns;
        }
    }

    /// Returns true if no report that is missing can have been of this process, in front of this moment.
    pub(crate) fn is_sure(&self, tgid: u32, time_ns: u64) -> bool {
        if self.lacking_until_ns == 0 && self.proven.is_empty() {
            return true;
        }
        let proven = self.proven.get(&tgid).copied().unwrap_or_default();
        let lacking_ns = time_ns.min(self.lacking_until_ns.max(proven.lacking_until_ns));
        let is_proven = lacking_ns <= proven.until_ns && time_ns > proven.not_until_ns;
        proven.given_up_ns == 0 && (lacking_ns == 0 || is_proven)
    }

    /// A process begins with what its parent has.
    pub(crate) fn fork(&mut self, parent: u32, child: u32, time_ns: u64) {
        // It may have been looked at before this was told.
        let own = self.proven.get(&child).copied().unwrap_or_default().since(time_ns);
        if own.until_ns < time_ns {
            match self.proven.get(&parent).copied() {
                Some(parents) => {
                    let lacking_until_ns = parents.lacking_until_ns.max(own.lacking_until_ns);
                    let given_up_ns = parents.given_up_ns.max(own.given_up_ns);
                    self.proven.insert(child, Proven { lacking_until_ns, given_up_ns, ..parents });
                }
                None if own.lacking_until_ns.max(own.given_up_ns) > 0 => {
                    self.proven.insert(child, Proven { until_ns: 0, not_until_ns: 0, ..own });
                }
                None => {
                    self.proven.remove(&child);
                }
            }
        }
        match self.by_tgid.get(&parent).cloned() {
            Some(space) => self.by_tgid.insert(child, space),
            None => self.by_tgid.remove(&child),
        };
        self.ended.retain(|tgid| *tgid != child);
        self.changed.insert(child);
    }

    /// A process runs a new program: what was mapped before is gone. An exec is told when it is done, and
    /// counts from its beginning: the new program may have been mapped by now.
    pub(crate) fn exec(&mut self, tgid: u32, time_ns: u64) {
        self.changed.insert(tgid);
        self.versions = self.versions.wrapping_add(1);
        let held = self.regions.hold(0);
        let mut space = Space { version: self.versions, is_complete: true, held, ..Space::default() };
        let old = self.by_tgid.get(&tgid).into_iter().flat_map(|space| &space.regions);
        old.filter(|(_, region)| region.since_ns >= time_ns)
            .for_each(|(start, region)| space.put(*start, *region));
        self.by_tgid.insert(tgid, Arc::new(space));
        // All that it maps from now on is reported.
        if let Some(proven) = self.proven.get_mut(&tgid) {
            *proven = proven.since(time_ns);
        }
        if self.lacking_until_ns > 0 {
            self.prove(tgid, time_ns, true);
        }
    }

    /// A process ended; it is forgotten with the next call of [`Spaces::forget_ended`].
    pub(crate) fn exit(&mut self, tgid: u32) {
        self.ended.push(tgid);
    }

    /// Forgets the processes that had ended.
    pub(crate) fn forget_ended(&mut self) {
        for tgid in self.ended.drain(..) {
            self.by_tgid.remove(&tgid);
            self.proven.remove(&tgid);
        }
    }

    /// Takes the processes whose address space has changed since they were taken, or that are new.
    pub(crate) fn take_changed(&mut self) -> FxHashSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// A process maps executable memory, over whatever was there. If it has too much, that is not noted, and it must be looked at
    /// before anything is sure again.
    pub(crate) fn map(&mut self, tgid: u32, start: u64, region: Region) {
        let all = self.regions.total();
        let room = match all {
            _ if all < MAX_ALL_REGIONS / 2 => MAX_REGIONS,
            _ if all < MAX_ALL_REGIONS => MODEST,
            _ => 0,
        };
        if self.is_given_up(tgid) {
            return;
        }
        if self.of(tgid).map_or(0, |space| space.regions.len()) >= room {
            // Whatever was proven, this was part of it.
            let proven = self.proven.entry(tgid).or_default();
            (proven.until_ns, proven.lacking_until_ns) = (0, region.since_ns.saturating_add(1));
            return;
        }
        self.changed.insert(tgid);
        self.versions = self.versions.wrapping_add(1);
        let version = self.versions;
        let space = self.changing(tgid);
        space.version = version;
        space.map(start, region);
    }

    fn changing(&mut self, tgid: u32) -> &mut Space {
        let held = self.regions.hold(0);
        let empty = || Arc::new(Space { held, ..Space::default() });
        Arc::make_mut(self.by_tgid.entry(tgid).or_insert_with(empty))
    }

    /// A process was looked at: what does not touch one of these ranges, which are in order, is there no more.
    pub(crate) fn keep_only(&mut self, tgid: u32, ranges: &[Range<u64>]) {
        let gone = self.of(tgid).map(|space| space.not_in(ranges)).unwrap_or_default();
        if !gone.is_empty() {
            self.changed.insert(tgid);
            self.versions = self.versions.wrapping_add(1);
            let version = self.versions;
            let space = self.changing(tgid);
            space.version = version;
            gone.into_iter().for_each(|start| space.take(start));
        }
    }
}

impl Space {
    /// A number that no other contents have.
    pub(crate) fn version(&self) -> u32 {
        self.version
    }

    /// Tells whether what is nowhere in it is no code.
    pub(crate) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// What it shows, each image id once; `None` for code that is in no file.
    pub(crate) fn images(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        let first = self.by_image.first().map(|(image, _)| *image);
        let next =
            |image: &u32| self.by_image.range((image.checked_add(1)?, 0)..).next().map(|(next, _)| *next);
        let in_no_file = (self.by_image.len() < self.regions.len()).then_some(None);
        in_no_file.into_iter().chain(std::iter::successors(first, next).map(Some))
    }

    /// Tells whether there may be no room for more regions.
    pub(crate) fn may_be_full(&self) -> bool {
        self.regions.len() >= MODEST
    }

    /// Finds where an offset of an image is; `None` if it is nowhere, or at several places.
    pub(crate) fn address(&self, image: u32, file_off: u64) -> Option<u64> {
        let mut found = self.showing(image).filter_map(|(start, region)| {
            let into = file_off.checked_sub(region.file_off).filter(|into| *into < region.end - start)?;
            (!region.is_twice).then(|| start + into)
        });
        found.next().filter(|_| found.next().is_none())
    }

    /// The first address of code, and the one behind the last.
    pub(crate) fn bounds(&self) -> (u64, u64) {
        let first = self.regions.first_key_value().map_or(u64::MAX, |(start, _)| *start);
        (first, self.regions.last_key_value().map_or(0, |(_, region)| region.end))
    }

    /// Finds the code at an address (AVMA); `None` if nothing executable is known to be mapped there.
    pub(crate) fn locate(&self, address: u64) -> Option<Location> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        let into = address - start;
        (address < region.end).then(|| match region.image {
            Some(image) if !region.is_twice => {
                Location::Image { image, file_off: region.file_off.wrapping_add(into) }
            }
            _ => Location::Address(address),
        })
    }

    /// Finds the image at an address and the offset in its file, even if the process has it mapped twice.
    pub(crate) fn code(&self, address: u64) -> Option<(u32, u64)> {
        let (start, region) = self.regions.range(..=address).next_back()?;
        let image = region.image.filter(|_| address < region.end)?;
        Some((image, region.file_off.wrapping_add(address - start)))
    }

    /// Tells what it has of a stretch of memory that shows one of these images, `None` for code in no file, from an offset
    /// on.
    pub(crate) fn shows(&self, memory: Range<u64>, images: &[Option<u32>], file_off: u64) -> Shown {
        let below = self.regions.range(..memory.start).next_back();
        let below = below.filter(|(_, region)| region.end > memory.start);
        let (mut known, mut is_whole) = (memory.start, true);
        for (at, region) in below.into_iter().chain(self.regions.range(memory.clone())) {
            let off = file_off.wrapping_add(at.wrapping_sub(memory.start));
            if !images.contains(&region.image) || region.image.is_some() && region.file_off != off {
                return Shown::Other;
            }
            is_whole &= *at <= known;
            known = region.end;
        }
        if is_whole && known >= memory.end { Shown::Whole } else { Shown::Part }
    }

    /// The space as it is without what does not touch one of these ranges, which are in order.
    pub(crate) fn within(mut self, ranges: &[Range<u64>]) -> Self {
        self.not_in(ranges).into_iter().for_each(|start| self.take(start));
        self
    }

    fn not_in(&self, ranges: &[Range<u64>]) -> Vec<u64> {
        let is_there = |start: u64, end: u64| {
            let behind = ranges.partition_point(|range| range.end <= start);
            ranges.get(behind).is_some_and(|range| range.start < end)
        };
        let gone = self.regions.iter().filter(|(start, region)| !is_there(**start, region.end));
        gone.map(|(start, _)| *start).collect()
    }

    /// The space as it is once something is mapped, too.
    pub(crate) fn with(mut self, start: u64, region: Region) -> Self {
        self.map(start, region);
        self
    }

    /// The regions that show an image, and their first addresses.
    fn showing(&self, image: u32) -> impl Iterator<Item = (u64, &Region)> + '_ {
        let starts = self.by_image.range((image, 0)..=(image, u64::MAX));
        starts.filter_map(|(_, start)| Some((*start, self.regions.get(start)?)))
    }

    /// Marks the regions that map a part of the file that a new region maps, too; returns true if there are any. Where an image
    /// is mapped often, all its regions are marked: to compare each with all others would take quadratic time.
    fn show_the_same(&mut self, start: u64, region: &Region) -> bool {
        let Some(image) = region.image else { return false };
        let shown = |start: u64, r: &Region| r.file_off..r.file_off.saturating_add(r.end - start);
        let new = shown(start, region);
        let others = self.showing(image).take(OFTEN + 1).map(|(at, old)| (at, shown(at, old)));
        let others: Vec<(u64, Range<u64>)> = others.collect();
        if others.len() > OFTEN {
            return true;
        }
        let is_often = others.len() == OFTEN;
        let same =
            others.into_iter().filter(|(_, part)| is_often || part.start < new.end && new.start < part.end);
        let same: Vec<u64> = same.map(|(at, _)| at).collect();
        for at in &same {
            if let Some(old) = self.regions.get_mut(at) {
                old.is_twice = true;
            }
        }
        !same.is_empty()
    }

    fn put(&mut self, start: u64, region: Region) {
        self.by_image.extend(region.image.map(|image| (image, start)));
        self.regions.insert(start, region);
        self.held.change(self.regions.len());
    }

    fn take(&mut self, start: u64) {
        if let Some(image) = self.regions.remove(&start).and_then(|region| region.image) {
            self.by_image.remove(&(image, start));
        }
        self.held.change(self.regions.len());
    }

    fn map(&mut self, start: u64, region: Region) {
        let below = self.regions.range(..start).next_back().filter(|(_, old)| old.end > start);
        let inside = self.regions.range(start..region.end);
        let covered: Vec<(u64, Region)> =
            below.into_iter().chain(inside).map(|(at, old)| (*at, *old)).collect();
        for (at, old) in covered {
            self.take(at);
            if at < start {
                self.put(at, Region { end: start, ..old });
            }
            if old.end > region.end {
                let file_off = old.file_off.wrapping_add(region.end - at);
                self.put(region.end, Region { file_off, ..old });
            }
        }
        if start < region.end {
            let is_twice = self.show_the_same(start, &region);
            self.put(start, Region { is_twice, ..region });
        }
    }
}

#[cfg(test)]
mod tests;
