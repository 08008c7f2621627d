//! Waits: what their rows say of the samples that they belong to.
//!
//! | module | what lives there |
//! |---|---|
//! | [`kinds`] | for what a thread waited, by the functions of the kernel |
//! | [`wakers`] | the stacks of the threads that ended waits |

pub mod kinds;
pub mod wakers;

use icecore_format::records::{Sample, Wait, WaitFlags, WaitState, WokenBy};

use crate::map::{Interned, Map};
use crate::recording::events::{EVENTS, Meaning};
use crate::recording::load::Tables;
use crate::recording::spaces::{SpaceId, Spaces};
use crate::stacks::hits::Hit;
use wakers::{WakerStack, WakerStacks};

/// What waits have in common that are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WaitFacts {
    /// The event, a position in the events of the recording.
    pub event: u8,
    /// What the thread was doing.
    pub state: WaitState,
    /// What ended the wait.
    pub woken_by: WokenBy,
    /// The wait had not ended when the recording ended.
    pub is_open: bool,
    /// The thread that ended the wait, a task id, and its address space then.
    pub waker: Option<(u32, Option<SpaceId>)>,
    /// The stack that ended the wait; missing where stacks of wakers are not counted apart.
    pub waker_stack: WakerStack,
}

impl WaitFacts {
    /// Returns what is known of a wait that has no row: only its event.
    pub fn unknown(event: u8) -> Self {
        let (state, woken_by) = (WaitState::UNKNOWN, WokenBy::UNKNOWN);
        Self { event, state, woken_by, is_open: false, waker: None, waker_stack: WakerStack::Missing }
    }

    /// Returns what the row of a wait says.
    fn of(row: &Wait, tables: &Tables, spaces: &Spaces, wakers: Option<&WakerStacks>) -> Self {
        let space = |task: u32| spaces.space(tables.task(task).tgid, row.ended_ns);
        // An interrupt is on whatever thread it hit.
        let waker = row.waker_task.filter(|_| row.woken_by == WokenBy::THREAD);
        Self {
            event: row.event,
            state: row.state,
            woken_by: row.woken_by,
            is_open: row.flags.has(WaitFlags::NOT_ENDED),
            waker: waker.map(|task| (task, space(task))),
            waker_stack: wakers
                .map_or(WakerStack::Missing, |wakers| wakers.of(row.waker_time_ns, row.waker_task)),
        }
    }
}

/// The rows of waits by their samples.
#[derive(Debug, Default)]
pub struct WaitRows {
    /// The position of each row in [`Tables::waits`], by time, task and event of its sample.
    rows: Map<(u64, u32, u8), u32>,
    /// Begin and end of each, ns.
    spans_ns: Vec<(u64, u64)>,
}

impl WaitRows {
    /// Finds the samples of all rows. Of several rows that name one sample the first stays.
    pub fn new(tables: &Tables) -> Self {
        let mut rows = Map::default();
        for (position, row) in (0..).zip(&tables.waits) {
            rows.entry((row.time_ns, row.task, row.event)).or_insert(position);
        }
        Self { rows, spans_ns: tables.waits.iter().map(|row| (row.began_ns, row.ended_ns)).collect() }
    }

    /// Returns the position of the row of a sample in [`Tables::waits`].
    pub fn position(&self, sample: &Sample) -> Option<usize> {
        self.rows.get(&(sample.time_ns, sample.task, sample.event)).map(|position| *position as usize)
    }
}

/// Waits in groups that are counted apart.
#[derive(Debug, Default)]
pub struct WaitGroups {
    rows: WaitRows,
    /// The group of each row of [`Tables::waits`].
    of_row: Vec<u32>,
    /// The group of waits without a row, by event; 0 if the event has no waits.
    of_event: Vec<u32>,
    /// Which events are CPU time.
    is_cpu_time: Vec<bool>,
    facts: Vec<WaitFacts>,
    /// The stacks of wakers, if they are counted apart.
    wakers: Option<WakerStacks>,
}

impl WaitGroups {
    /// Groups all waits of a recording; different stacks of wakers make different groups, if there are any.
    pub fn new(tables: &Tables, spaces: &Spaces, wakers: Option<WakerStacks>) -> Self {
        let mut groups: Interned<WaitFacts> = Interned::new();
        let mut group = |facts| groups.intern(facts) + 1;
        let facts = |row| WaitFacts::of(row, tables, spaces, wakers.as_ref());
        let of_row = tables.waits.iter().map(|row| group(facts(row))).collect();
        let mut of_event = vec![0; EVENTS];
        for ((event, slot), described) in (0..=u8::MAX).zip(&mut of_event).zip(tables.parts.events()) {
            if Meaning::of(described) == Meaning::Wait {
                *slot = group(WaitFacts::unknown(event));
            }
        }
        let events = tables.parts.events().iter();
        let is_cpu_time = events.map(|event| Meaning::of(event) == Meaning::CpuTime).collect();
        Self {
            rows: WaitRows::new(tables),
            of_row,
            of_event,
            is_cpu_time,
            facts: groups.into_items(),
            wakers,
        }
    }

    /// Returns begin and end of the wait that a sample stands for; `None` if it has no row.
    pub fn lasted_ns(&self, sample: &Sample) -> Option<(u64, u64)> {
        Some(self.rows.spans_ns[self.rows.position(sample)?])
    }

    /// Returns the group of a sample; 0 if it is no wait.
    pub fn of(&self, sample: &Sample) -> u32 {
        match self.of_event.get(usize::from(sample.event)) {
            None | Some(0) => 0,
            Some(without_row) => self.rows.position(sample).map_or(*without_row, |row| self.of_row[row]),
        }
    }

    /// Returns true if samples of an event are CPU time.
    pub fn is_cpu_time(&self, event: u8) -> bool {
        self.is_cpu_time.get(usize::from(event)).copied().unwrap_or_default()
    }

    /// Returns true if stacks of wakers are counted apart.
    pub fn have_wakers(&self) -> bool {
        self.wakers.is_some()
    }

    /// Lists the distinct stacks of wakers; none where they are not counted apart.
    pub fn waker_stacks(&self) -> &[Hit] {
        self.wakers.as_ref().map_or(&[], |wakers| &wakers.stacks)
    }

    /// Returns what the waits of a group have in common; `None` for group 0.
    pub fn facts(&self, group: u32) -> Option<&WaitFacts> {
        self.facts.get(group.checked_sub(1)? as usize)
    }
}
