//! The address spaces of all processes at the moment that the tracker has reached: which code lies where.
//!
//! Pure. [`crate::track::tracker`] replays changes of tasks and mappings in the order of time.

mod space;

use std::ops::Range;
use std::sync::Arc;

use icecore_elf::Avma;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::track::jit::Interpreter;
use crate::track::tally::Tally;
pub(crate) use space::{Region, Shown, Space};

/// The number of regions of one process that are kept; and the number that it may have at a look into `/proc` without being given up.
/// The kernel does not report unmapping, so more regions are known than exist. A browser has some hundred.
const MAX_REGIONS: usize = 16 << 10;
pub(crate) const MAX_MAPPED: usize = MAX_REGIONS / 2;
/// The number of regions of all processes that are kept, about 100 bytes each. Once half of them are in use, each process may have only
/// a smaller number.
const MAX_ALL_REGIONS: usize = 1 << 20;
const MODEST: usize = 1024;
/// The address spaces of all processes.
#[derive(Debug, Default)]
pub(crate) struct Spaces {
    by_tgid: FxHashMap<u32, Arc<Space>>,
    /// Processes that have the address space of another one, and that one: what is known of it stands there.
    shares: FxHashMap<u32, u32>,
    /// Processes that ended. They are kept for a while: the last samples of a thread arrive after the report of its end.
    ended: Vec<u32>,
    /// Processes whose address space changed since the last [`Spaces::take_changed`].
    changed: FxHashSet<u32>,
    versions: u32,
    /// Mapping reports from before this moment may be missing; 0 if none is.
    lacking_until_ns: u64,
    /// What looks into `/proc` have proven since reports were missing.
    proven: FxHashMap<u32, Proven>,
    /// The number of all regions.
    regions: Tally,
}

/// The times at which the address space of a process is proven although mapping reports are missing.
#[derive(Debug, Clone, Copy, Default)]
struct Proven {
    /// Up to this moment it is not proven.
    not_until_ns: u64,
    /// From then up to this moment it is proven.
    until_ns: u64,
    /// Reports of this process from before this moment are missing.
    lacking_until_ns: u64,
    /// When the process was given up because of too many mappings, after which nobody looks at it any more; 0 if it was not.
    given_up_ns: u64,
}

impl Proven {
    /// Returns what was noted after the beginning of an address space, without what was noted about the one before it. The tracker notes
    /// missing reports at once, and replays the fork or exec later, in the order of time.
    fn since(self, time_ns: u64) -> Self {
        let later = |moment_ns: u64| if moment_ns > time_ns { moment_ns } else { 0 };
        let (lacking_until_ns, given_up_ns) = (later(self.lacking_until_ns), later(self.given_up_ns));
        Self { lacking_until_ns, given_up_ns, ..self }
    }
}

impl Spaces {
    /// Finds the address space of a process.
    pub(crate) fn of(&self, tgid: u32) -> Option<&Space> {
        self.by_tgid.get(&self.holder(tgid)).map(|space| &**space)
    }

    /// Returns all address spaces and the processes under which they are noted, in the order of these.
    pub(crate) fn all(&self) -> Vec<(u32, &Space)> {
        let mut all: Vec<_> = self.by_tgid.iter().map(|(tgid, space)| (*tgid, &**space)).collect();
        all.sort_unstable_by_key(|(tgid, _)| *tgid);
        all
    }

    /// Returns the process under which the address space of another one is noted; `None` if it has its own.
    pub(crate) fn shared_with(&self, tgid: u32) -> Option<u32> {
        self.shares.get(&tgid).copied()
    }

    /// Returns true if two processes have one address space.
    pub(crate) fn is_shared(&self, tgid: u32, other: u32) -> bool {
        self.holder(tgid) == self.holder(other)
    }

    /// Gives a process the address space of another one, until it runs a new program.
    pub(crate) fn share(&mut self, of: u32, tgid: u32) {
        self.leave(tgid);
        let holder = self.holder(of);
        if holder != tgid {
            self.by_tgid.remove(&tgid);
            self.proven.remove(&tgid);
            self.shares.insert(tgid, holder);
            self.changed.insert(tgid);
        }
    }

    /// Returns the process under which the address space of a process is noted.
    fn holder(&self, tgid: u32) -> u32 {
        self.shares.get(&tgid).copied().unwrap_or(tgid)
    }

    /// Leaves an address space to the other processes that have it.
    fn leave(&mut self, tgid: u32) {
        let others = self.shares.iter().filter(|(_, holder)| **holder == tgid).map(|(other, _)| *other);
        if self.shares.contains_key(&tgid) {
            self.shares.remove(&tgid);
        } else if let Some(heir) = others.min() {
            self.shares.remove(&heir);
            self.shares.values_mut().filter(|holder| **holder == tgid).for_each(|holder| *holder = heir);
            self.by_tgid.remove(&tgid).map(|space| self.by_tgid.insert(heir, space));
            self.proven.remove(&tgid).map(|proven| self.proven.insert(heir, proven));
        }
    }

    /// Notes that the address space under a holder has changed, for all that have it.
    fn change(&mut self, holder: u32) {
        self.changed.insert(holder);
        self.changed.extend(self.shares.iter().filter(|(_, of)| **of == holder).map(|(tgid, _)| *tgid));
    }

    /// Notes that all mappings of a process are known, since it was looked at in `/proc`.
    pub(crate) fn complete(&mut self, tgid: u32) {
        let tgid = self.holder(tgid);
        self.change(tgid);
        self.changing(tgid).is_complete = true;
    }

    /// Notes that mapping reports of any process from before a moment may be missing.
    pub(crate) fn lack_until(&mut self, time_ns: u64) {
        self.lacking_until_ns = time_ns;
    }

    /// Notes that mapping reports of one process from before a moment are missing.
    pub(crate) fn lack_of(&mut self, tgid: u32, until_ns: u64) {
        let proven = self.proven.entry(self.holder(tgid)).or_default();
        proven.lacking_until_ns = proven.lacking_until_ns.max(until_ns);
    }

    /// Gives up a process with too many mappings: its address space is unknown until it runs another program.
    pub(crate) fn give_up(&mut self, tgid: u32, time_ns: u64) {
        let tgid = self.holder(tgid);
        self.proven.entry(tgid).or_default().given_up_ns = time_ns;
        self.by_tgid.remove(&tgid);
        self.change(tgid);
    }

    /// Returns true if a process was given up.
    pub(crate) fn is_given_up(&self, tgid: u32) -> bool {
        self.proven.get(&self.holder(tgid)).is_some_and(|proven| proven.given_up_ns > 0)
    }

    /// Notes that the address space of a process was compared with `/proc` at a moment. If it was right, it is proven before and after that
    /// moment; otherwise only after it.
    pub(crate) fn prove(&mut self, tgid: u32, time_ns: u64, was_right: bool) {
        let proven = self.proven.entry(self.holder(tgid)).or_default();
        proven.until_ns = proven.until_ns.max(time_ns);
        if !was_right {
            proven.not_until_ns = time_ns;
        }
    }

    /// Returns true if no missing report can concern this process before this moment.
    pub(crate) fn is_sure(&self, tgid: u32, time_ns: u64) -> bool {
        if self.lacking_until_ns == 0 && self.proven.is_empty() {
            return true;
        }
        let proven = self.proven.get(&self.holder(tgid)).copied().unwrap_or_default();
        let lacking_ns = time_ns.min(self.lacking_until_ns.max(proven.lacking_until_ns));
        let is_proven = lacking_ns <= proven.until_ns && time_ns > proven.not_until_ns;
        proven.given_up_ns == 0 && (lacking_ns == 0 || is_proven)
    }

    /// Gives a new process the address space of its parent.
    pub(crate) fn fork(&mut self, parent: u32, child: u32, time_ns: u64) {
        self.leave(child);
        let parent = self.holder(parent);
        // A look at the child may have come before the report of its fork.
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

    /// Empties the address space of a process that runs a new program. The kernel reports an exec at its end, but it
    /// counts from its beginning: the new program may be mapped by now.
    pub(crate) fn exec(&mut self, tgid: u32, time_ns: u64) {
        self.changed.insert(tgid);
        self.versions = self.versions.wrapping_add(1);
        let held = self.regions.hold(0);
        let mut space = Space { version: self.versions, is_complete: true, held, ..Space::default() };
        let old = self.of(tgid).into_iter().flat_map(|space| &space.regions);
        old.filter(|(_, region)| region.since_ns >= time_ns)
            .for_each(|(start, region)| space.put(*start, *region));
        self.leave(tgid);
        self.by_tgid.insert(tgid, Arc::new(space));
        // All mappings from now on are reported.
        if let Some(proven) = self.proven.get_mut(&tgid) {
            *proven = proven.since(time_ns);
        }
        if self.lacking_until_ns > 0 {
            self.prove(tgid, time_ns, true);
        }
    }

    /// Notes that a process ended. The next call of [`Spaces::forget_ended`] forgets it.
    pub(crate) fn exit(&mut self, tgid: u32) {
        self.ended.push(tgid);
    }

    /// Forgets the processes that had ended.
    pub(crate) fn forget_ended(&mut self) {
        for tgid in std::mem::take(&mut self.ended) {
            self.leave(tgid);
            self.by_tgid.remove(&tgid);
            self.proven.remove(&tgid);
        }
    }

    /// Takes the processes that are new, or whose address space has changed, since the last call.
    pub(crate) fn take_changed(&mut self) -> FxHashSet<u32> {
        std::mem::take(&mut self.changed)
    }

    /// Maps executable memory of a process, over whatever was there. If the process has too many regions, the mapping is not noted, and the
    /// address space is not sure until the process was looked at.
    pub(crate) fn map(&mut self, tgid: u32, start: Avma, region: Region) {
        let all = self.regions.total();
        let room = match all {
            _ if all < MAX_ALL_REGIONS / 2 => MAX_REGIONS,
            _ if all < MAX_ALL_REGIONS => MODEST,
            _ => 0,
        };
        let tgid = self.holder(tgid);
        if self.is_given_up(tgid) {
            return;
        }
        if self.of(tgid).map_or(0, |space| space.regions.len()) >= room {
            // The refused region is missing from whatever was proven.
            let proven = self.proven.entry(tgid).or_default();
            (proven.until_ns, proven.lacking_until_ns) = (0, region.since_ns.saturating_add(1));
            return;
        }
        self.change(tgid);
        self.versions = self.versions.wrapping_add(1);
        let version = self.versions;
        let space = self.changing(tgid);
        space.version = version;
        space.map(start, region);
    }

    /// Notes the interpreter in the address space of a process.
    pub(crate) fn interpreter(&mut self, tgid: u32, interpreter: Interpreter) {
        let tgid = self.holder(tgid);
        if self.of(tgid).is_some_and(|space| space.interpreter() != Some(&interpreter)) {
            self.versions = self.versions.wrapping_add(1);
            let version = self.versions;
            let space = self.changing(tgid);
            (space.version, space.interpreter) = (version, Some(Arc::new(interpreter)));
        }
    }

    fn changing(&mut self, tgid: u32) -> &mut Space {
        let held = self.regions.hold(0);
        let empty = || Arc::new(Space { held, ..Space::default() });
        Arc::make_mut(self.by_tgid.entry(tgid).or_insert_with(empty))
    }

    /// Removes the regions of a process that touch none of these ranges, which are in order: a look into `/proc` showed no others.
    pub(crate) fn keep_only(&mut self, tgid: u32, ranges: &[Range<Avma>]) {
        let gone = self.of(tgid).map(|space| space.not_in(ranges)).unwrap_or_default();
        if !gone.is_empty() {
            let tgid = self.holder(tgid);
            self.change(tgid);
            self.versions = self.versions.wrapping_add(1);
            let version = self.versions;
            let space = self.changing(tgid);
            space.version = version;
            gone.into_iter().for_each(|start| space.take(start));
        }
    }
}

#[cfg(test)]
mod tests;
