//! Counts samples by what they hit: everything behind this stage works on distinct things.

use std::collections::BTreeMap;
use std::ops::Range;

use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Sample, SamplesV1, Task, WalkEnd};
use rayon::prelude::*;

use crate::filter::{Filter, Sides};
use crate::load::{Tables, damage};
use crate::map::Map;
use crate::timeline::{SpaceId, Timeline};

/// What samples have in common when they hit the same code in the same thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// The thread, a task id.
    pub task: u32,
    /// The address space; `None` if nothing is known about the process.
    pub space: Option<SpaceId>,
    /// The user stack, a stack id; 0 if empty or filtered out.
    pub user: u32,
    /// The kernel stack, a stack id; 0 if empty or filtered out.
    pub kernel: u32,
    /// How the user walk ended.
    pub end: WalkEnd,
    /// They hit in the kernel, whether its frames are wanted or not.
    pub in_kernel: bool,
}

/// All samples with one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hit {
    /// What they have in common.
    pub key: Key,
    /// How many.
    pub samples: u64,
    /// Their weight together, in the unit of their event.
    pub weight: u64,
    /// Earliest and latest time, ns `CLOCK_MONOTONIC`.
    pub span_ns: (u64, u64),
}

/// Samples, counted.
#[derive(Debug, Default)]
pub struct Hits {
    /// Distinct keys in the order of their first sample.
    pub rows: Vec<Hit>,
    /// What was counted on the way.
    pub seen: Seen,
    /// Blocks of samples that could not be used.
    pub damage: Vec<Damage>,
}

/// Counts over the samples that the filter wants.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Samples that are counted in the rows.
    pub samples: u64,
    /// Samples that had frames, none of them on the wanted side.
    pub without_frames: u64,
    /// Samples by event, a position in [`crate::load::parts::Parts::events`].
    pub events: BTreeMap<u8, u64>,
    /// Samples on each CPU.
    pub cpus: BTreeMap<u16, u64>,
}

/// Selects and describes samples, the same way for counting and for listing.
#[derive(Debug, Clone, Copy)]
pub struct Selection<'a> {
    /// The recording as tables.
    pub tables: &'a Tables,
    /// Its address spaces.
    pub timeline: &'a Timeline,
    /// Which samples are wanted.
    pub filter: &'a Filter,
}

impl Selection<'_> {
    /// Gives the key of a sample; `None` if the filter does not want it.
    pub fn key(&self, sample: &Sample) -> Option<Key> {
        self.key_in(&self.phase(sample.task, sample.time_ns), sample)
    }

    /// Describes the life of a task around a moment.
    fn phase(&self, id: u32, time_ns: u64) -> Phase {
        let parts = &self.tables.parts;
        let task = &self.tables.task(id);
        let known_as = Task { tgid: parts.pid(task.tgid), tid: parts.pid(task.tid), ..*task };
        let (space, during_ns) = self.timeline.stay(task.tgid, time_ns);
        let wanted = self.filter.wants_ids(&known_as)
            && self.filter.wants_host(|| &parts.part(parts.of_task(id)).session.host)
            && self.is_named_as_wanted(task, space);
        Phase { space, during_ns, wanted }
    }

    fn key_in(&self, phase: &Phase, sample: &Sample) -> Option<Key> {
        if !phase.wanted || !self.filter.wants_sample(sample, self.tables.parts.zero_ns()) {
            return None;
        }
        let (user, kernel) = match self.filter.sides {
            Sides::Both => (sample.user_stack, sample.kernel_stack),
            Sides::User => (sample.user_stack, 0),
            Sides::Kernel => (0, sample.kernel_stack),
        };
        let (task, end, in_kernel) = (sample.task, sample.user_end, sample.kernel_stack != 0);
        Some(Key { task, space: phase.space, user, kernel, end, in_kernel })
    }

    /// Tells whether a block may hold a wanted sample.
    pub fn may_be_in(&self, entry: &Entry) -> bool {
        let part = self.tables.parts.of(entry);
        let span_ns = (part.time_ns(entry.header.first_ns), part.time_ns(entry.header.last_ns));
        self.filter.wants_block(span_ns, entry.header.processes, self.tables.parts.zero_ns())
    }

    fn is_named_as_wanted(&self, task: &Task, space: Option<SpaceId>) -> bool {
        // Names are looked up for nothing if any will do.
        self.filter.comms.is_empty()
            || self.filter.wants_name(self.tables.text(task.comm), self.process_name(task, space))
    }

    /// Tells the name of a thread's process; the thread's own if it was never told.
    pub fn process_name(&self, task: &Task, space: Option<SpaceId>) -> &str {
        match space.map_or(0, |space| self.timeline.process_name(space)) {
            0 => self.tables.text(task.comm),
            name => self.tables.text(name),
        }
    }

    /// Tells whether the side filter took all frames of a sample.
    pub fn is_emptied(&self, key: &Key) -> bool {
        self.filter.sides != Sides::Both && key.user == 0 && key.kernel == 0
    }
}

/// A stretch of time in which all samples of a task have the same address space.
#[derive(Debug, Clone)]
struct Phase {
    space: Option<SpaceId>,
    during_ns: Range<u64>,
    /// The filter wants the task.
    wanted: bool,
}

/// Filters and counts all samples, stretches of neighbouring blocks in parallel. Blocks that cannot hold a wanted
/// sample are not opened.
pub fn count(recording: &Recording, selection: Selection<'_>) -> Hits {
    let all = selection.tables.sample_blocks.iter();
    let blocks: Vec<&Entry> = all.filter(|entry| selection.may_be_in(entry)).collect();
    let stretch = blocks.len().div_ceil(rayon::current_num_threads()).max(1);
    let counted = blocks.par_chunks(stretch).map(|blocks| {
        let mut counter = Counter::default();
        blocks.iter().for_each(|entry| counter.block(recording, selection, entry));
        counter
    });
    let merged = counted.collect::<Vec<Counter>>().into_iter().reduce(Counter::merged);
    let mut all = merged.unwrap_or_default().into_hits();
    if all.seen.events.len() > 1 {
        // Weights of different events have different units: every sample counts as one.
        all.rows.iter_mut().for_each(|hit| hit.weight = hit.samples);
    }
    all
}

/// Counts samples of one block after the other.
#[derive(Default)]
struct Counter {
    /// Each row's place in the order of first samples, and the row. In one table: with millions of rows every look at
    /// another one costs as much as all else that is done for a sample.
    rows: Map<Key, (u32, Count)>,
    next: u32,
    seen: Seen,
    damage: Vec<Damage>,
    phases: Map<u32, Phase>,
}

/// What is counted of a key.
#[derive(Clone, Copy)]
struct Count {
    samples: u64,
    weight: u64,
    span_ns: (u64, u64),
}

impl Counter {
    fn block(&mut self, recording: &Recording, selection: Selection<'_>, entry: &Entry) {
        let rows = recording.payload(entry).and_then(|payload| payload.view::<SamplesV1>()?.rows());
        let part = selection.tables.parts.of(entry);
        match rows {
            Ok(rows) => rows.into_iter().for_each(|sample| self.sample(selection, &part.sample(sample))),
            Err(error) => self.damage.push(damage(entry, &error)),
        }
    }

    fn sample(&mut self, selection: Selection<'_>, sample: &Sample) {
        let begin = || selection.phase(sample.task, sample.time_ns);
        let phase = self.phases.entry(sample.task).or_insert_with(begin);
        if !phase.during_ns.contains(&sample.time_ns) {
            *phase = begin();
        }
        let Some(key) = selection.key_in(phase, sample) else { return };
        if selection.is_emptied(&key) {
            self.seen.without_frames += 1;
            return;
        }
        self.seen.add_sample(sample);
        let (weight, span_ns) = (sample.weight, (sample.time_ns, sample.time_ns));
        let next = self.next;
        self.add(key, next, Count { samples: 1, weight, span_ns });
        self.next = self.next.max(self.rows.len() as u32);
    }

    /// Adds what was counted behind.
    fn merged(mut self, mut behind: Self) -> Self {
        self.seen.add(&behind.seen);
        self.damage.append(&mut behind.damage);
        for (key, (place, count)) in behind.rows {
            self.add(key, self.next + place, count);
        }
        self.next += behind.next;
        self
    }

    fn add(&mut self, key: Key, place: u32, more: Count) {
        let add = |(_, count): &mut (u32, Count)| {
            count.samples += more.samples;
            count.weight = count.weight.saturating_add(more.weight);
            count.span_ns = widened(count.span_ns, more.span_ns);
        };
        self.rows.entry(key).and_modify(add).or_insert((place, more));
    }

    fn into_hits(self) -> Hits {
        let mut rows: Vec<(u32, Hit)> = self
            .rows
            .into_iter()
            .map(|(key, (place, Count { samples, weight, span_ns }))| {
                (place, Hit { key, samples, weight, span_ns })
            })
            .collect();
        rows.par_sort_unstable_by_key(|(place, _)| *place);
        let rows = rows.into_iter().map(|(_, hit)| hit).collect();
        Hits { rows, seen: self.seen, damage: self.damage }
    }
}

impl Seen {
    fn add_sample(&mut self, sample: &Sample) {
        self.samples += 1;
        *self.events.entry(sample.event).or_default() += 1;
        *self.cpus.entry(sample.cpu).or_default() += 1;
    }

    fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.without_frames += other.without_frames;
        other.events.iter().for_each(|(event, n)| *self.events.entry(*event).or_default() += n);
        other.cpus.iter().for_each(|(cpu, n)| *self.cpus.entry(*cpu).or_default() += n);
    }
}

/// The span that holds two spans.
pub(crate) fn widened(a: (u64, u64), b: (u64, u64)) -> (u64, u64) {
    (a.0.min(b.0), a.1.max(b.1))
}
