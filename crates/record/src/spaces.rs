//! Address spaces as they are at the moment that is being tracked: which code lies where in every process.
//!
//! Pure. [`crate::track`] replays changes of tasks and mappings in the order of time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use icecore_format::records::Location;
use rustc_hash::{FxHashMap, FxHashSet};

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
}

/// When the address space of a process is known to be as it is here although reports of mappings are missing.
#[derive(Debug, Clone, Copy, Default)]
struct Proven {
    /// Not up to this moment.
    not_until_ns: u64,
    /// But up to this one.
    until_ns: u64,
}

/// One address space. A process that was forked shares its parent's until one of them maps something.
#[derive(Debug, Clone, Default)]
pub(crate) struct Space {
    /// Another number for other contents.
    version: u32,
    /// By first address; they do not overlap.
    regions: BTreeMap<u64, Region>,
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
        Arc::make_mut(self.by_tgid.entry(tgid).or_default()).is_complete = true;
    }

    /// Reports of mappings that were made up to a moment may be missing, of whatever process.
    pub(crate) fn lack_until(&mut self, time_ns: u64) {
        self.lacking_until_ns = time_ns;
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
        let lacking_ns = time_ns.min(self.lacking_until_ns);
        let proven = || self.proven.get(&tgid).copied().unwrap_or_default();
        lacking_ns == 0 || lacking_ns <= proven().until_ns && time_ns > proven().not_until_ns
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
        let space = Arc::make_mut(self.by_tgid.entry(tgid).or_default());
        space.version = self.versions;
        space.regions.retain(|_, region| region.since_ns >= time_ns);
        space.is_complete = true;
        // All that it maps from now on is reported.
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

    /// A process maps executable memory, over whatever was there.
    pub(crate) fn map(&mut self, tgid: u32, start: u64, region: Region) {
        self.changed.insert(tgid);
        self.versions = self.versions.wrapping_add(1);
        let space = Arc::make_mut(self.by_tgid.entry(tgid).or_default());
        space.version = self.versions;
        space.map(start, region);
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

    /// What it shows, an image id each; `None` for code that is in no file.
    pub(crate) fn images(&self) -> impl Iterator<Item = Option<u32>> + '_ {
        self.regions.values().map(|region| region.image)
    }

    /// Finds where an offset of an image is; `None` if it is nowhere, or at several places.
    pub(crate) fn address(&self, image: u32, file_off: u64) -> Option<u64> {
        let mut found = self.regions.iter().filter_map(|(start, region)| {
            let into = file_off.checked_sub(region.file_off).filter(|into| *into < region.end - start)?;
            (region.image == Some(image) && !region.is_twice).then(|| start + into)
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

    /// The space as it is once something is mapped, too.
    pub(crate) fn with(mut self, start: u64, region: Region) -> Self {
        self.map(start, region);
        self
    }

    /// Marks the regions that show a part of what a new one shows; tells whether there are any.
    fn show_the_same(&mut self, start: u64, region: &Region) -> bool {
        let shown = |start: u64, r: &Region| r.file_off..r.file_off.saturating_add(r.end - start);
        let new = shown(start, region);
        let mut any = false;
        for (at, old) in &mut self.regions {
            let part = shown(*at, old);
            if region.image.is_some()
                && old.image == region.image
                && part.start < new.end
                && new.start < part.end
            {
                old.is_twice = true;
                any = true;
            }
        }
        any
    }

    fn map(&mut self, start: u64, region: Region) {
        let below = self.regions.range(..start).next_back().filter(|(_, old)| old.end > start);
        let inside = self.regions.range(start..region.end);
        let covered: Vec<(u64, Region)> =
            below.into_iter().chain(inside).map(|(at, old)| (*at, *old)).collect();
        for (at, old) in covered {
            self.regions.remove(&at);
            if at < start {
                self.regions.insert(at, Region { end: start, ..old });
            }
            if old.end > region.end {
                let file_off = old.file_off.wrapping_add(region.end - at);
                self.regions.insert(region.end, Region { file_off, ..old });
            }
        }
        if start < region.end {
            let is_twice = self.show_the_same(start, &region);
            self.regions.insert(start, Region { is_twice, ..region });
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
}
