//! The loaded BPF programs: attaches them and reads their counters.

mod cgroups;
mod in_targets;
mod lists;
mod load;
mod tables;
mod uprobes;

use std::cell::{Cell, RefCell};
use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, IntoRawFd as _, OwnedFd, RawFd};

use anyhow::{Context as _, bail};
use icecore_format::records::{Cause, Loss};
use libbpf_rs::query::{LinkInfo, LinkTypeInfo, PerfEventType};
use libbpf_rs::{
    Iter, KprobeOpts, Link, MapCore, MapFlags, PerfEventOpts, ProgramMut, RingBuffer, RingBufferBuilder,
};
use rustc_hash::FxHashSet;

use self::cgroups::Followed;
use self::in_targets::InTargets;
use super::events::Opened;
use crate::kernel::wire;
use crate::proc::scan;
use crate::settings::{Edge, Event, Hook, InFile, Of, Place, Source, Target};
use crate::skeleton::IcecoreSkel;
use crate::skeleton::types::{loss_cause, target_mode, target_state};
use crate::sys::clock;
use crate::sys::perf::{self, Rate};
use crate::sys::usage::{self, BpfRuns};
pub(crate) use lists::{MAX_TRUSTED, OfGo, OfInterpreters, SentPages, Trusted};
pub use load::WAYS;
pub(crate) use load::{has_btf, is_forbidden, takes_preempted_probes};
pub(crate) use tables::{Chunk, MAX_CHUNKS, MAX_TABLES, Table, Tables, bytes_of};

/// The most refused instructions that a note names.
const NAMED: usize = 10;
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

/// How waits get their user stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StacksOfWaits {
    /// The thread takes its stack itself before it returns to user space.
    ByThread,
    /// The innermost 2 KiB of the stack are copied when the thread leaves its CPU. Holds the reason.
    Copied(&'static str),
    /// Not at all.
    Missing,
}

/// The loaded programs. Attached programs run until `Sampler::disarm` or drop.
pub struct Sampler<'obj> {
    skel: IcecoreSkel<'obj>,
    walker: Walker,
    walks_tables: bool,
    /// Stacks have the functions that interpreters run.
    finds_interpreters: bool,
    stacks_of_waits: StacksOfWaits,
    has_cgroups: bool,
    /// The number of events.
    events: usize,
    /// Attached programs that follow tasks.
    tasks: Vec<Link>,
    /// Attached counters and probes.
    sampling: Vec<Link>,
    /// Attached programs that a pause detaches, because they would run all the time: at switches, and others, with what attaches those of events
    /// again.
    switches: Vec<Link>,
    resting: Vec<Link>,
    can_rest: Vec<(usize, Opened)>,
    /// Makes probes in the processes of targets alone; `None` if there are none, or they are made in every process.
    in_targets: Option<InTargets>,
    /// Events that keep these probes in the processes of targets.
    opened: Vec<OwnedFd>,
    /// The descriptors of counters, which belong to their links, with the numbers of their events.
    counters: Vec<(usize, RawFd)>,
    /// What the user must know about probes.
    notes: Vec<String>,
    /// Hits that kprobes and kretprobes missed, known when sampling has ended.
    missed_by_kprobes: u64,
    /// A target that was alive at the last check, to check first: where many targets end, most on the list have ended.
    live: Cell<Option<[u8; 4]>>,
    followed: RefCell<Followed>,
    /// The kernel counts the runs of programs while this descriptor is open.
    _run_counter: Option<OwnedFd>,
}

impl<'obj> Sampler<'obj> {
    /// Returns which walker takes user stacks.
    pub(crate) fn walker(&self) -> Walker {
        self.walker
    }

    /// Returns true if it walks user stacks by unwind tables.
    pub(crate) fn walks_tables(&self) -> bool {
        self.walks_tables
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

    /// Adds a thread to those that are sampled.
    pub(crate) fn add_thread(&self, tid: u32) -> anyhow::Result<()> {
        let added = self.skel.maps.target_tids.update(&tid.to_ne_bytes(), &LIVE, MapFlags::ANY);
        added.with_context(|| format!("cannot follow thread {tid}"))
    }

    /// Returns true if a recorded process (or thread, if threads are the target) is still alive; always for cgroups
    /// ([`Sampler::follow_cgroups`]).
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
            Target::System | Target::Cgroups(_) => true,
            Target::Processes(_) | Target::Command => has_live(&self.skel.maps.target_tgids),
            Target::Threads(_) => has_live(&self.skel.maps.target_tids),
        }
    }

    /// Attaches the programs that report fork, exec, exit and renaming, and the end of memory that tasks had.
    pub fn arm_tasks(&mut self) -> anyhow::Result<()> {
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.tasks_since_ns = clock::monotonic_ns();
        }
        let programs = &self.skel.progs;
        let of_tasks =
            [&programs.on_fork, &programs.on_exec, &programs.on_rename, &programs.on_exit, &programs.on_free];
        for program in of_tasks.into_iter().chain(self.has_cgroups.then_some(&programs.on_mkdir_cgroup)) {
            self.tasks.push(attach(program)?);
        }
        Ok(())
    }

    /// Starts to sample.
    ///
    /// # Errors
    /// If a probe cannot be made.
    pub fn arm_sampling(&mut self, events: &[Event], opened: Vec<Opened>) -> anyhow::Result<()> {
        // Both came with Linux 5.15.
        let has_links = self.skel.maps.rodata_data.is_some_and(|settings| settings.has_cookies);
        let all = opened.into_iter().enumerate();
        let (can_rest, all): (Vec<_>, Vec<_>) =
            all.partition(|(number, opened)| opened.can_rest(&events[*number], has_links));
        let (counters, probes): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(_, opened)| matches!(opened, Opened::Counters(_)));
        self.can_rest = can_rest;
        // Making thousands of probes takes a while.
        self.attach_all(events, probes)?;
        self.attach_resting(events)?;
        self.attach_switches(events, clock::monotonic_ns())?;
        self.attach_all(events, counters)
    }

    fn attach_all(&mut self, events: &[Event], all: Vec<(usize, Opened)>) -> anyhow::Result<()> {
        for (number, opened) in all {
            let attached = self.attach(number, &events[number], opened)?;
            self.sampling.extend(attached.links);
            self.opened.extend(attached.opened);
            self.counters.extend(attached.counters.into_iter().map(|counter| (number, counter)));
            self.notes.extend(attached.refused);
        }
        Ok(())
    }

    /// Attaches the programs that a pause detaches at its end.
    fn attach_resting(&mut self, events: &[Event]) -> anyhow::Result<()> {
        let ends = &self.skel.progs.on_end_of_process;
        if ends.autoload() {
            self.resting.push(ends.attach().context("cannot follow the ends of processes")?);
        }
        for (number, opened) in &self.can_rest {
            let opened = opened.again().context("cannot keep an event open")?;
            self.resting.extend(self.attach(*number, &events[*number], opened)?.links);
        }
        Ok(())
    }

    /// Attaches the programs at switches and wake-ups; waits count from a moment on, ns `CLOCK_MONOTONIC`.
    fn attach_switches(&mut self, events: &[Event], since_ns: u64) -> anyhow::Result<()> {
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.waits_since_ns = since_ns;
        }
        for event in events {
            let Source::Wait { of, .. } = event.source else { continue };
            let link = self.attach_waits(of).with_context(|| format!("cannot sample `{}`", event.name))?;
            self.switches.extend(link);
        }
        Ok(())
    }

    /// Returns what the user must know about probes, and forgets it.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// Attaches the program of an event.
    fn attach(&self, number: usize, event: &Event, opened: Opened) -> anyhow::Result<Attached> {
        self.attach_one(number, event, opened).with_context(|| format!("cannot sample `{}`", event.name))
    }

    fn attach_one(&self, number: usize, event: &Event, opened: Opened) -> anyhow::Result<Attached> {
        let cookie = number as u64;
        let programs = self.programs();
        let Attached { mut links, mut counters, mut refused, opened: mut kept } = Attached::default();
        match (opened, &event.source) {
            (Opened::Counters(fds), _) => {
                for fd in fds {
                    links.push(attach_perf_event(programs.counter, fd.as_raw_fd(), cookie)?);
                    // libbpf's link owns the descriptor now, and closes it.
                    counters.push(fd.into_raw_fd());
                }
            }
            (Opened::Tracepoint(fd), _) => {
                links.push(attach_perf_event(programs.tracepoint, fd.as_raw_fd(), cookie)?);
                let _ = fd.into_raw_fd();
            }
            (Opened::Probe, Source::Probe { place: Place::Kernel { hook: Hook::Call, .. }, .. }) => {
                let program = self.called().find(|(of, _)| *of as usize == number);
                let (_, program) = program.context("bug: the function calls no program")?;
                links.push(program.attach().context(
                    "this kernel lets no function, or not this one, call programs (CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS); use kprobe or kretprobe",
                )?);
            }
            (Opened::Probe, Source::Probe { place: Place::Kernel { function, edge, .. }, .. }) => {
                let attach = |program: &ProgramMut<'_>, at_return| {
                    let opts = KprobeOpts { cookie, ..KprobeOpts::default() };
                    let link = program.attach_kprobe_with_opts(at_return, function, opts);
                    link.context("this kernel may have no kprobes, or refuses this function")
                };
                // Calls are noted as long as returns are seen: from before, and until after.
                let of_calls = event.has_durations().then(|| attach(&self.skel.progs.kprobe_of_call, false));
                links.push(attach(programs.kprobe, *edge == Edge::Return)?);
                links.extend(of_calls.transpose()?);
            }
            (Opened::Probe, Source::Probe { place: Place::User { at, edge }, .. }) => {
                // Calls are noted as long as returns are seen: from before, and until after.
                let mut of_calls = Vec::new();
                for in_file in at.iter().filter(|_| event.has_durations()) {
                    let program = &self.skel.progs.uprobe_of_call;
                    let made = self.attach_uprobe(program, in_file, false, cookie)?;
                    of_calls.extend(made.links);
                    kept.extend(made.opened);
                }
                for in_file in at {
                    let made = self.attach_uprobe(programs.uprobe, in_file, *edge == Edge::Return, cookie)?;
                    links.extend(made.links);
                    kept.extend(made.opened);
                    refused.extend(note_on_refused(event, in_file, &made.refused));
                }
                links.extend(of_calls);
            }
            // They are attached at the moment from which on they count.
            (Opened::Waits, _) => {}
            (Opened::Probe, _) => bail!("bug: the event is of another kind"),
        }
        Ok(Attached { links, counters, refused, opened: kept })
    }

    /// Attaches a program to instructions of a file, or to the returns of the functions that begin there: in the processes of targets
    /// alone where that is possible.
    fn attach_uprobe(
        &self,
        program: &ProgramMut<'_>,
        at: &InFile,
        is_return: bool,
        cookie: u64,
    ) -> anyhow::Result<uprobes::Attached> {
        let made = match &self.in_targets {
            Some(in_targets) => {
                in_targets.attach(program, at, (is_return, cookie), &|| self.target_threads())
            }
            None => uprobes::attach(program, at, is_return, cookie),
        };
        let made = made.with_context(|| format!("cannot make a probe in `{}`", at.file.display()))?;
        made.check(at)
    }

    /// Lists the threads of all targets. A process that forks meanwhile may have a child that is not listed.
    fn target_threads(&self) -> Vec<u32> {
        let threads = live(&self.skel.maps.target_tids);
        if threads.is_empty() {
            self.followed().into_iter().flat_map(scan::threads).collect()
        } else {
            threads
        }
    }

    /// Lists the processes that are recorded now, if there is a list of them.
    pub(crate) fn followed(&self) -> Vec<u32> {
        live(&self.skel.maps.target_tgids)
    }

    /// Returns the programs that functions of the kernel call, with the numbers of their events.
    fn called(&self) -> impl Iterator<Item = (u32, &ProgramMut<'obj>)> {
        let all = &self.skel.progs;
        let numbers = self.skel.maps.rodata_data.map_or([0; 4], |settings| settings.events_of_calls);
        let programs = [&all.called_0, &all.called_1, &all.called_2, &all.called_3];
        numbers.into_iter().zip(programs).filter(|(_, program)| program.autoload())
    }

    /// Attaches the program of a part of waits; both parts come from one.
    fn attach_waits(&self, of: Of) -> anyhow::Result<Option<Link>> {
        let all = &self.skel.progs;
        let program = match of {
            Of::OffCpu => match self.stacks_of_waits {
                StacksOfWaits::ByThread => &all.on_switch,
                StacksOfWaits::Copied(_) => &all.on_switch_with_copies,
                StacksOfWaits::Missing => &all.on_switch_without_stacks,
            },
            Of::Waker if all.on_waking.autoload() => &all.on_waking,
            Of::Waker => &all.on_waking_by_helper,
            Of::RunDelay => return Ok(None),
        };
        Ok(Some(program.attach().context("cannot attach to the scheduler")?))
    }

    /// Returns how waits get their user stacks.
    pub(crate) fn stacks_of_waits(&self) -> StacksOfWaits {
        self.stacks_of_waits
    }

    /// Returns how often the kernel had no memory for a thread that was to take its stack. Since then stacks are copied as well.
    pub(crate) fn refused_task_work(&self) -> u64 {
        self.skel.maps.bss_data.as_ref().map_or(0, |data| data.refused_task_work)
    }

    /// Gives `take` the records of each thread that still waits, in the format of the ring.
    pub(crate) fn open_waits(&self, take: &mut impl FnMut(&[u8])) {
        let all = &self.skel.progs;
        let programs = [&all.on_every_waiting, &all.on_every_waiting_without_stacks];
        let program = programs.into_iter().find(|program| program.autoload());
        let Some(link) = program.and_then(|program| program.attach().ok()) else { return };
        let mut bytes = Vec::new();
        // After an error, the records that were read before it are valid.
        let _ = Iter::new(&link).map(|mut iter| iter.read_to_end(&mut bytes));
        let mut left = &bytes[..];
        while let Some((record, rest)) = wire::record_bytes(left).and_then(|len| left.split_at_checked(len)) {
            take(record);
            left = rest;
        }
    }

    /// Takes no samples and reports no task events from now on. Calls of functions that are weighed by how long they take are followed all the same.
    pub(crate) fn pause(&mut self) {
        self.counters.iter().for_each(|(_, counter)| perf::disable(*counter));
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.is_paused = true;
        }
        self.switches.clear();
    }

    /// Detaches in a pause what need not run in it. The kernel may take tens of milliseconds for that. Targets on a list are followed all the same.
    pub(crate) fn rest(&mut self) {
        self.resting.clear();
        let Some(settings) = &self.skel.maps.rodata_data else { return };
        let lists = [target_mode::TARGET_PROCESSES, target_mode::TARGET_THREADS];
        if !lists.contains(&target_mode(settings.target_mode)) && self.look_at_listed(true).is_ok() {
            self.tasks.clear();
        }
    }

    /// Notes who is on the lists of processes, or takes those from them who have changed since that was noted (bpf/pauses.h).
    fn look_at_listed(&mut self, notes: bool) -> anyhow::Result<()> {
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.notes_processes = notes;
        }
        let link = attach(&self.skel.progs.on_every_listed)?;
        let mut threads = Vec::new();
        Iter::new(&link)?.read_to_end(&mut threads).context("cannot look at all processes")?;
        if !notes && self.skel.maps.rodata_data.is_some_and(|settings| settings.wait_ns > 0) {
            let there: FxHashSet<&[u8]> = threads.chunks_exact(size_of::<u64>()).collect();
            let waits = &self.skel.maps.waits;
            let gone: Vec<Vec<u8>> = waits.keys().filter(|key| !there.contains(&key[..])).collect();
            for key in gone {
                let maps = &self.skel.maps;
                for map in [waits as &dyn MapCore, &maps.wait_copies, &maps.wait_functions] {
                    let _ = map.delete(&key);
                }
            }
        }
        Ok(())
    }

    /// Takes samples and reports task events again; returns the moment from which on it does, ns `CLOCK_MONOTONIC`. `events` are those that were
    /// armed.
    ///
    /// # Errors
    /// If a program cannot be attached again.
    pub(crate) fn go_on(&mut self, events: &[Event]) -> anyhow::Result<u64> {
        if self.tasks.is_empty() {
            self.arm_tasks()?;
            self.look_at_listed(false)?;
        }
        self.attach_resting(events)?;
        let at_ns = clock::monotonic_ns();
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.stretch = data.stretch.wrapping_add(1);
            data.is_paused = false;
        }
        self.attach_switches(events, at_ns)?;
        self.counters.iter().for_each(|(_, counter)| _ = perf::enable(*counter));
        Ok(at_ns)
    }

    /// Takes so many samples of what was asked for. `events` are those that were armed.
    pub(crate) fn sample_share(&mut self, events: &[Event], share: u32) {
        for (number, event) in events.iter().enumerate() {
            let Source::Counter { counter, rate } = event.source else { continue };
            let rate = if counter.is_timer() { rate.of_timer() } else { rate };
            if let Some(data) = self.skel.maps.bss_data.as_deref_mut().filter(|_| counter.is_timer()) {
                data.timer_periods[number] = rate.at(share);
            }
            self.counters(number).for_each(|counter| perf::set_period(counter, rate.at(share)));
        }
        let always = events.iter().find_map(|event| match event.source {
            Source::Wait { always_ns, .. } => Some(always_ns),
            _ => None,
        });
        if let Some(data) = self.skel.maps.bss_data.as_deref_mut() {
            data.rarer = u32::try_from(Rate::Period(1).at(share)).unwrap_or(u32::MAX);
            data.rare_wait_ns = Rate::Period(always.unwrap_or(0)).at(share);
        }
    }

    /// Ends sampling. Task events are still reported.
    pub(crate) fn disarm_sampling(&mut self) {
        if self.skel.progs.kprobe_by_loop.autoload() || self.skel.progs.kprobe_by_helper.autoload() {
            self.missed_by_kprobes += self.sampling.iter().map(missed_by_kprobe).sum::<u64>();
        }
        self.sampling.clear();
        self.switches.clear();
        self.resting.clear();
        self.opened.clear();
        self.in_targets.iter().for_each(InTargets::remove);
        self.counters.clear();
    }

    /// Ends sampling and the reports of task events. Records in the ring stay there.
    pub(crate) fn disarm(&mut self) {
        // Sampling ends first, so that no sample is of a task whose events are no longer reported.
        self.disarm_sampling();
        self.tasks.clear();
    }

    /// Returns the descriptors of an event's counters, one for each CPU. They stay open until [`Self::disarm_sampling`].
    pub(crate) fn counters(&self, event: usize) -> impl Iterator<Item = RawFd> {
        self.counters.iter().filter(move |(of, _)| *of == event).map(|(_, counter)| *counter)
    }

    /// Opens the iterator that reports the CPU time of every recorded thread; `None` if the kernel has none.
    pub(crate) fn accounts(&self) -> Option<Link> {
        self.skel.progs.on_every_task.attach().ok()
    }

    /// Opens the iterator that reports the counters of every recorded process; `None` if they are not recorded.
    pub(crate) fn processes(&self) -> Option<Link> {
        let all = &self.skel.progs;
        let programs = [&all.on_every_process_by_loop, &all.on_every_process_by_helper];
        programs.into_iter().find(|program| program.autoload())?.attach().ok()
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

    /// Reads the loss counters: what was lost since loading. Their times are 0.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let missed = self.runs().missed + self.missed_by_kprobes;
        let mut losses = vec![Loss::of(Cause::MISSED_RUNS, missed)];
        for cause in (0..loss_cause::LOSS_CAUSES.0).map(|cause| Cause(cause as u8)) {
            let events = if cause.is_sample() { self.events } else { 0 };
            for event in (0..events as u32).chain([loss_cause::NO_EVENT.0]) {
                let key = u32::from(cause.0) * loss_cause::LOSS_EVENTS.0 + event;
                let read = self.skel.maps.losses.lookup_percpu(&key.to_ne_bytes(), MapFlags::ANY);
                let event = if event == loss_cause::NO_EVENT.0 { Loss::NO_EVENT } else { event as u8 };
                for (cpu, lost) in (0..).zip(read.ok().flatten().into_iter().flatten()) {
                    let [count, weight] = [0, 8]
                        .map(|at| lost[at..].first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)));
                    losses.push(Loss { cpu, event, weight, ..Loss::of(cause, count) });
                }
            }
        }
        // While functions are sampled, a call that has not returned is no loss.
        if self.sampling.is_empty() {
            for (event, count) in self.unreturned() {
                let is_it =
                    |loss: &&mut Loss| (loss.cause, loss.cpu, loss.event) == (Cause::UNPAIRED, 0, event);
                match losses.iter_mut().find(is_it) {
                    Some(loss) => loss.count += count,
                    None => losses.push(Loss { cpu: 0, event, ..Loss::of(Cause::UNPAIRED, count) }),
                }
            }
        }
        losses.retain(|loss| loss.count > 0);
        losses
    }

    /// Counts the calls of which no return was seen, by event.
    fn unreturned(&self) -> impl Iterator<Item = (u8, u64)> {
        let count = |event: u8| {
            let key = u32::from(event).to_ne_bytes();
            let counts = self.skel.maps.unreturned.lookup_percpu(&key, MapFlags::ANY).ok().flatten();
            // A thread may return on another CPU than it called on.
            let sum = counts.iter().flatten().fold(0, |sum: i64, bytes| {
                sum.wrapping_add(bytes.first_chunk().map_or(0, |bytes| i64::from_ne_bytes(*bytes)))
            });
            u64::try_from(sum).unwrap_or(0)
        };
        (0..self.events as u8).map(move |event| (event, count(event)))
    }

    /// Reads how often the programs that follow tasks ran, and their CPU time.
    pub(crate) fn runs_of_tasks(&self) -> BpfRuns {
        let all = &self.skel.progs;
        let of_tasks = [
            &all.on_fork,
            &all.on_exec,
            &all.on_rename,
            &all.on_exit,
            &all.on_free,
            &all.on_mkdir_cgroup,
            &all.on_end_of_process,
        ];
        runs(of_tasks.into_iter())
    }

    /// Reads how often the programs that sample ran, and their CPU time.
    pub(crate) fn runs(&self) -> BpfRuns {
        let Programs { counter, tracepoint, kprobe, uprobe } = self.programs();
        let all = &self.skel.progs;
        let of_waits = [
            &all.on_switch,
            &all.on_switch_with_copies,
            &all.on_switch_without_stacks,
            &all.on_waking,
            &all.on_waking_by_helper,
        ];
        let of_events = [counter, tracepoint, kprobe, uprobe, &all.kprobe_of_call, &all.uprobe_of_call];
        let of_calls = self.called().map(|(_, program)| program);
        runs(of_events.into_iter().chain(of_waits).chain(of_calls))
    }

    fn programs(&self) -> Programs<'_, 'obj> {
        let all = &self.skel.progs;
        match self.walker {
            Walker::Loop => Programs {
                counter: &all.sample_by_loop,
                tracepoint: &all.tracepoint_by_loop,
                kprobe: &all.kprobe_by_loop,
                uprobe: &all.uprobe_by_loop,
            },
            Walker::Helper(_) => Programs {
                counter: &all.sample_by_helper,
                tracepoint: &all.tracepoint_by_helper,
                kprobe: &all.kprobe_by_helper,
                uprobe: &all.uprobe_by_helper,
            },
        }
    }
}

fn attach(program: &ProgramMut<'_>) -> anyhow::Result<Link> {
    program.attach().with_context(|| format!("cannot attach `{}`", program.name().to_string_lossy()))
}

/// Reads how often those of some programs that are loaded ran, and their CPU time.
fn runs<'a, 'obj: 'a>(programs: impl Iterator<Item = &'a ProgramMut<'obj>>) -> BpfRuns {
    let loaded = programs.filter(|program| program.autoload());
    loaded.map(|program| usage::bpf_runs(program.as_fd().as_raw_fd())).sum()
}

/// Lists the ids in a list of targets that have not ended.
fn live(map: &dyn MapCore) -> Vec<u32> {
    let is_live =
        |id: &[u8]| map.lookup(id, MapFlags::ANY).is_ok_and(|state| state.as_deref() == Some(&LIVE));
    let live = map.keys().filter(|id| is_live(id));
    live.filter_map(|id| Some(u32::from_ne_bytes(*id.first_chunk()?))).collect()
}

/// An event whose program is attached.
#[derive(Default)]
struct Attached {
    links: Vec<Link>,
    /// Events that keep probes in the processes of targets.
    opened: Vec<OwnedFd>,
    /// The descriptors of counters, which belong to the links.
    counters: Vec<RawFd>,
    /// A note for each file of which the kernel refused instructions.
    refused: Vec<String>,
}

/// Says on which instructions of a file there is no probe, if there are any.
fn note_on_refused(event: &Event, at: &InFile, refused: &[u64]) -> Option<String> {
    let named: Vec<String> = refused.iter().take(NAMED).map(|off| format!("{off:#x}")).collect();
    let more = refused.len() - named.len();
    (!refused.is_empty()).then(|| {
        format!(
            "`{}`: the kernel makes no probe on {} of {} instructions of `{}`, because it cannot execute them away from their place; their \
             offsets: {}{}",
            event.name,
            refused.len(),
            at.offsets.len(),
            at.file.display(),
            named.join(", "),
            if more > 0 { format!(" and {more} more") } else { String::new() }
        )
    })
}

/// The program for each kind of event.
struct Programs<'a, 'obj> {
    counter: &'a ProgramMut<'obj>,
    tracepoint: &'a ProgramMut<'obj>,
    kprobe: &'a ProgramMut<'obj>,
    uprobe: &'a ProgramMut<'obj>,
}

fn attach_perf_event(program: &ProgramMut<'_>, fd: RawFd, cookie: u64) -> anyhow::Result<Link> {
    // The first event has no cookie: kernels before 5.15 have none, and record one event.
    let opts = PerfEventOpts { cookie, ..PerfEventOpts::default() };
    program.attach_perf_event_with_opts(fd, opts).context("cannot attach the sampler to a perf event")
}

/// Returns how many hits a kprobe or kretprobe did not see: while another one ran on the CPU, and of a kretprobe also while more threads
/// were in the function than the kernel has room for. The kernel tells since 6.7.
fn missed_by_kprobe(link: &Link) -> u64 {
    let Ok(LinkInfo { info: LinkTypeInfo::PerfEvent(event), .. }) = link.info() else { return 0 };
    if let PerfEventType::Kprobe { missed, .. } = event.event_type { missed } else { 0 }
}

pub(crate) fn is_kernel_since(version: (u32, u32)) -> bool {
    let release = perf::sysctl("osrelease");
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) >= version
}
