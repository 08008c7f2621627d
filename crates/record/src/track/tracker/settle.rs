//! Replays the waiting events in the order of time.

use icecore_elf::Avma;
use icecore_format::records::{Change, Field, Lifecycle, Location, Mark, Origin, Sample, Wait, WalkEnd};

use super::Tracker;
use super::live::Name;
use super::waiting::{FieldOf, Unplaced, WaitOf, What};
use crate::track::stacks::Exhausted;

impl Tracker {
    /// Makes rows of all events up to a moment; both sources must have reported everything before it.
    /// Returns the number of samples that are lost because no ids are left for their frames.
    pub(crate) fn settle(&mut self, until_ns: u64) -> u64 {
        let mut lost = 0;
        self.spaces.forget_ended();
        self.live.forget_ended();
        for what in self.waiting.take_until(until_ns) {
            match what {
                What::Change { row, comm, ends_process } => self.changed(row, &comm, ends_process),
                What::Cgroup { time_ns, tgid, tid, path } => {
                    self.live.moved(tgid, tid, &path);
                    self.cgroup_row(time_ns, (tgid, tid), path.as_ref());
                }
                What::Mapping { row, region } => {
                    self.spaces.map(row.tgid, Avma(row.start), region);
                    if row.origin == Origin::SCAN {
                        self.spaces.complete(row.tgid);
                    }
                    self.mapping_row(row);
                }
                What::Only { tgid, ranges } => {
                    self.spaces.keep_only(tgid, &ranges);
                    self.spaces.complete(tgid);
                }
                What::CpuTime(reading) => self.account.read(&reading),
                What::Rate(change) => {
                    self.rate = Some(change);
                    self.file.rates.push(change);
                }
                What::Sample(sample) => lost += u64::from(self.sampled(sample).is_err()),
            }
        }
        self.settled_ns = self.settled_ns.max(until_ns);
        self.waiting.drop_frames();
        lost
    }

    fn changed(&mut self, row: Lifecycle, comm: &Name, ends_process: bool) {
        match row.change {
            Change::FORK if row.parent_tgid != row.tgid => {
                self.spaces.fork(row.parent_tgid, row.tgid, row.time_ns);
            }
            Change::SHARES => self.spaces.share(row.parent_tgid, row.tgid),
            Change::EXEC => self.spaces.exec(row.tgid, row.time_ns),
            Change::EXIT if ends_process => self.spaces.exit(row.tgid),
            _ => {}
        }
        if row.change == Change::EXIT {
            self.file.snapshots.forget(row.tid);
        }
        self.notes.change(&row, ends_process);
        self.live.change(&row, comm, ends_process);
        let comm = self.file.string(comm);
        self.file.lifecycle.push(Lifecycle { comm, ..row });
    }

    fn sampled(&mut self, sample: Unplaced) -> Result<(), Exhausted> {
        let known = self.file.stacks.newest();
        let kernel = self.waiting.frames(&sample.kernel).iter().rev();
        let task = self.file.task((sample.tgid, sample.tid, &sample.comm));
        let kernel_stack =
            self.file.stacks.id(kernel.map(|address| (Location::Address(address.0), Mark::NONE)))?;
        let nodes = self.file.stacks.waiting();
        let new = &nodes[nodes.len() - (self.file.stacks.newest() - known) as usize..];
        self.file.kernel_addresses.extend(new.iter().filter_map(|node| match node.location {
            Location::Address(address) => Some(Avma(address)),
            Location::Image { .. } => None,
        }));
        let is_sure = self.spaces.is_sure(sample.tgid, sample.row.time_ns);
        let space = self.spaces.of(sample.tgid).filter(|_| is_sure);
        let user = self.waiting.frames(&sample.user);
        let user_end = if is_sure || user.is_empty() { sample.row.user_end } else { WalkEnd::MAPPINGS_LOST };
        let (user_stack, user_end) = self.file.stacks.user(space, user, user_end)?;
        self.notes.stack(sample.row.time_ns, sample.tgid, user_stack, self.file.stacks.addresses());
        let snapshot = match (space, sample.snapshot) {
            (Some(space), Some(taken)) => {
                let id = self.file.snapshots.note(sample.tid, space, &taken);
                // The frames that the report finds by unwinding are among these addresses.
                for address in self.file.snapshots.at_addresses() {
                    if self.notes.held(sample.row.time_ns, sample.tgid, *address) {
                        self.file.code.extend(space.code(Avma(address.0.saturating_sub(1))));
                    }
                }
                for it in self.file.snapshots.running() {
                    self.notes.runs(sample.row.time_ns, sample.tgid, it.method, it.instruction);
                }
                id
            }
            _ => 0,
        };
        let time_ns = match sample.field {
            Some(field) => {
                let FieldOf { kind, number, text } = *field;
                let (time_ns, event) = (sample.row.time_ns, sample.row.event);
                let (name, text) = (self.file.string(self.fields.name(event)), self.file.string(&text));
                self.fields.settle(Field { time_ns, task, event, name, kind, number, text })
            }
            None => sample.row.time_ns,
        };
        let stacks = Sample { time_ns, task, kernel_stack, user_stack, user_end, snapshot, ..sample.row };
        self.file.samples.push(stacks);
        self.file.totals.samples += 1;
        if let Some(WaitOf { row, waker }) = sample.wait.map(|wait| *wait) {
            let waker_task = waker.map(|waker| self.file.task((waker.tgid, waker.tid, &waker.comm)));
            self.file.waits.push(Wait { task, waker_task, ..row });
        }
        self.file.processes = self.file.processes.with(sample.tgid);
        Ok(())
    }
}
