//! Counts samples by what they hit: everything behind this stage works on distinct things.

use std::collections::BTreeMap;

use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Sample, SamplesV1, Task, WalkEnd};
use rayon::prelude::*;
use std::collections::HashMap;

use crate::filter::{Filter, Sides};
use crate::load::{Tables, damage};
use crate::timeline::{SpaceId, Timeline};

/// A sample's thread if the block that names it is missing.
pub const LOST_TASK: Task = Task { tgid: 0, tid: 0, comm: u32::MAX };

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
    /// Samples by event, a position in the session's events.
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
        if !self.filter.wants_sample(sample, self.tables.session.start_ns) {
            return None;
        }
        let task = self.tables.tasks.find(sample.task).unwrap_or(&LOST_TASK);
        let space = self.timeline.space(task.tgid, sample.time_ns);
        if !self.filter.wants_ids(task) || !self.is_named_as_wanted(task, space) {
            return None;
        }
        let (user, kernel) = match self.filter.sides {
            Sides::Both => (sample.user_stack, sample.kernel_stack),
            Sides::User => (sample.user_stack, 0),
            Sides::Kernel => (0, sample.kernel_stack),
        };
        let in_kernel = sample.kernel_stack != 0;
        Some(Key { task: sample.task, space, user, kernel, end: sample.user_end, in_kernel })
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

/// Filters and counts all samples, block by block in parallel.
pub fn count(recording: &Recording, selection: Selection<'_>) -> Hits {
    let blocks: Vec<Result<Hits, Damage>> = selection
        .tables
        .sample_blocks
        .par_iter()
        .map(|entry| count_block(recording, selection, entry).map_err(|error| damage(entry, &error)))
        .collect();
    let mut all = Hits::default();
    let mut positions = HashMap::default();
    for block in blocks {
        match block {
            Ok(block) => {
                all.seen.add(&block.seen);
                block.rows.iter().for_each(|hit| add(&mut all.rows, &mut positions, hit));
            }
            Err(damage) => all.damage.push(damage),
        }
    }
    if all.seen.events.len() > 1 {
        // Weights of different events have different units: every sample counts as one.
        all.rows.iter_mut().for_each(|hit| hit.weight = hit.samples);
    }
    all
}

fn count_block(
    recording: &Recording,
    selection: Selection<'_>,
    entry: &Entry,
) -> Result<Hits, icecore_format::Error> {
    let payload = recording.payload(entry)?;
    let mut hits = Hits::default();
    let mut positions = HashMap::default();
    for sample in payload.view::<SamplesV1>()?.rows() {
        let Some(key) = selection.key(&sample) else { continue };
        if selection.is_emptied(&key) {
            hits.seen.without_frames += 1;
            continue;
        }
        hits.seen.add_sample(&sample);
        let (weight, span_ns) = (sample.weight, (sample.time_ns, sample.time_ns));
        add(&mut hits.rows, &mut positions, &Hit { key, samples: 1, weight, span_ns });
    }
    Ok(hits)
}

fn add(rows: &mut Vec<Hit>, positions: &mut HashMap<Key, usize>, hit: &Hit) {
    let position = *positions.entry(hit.key).or_insert(rows.len());
    match rows.get_mut(position) {
        Some(row) => {
            row.samples += hit.samples;
            row.weight = row.weight.saturating_add(hit.weight);
            row.span_ns = widened(row.span_ns, hit.span_ns);
        }
        None => rows.push(*hit),
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
