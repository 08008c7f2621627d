//! Samples as columns, version 1.

mod relative;

use std::collections::BTreeMap;

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{StackRepair, WalkEnd, payload, references};
use crate::block::Processes;
use crate::error::Error;
use crate::kind::Kind;
use relative::{Expected, Side, Told};

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// On which CPU.
    pub cpu: u16,
    /// Which event, a position in the session's events.
    pub event: u8,
    /// How the walk of the user stack ended.
    pub user_end: WalkEnd,
    /// How the walk of the kernel stack ended.
    pub kernel_end: WalkEnd,
    /// Which thread, a task id.
    pub task: u32,
    /// The user stack, a stack id; 0 if empty.
    pub user_stack: u32,
    /// The kernel stack, a stack id; 0 if empty: the sample hit in user mode.
    pub kernel_stack: u32,
    /// What the sample stands for, in the event's unit.
    pub weight: u64,
    /// What registers and stack held, a snapshot id; 0 if that was not noted.
    pub snapshot: u32,
    /// What became of the walk of the user stack.
    pub repair: StackRepair,
}

references!(Sample {
    time_ns: time,
    cpu: plain,
    event: event,
    user_end: plain,
    kernel_end: plain,
    task: id(Tasks),
    user_stack: id(Stacks),
    kernel_stack: id(Stacks),
    weight: plain,
    snapshot: id(Snapshots),
    repair: plain,
});

/// What the columns of a block are measured from. Any basis gives columns that read back the same; a fitting
/// one makes them small.
#[derive(Debug, Clone, Copy)]
pub struct Basis {
    /// Resolution of times, ns. They are rounded down to a multiple of it.
    pub unit_ns: u32,
    /// Expected distance of two samples on one CPU, ns.
    pub period_ns: u64,
    /// The newest stack id before the block.
    pub newest_stack: u32,
    /// The processes of the samples.
    pub processes: Processes,
}

impl Default for Basis {
    fn default() -> Self {
        Self { unit_ns: 1, period_ns: 0, newest_stack: 0, processes: Processes::ANY }
    }
}

/// Samples, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct SamplesV1 {
    /// Earliest time, ns; a multiple of `unit_ns`.
    pub first_ns: u64,
    /// Latest time, ns.
    pub last_ns: u64,
    /// The processes of the samples, [`Processes`].
    pub processes: u64,
    /// Expected distance of two samples on one CPU, in units.
    pub period: u64,
    /// Resolution of times, ns.
    pub unit_ns: u32,
    /// The newest stack id before the block.
    pub newest_stack: u32,
    /// Times: units after what was expected, which is `period` after the sample before it *on the same CPU*
    /// (`first_ns` for the first on a CPU); signs folded.
    pub late: Packed,
    /// CPUs.
    pub cpu: Packed,
    /// Events.
    pub event: Packed,
    /// Ends of user walks: 0 as that of the last sample whose user stack was empty or not likewise, else the
    /// number of the [`WalkEnd`] + 1, and that of the [`StackRepair`] times 256.
    pub user_end: Packed,
    /// Ends of kernel walks, likewise.
    pub kernel_end: Packed,
    /// Tasks: 2·r − 1 the one that is r-th in the CPU's list of recent tasks, the latest being first; 2·id
    /// one that is not among them.
    pub task: Packed,
    /// User stacks that are new: how far the id is above the newest so far; 0: see `user_known`. A sample's
    /// kernel stack comes before its user stack.
    pub user_new: Packed,
    /// Ids of the user stacks that are not new, 0 for an empty one: one row for each 0 in `user_new`.
    pub user_known: Packed,
    /// Kernel stacks that are new.
    pub kernel_new: Packed,
    /// Ids of the kernel stacks that are not new.
    pub kernel_known: Packed,
    /// Weights, as differences from the sample before; signs folded.
    pub weight: Packed,
    /// Snapshots: 0 none, else 1 + the distance of the id from the one that was expected, signs folded. Expected is the
    /// next id after the last one; `first_snapshot` at first.
    pub snapshot: Packed,
    /// The first snapshot id of the block; 0 if there is none.
    pub first_snapshot: u32,
}

payload!(
    SamplesV1, ArchivedSamplesV1, Kind::SAMPLES, 1,
    count late, same cpu, same event, same user_end, same kernel_end, same task, same user_new,
    same kernel_new, same weight, same snapshot, other user_known, other kernel_known, span first_ns last_ns, concerns processes
);

impl SamplesV1 {
    /// Builds the columns; `rows` are ordered by time.
    ///
    /// # Errors
    /// [`Error::Payload`] if the rows are not in order.
    pub fn from_rows(rows: &[Sample], basis: &Basis) -> Result<Self, Error> {
        if let Some(pair) = rows.windows(2).find(|pair| pair[0].time_ns > pair[1].time_ns) {
            let cause =
                format!("a sample at {} ns cannot follow one at {} ns", pair[1].time_ns, pair[0].time_ns);
            return Err(Error::Payload { kind: Kind::SAMPLES, cause });
        }
        let unit_ns = u64::from(basis.unit_ns.max(1));
        let units = |row: Option<&Sample>| row.map_or(0, |row| row.time_ns / unit_ns);
        let period = basis.period_ns / unit_ns;
        let mut expected = Expected::at(units(rows.first()));
        let mut newest = u64::from(basis.newest_stack);
        let (mut kernel, mut user) = (Side::default(), Side::default());
        let (mut late, mut task) = (Vec::new(), Vec::new());
        for row in rows {
            let slot = expected.slot(row.cpu);
            late.push(fold(units(Some(row)).wrapping_sub(slot.units)));
            slot.units = units(Some(row)).wrapping_add(period);
            task.push(slot.recent.tell(row.task));
            kernel.push(row.kernel_stack, (row.kernel_end, StackRepair::NONE), &mut newest);
            user.push(row.user_stack, (row.user_end, row.repair), &mut newest);
        }
        let expected_snapshot = rows.iter().map(|row| row.snapshot).find(|id| *id > 0).unwrap_or(0);
        let mut next = u64::from(expected_snapshot);
        let snapshot = rows.iter().map(|row| match u64::from(row.snapshot) {
            0 => 0,
            id => fold(id.wrapping_sub(std::mem::replace(&mut next, id + 1))) + 1,
        });
        Ok(Self {
            first_ns: units(rows.first()) * unit_ns,
            last_ns: units(rows.last()) * unit_ns,
            processes: basis.processes.0,
            period,
            unit_ns: basis.unit_ns.max(1),
            newest_stack: basis.newest_stack,
            late: late.into_iter().collect(),
            cpu: rows.iter().map(|r| u64::from(r.cpu)).collect(),
            event: rows.iter().map(|r| u64::from(r.event)).collect(),
            user_end: user.end.into_iter().collect(),
            kernel_end: kernel.end.into_iter().collect(),
            task: task.into_iter().collect(),
            user_new: user.new.into_iter().collect(),
            user_known: user.known.into_iter().collect(),
            kernel_new: kernel.new.into_iter().collect(),
            kernel_known: kernel.known.into_iter().collect(),
            weight: Packed::steps(rows.iter().map(|r| r.weight)),
            first_snapshot: expected_snapshot,
            snapshot: snapshot.collect(),
        })
    }

    /// Adds up the samples by event: their number, and their weight.
    pub fn by_event(&self) -> BTreeMap<u8, (u64, u64)> {
        let mut sums = BTreeMap::<u8, (u64, u64)>::new();
        for (event, weight) in self.event.values().into_iter().zip(self.weight.sums()) {
            let sum = sums.entry(event as u8).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(weight));
        }
        sums
    }
}

impl ArchivedSamplesV1 {
    /// Lists the samples in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if a value refers to nothing.
    pub fn rows(&self) -> Result<Vec<Sample>, Error> {
        let unit_ns = u64::from(self.unit_ns.to_native());
        if unit_ns == 0 {
            return Err(Error::Payload { kind: Kind::SAMPLES, cause: "times are multiples of 0 ns".into() });
        }
        let mut expected = Expected::at(self.first_ns.to_native() / unit_ns);
        let mut newest = u64::from(self.newest_stack.to_native());
        let [late, cpu, event, task] = [&self.late, &self.cpu, &self.event, &self.task].map(|c| c.values());
        let mut kernel = Told::new(&self.kernel_new, &self.kernel_known, &self.kernel_end)?;
        let mut user = Told::new(&self.user_new, &self.user_known, &self.user_end)?;
        let (weight, snapshot) = (self.weight.sums(), self.snapshot.values());
        let mut next_snapshot = u64::from(self.first_snapshot.to_native());
        let mut rows = Vec::with_capacity(late.len());
        for i in 0..late.len() {
            let wrong =
                |cause: &str| Error::Payload { kind: Kind::SAMPLES, cause: format!("sample {i}: {cause}") };
            let cpu = u16::try_from(cpu[i]).map_err(|_| wrong("no such CPU"))?;
            let slot = expected.slot(cpu);
            slot.units = slot.units.wrapping_add(unfold(late[i]));
            let time_ns = slot.units.wrapping_mul(unit_ns);
            slot.units = slot.units.wrapping_add(self.period.to_native());
            let task = slot.recent.told(task[i]).ok_or_else(|| wrong("no such task"))?;
            let (kernel_stack, (kernel_end, _)) =
                kernel.next(i, &mut newest).ok_or_else(|| wrong("no such stack"))?;
            let (user_stack, (user_end, repair)) =
                user.next(i, &mut newest).ok_or_else(|| wrong("no such stack"))?;
            let (event, weight) = (event[i] as u8, weight[i]);
            let snapshot = match snapshot[i] {
                0 => 0,
                told => narrow(next_snapshot.wrapping_add(unfold(told - 1))),
            };
            if snapshot > 0 {
                next_snapshot = u64::from(snapshot) + 1;
            }
            rows.push(Sample {
                time_ns,
                cpu,
                event,
                user_end,
                kernel_end,
                task,
                user_stack,
                kernel_stack,
                weight,
                snapshot,
                repair,
            });
        }
        Ok(rows)
    }
}

#[cfg(test)]
mod tests;
