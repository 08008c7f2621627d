//! Counts samples by key, block by block, and merges the counts.

use icecore_format::index::Entry;
use icecore_format::read::Damage;
use icecore_format::records::Sample;
use rayon::prelude::*;

use super::{Apart, Cell, Hit, Hits, Key, Moment, SampleFacts, SeenEvent, Selection, WaitsApart, WallSum};
use crate::map::Map;
use crate::recording::events::EVENTS;
use crate::recording::load::damage;
use crate::recording::spans::{Slices, widened};
use crate::stacks::fields::Fields;
use crate::stacks::selection::Phase;
use crate::stacks::waits::WaitGroups;

/// Counts the samples of one block after the other.
pub(super) struct Counter<'a> {
    rows: Map<Key, Count>,
    /// Samples and weight by position of a row, and slice.
    cells: Map<(u32, u32), (u32, u64)>,
    moments: Vec<Moment>,
    without_frames: u64,
    /// Samples and weight by group of waits and kernel stack, of CPU time by (0, 0), whatever events are requested.
    wall: Map<(u32, u32), Sums>,
    /// Samples and weight by event: those that are requested, and those that are requested but for their event.
    events: [[Sums; EVENTS]; 2],
    /// Samples and weight of waits without work that are left out.
    idle: Sums,
    /// Samples whose stacks are shown without functions of tracing.
    shortened: u64,
    damage: Vec<Damage>,
    /// The task under which each task is counted, and its phase at its last sample.
    phases: Map<u32, (u32, Phase)>,
    /// The task that stands for a process, by process id; empty if each thread is counted apart.
    leaders: &'a Map<u32, u32>,
    /// The groups of waits; none unless waits are counted apart.
    waits: &'a WaitGroups,
    fields: &'a Fields,
    apart: Apart,
    slices: Option<Slices>,
    /// The recorded weight of all samples that the filter admits, whatever their event: no sum is larger.
    pub(super) recorded: u128,
    /// Weights are counted in units of two to the power of so much.
    shift: u32,
}

/// Samples and weight.
type Sums = (u64, u64);

/// The counts of one key.
#[derive(Clone, Copy)]
struct Count {
    /// Rows are numbered in the order of their first sample.
    position: u32,
    samples: u64,
    weight: u64,
    span_ns: (u64, u64),
}

impl<'a> Counter<'a> {
    pub(super) fn new(
        leaders: &'a Map<u32, u32>,
        (waits, fields): (&'a WaitGroups, &'a Fields),
        apart: Apart,
        (slices, shift): (Option<Slices>, u32),
    ) -> Self {
        let (rows, cells, moments, wall, damage, phases) = Default::default();
        let events = [[(0, 0); EVENTS]; 2];
        let without_frames = 0;
        Self {
            rows,
            cells,
            moments,
            without_frames,
            wall,
            events,
            idle: (0, 0),
            shortened: 0,
            damage,
            phases,
            leaders,
            waits,
            fields,
            apart,
            slices,
            recorded: 0,
            shift,
        }
    }

    pub(super) fn block(
        &mut self,
        selection: Selection<'_>,
        entry: &Entry,
        samples: Result<Vec<Sample>, icecore_format::Error>,
    ) {
        match samples {
            Ok(samples) => samples.iter().for_each(|sample| self.sample(selection, sample)),
            Err(error) => self.damage.push(damage(entry, &error)),
        }
    }

    fn sample(&mut self, selection: Selection<'_>, sample: &Sample) {
        let leaders = self.leaders;
        let (counted_as, phase) = self.phases.entry(sample.task).or_insert_with(|| {
            let leader = leaders.get(&selection.tables.task(sample.task).tgid);
            (*leader.unwrap_or(&sample.task), selection.phase(sample.task, sample.time_ns))
        });
        if !phase.during_ns.contains(&sample.time_ns) {
            *phase = selection.phase(sample.task, sample.time_ns);
        }
        if !selection.wants_but_for_event(phase, sample) {
            return;
        }
        self.recorded += u128::from(sample.weight);
        let weight = shifted(sample.weight, self.shift);
        if self.apart.wall {
            let key = match self.waits.of(sample) {
                0 => self.waits.is_cpu_time(sample.event).then_some((0, 0)),
                wait => Some((wait, sample.kernel_stack)),
            };
            if let Some(key) = key {
                add(self.wall.entry(key).or_default(), (1, weight));
            }
        }
        let Some(key) = selection.key_in(phase, sample) else {
            let is_requested = selection.events.has(sample.event);
            let of_event = &mut self.events[1][usize::from(sample.event)];
            add(if is_requested { &mut self.idle } else { of_event }, (1, weight));
            return;
        };
        if selection.is_emptied(&key) {
            self.without_frames += 1;
            return;
        }
        self.shortened += u64::from(key.kernel != 0 && key.kernel != sample.kernel_stack);
        let event = if self.apart.events { sample.event } else { 0 };
        let cpu = if self.apart.cpus { sample.cpu } else { 0 };
        let (user, kernel) = if self.apart.no_stacks { (0, 0) } else { (key.user, key.kernel) };
        let wait = if self.apart.waits == WaitsApart::Nothing { 0 } else { self.waits.of(sample) };
        let field = if self.apart.fields { self.fields.of(sample) } else { 0 };
        let key = Key { task: *counted_as, user, kernel, event, cpu, field, wait, ..key };
        add(&mut self.events[0][usize::from(sample.event)], (1, weight));
        let span_ns = (sample.time_ns, sample.time_ns);
        let position = self.add(key, Count { position: 0, samples: 1, weight, span_ns });
        if self.apart.moments {
            let Sample { time_ns, cpu, .. } = *sample;
            let (begin_ns, end_ns) = self.waits.lasted_ns(sample).unwrap_or((time_ns, time_ns));
            let (lasted_ns, late_ns) = (end_ns.saturating_sub(begin_ns), time_ns.saturating_sub(end_ns));
            self.moments.push(Moment {
                time_ns,
                row: position,
                hit: position,
                cpu,
                lasted_ns,
                late_ns,
                weight,
            });
        }
        if let Some(slices) = self.slices {
            let lasted = if self.apart.spreads_waits { self.waits.lasted_ns(sample) } else { None };
            let (own, spread) = match lasted {
                Some(span_ns) => (0, slices.spread(span_ns, weight)),
                None => (weight, Vec::new()),
            };
            self.add_cell(position, slices.of(sample.time_ns), (1, own));
            spread.into_iter().for_each(|(slice, part)| self.add_cell(position, slice, (0, part)));
        }
    }

    /// Adds the counts of another counter.
    pub(super) fn merged(mut self, mut other: Self) -> Self {
        if self.rows.len() < other.rows.len() {
            std::mem::swap(&mut self.rows, &mut other.rows);
            // Cells and moments name rows by their positions.
            std::mem::swap(&mut self.cells, &mut other.cells);
            std::mem::swap(&mut self.moments, &mut other.moments);
        }
        self.without_frames += other.without_frames;
        add(&mut self.idle, other.idle);
        self.shortened += other.shortened;
        self.recorded += other.recorded;
        let events = self.events.iter_mut().flatten().zip(other.events.into_iter().flatten());
        events.for_each(|(sum, more)| add(sum, more));
        for (key, more) in other.wall {
            add(self.wall.entry(key).or_default(), more);
        }
        self.damage.append(&mut other.damage);
        let mut position_of = vec![0; other.rows.len()];
        for (key, count) in other.rows {
            position_of[count.position as usize] = self.add(key, count);
        }
        for ((row, slice), more) in other.cells {
            self.add_cell(position_of[row as usize], slice, more);
        }
        let moment = |moment: Moment| Moment { row: position_of[moment.row as usize], ..moment };
        self.moments.extend(other.moments.into_iter().map(moment));
        self
    }

    /// Adds to a row; returns its position.
    fn add(&mut self, key: Key, more: Count) -> u32 {
        let position = self.rows.len() as u32;
        let add = |count: &mut Count| {
            count.samples += more.samples;
            count.weight = count.weight.saturating_add(more.weight);
            count.span_ns = widened(count.span_ns, more.span_ns);
        };
        self.rows.entry(key).and_modify(add).or_insert(Count { position, ..more }).position
    }

    fn add_cell(&mut self, row: u32, slice: u32, (samples, weight): (u32, u64)) {
        let cell = self.cells.entry((row, slice)).or_default();
        *cell = (cell.0.saturating_add(samples), cell.1.saturating_add(weight));
    }

    pub(super) fn into_hits(self) -> Hits {
        let row = |(key, Count { position, samples, weight, span_ns })| {
            (position, Hit { key, samples, weight, span_ns })
        };
        let mut rows: Vec<(u32, Hit)> = self.rows.into_iter().map(row).collect();
        rows.par_sort_unstable_by_key(|(_, hit)| hit.key);
        let mut row_of = vec![0; rows.len()];
        (0..).zip(&rows).for_each(|(row, (position, _))| row_of[*position as usize] = row);
        let rows = rows.into_iter().map(|(_, hit)| hit).collect();
        let cell = |((position, slice), (samples, weight)): ((u32, u32), _)| {
            let row = row_of[position as usize];
            Cell { row, slice, samples, weight }
        };
        let mut cells: Vec<Cell> = self.cells.into_iter().map(cell).collect();
        cells.par_sort_unstable_by_key(|cell| (cell.row, cell.slice));
        let mut moments = self.moments;
        for moment in &mut moments {
            moment.row = row_of[moment.row as usize];
            moment.hit = moment.row;
        }
        moments.par_sort_unstable();
        let wall = self.wall.into_iter();
        let wall = wall.map(|((wait, kernel), (samples, weight))| WallSum { wait, kernel, samples, weight });
        let mut wall: Vec<WallSum> = wall.collect();
        wall.sort_unstable_by_key(|sum| (sum.wait, sum.kernel));
        let seen = |(event, (samples, weight)): (u8, Sums)| SeenEvent { event, samples, weight };
        let [events, unshown] = self.events.map(|sums| {
            let hit = (0..=u8::MAX).zip(sums).filter(|(_, (samples, _))| *samples > 0);
            hit.map(seen).collect()
        });
        let Self { without_frames, idle, shortened, shift, .. } = self;
        let seen = SampleFacts { without_frames, events, unshown, idle, shortened, shift };
        Hits { rows, cells, moments, seen, slices: self.slices, wall, damage: self.damage }
    }
}

/// Returns a weight in units of two to the power of `shift`, rounded.
fn shifted(weight: u64, shift: u32) -> u64 {
    let half = if shift > 0 { 1 << (shift - 1) } else { 0 };
    ((u128::from(weight) + half) >> shift) as u64
}

fn add(sum: &mut Sums, (samples, weight): Sums) {
    *sum = (sum.0 + samples, sum.1.saturating_add(weight));
}
