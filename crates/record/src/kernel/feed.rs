//! Where samples and events of tasks come from: the BPF programs, or without privileges perf events alone.

use std::cell::RefCell;
use std::os::fd::RawFd;
use std::time::Duration;

use icecore_format::records::Loss;
use libbpf_rs::{Link, RingBuffer};

use super::events::Opened;
use super::sampler::{Sampler, StacksOfWaits, Walker};
use super::unprivileged::Unprivileged;
use crate::proc::cgroup::Cgroup;
use crate::settings::{Event, Target};
use crate::sys::usage::BpfRuns;
use crate::sys::{clock, poll};

/// The source of a recording.
pub enum Feed<'obj> {
    /// The BPF programs.
    Programs(Box<Sampler<'obj>>),
    /// Perf events of processes of the recorder's own user.
    Own(Box<Unprivileged>),
}

/// The records of a source, which go to a function.
pub enum Ring<'feed> {
    /// Those of the programs.
    Programs(RingBuffer<'feed>),
    /// Those of perf events.
    Own(&'feed Unprivileged, RefCell<Take<'feed>>),
}

/// Takes a record.
type Take<'feed> = Box<dyn FnMut(&[u8]) -> i32 + Send + 'feed>;

impl<'obj> Feed<'obj> {
    /// Returns the BPF programs; `None` without privileges.
    pub fn programs(&self) -> Option<&Sampler<'obj>> {
        match self {
            Self::Programs(sampler) => Some(sampler),
            Self::Own(_) => None,
        }
    }

    /// Returns which walker takes user stacks; `None` if the kernel copies them.
    pub(crate) fn walker(&self) -> Option<Walker> {
        self.programs().map(Sampler::walker)
    }

    /// Returns true if user stacks are walked by unwind tables.
    pub(crate) fn walks_tables(&self) -> bool {
        self.programs().is_some_and(Sampler::walks_tables)
    }

    /// Returns how waits get their user stacks.
    pub(crate) fn stacks_of_waits(&self) -> StacksOfWaits {
        self.programs().map_or(StacksOfWaits::Missing, Sampler::stacks_of_waits)
    }

    /// Returns what the user must know about probes, and forgets it.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        match self {
            Self::Programs(sampler) => sampler.take_notes(),
            Self::Own(_) => Vec::new(),
        }
    }

    /// Adds a process to those that are recorded.
    pub(crate) fn add_process(&self, tgid: u32) -> anyhow::Result<()> {
        match self {
            Self::Programs(sampler) => sampler.add_process(tgid),
            Self::Own(own) => own.add_process(tgid),
        }
    }

    /// Adds a thread to those that are sampled.
    pub(crate) fn add_thread(&self, tid: u32) -> anyhow::Result<()> {
        match self {
            Self::Programs(sampler) => sampler.add_thread(tid),
            Self::Own(own) => own.add_thread(tid),
        }
    }

    /// Adds cgroups, whose tasks are sampled.
    pub(crate) fn add_cgroups(&self, cgroups: &[Cgroup]) -> anyhow::Result<()> {
        self.programs().map_or(Ok(()), |sampler| sampler.add_cgroups(cgroups))
    }

    /// Follows cgroups that were made again; returns true if one is there.
    pub(crate) fn follow_cgroups(&self, cgroups: &[Cgroup]) -> bool {
        self.programs().is_some_and(|sampler| sampler.follow_cgroups(cgroups))
    }

    /// Removes a target that has ended before its end could be reported.
    pub(crate) fn forget(&self, id: u32) {
        match self {
            Self::Programs(sampler) => sampler.forget(id),
            Self::Own(own) => own.forget(id),
        }
    }

    /// Lists the processes that are recorded now; `None` without programs, or if there is no list.
    pub(crate) fn followed(&self) -> Option<Vec<u32>> {
        self.programs().map(Sampler::followed)
    }

    /// Returns true if a target is still alive.
    pub(crate) fn has_targets(&self, target: &Target) -> bool {
        match self {
            Self::Programs(sampler) => sampler.has_targets(target),
            Self::Own(own) => own.has_targets(),
        }
    }

    /// Begins to report tasks. Perf events do so since their processes were added.
    pub fn arm_tasks(&mut self) -> anyhow::Result<()> {
        match self {
            Self::Programs(sampler) => sampler.arm_tasks(),
            Self::Own(_) => Ok(()),
        }
    }

    /// Starts to sample.
    ///
    /// # Errors
    /// If a probe cannot be made.
    pub fn arm_sampling(&mut self, events: &[Event], opened: Vec<Opened>) -> anyhow::Result<()> {
        match self {
            Self::Programs(sampler) => sampler.arm_sampling(events, opened),
            Self::Own(own) => own.arm_sampling(),
        }
    }

    /// Takes no samples from now on, and reports no task events either, if it has programs.
    pub(crate) fn pause(&mut self) {
        match self {
            Self::Programs(sampler) => sampler.pause(),
            Self::Own(own) => own.disarm_sampling(),
        }
    }

    /// Detaches in a pause what need not run in it. The kernel may take tens of milliseconds for that.
    pub(crate) fn rest(&mut self) {
        if let Self::Programs(sampler) = self {
            sampler.rest();
        }
    }

    /// Takes samples again; returns the moment from which on it does, ns `CLOCK_MONOTONIC`. `events` are those that were armed.
    ///
    /// # Errors
    /// If the kernel refuses that.
    pub(crate) fn go_on(&mut self, events: &[Event]) -> anyhow::Result<u64> {
        match self {
            Self::Programs(sampler) => sampler.go_on(events),
            Self::Own(own) => {
                let at_ns = clock::monotonic_ns();
                own.arm_sampling()?;
                Ok(at_ns)
            }
        }
    }

    /// Takes so many samples of what was asked for, in parts of [`RateChange::WHOLE`](icecore_format::records::RateChange::WHOLE). Events that
    /// threads inherit keep their rates.
    pub(crate) fn sample_share(&mut self, events: &[Event], share: u32) {
        if let Self::Programs(sampler) = self {
            sampler.sample_share(events, share);
        }
    }

    /// Ends sampling. Tasks are still reported.
    pub(crate) fn disarm_sampling(&mut self) {
        match self {
            Self::Programs(sampler) => sampler.disarm_sampling(),
            Self::Own(own) => own.disarm_sampling(),
        }
    }

    /// Ends sampling and the reports of tasks. Records in the ring stay there.
    pub(crate) fn disarm(&mut self) {
        match self {
            Self::Programs(sampler) => sampler.disarm(),
            Self::Own(own) => own.disarm(),
        }
    }

    /// Opens the ring, whose records go to `take`.
    pub(crate) fn ring<'feed>(
        &'feed self,
        take: impl FnMut(&[u8]) -> i32 + Send + 'feed,
    ) -> anyhow::Result<Ring<'feed>> {
        Ok(match self {
            Self::Programs(sampler) => Ring::Programs(sampler.ring(take)?),
            Self::Own(own) => Ring::Own(own, RefCell::new(Box::new(take))),
        })
    }

    /// Moves reports of mappings that came with the records of the ring to the end of `into`; returns true if some may be missing.
    pub(crate) fn take_reports(&self, into: &mut Vec<u8>) -> bool {
        match self {
            // They have queues of their own.
            Self::Programs(_) => false,
            Self::Own(own) => own.take_reports(into),
        }
    }

    /// Gives `take` the records of each thread that still waits, in the format of the ring.
    pub(crate) fn open_waits(&self, take: &mut impl FnMut(&[u8])) {
        if let Some(sampler) = self.programs() {
            sampler.open_waits(take);
        }
    }

    /// Returns the counters of an event whose periods can be changed. Those that threads inherit keep theirs.
    pub(crate) fn counters(&self, event: usize) -> impl Iterator<Item = RawFd> {
        self.programs().into_iter().flat_map(move |sampler| sampler.counters(event))
    }

    /// Opens the iterator that reports the CPU time of every recorded thread; `None` if there is none.
    pub(crate) fn accounts(&self) -> Option<Link> {
        self.programs()?.accounts()
    }

    /// Opens the iterator that reports the counters of every recorded process; `None` if they are not recorded.
    pub(crate) fn processes(&self) -> Option<Link> {
        self.programs()?.processes()
    }

    /// Returns the number of threads that have ended and whose final CPU time was not reported yet.
    pub(crate) fn unfreed(&self) -> i64 {
        self.programs().map_or(0, Sampler::unfreed)
    }

    /// Returns how often the kernel had no memory for a thread that was to take its stack.
    pub(crate) fn refused_task_work(&self) -> u64 {
        self.programs().map_or(0, Sampler::refused_task_work)
    }

    /// Returns what was lost so far. The times are 0.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        match self {
            Self::Programs(sampler) => sampler.losses(),
            Self::Own(own) => own.losses(),
        }
    }

    /// Reads how often the programs that sample ran, and their CPU time.
    pub(crate) fn runs(&self) -> BpfRuns {
        self.programs().map_or(BpfRuns::default(), Sampler::runs)
    }

    /// Reads how often the programs that follow tasks ran, and their CPU time.
    pub(crate) fn runs_of_tasks(&self) -> BpfRuns {
        self.programs().map_or(BpfRuns::default(), Sampler::runs_of_tasks)
    }
}

impl Ring<'_> {
    /// Waits until there is enough to take, at most for `at_most`.
    pub(crate) fn wait(&self, at_most: Duration) {
        match self {
            Self::Programs(ring) => poll::wait_for(ring, at_most),
            Self::Own(own, _) => own.wait(at_most),
        }
    }

    /// Takes at most so many records; perf events give all that they have. Returns true if there may be more.
    pub(crate) fn consume(&self, most: usize) -> bool {
        match self {
            Self::Programs(ring) => ring.consume_raw_n(most) >= most as i32,
            Self::Own(own, take) => {
                let take = &mut *take.borrow_mut();
                own.consume(&mut |record| _ = take(record));
                false
            }
        }
    }
}
