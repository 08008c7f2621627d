//! What the tracker knows about address spaces, and what it learns when `/proc` is read again.

use std::cmp::Reverse;
use std::ops::Range;

use icecore_elf::Avma;
use icecore_format::records::{Change, Image};
use rustc_hash::{FxHashMap, FxHashSet};

use super::waiting::What;
use super::{Tracker, is_image};
use crate::kernel::wire::Head;
use crate::track::spaces::Space;

impl Tracker {
    /// Notes that mapping reports from before a moment may be missing.
    pub(crate) fn lack_reports(&mut self, until_ns: u64) {
        self.spaces.lack_until(until_ns);
    }

    /// Lists the processes with samples that wait for their address space to be proven, those with most samples first.
    pub(crate) fn unsure(&self) -> Vec<u32> {
        let mut counts: FxHashMap<u32, u32> = FxHashMap::default();
        let may_be_proven = |tgid| !self.spaces.is_given_up(tgid);
        let unsure = self.waiting.samples().filter(|(time_ns, tgid)| !self.spaces.is_sure(*tgid, *time_ns));
        let unsure = unsure.filter(|(_, tgid)| may_be_proven(*tgid));
        unsure.for_each(|(_, tgid)| *counts.entry(tgid).or_default() += 1);
        let mut tgids: Vec<u32> = counts.keys().copied().collect();
        tgids.sort_unstable_by_key(|tgid| (Reverse(counts[tgid]), *tgid));
        tgids
    }

    /// Returns an address space with the waiting events applied, and the earliest time at which a mapping that is missing there may have
    /// been made.
    pub(crate) fn latest(&self, tgid: u32) -> (Space, u64) {
        let (mut space, mut since_ns) = (self.spaces.of(tgid).cloned(), self.settled_ns);
        for what in self.waiting.of(tgid, |other| self.spaces.is_shared(tgid, other)) {
            match what {
                What::Change { row, .. } if [Change::FORK, Change::SHARES].contains(&row.change) => {
                    (space, since_ns) = (self.spaces.of(row.parent_tgid).cloned(), row.time_ns);
                }
                What::Change { row, .. } => (space, since_ns) = (None, row.time_ns),
                What::Mapping { row, region } => {
                    space = Some(space.unwrap_or_default().with(Avma(row.start), *region));
                }
                What::Only { ranges, .. } => space = space.map(|space| space.within(ranges)),
                What::Sample(_) | What::CpuTime(_) | What::Cgroup { .. } | What::Rate(_) => {}
            }
        }
        (space.unwrap_or_default(), since_ns)
    }

    /// Returns the images that a mapping of a file can have: the one that `/proc` shows, and the one that
    /// the kernel reports. `None` stands for code in no file.
    pub(crate) fn images_of(&self, path: &[u8], image: Image) -> Vec<Option<u32>> {
        if !is_image(image.kind) {
            return vec![None];
        }
        let reported = Image { dev: 0, inode: 0, size_bytes: 0, modified_unix_ns: 0, ..image.clone() };
        [image, reported].into_iter().filter_map(|image| self.images.find(image, path)).map(Some).collect()
    }

    /// Notes all executable ranges that a process has mapped at a moment, in order.
    pub(crate) fn has_only(&mut self, tgid: u32, time_ns: u64, ranges: Vec<Range<Avma>>) {
        self.wait(time_ns, What::Only { tgid, ranges });
    }

    /// Notes that mapping reports of a process from before a moment are missing.
    pub(crate) fn lack_reports_of(&mut self, tgid: u32, until_ns: u64) {
        self.spaces.lack_of(tgid, until_ns);
    }

    /// Notes that a process has too many mappings: its address space is unknown until it runs another program.
    pub(crate) fn give_up(&mut self, tgid: u32, time_ns: u64) {
        self.spaces.give_up(tgid, time_ns);
    }

    /// Notes that not every mapping of a process is followed.
    pub(crate) fn refuse_mappings(&mut self, time_ns: u64, tgid: u32, comm: &[u8]) {
        let head = Head { time_ns, cpu: 0, tgid, tid: tgid, comm, cgroup_id: 0 };
        self.change(Change::MAPPINGS_REFUSED, &head, 0, false);
    }

    /// Notes whether an address space is as it was known ([`Tracker::latest`]).
    pub(crate) fn prove(&mut self, tgid: u32, time_ns: u64, was_right: bool) {
        self.spaces.prove(tgid, time_ns, was_right);
    }

    /// Takes the processes whose address space has changed since the last call.
    pub(crate) fn take_changed(&mut self) -> FxHashSet<u32> {
        self.spaces.take_changed()
    }

    /// Returns the address space of a process at the moment that was settled last.
    pub(crate) fn space(&self, tgid: u32) -> Option<&Space> {
        self.spaces.of(tgid)
    }
}
