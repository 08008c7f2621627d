//! The loaded BPF programs: attaches them and reads their counters.

mod lists;
mod load;

use std::cell::Cell;
use std::fs::File;
use std::os::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

use anyhow::Context as _;
use icecore_format::records::Cause;
use libbpf_rs::{Link, MapCore, MapFlags, RingBuffer, RingBufferBuilder};

use super::skeleton::IcecoreSkel;
use super::skeleton::types::{loss_cause, target_state};
use crate::proc::cgroup::Cgroup;
use crate::settings::Target;
use crate::sys::perf;
use crate::sys::usage::{self, BpfRuns};
pub(crate) use lists::{MAX_TRUSTED, OfGo, SentPages, Trusted};

/// The state of a process or thread that has not ended, in the lists of targets.
const LIVE: [u8; 1] = [target_state::TARGET_LIVE.0 as u8];

/// The walker that takes user stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walker {
    /// Our own program, with `bpf_loop`: up to `--max-depth` frames, and with copies of stacks.
    Loop,
    /// The kernel: up to 127 frames, and no copies. Holds the reason.
    Helper(&'static str),
}

/// The loaded programs. Attached programs run until [`Sampler::disarm`] or drop.
pub(crate) struct Sampler<'obj> {
    skel: IcecoreSkel<'obj>,
    walker: Walker,
    has_cgroups: bool,
    links: Vec<Link>,
    /// The sampling events, which belong to their links.
    events: Vec<(Link, RawFd)>,
    /// A target that was alive at the last check, to check first: where many targets end, most on the list have ended.
    live: Cell<Option<[u8; 4]>>,
    /// The kernel counts the runs of programs while this descriptor is open.
    _run_counter: Option<OwnedFd>,
}

impl<'obj> Sampler<'obj> {
    /// Returns which walker takes user stacks.
    pub(crate) fn walker(&self) -> Walker {
        self.walker
    }

    /// Adds a process to those that are recorded.
    pub(crate) fn add_process(&self, tgid: u32) -> anyhow::Result<()> {
        let added = self.skel.maps.target_tgids.update(&tgid.to_ne_bytes(), &LIVE, MapFlags::ANY);
        added.with_context(|| format!("cannot follow process {tgid}"))
    }

    /// Removes a target from the lists that ended before the programs could report its end.
    pub(crate) fn forget(&self, id: u32) {
        // An id is on at most one of the two lists; deleting from the other does nothing.
        let _ = self.skel.maps.target_tgids.delete(&id.to_ne_bytes());
        let _ = self.skel.maps.target_tids.delete(&id.to_ne_bytes());
    }

    /// Adds a cgroup to those whose tasks are sampled.
    pub(crate) fn add_cgroup(&self, number: u32, cgroup: &Cgroup) -> anyhow::Result<()> {
        let add = || {
            let folder = File::open(&cgroup.folder)?;
            let (map, fd) = (&self.skel.maps.target_cgroups, folder.as_raw_fd());
            anyhow::Ok(map.update(&number.to_ne_bytes(), &fd.to_ne_bytes(), MapFlags::ANY)?)
        };
        add().with_context(|| format!("cannot sample the cgroup `{}`", cgroup.path))
    }

    /// Adds a thread to those that are sampled.
    pub(crate) fn add_thread(&self, tid: u32) -> anyhow::Result<()> {
        let added = self.skel.maps.target_tids.update(&tid.to_ne_bytes(), &LIVE, MapFlags::ANY);
        added.with_context(|| format!("cannot follow thread {tid}"))
    }

    /// Returns true if a recorded process (or thread, if threads are the target) is still alive.
    pub(crate) fn has_targets(&self, target: &Target) -> bool {
        let has_live = |map: &dyn MapCore| {
            let is_live =
                |id: &[u8]| map.lookup(id, MapFlags::ANY).is_ok_and(|state| state.as_deref() == Some(&LIVE));
            if !self.live.get().is_some_and(|id| is_live(&id)) {
                self.live.set(map.keys().find(|id| is_live(id)).and_then(|id| id.first_chunk().copied()));
            }
            self.live.get().is_some()
        };
        match target {
            Target::System => true,
            Target::Processes(_) | Target::Command => has_live(&self.skel.maps.target_tgids),
            Target::Threads(_) => has_live(&self.skel.maps.target_tids),
            Target::Cgroups(cgroups) => cgroups.iter().any(Cgroup::exists),
        }
    }

    /// Attaches the programs that report fork, exec, exit and renaming.
    pub(crate) fn arm_tasks(&mut self) -> anyhow::Result<()> {
        let programs = &self.skel.progs;
        let of_tasks =
            [&programs.on_fork, &programs.on_exec, &programs.on_rename, &programs.on_exit, &programs.on_free];
        for program in of_tasks.into_iter().chain(self.has_cgroups.then_some(&programs.on_mkdir_cgroup)) {
            let link = program.attach();
            let link =
                link.with_context(|| format!("cannot attach `{}`", program.name().to_string_lossy()))?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Starts to sample on the CPUs of these events.
    pub(crate) fn arm_sampling(&mut self, events: Vec<OwnedFd>) -> anyhow::Result<()> {
        for event in events {
            let link = self.sampling_program().attach_perf_event(event.as_raw_fd());
            let link = link.context("cannot attach the sampler to a perf event")?;
            // libbpf's link owns the descriptor now, and closes it.
            self.events.push((link, event.into_raw_fd()));
        }
        Ok(())
    }

    /// Ends sampling. Task events are still reported.
    pub(crate) fn disarm_sampling(&mut self) {
        self.events.clear();
    }

    /// Ends sampling and the reports of task events. Records in the ring stay there.
    pub(crate) fn disarm(&mut self) {
        // Sampling ends first, so that no sample is of a task whose events are no longer reported.
        self.disarm_sampling();
        self.links.clear();
    }

    /// Changes the sampling period on all CPUs, ns. An offline CPU has no event to change.
    pub(crate) fn set_period(&self, period_ns: u64) {
        self.events.iter().for_each(|(_, event)| perf::set_period(*event, period_ns));
    }

    /// Opens the iterator that reports the CPU time of every recorded thread; `None` if the kernel has none.
    pub(crate) fn accounts(&self) -> Option<Link> {
        self.skel.progs.on_every_task.attach().ok()
    }

    /// Returns the number of threads that have ended and whose final CPU time was not reported yet.
    pub(crate) fn unfreed(&self) -> i64 {
        self.skel.maps.bss_data.as_ref().map_or(0, |data| data.unfreed)
    }

    /// Opens the ring, whose records go to `take`.
    pub(crate) fn ring<'cb>(
        &'cb self,
        take: impl FnMut(&[u8]) -> i32 + Send + 'cb,
    ) -> anyhow::Result<RingBuffer<'cb>> {
        let mut builder = RingBufferBuilder::new();
        builder.add(&self.skel.maps.ring, take)?;
        builder.build().context("cannot map the ring")
    }

    /// Reads the loss counters: (cause, CPU, items since loading).
    pub(crate) fn losses(&self) -> Vec<(Cause, u32, u64)> {
        let causes = 0..loss_cause::LOSS_CAUSES.0;
        let read = |cause: u32| {
            self.skel.maps.losses.lookup_percpu(&cause.to_ne_bytes(), MapFlags::ANY).ok().flatten()
        };
        causes
            .filter_map(|cause| Some((Cause(cause as u8), read(cause)?)))
            .flat_map(|(cause, counts)| {
                (0..).zip(counts).map(move |(cpu, count)| {
                    (cause, cpu, count.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
                })
            })
            .filter(|(_, _, count)| *count > 0)
            .collect()
    }

    /// Reads how often the sampler ran, and its CPU time.
    pub(crate) fn runs(&self) -> BpfRuns {
        usage::bpf_runs(self.sampling_program().as_fd().as_raw_fd())
    }

    fn sampling_program(&self) -> &libbpf_rs::ProgramMut<'obj> {
        match self.walker {
            Walker::Loop => &self.skel.progs.sample_by_loop,
            Walker::Helper(_) => &self.skel.progs.sample_by_helper,
        }
    }
}
