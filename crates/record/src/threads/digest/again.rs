//! Finds out what happened in a pause: which processes are new, which run another program, and which have ended.
//!
//! A process is looked at when it has a sample. All that it has mapped since the recorder goes on is reported, so what else it has mapped, it had
//! mapped at that moment.

use icecore_format::records::Origin;
use rustc_hash::FxHashSet;

use super::Digest;
use super::mappings::{place, range, row};
use crate::foreign::Process;
use crate::kernel::wire::{Event, Head};
use crate::sys::clock;
use crate::threads::chunk::Again;
use crate::track::spaces::Shown;

/// The processes that were not looked at since the last pause.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// When the recorder went on; 0 if it never paused.
    since_ns: u64,
    seen: FxHashSet<u32>,
}

impl Digest {
    /// Goes on after a pause. When in the pause a process ended is not known: by the end of the pause it has.
    pub(super) fn go_on(&mut self, again: &Again) {
        let Again { since_ns, tgids } = again;
        self.tracker.begin_account(*since_ns);
        self.tracker.lack_reports(*since_ns);
        self.unseen = Unseen { since_ns: *since_ns, seen: FxHashSet::default() };
        let there: FxHashSet<u32> = tgids.iter().copied().collect();
        for tgid in self.tracker.live().into_iter().filter(|tgid| !there.contains(tgid)) {
            let comm = self.tracker.comm(tgid).unwrap_or_default().to_vec();
            let head = Head { time_ns: *since_ns, cpu: 0, tgid, tid: tgid, comm: &comm, cgroup_id: 0 };
            let exit = Event::Exit { head, whole_group: true, status: 0 };
            self.followed.event(&exit);
            self.mounts.event(&exit);
            self.tracker.event(&exit);
            self.interpreters.forget(tgid);
        }
        self.followed.add(tgids);
    }

    /// Looks at a process with a sample for the first time since a pause; returns false if it has been looked at, or nothing is known of it.
    pub(super) fn see_again(&mut self, tgid: u32) -> bool {
        let Unseen { since_ns, seen } = &mut self.unseen;
        if *since_ns == 0 || !seen.insert(tgid) {
            return false;
        }
        let (since_ns, before_ns) = (*since_ns, clock::monotonic_ns());
        let Some(process) = Process::of(tgid, &self.door) else { return false };
        if process.maps.is_empty() {
            // Of a thread of the kernel there is nothing to know. What else has no mappings was not read.
            let is_of_kernel = self.tracker.space(tgid).is_none_or(|space| space.regions().next().is_none());
            if is_of_kernel {
                self.tracker.prove(tgid, before_ns, true);
            }
            return is_of_kernel;
        }
        if self.found_again(&Process { time_ns: since_ns, ..process }) {
            self.tracker.prove(tgid, before_ns, true);
        } else {
            self.unseen.seen.remove(&tgid);
        }
        true
    }

    /// Notes what a process has become in a pause. Only what is new becomes rows. Returns false if that must wait for the next time that the
    /// recorder goes on.
    fn found_again(&mut self, process: &Process) -> bool {
        let Process { time_ns, tgid, .. } = *process;
        let head = Head { time_ns, cpu: 0, tgid, tid: tgid, comm: &process.comm, cgroup_id: 0 };
        let Some(known) = self.tracker.comm(tgid).map(<[u8]>::to_vec) else {
            self.found(std::slice::from_ref(process));
            return true;
        };
        let moved = self.cgroups.found(tgid, &process.cgroup);
        self.moved(time_ns, moved);
        let (space, _) = self.tracker.latest(tgid);
        let Some(lines) = self.shown(tgid, &space, &process.maps) else { return false };
        // What the kernel shows every program in its own half says nothing.
        let own = lines.iter().filter(|(line, ..)| line.start <= i64::MAX as u64);
        let has = |wanted| own.clone().any(|(.., shown)| *shown == wanted);
        if has(Shown::Other) || space.regions().next().is_some() && !has(Shown::Whole) {
            let exec = Event::Exec { head };
            self.mounts.event(&exec);
            self.tracker.event(&exec);
            self.interpreters.forget(tgid);
            self.has_mapped(process);
            return true;
        }
        if known != process.comm {
            self.tracker.event(&Event::Comm { head });
        }
        self.tracker.has_only(tgid, time_ns, lines.iter().map(|(line, ..)| range(line)).collect());
        for (line, identity, _) in lines.iter().filter(|(.., shown)| *shown == Shown::Part) {
            let row = row(time_ns, tgid, line, Origin::SCAN);
            self.mapped(row, identity, place(&row));
        }
        true
    }
}
