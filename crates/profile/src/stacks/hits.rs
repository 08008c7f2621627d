//! Counts samples by what they hit: every later stage works on distinct stacks.

mod counter;

use std::ops::Range;

use icecore_format::index::Entry;
use icecore_format::read::Damage;
use icecore_format::records::{CpuTime, EventV1, Sample, StackRepair, Task, WalkEnd};
use rayon::prelude::*;

use crate::map::Map;
use crate::recording::cgroups::{CgroupId, Cgroups};
use crate::recording::events::ChosenEvents;
use crate::recording::filter::{Filter, Sides};
use crate::recording::load::Tables;
use crate::recording::spaces::{SpaceId, Spaces};
use crate::recording::spans::{Slices, Slicing, Spans};
use crate::stacks::waits::WaitGroups;
use counter::Counter;

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
    /// The group of the waits, where waits are counted apart: see [`WaitGroups`]. Else 0.
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

/// The part of a row in one slice of time. There are many more cells than rows, so cells are small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cell {
    /// The position of the row.
    pub row: u32,
    /// The slice.
    pub slice: u32,
    /// Number of samples.
    pub samples: u32,
    /// Sum of their weights.
    pub weight: u64,
}

/// One sample of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// When it was taken; a wait: when the thread ran again. ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The position of the row.
    pub row: u32,
    /// The position of the row of the hits, whatever `row` is a row of.
    pub hit: u32,
    /// The CPU.
    pub cpu: u16,
    /// How long the wait lasted, ns; 0 if it is no wait.
    pub lasted_ns: u64,
    /// How long after the end of the wait the thread ran again, ns: meanwhile it waited for a CPU.
    pub late_ns: u64,
    /// The weight, in the unit of the event.
    pub weight: u64,
}

/// Samples, counted.
#[derive(Debug, Default)]
pub struct Hits {
    /// Distinct keys, in their order.
    pub rows: Vec<Hit>,
    /// Every sample, in the order of time; empty unless they are listed.
    pub moments: Vec<Moment>,
    /// The rows slice by slice, ordered by row and slice; empty unless slices are counted apart.
    pub cells: Vec<Cell>,
    /// Other facts about the selected samples.
    pub seen: SampleFacts,
    /// The slices of time, if they are counted apart.
    pub slices: Option<Slices>,
    /// What threads ran and waited, if that is added up.
    pub wall: Vec<WallSum>,
    /// Blocks of samples that could not be used.
    pub damage: Vec<Damage>,
}

/// Time that threads ran, or that they waited with one kernel stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WallSum {
    /// The group of the waits; 0 if the threads ran.
    pub wait: u32,
    /// The kernel stack of the waits, a stack id; 0 if the threads ran.
    pub kernel: u32,
    /// Number of samples.
    pub samples: u64,
    /// The time, ns.
    pub weight: u64,
}

/// Facts about the samples that pass the filter.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SampleFacts {
    /// Samples that had frames, but none on the requested side.
    pub without_frames: u64,
    /// Their events, by position.
    pub events: Vec<SeenEvent>,
    /// The events of samples that the filter admits, but for their events; likewise.
    pub unshown: Vec<SeenEvent>,
}

/// An event and its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenEvent {
    /// Its position in [`crate::recording::load::parts::Parts::events`].
    pub event: u8,
    /// The number of samples.
    pub samples: u64,
    /// The sum of their weights, in the unit of the event.
    pub weight: u64,
}

impl SampleFacts {
    /// Returns the unit of all samples; `None` if their events have several.
    pub fn unit<'e>(&self, events: &'e [EventV1]) -> Option<&'e str> {
        let unit = |seen: &SeenEvent| events.get(usize::from(seen.event)).map_or("", |event| &event.unit);
        let mut units = self.events.iter().map(unit);
        let first = units.next()?;
        units.all(|unit| unit == first).then_some(first)
    }

    /// Returns true if the events of the samples have different units, so that weights cannot be added.
    pub fn is_mixed(&self, events: &[EventV1]) -> bool {
        self.events.len() > 1 && self.unit(events).is_none()
    }
}

/// What is counted apart. Fewer distinctions make counting faster.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Apart {
    /// Count samples by thread, else by process. There are many more distinct pairs of thread and stack than of process and stack.
    pub threads: bool,
    /// Count samples by event. Then weights have the unit of their event.
    pub events: bool,
    /// Count samples by CPU.
    pub cpus: bool,
    /// What of waits is counted apart.
    pub waits: WaitsApart,
    /// Also add up what threads ran and waited, whatever events are requested.
    pub wall: bool,
    /// Count samples by slice of time.
    pub slices: Option<Slicing>,
    /// Spread the weight of a wait over the slices in which it lasted; else it counts in the slice in which it ended.
    pub spreads_waits: bool,
    /// List every sample.
    pub moments: bool,
    /// Ignore stacks: all samples on a requested side count as if they had none.
    pub no_stacks: bool,
}

impl Apart {
    /// Returns true if rows of waits matter.
    pub fn needs_waits(self) -> bool {
        self.waits != WaitsApart::Nothing || self.wall || self.spreads_waits || self.moments
    }
}

/// What of waits is counted apart.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum WaitsApart {
    /// Nothing.
    #[default]
    Nothing,
    /// What their rows say, but for the stacks of wakers.
    Rows,
    /// The stacks of wakers, too.
    Wakers,
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
}

impl Selection<'_> {
    /// Returns the key of a sample; `None` if the filter excludes it.
    pub fn key(&self, sample: &Sample) -> Option<Key> {
        self.key_in(&self.phase(sample.task, sample.time_ns), sample)
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
    fn phase(&self, id: u32, time_ns: u64) -> Phase {
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

    fn key_in(&self, phase: &Phase, sample: &Sample) -> Option<Key> {
        if !(self.events.has(sample.event) && self.wants_but_for_event(phase, sample)) {
            return None;
        }
        let (user, kernel) = match self.filter.sides {
            Sides::Both => (sample.user_stack, sample.kernel_stack),
            Sides::User => (sample.user_stack, 0),
            Sides::Kernel => (0, sample.kernel_stack),
        };
        let (task, end, in_kernel) = (sample.task, sample.user_end, sample.kernel_stack != 0);
        let Phase { space, cgroup, .. } = *phase;
        let (repair, event, cpu, wait) = (sample.repair, 0, 0, 0);
        Some(Key { task, space, cgroup, user, kernel, end, repair, in_kernel, event, cpu, wait })
    }

    /// Returns true if the filter admits a sample, whatever its event is.
    fn wants_but_for_event(&self, phase: &Phase, sample: &Sample) -> bool {
        phase.wanted && self.filter.wants_sample(sample, self.tables.parts.zero_ns())
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
        match space.map_or(0, |space| self.spaces.process_name(space)) {
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
struct Phase {
    space: Option<SpaceId>,
    cgroup: CgroupId,
    during_ns: Range<u64>,
    /// The filter admits the task.
    wanted: bool,
}

/// Filters and counts all samples; works on ranges of neighbouring blocks in parallel. It skips blocks that cannot hold a requested
/// sample; `samples` decodes the others.
pub fn count(
    selection: Selection<'_>,
    apart: Apart,
    waits: &WaitGroups,
    samples: impl Fn(&Entry) -> Result<Vec<Sample>, icecore_format::Error> + Sync,
) -> Hits {
    let all = selection.tables.sample_blocks.iter();
    let blocks: Vec<&Entry> = all.filter(|entry| selection.may_be_in(entry)).collect();
    let Selection { tables, filter, .. } = selection;
    let slices = apart.slices.map(|slicing| {
        let spans = Spans::new(tables, filter);
        Slices::new(
            if matches!(slicing, Slicing::Sampled(_)) { spans.sampled_ns() } else { spans.hull_ns() },
            slicing,
        )
    });
    let leaders = if apart.threads { Map::default() } else { leaders(selection.tables) };
    let stretch = blocks.len().div_ceil(rayon::current_num_threads()).max(1);
    let counted = blocks.par_chunks(stretch).map(|blocks| {
        let mut counter = Counter::new(&leaders, waits, apart, slices);
        blocks.iter().for_each(|entry| counter.block(selection, entry, samples(entry)));
        counter
    });
    let merged = counted.collect::<Vec<Counter<'_>>>().into_iter().reduce(Counter::merged);
    let mut all = Hits { slices, ..merged.map(Counter::into_hits).unwrap_or_default() };
    if all.seen.is_mixed(tables.parts.events()) && !apart.events {
        // Weights of different units cannot be added: every sample counts as one.
        all.rows.iter_mut().for_each(|hit| hit.weight = hit.samples);
        all.cells.iter_mut().for_each(|cell| cell.weight = cell.samples.into());
        all.moments.iter_mut().for_each(|moment| moment.weight = 1);
    }
    all
}

/// Maps each process to the task that stands for it: its leading thread, else the thread that was recorded first.
fn leaders(tables: &Tables) -> Map<u32, u32> {
    let mut leaders: Map<u32, (bool, u32)> = Map::default();
    for (id, task) in tables.tasks.iter() {
        let new = (task.tid != task.tgid, id);
        leaders.entry(task.tgid).and_modify(|known| *known = new.min(*known)).or_insert(new);
    }
    leaders.into_iter().map(|(tgid, (_, id))| (tgid, id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::load::by_id::ById;

    #[test]
    fn the_leading_thread_stands_for_its_process_or_else_the_first_that_was_told() {
        let task = |tgid, tid| Task { tgid, tid, comm: 0 };
        let rows = vec![task(7, 8), task(9, 11), task(7, 7), task(9, 10), task(7, 7)];
        let tables = Tables { tasks: ById::from_blocks(vec![(0, rows)]), ..Tables::default() };
        let leaders = leaders(&tables);
        assert_eq!([7, 9, 1].map(|tgid| leaders.get(&tgid).copied()), [Some(2), Some(1), None]);
    }
}
