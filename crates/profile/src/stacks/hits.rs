//! Counts samples by what they hit: every later stage works on distinct stacks.

mod counter;

use icecore_format::index::Entry;
use icecore_format::read::Damage;
use icecore_format::records::{EventV1, Sample};
use rayon::prelude::*;

use crate::map::Map;
use crate::recording::load::Tables;
use crate::recording::spans::{Slices, Slicing, Spans};
use crate::stacks::fields::Fields;
pub use crate::stacks::selection::{Hit, Key, Selection};
use crate::stacks::waits::WaitGroups;
use counter::Counter;

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
    /// The time, in two to the power of [`SampleFacts::shift`] ns.
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
    /// Waits of kernel threads without work that are left out: their number and their time, in two to the power of `shift` ns.
    pub idle: (u64, u64),
    /// Samples of tracepoints whose stacks are shown without the kernel's functions of tracing.
    pub shortened: u64,
    /// Weights are in two to the power of so many units of the event: 0, unless their sum is more than 64 bits hold.
    pub shift: u32,
}

/// An event and its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenEvent {
    /// Its position in [`crate::recording::load::parts::Parts::events`].
    pub event: u8,
    /// The number of samples.
    pub samples: u64,
    /// The sum of their weights, in the unit of [`SampleFacts::unit_of_weights`].
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

    /// Returns the unit of weights of events with this unit: their own, or a power of two of it.
    pub fn unit_of_weights(&self, unit: &str) -> String {
        unit_of_weights(self.shift, unit)
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
    /// Count samples by their fields.
    pub fields: bool,
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

/// Filters and counts all samples; works on ranges of neighbouring blocks in parallel. It skips blocks that cannot hold a requested
/// sample; `samples` decodes the others.
pub fn count(
    selection: Selection<'_>,
    apart: Apart,
    (waits, fields): (&WaitGroups, &Fields),
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
    let count = |shift: u32| {
        let counted = blocks.par_chunks(stretch).map(|blocks| {
            let mut counter = Counter::new(&leaders, (waits, fields), apart, (slices, shift));
            blocks.iter().for_each(|entry| counter.block(selection, entry, samples(entry)));
            counter
        });
        counted.collect::<Vec<Counter<'_>>>().into_iter().reduce(Counter::merged)
    };
    let mut merged = count(0);
    // No later sum is larger than that of all: each sample counts once.
    let shift = merged.as_ref().map_or(0, |counter| shift(counter.recorded));
    if shift > 0 {
        merged = count(shift);
    }
    let mut all = Hits { slices, ..merged.map(Counter::into_hits).unwrap_or_default() };
    if all.seen.is_mixed(tables.parts.events()) && !apart.events {
        // Weights of different units cannot be added: every sample counts as one.
        all.rows.iter_mut().for_each(|hit| hit.weight = hit.samples);
        all.cells.iter_mut().for_each(|cell| cell.weight = cell.samples.into());
        all.moments.iter_mut().for_each(|moment| moment.weight = 1);
    }
    all
}

/// Returns how far weights must be shifted so that 64 bits hold their sum. One bit is left for rounding.
pub fn shift(sum: u128) -> u32 {
    if sum > u128::from(u64::MAX) { u128::BITS - sum.leading_zeros() - (u64::BITS - 1) } else { 0 }
}

/// Returns the unit of weights that were shifted: that of their event, or a power of two of it.
pub fn unit_of_weights(shift: u32, unit: &str) -> String {
    if shift == 0 { unit.to_owned() } else { format!("2^{shift} {unit}") }
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
    use icecore_format::records::Task;

    #[test]
    fn the_leading_thread_stands_for_its_process_or_else_the_first_that_was_told() {
        let task = |tgid, tid| Task { tgid, tid, comm: 0 };
        let rows = vec![task(7, 8), task(9, 11), task(7, 7), task(9, 10), task(7, 7)];
        let tables = Tables { tasks: ById::from_blocks(vec![(0, rows)]), ..Tables::default() };
        let leaders = leaders(&tables);
        assert_eq!([7, 9, 1].map(|tgid| leaders.get(&tgid).copied()), [Some(2), Some(1), None]);
    }
}
