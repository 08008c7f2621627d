//! Address spaces as they are at the moment that is being tracked: which code lies where in every process.
//!
//! Pure. [`crate::track`] replays changes of tasks and mappings in the order of time.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use icecore_format::records::Location;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::tally::{Held, Tally};

/// Regions of one process that are kept; and that it may have without being given up, when it is looked at: the kernel does not
/// report what is unmapped, so that more are known than are there. A browser has some hundred.
const MAX_REGIONS: usize = 16 << 10;
pub(crate) const MAX_MAPPED: usize = MAX_REGIONS / 2;
/// Regions of all processes that are kept, about 100 bytes each; from the half on, a process may have no more than so many.
const MAX_ALL_REGIONS: usize = 1 << 20;
const MODEST: usize = 1024;
/// An image that is mapped more often than this is taken to be mapped twice everywhere.
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
    /// It has too many mappings: it is not looked at any more.
    is_given_up: bool,
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
    pub(crate) fn give_up(&mut self, tgid: u32) {
        self.proven.entry(tgid).or_default().is_given_up = true;
        self.by_tgid.remove(&tgid);
        self.changed.insert(tgid);
    }

    /// Returns true if nothing will be known of a process.
    pub(crate) fn is_given_up(&self, tgid: u32) -> bool {
        self.proven.get(&tgid).is_some_and(|proven| proven.is_given_up)
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
        !proven.is_given_up && (lacking_ns == 0 || is_proven)
    }

    /// A process begins with what its parent has.
    pub(crate) fn fork(&mut self, parent: u32, child: u32, time_ns: u64) {
        // It may have been looked at before this was told.
        if self.proven.get(&child).is_none_or(|proven| proven.until_ns < time_ns) {
            match self.proven.get(&parent).copied() {
                Some(proven) => self.proven.insert(child, proven),
                None => self.proven.remove(&child),
            };
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
            (proven.lacking_until_ns, proven.is_given_up) = (0, false);
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

    /// Marks the regions that show a part of what a new one shows; tells whether there are any. Of an image that is mapped often
    /// all are marked, so that none has to be compared with all others.
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
mod tests {
    use super::*;

    fn region(end: u64, image: u32, file_off: u64) -> Region {
        Region { end, image: Some(image), file_off, since_ns: 5, is_twice: false }
    }

    fn at(spaces: &Spaces, tgid: u32, address: u64) -> Option<(u32, u64)> {
        match spaces.of(tgid)?.locate(address)? {
            Location::Image { image, file_off } => Some((image, file_off)),
            Location::Address(_) => panic!("these mappings show files"),
        }
    }

    #[test]
    fn a_later_mapping_covers_and_leaves_the_rest() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x5000, 7, 0));
        spaces.map(1, 0x2000, region(0x3000, 8, 0x100));
        let seen = [0xfff, 0x1000, 0x1fff, 0x2000, 0x2fff, 0x3000, 0x4fff, 0x5000].map(|a| at(&spaces, 1, a));
        let expected = [
            None,
            Some((7, 0)),
            Some((7, 0xfff)),
            Some((8, 0x100)),
            Some((8, 0x10ff)),
            Some((7, 0x2000)),
            Some((7, 0x3fff)),
            None,
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_fork_copies_and_an_exec_empties() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        spaces.fork(1, 2, 5);
        let version = |tgid| spaces.of(tgid).map(Space::version);
        assert_eq!(version(1), version(2));
        spaces.map(2, 0x8000, region(0x9000, 9, 0));
        spaces.exec(1, 6);
        assert_eq!((at(&spaces, 1, 0x1000), at(&spaces, 2, 0x1000)), (None, Some((7, 0))));
        assert_eq!((at(&spaces, 1, 0x8000), at(&spaces, 2, 0x8000)), (None, Some((9, 0))));
        spaces.fork(77, 2, 5);
        assert_eq!(at(&spaces, 2, 0x8000), None);
    }

    #[test]
    fn whoever_has_other_code_than_before_is_told() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        spaces.fork(1, 2, 5);
        spaces.exec(3, 6);
        spaces.complete(4);
        spaces.exit(5);
        let mut changed: Vec<u32> = spaces.take_changed().into_iter().collect();
        changed.sort_unstable();
        assert_eq!(changed, [1, 2, 3, 4]);
        assert!(spaces.take_changed().is_empty());
    }

    #[test]
    fn an_exec_that_is_told_late_keeps_the_new_program() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        spaces.map(1, 0x8000, Region { since_ns: 9, ..region(0x9000, 8, 0) });
        spaces.exec(1, 9);
        assert_eq!((at(&spaces, 1, 0x1000), at(&spaces, 1, 0x8000)), (None, Some((8, 0))));
    }

    #[test]
    fn an_ended_process_is_kept_for_its_last_samples() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        spaces.exit(1);
        assert!(spaces.of(1).is_some());
        spaces.fork(1, 1, 5);
        spaces.forget_ended();
        assert!(spaces.of(1).is_some(), "its number was used again");
        spaces.exit(1);
        spaces.forget_ended();
        assert!(spaces.of(1).is_none());
    }

    #[test]
    fn an_image_that_is_mapped_twice_keeps_its_addresses() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        spaces.map(1, 0x8000, region(0x9000, 7, 0x800));
        spaces.map(1, 0xa000, region(0xb000, 7, 0x2000));
        let located = [0x1000, 0x8000, 0xa000].map(|a| spaces.of(1).and_then(|space| space.locate(a)));
        let image = Location::Image { image: 7, file_off: 0x2000 };
        assert_eq!(located, [Some(Location::Address(0x1000)), Some(Location::Address(0x8000)), Some(image)]);
        let code = [0x1004, 0x8004, 0x9000].map(|a| spaces.of(1).and_then(|space| space.code(a)));
        assert_eq!(code, [Some((7, 4)), Some((7, 0x804)), None]);
    }

    #[test]
    fn a_space_is_complete_behind_a_scan_or_an_exec() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        let is_complete = |spaces: &Spaces, tgid| spaces.of(tgid).is_some_and(Space::is_complete);
        assert!(!is_complete(&spaces, 1));
        spaces.complete(1);
        spaces.fork(1, 2, 5);
        spaces.exec(3, 0);
        assert!([1, 2, 3].iter().all(|tgid| is_complete(&spaces, *tgid)));
    }

    #[test]
    fn code_without_a_file_keeps_its_address() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, Region { end: 0x2000, image: None, file_off: 0, since_ns: 0, is_twice: false });
        let space = spaces.of(1).expect("just mapped");
        assert_eq!(space.locate(0x1234), Some(Location::Address(0x1234)));
    }

    #[test]
    fn an_image_that_is_mapped_often_is_told_by_addresses() {
        let mut spaces = Spaces::default();
        let at = |n: u64| 0x10_0000 + n * 0x2000;
        // Never the same part of it.
        let map = |spaces: &mut Spaces, n: u64| spaces.map(1, at(n), region(at(n) + 0x1000, 7, n * 0x1000));
        let by_address = |spaces: &Spaces, numbers: Range<u64>| {
            let located = numbers.filter_map(|n| spaces.of(1)?.locate(at(n)));
            located.filter(|location| matches!(location, Location::Address(_))).count()
        };
        let often = OFTEN as u64;
        (0..often).for_each(|n| map(&mut spaces, n));
        assert_eq!(by_address(&spaces, 0..often), 0);
        (often..1000).for_each(|n| map(&mut spaces, n));
        assert_eq!(by_address(&spaces, 0..1000), 1000);
        assert_eq!(spaces.of(1).expect("mapped").images().collect::<Vec<_>>(), [Some(7)]);
    }

    #[test]
    fn who_maps_too_much_is_not_sure_until_looked_at() {
        let mut spaces = Spaces::default();
        let at = |n: u64| 0x10_0000 + n * 0x2000;
        let one = |n: u64, time_ns| Region { since_ns: time_ns, ..region(at(n) + 0x1000, n as u32, 0) };
        (0..MAX_REGIONS as u64).for_each(|n| spaces.map(1, at(n), one(n, 10)));
        spaces.fork(1, 2, 11);
        assert!(spaces.is_sure(1, 20) && spaces.is_sure(2, 20));
        let over = MAX_REGIONS as u64 + 1;
        spaces.map(1, at(over), one(over, 30));
        assert!(!spaces.is_sure(1, 31) && spaces.is_sure(2, 31));
        // Most of it was unmapped.
        spaces.prove(1, 40, false);
        spaces.keep_only(1, &[at(3)..at(4), at(7) + 0x800..at(7) + 0x1800]);
        spaces.map(1, at(over), one(over, 40));
        assert!(!spaces.is_sure(1, 35) && spaces.is_sure(1, 41) && spaces.is_sure(1, 99));
        let space = spaces.of(1).expect("mapped");
        let images: Vec<_> = space.images().flatten().map(u64::from).collect();
        assert_eq!(images, [3, 7, over]);
        assert_eq!(spaces.of(2).map(|space| space.regions.len()), Some(MAX_REGIONS));
        assert_eq!(spaces.regions.total(), MAX_REGIONS + 3);
    }

    #[test]
    fn what_is_refused_is_not_proven_by_a_look_that_told_it() {
        let mut spaces = Spaces::default();
        let at = |n: u64| 0x10_0000 + n * 0x2000;
        (0..MAX_REGIONS as u64).for_each(|n| spaces.map(1, at(n), region(at(n) + 0x1000, 1, 0)));
        spaces.prove(1, 50, true);
        spaces.map(1, 0x1000, Region { since_ns: 40, ..region(0x2000, 2, 0) });
        assert!(!spaces.is_sure(1, 45) && !spaces.is_sure(1, 60));
    }

    #[test]
    fn who_is_given_up_is_known_again_when_it_runs_a_program() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        spaces.give_up(1);
        spaces.map(1, 0x1000, region(0x2000, 7, 0));
        spaces.prove(1, 9, true);
        spaces.fork(1, 2, 10);
        for tgid in [1, 2] {
            assert!(spaces.is_given_up(tgid) && !spaces.is_sure(tgid, 8) && spaces.of(tgid).is_none());
        }
        assert_eq!(spaces.regions.total(), 0);
        spaces.exec(2, 12);
        spaces.map(2, 0x1000, Region { since_ns: 13, ..region(0x2000, 8, 0) });
        assert!(spaces.is_sure(2, 14) && !spaces.is_given_up(2));
        assert_eq!(at(&spaces, 2, 0x1000), Some((8, 0)));
    }

    proptest::proptest! {
        /// Against what is known of each page: the image and offset that it was mapped with last.
        #[test]
        fn every_page_shows_what_was_mapped_there_last(
            maps in proptest::collection::vec((0..40_u64, 1..12_u64, 0..4_u32, 0..30_u64, proptest::bool::ANY), 1..60)
        ) {
            let mut spaces = Spaces::default();
            let mut pages = BTreeMap::new();
            for (first, len, image, off, is_look) in maps {
                if is_look {
                    spaces.keep_only(1, std::slice::from_ref(&(first..first + len)));
                    let kept = spaces.of(1).map(|space| space.regions.clone()).unwrap_or_default();
                    let is_kept = |page: &u64| kept.iter().any(|(at, region)| at <= page && *page < region.end);
                    proptest::prop_assert!(pages.keys().filter(|page| (first..first + len).contains(*page)).all(is_kept));
                    pages.retain(|page, _| is_kept(page));
                } else {
                    let region = Region { end: first + len, ..region(0, image, off) };
                    spaces.map(1, first, region);
                    pages.extend((0..len).map(|n| (first + n, (image, off + n))));
                }
                let Some(space) = spaces.of(1) else { continue };
                for page in 0..60 {
                    proptest::prop_assert_eq!(space.code(page), pages.get(&page).copied());
                    // An offset tells the address only if no other page shows it.
                    if let Some(Location::Image { image, file_off }) = space.locate(page) {
                        let same = pages.values().filter(|shown| **shown == (image, file_off)).count();
                        proptest::prop_assert_eq!(same, 1);
                    }
                }
                let indexed: BTreeSet<_> = space.regions.iter().filter_map(|(at, r)| Some((r.image?, *at))).collect();
                proptest::prop_assert_eq!(&space.by_image, &indexed);
                proptest::prop_assert_eq!(spaces.regions.total(), space.regions.len());
            }
        }
    }
}
