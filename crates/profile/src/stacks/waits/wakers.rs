//! Finds the stacks of the threads that ended waits: samples of the event `waker`, which the rows of waits name by time and task.

use icecore_format::index::Entry;
use icecore_format::records::{Sample, StackRepair, WalkEnd};
use rayon::prelude::*;

use crate::map::{Interned, Map};
use crate::recording::events::{EVENTS, Meaning};
use crate::recording::filter::Sides;
use crate::recording::load::Tables;
use crate::stacks::hits::{Hit, Key, Selection};

/// The stack that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WakerStack {
    /// The recording does not have it.
    Missing,
    /// The thread ended several waits within a microsecond, with different stacks.
    Several,
    /// A position in [`WakerStacks::stacks`].
    At(u32),
}

/// The stacks of the threads that ended waits.
#[derive(Debug, Default)]
pub struct WakerStacks {
    /// Distinct stacks.
    pub stacks: Vec<Hit>,
    by: Map<(u64, u32), WakerStack>,
}

impl WakerStacks {
    /// Finds the samples that rows of waits name. No filter but that of sides applies to them: who ended a wait of a requested thread
    /// need not be requested.
    ///
    /// # Cost   decodes all blocks of samples
    pub fn find(
        selection: Selection<'_>,
        samples: impl Fn(&Entry) -> Result<Vec<Sample>, icecore_format::Error> + Sync,
    ) -> Self {
        let tables = selection.tables;
        let named = tables.waits.iter().filter(|row| row.waker_time_ns != 0);
        let named = named.filter_map(|row| Some(((row.waker_time_ns, row.waker_task?), ())));
        let named: Map<(u64, u32), ()> = named.collect();
        let is_waker = wakers(tables);
        let of_block = |entry: &Entry| -> Vec<((u64, u32), Key)> {
            // The stage that counts samples reports damaged blocks.
            let samples = samples(entry).unwrap_or_default().into_iter();
            let wakers = samples.filter(|sample| is_waker[usize::from(sample.event)]);
            let by = wakers.map(|sample| ((sample.time_ns, sample.task), key(selection, &sample)));
            by.filter(|(by, _)| named.contains_key(by)).collect()
        };
        let found: Vec<Vec<_>> = tables.sample_blocks.par_iter().map(of_block).collect();
        let mut keys: Interned<Key> = Interned::new();
        let mut by: Map<(u64, u32), WakerStack> = Map::default();
        for (sample, key) in found.into_iter().flatten() {
            let stack = WakerStack::At(keys.intern(key));
            let known = by.entry(sample).or_insert(stack);
            *known = if *known == stack { stack } else { WakerStack::Several };
        }
        let hit = |key| Hit { key, samples: 1, weight: 0, span_ns: (0, 0) };
        Self { stacks: keys.into_items().into_iter().map(hit).collect(), by }
    }

    /// Returns the stack that ended a wait, given the time and the task in the row of the wait.
    pub fn of(&self, time_ns: u64, task: Option<u32>) -> WakerStack {
        let found = task.and_then(|task| self.by.get(&(time_ns, task)));
        found.copied().unwrap_or(WakerStack::Missing)
    }
}

/// Returns for each event whether its samples are stacks that ended waits.
pub(crate) fn wakers(tables: &Tables) -> [bool; EVENTS] {
    let mut are = [false; EVENTS];
    for (slot, event) in are.iter_mut().zip(tables.parts.events()) {
        *slot = Meaning::of(event) == Meaning::Waker;
    }
    are
}

/// Returns what samples with one stack have in common.
fn key(selection: Selection<'_>, sample: &Sample) -> Key {
    let Selection { tables, spaces, filter, .. } = selection;
    let (user, kernel) = match filter.sides {
        Sides::Both => (sample.user_stack, sample.kernel_stack),
        Sides::User => (sample.user_stack, 0),
        Sides::Kernel => (0, sample.kernel_stack),
    };
    Key {
        space: spaces.space(tables.task(sample.task).tgid, sample.time_ns),
        user,
        kernel,
        task: sample.task,
        end: WalkEnd::NONE,
        repair: StackRepair::NONE,
        in_kernel: kernel != 0,
        cgroup: 0,
        event: 0,
        cpu: 0,
        field: 0,
        wait: 0,
    }
}
