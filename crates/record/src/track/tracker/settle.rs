//! Replays the waiting events in the order of time.

use icecore_elf::Avma;
use icecore_format::records::{Change, Lifecycle, Location, Mark, Origin, Sample, WalkEnd};

use super::Tracker;
use super::waiting::{Unplaced, What};
use crate::track::stacks::Exhausted;

impl Tracker {
    /// Makes rows of all events up to a moment; both sources must have reported everything before it.
    /// Returns the number of samples that are lost because no ids are left for their frames.
    pub(crate) fn settle(&mut self, until_ns: u64) -> u64 {
        let mut lost = 0;
        self.spaces.forget_ended();
        for what in self.waiting.take_until(until_ns) {
            match what {
                What::Change { row, ends_process } => self.changed(row, ends_process),
                What::Mapping { row, region } => {
                    self.spaces.map(row.tgid, Avma(row.start), region);
                    if row.origin == Origin::SCAN {
                        self.spaces.complete(row.tgid);
                    }
                    self.mappings.push(row);
                }
                What::Only { tgid, ranges } => {
                    self.spaces.keep_only(tgid, &ranges);
                    self.spaces.complete(tgid);
                }
                What::CpuTime(reading) => self.account.read(&reading),
                What::Sample(sample) => lost += u64::from(self.sampled(sample).is_err()),
            }
        }
        self.settled_ns = self.settled_ns.max(until_ns);
        self.waiting.drop_frames();
        lost
    }

    fn changed(&mut self, row: Lifecycle, ends_process: bool) {
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
            self.snapshots.forget(row.tid);
        }
        self.notes.change(&row, ends_process);
        self.lifecycle.push(row);
    }

    fn sampled(&mut self, sample: Unplaced) -> Result<(), Exhausted> {
        let known = self.stacks.newest();
        let kernel = self.waiting.frames(&sample.kernel).iter().rev();
        let kernel_stack = self.stacks.id(kernel.map(|address| (Location::Address(address.0), Mark::NONE)))?;
        let nodes = self.stacks.waiting();
        let new = &nodes[nodes.len() - (self.stacks.newest() - known) as usize..];
        self.kernel_addresses.extend(new.iter().filter_map(|node| match node.location {
            Location::Address(address) => Some(Avma(address)),
            Location::Image { .. } => None,
        }));
        let is_sure = self.spaces.is_sure(sample.tgid, sample.row.time_ns);
        let space = self.spaces.of(sample.tgid).filter(|_| is_sure);
        let user = self.waiting.frames(&sample.user);
        let user_end = if is_sure || user.is_empty() { sample.row.user_end } else { WalkEnd::MAPPINGS_LOST };
        let (user_stack, user_end) = self.stacks.user(space, user, user_end)?;
        self.notes.stack(sample.row.time_ns, sample.tgid, user_stack, self.stacks.addresses());
        let snapshot = match (space, sample.snapshot) {
            (Some(space), Some(taken)) => {
                let id = self.snapshots.note(sample.tid, space, &taken);
                // The frames that the report finds by unwinding are among these addresses.
                for address in self.snapshots.at_addresses() {
                    if self.notes.held(sample.row.time_ns, sample.tgid, *address) {
                        self.code.extend(space.code(Avma(address.0.saturating_sub(1))));
                    }
                }
                for it in self.snapshots.running() {
                    self.notes.runs(sample.row.time_ns, sample.tgid, it.method, it.instruction);
                }
                id
            }
            _ => 0,
        };
        let time_ns = match sample.field {
            Some(field) => self.fields.settle(*field),
            None => sample.row.time_ns,
        };
        self.samples.push(Sample { time_ns, kernel_stack, user_stack, user_end, snapshot, ..sample.row });
        self.totals.samples += 1;
        self.waits.extend(sample.wait.map(|wait| *wait));
        self.processes = self.processes.with(sample.tgid);
        Ok(())
    }
}
