//! Which samples are requested, and what they have in common.

use std::ops::Range;

use icecore_format::index::Entry;
use icecore_format::records::{CpuTime, Sample, StackRepair, Task, WalkEnd};

use crate::recording::cgroups::{CgroupId, Cgroups};
use crate::recording::events::ChosenEvents;
use crate::recording::filter::{Filter, Sides};
use crate::recording::load::Tables;
use crate::recording::spaces::{SpaceId, Spaces};
use crate::stacks::idle::IdleWaits;
use crate::stacks::tracing::Tracing;

/// What samples share that hit the same code in the same thread or process. The order makes equal stacks neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The address space; `None` if the process is unknown.
    pub space: Option<SpaceId>,
    /// The user stack, a stack id; 0 if empty or filtered out.
    pub user: u32,
    /// The kernel stack, a stack id; 0 if empty or filtered out.
    pub kernel: u32,
    /// The thread, a task id; one thread stands for its process where they are counted together.
    pub task: u32,
    /// How the user walk ended.
    pub end: WalkEnd,
    /// What became of the walk.
    pub repair: StackRepair,
    /// The samples hit in the kernel, whether or not kernel frames are requested.
    pub in_kernel: bool,
    /// The cgroup of the thread.
    pub cgroup: CgroupId,
    /// The event, where events are counted apart; else 0.
    pub event: u8,
    /// The CPU, where CPUs are counted apart; else 0.
    pub cpu: u16,
    /// The group of the field, where fields are counted apart: see [`Fields`](crate::stacks::fields::Fields). Else 0.
    pub field: u32,
    /// The group of the waits, where waits are counted apart: see [`WaitGroups`](crate::stacks::waits::WaitGroups). Else 0.
    pub wait: u32,
}

/// All samples with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// What the samples share.
    pub key: Key,
    /// Number of samples.
    pub samples: u64,
    /// Sum of their weights, in the unit of their event.
    pub weight: u64,
    /// Earliest and latest time, ns `CLOCK_MONOTONIC`.
    pub span_ns: (u64, u64),
}

/// Selects and describes samples, equally for counting and for listing.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The recording as tables.
    pub tables: &'a Tables,
    /// Its address spaces.
    pub spaces: &'a Spaces,
    /// Its cgroups.
    pub cgroups: &'a Cgroups,
    /// Which samples are requested.
    pub filter: &'a Filter,
    /// Which events are requested.
    pub events: &'a ChosenEvents,
    /// The waits of kernel threads without work, if they are left out.
    pub idle: Option<&'a IdleWaits>,
    /// The functions of tracing in stacks of tracepoints, if they are left out.
    pub tracing: Option<&'a Tracing>,
}

impl Selection<'_> {
    /// Returns the key of a sample; `None` if the filter excludes it.
    pub fn key(&self, sample: &Sample) -> Option<Key> {
        let phase = self.phase(sample.task, sample.time_ns);
        self.wants_but_for_event(&phase, sample).then(|| self.key_in(&phase, sample))?
    }

    /// Returns true if the filter admits a thread, a task id, by its ids.
    pub fn wants_thread(&self, id: u32) -> bool {
        let (task, parts) = (self.tables.task(id), &self.tables.parts);
        self.filter.wants_ids(&Task { tgid: parts.pid(task.tgid), tid: parts.pid(task.tid), ..task })
    }

    /// Returns true if the filter admits a row of the kernel's CPU time. The row belongs to a thread and a stretch of time, so the
    /// other filters do not apply to it.
    pub fn wants_cpu_time(&self, row: &CpuTime) -> bool {
        let Self { filter, tables, .. } = self;
        let (tgid, tid) = (tables.parts.pid(row.tgid), tables.parts.pid(row.tid));
        let zero_ns = tables.parts.zero_ns();
        filter.is_of_threads_and_times()
            && filter.wants_ids(&Task { tgid, tid, comm: 0 })
            && filter.from.is_none_or(|from| row.since_ns >= zero_ns.saturating_add(from.ns))
            && filter.to.is_none_or(|to| row.time_ns <= zero_ns.saturating_add(to.ns))
    }

    /// Finds the phase of a task's life around a moment.
    pub(super) fn phase(&self, id: u32, time_ns: u64) -> Phase {
        let parts = &self.tables.parts;
        let task = &self.tables.task(id);
        let (space, in_space_ns) = self.spaces.stay(task.tgid, time_ns);
        let (cgroup, in_cgroup_ns) = self.cgroups.stay(task.tgid, task.tid, time_ns);
        let during_ns = in_space_ns.start.max(in_cgroup_ns.start)..in_space_ns.end.min(in_cgroup_ns.end);
        let wanted = self.wants_thread(id)
            && self.filter.wants_host(|| &parts.part(parts.of_task(id)).session.host)
            && (self.filter.cgroups.is_empty() || self.cgroups.is_below(cgroup, &self.filter.cgroups))
            && self.is_named_as_wanted(task, space);
        Phase { space, cgroup, during_ns, wanted }
    }

    /// Returns the key of a sample that the filter admits; `None` if its event is not requested, or it is left out as a wait.
    pub(super) fn key_in(&self, phase: &Phase, sample: &Sample) -> Option<Key> {
        if !self.events.has(sample.event) || self.is_idle(sample) {
            return None;
        }
        let kernel_stack = self.tracing.map_or(sample.kernel_stack, |tracing| tracing.shown(sample));
        let (user, kernel) = match self.filter.sides {
            Sides::Both => (sample.user_stack, kernel_stack),
            Sides::User => (sample.user_stack, 0),
            Sides::Kernel => (0, kernel_stack),
        };
        let (task, end, in_kernel) = (sample.task, sample.user_end, sample.kernel_stack != 0);
        let Phase { space, cgroup, .. } = *phase;
        let (repair, event, cpu, field, wait) = (sample.repair, 0, 0, 0, 0);
        Some(Key { task, space, cgroup, user, kernel, end, repair, in_kernel, event, cpu, field, wait })
    }

    /// Returns true if the filter admits a sample, whatever its event is.
    pub(super) fn wants_but_for_event(&self, phase: &Phase, sample: &Sample) -> bool {
        phase.wanted && self.filter.wants_sample(sample, self.tables.parts.zero_ns())
    }

    /// Returns true if a sample is left out because it is a wait without work.
    pub(super) fn is_idle(&self, sample: &Sample) -> bool {
        self.idle.is_some_and(|idle| idle.has(sample))
    }

    /// Returns true if a block may hold a requested sample.
    pub fn may_be_in(&self, entry: &Entry) -> bool {
        let part = self.tables.parts.of(entry);
        let span_ns = (part.time_ns(entry.header.first_ns), part.time_ns(entry.header.last_ns));
        self.filter.wants_block(span_ns, entry.header.processes, self.tables.parts.zero_ns())
    }

    fn is_named_as_wanted(&self, task: &Task, space: Option<SpaceId>) -> bool {
        // No name need be looked up if the filter admits every name.
        self.filter.comms.is_empty()
            || self.filter.wants_name(self.tables.text(task.comm), self.process_name(task, space))
    }

    /// Returns the name of a thread's process; the thread's own if the process has none in the recording.
    pub fn process_name(&self, task: &Task, space: Option<SpaceId>) -> &str {
        match space.map_or(0, |space| self.spaces.process_name(task.tgid, space)) {
            0 => self.tables.text(task.comm),
            name => self.tables.text(name),
        }
    }

    /// Returns true if the side filter removed all frames of a sample.
    pub fn is_emptied(&self, key: &Key) -> bool {
        self.filter.sides != Sides::Both && key.user == 0 && key.kernel == 0
    }
}

/// A stretch of time in which all samples of a task have the same address space and cgroup.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub(super) space: Option<SpaceId>,
    pub(super) cgroup: CgroupId,
    pub(super) during_ns: Range<u64>,
    /// The filter admits the task.
    pub(super) wanted: bool,
}
