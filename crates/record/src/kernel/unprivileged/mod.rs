//! Samples processes of the recorder's own user, without privileges: perf events whose records the kernel writes into memory of the recorder.
//!
//! ```text
//! thread of a target, on each CPU   tasks (running), events (disabled) ──► the queue of the CPU ─┐
//! threads and processes it makes    inherit both                       ──►       "              ─┤
//!                                       records of all queues, in the order of time ◄────────────┘
//!                                         └► records of the ring (records.rs), reports of mappings
//! ```
//!
//! The kernel samples them in user mode alone: it shows users nothing of itself. How long they ran in the kernel is known all the same, because
//! a clock counts on there.

mod records;

use std::cell::RefCell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use icecore_format::records::{Cause, Loss};
use rustc_hash::{FxHashMap, FxHashSet};

use self::records::{Record, Translator};
use super::events::check_rate;
use crate::foreign::Door;
use crate::foreign::memory::Memory;
use crate::proc::{self, maps, scan};
use crate::settings::{Event, Options, Source, Target, Unwind};
use crate::sys::perf::{self, Counter, OwnThread, Rate};
use crate::sys::queue::Queue;
use crate::sys::{clock, poll, usage};

/// The most of a stack that is copied, bytes: a queue has room for thirty such samples.
pub(crate) const MAX_STACK_BYTES: u32 = 16 << 10;
/// The pages of a queue, the largest one first. The kernel lets every user lock 128 of them for each CPU (`kernel.perf_event_mlock_kb`), and
/// more if the user may lock memory. All queues together are no larger than the ring that was asked for.
const QUEUE_PAGES: [usize; 6] = [1024, 512, 256, 128, 64, 32];
/// The longest time between the moment of an event and its record in a queue. What is younger waits for the next pass, so that records of all
/// CPUs are in the order of time.
const UNDERWAY_NS: u64 = 10_000_000;
/// The interval in which the recorder reads what clocks have counted.
const COUNT_EVERY: Duration = Duration::from_secs(1);
/// The longest time between the appearance of a thread in `/proc` and the record that reports it.
const REPORTED_WITHIN: Duration = Duration::from_millis(2);

/// The events, and what they have said.
#[derive(Debug)]
pub struct Unprivileged {
    online: Vec<u32>,
    sampled: Vec<u32>,
    events: Vec<Sampled>,
    /// Registers and bytes of the stack that are copied.
    copied: Option<(u64, u32)>,
    /// Threads are the target: what they make is not sampled.
    is_of_threads: bool,
    /// The most bytes of all queues.
    ring_bytes: u64,
    door: Door,
    state: RefCell<State>,
}

/// An event to sample.
#[derive(Debug, Clone)]
struct Sampled {
    number: u8,
    name: String,
    counter: Counter,
    rate: Rate,
    /// The period in nanoseconds, if the event counts time.
    period_ns: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    queues: Vec<(u32, Queue)>,
    /// Descriptors of the queues, on which the recorder waits.
    polled: Vec<RawFd>,
    /// Events that report tasks, with their CPUs.
    tasks: Vec<(u32, OwnedFd)>,
    /// Events that sample, with their CPUs and numbers.
    sampling: Vec<(u32, u8, OwnedFd)>,
    /// Threads with events of their own, and those that inherited some.
    opened: FxHashSet<u32>,
    inherited: FxHashSet<u32>,
    /// The targets if these are threads.
    threads: FxHashSet<u32>,
    translator: Translator,
    /// Records that are too young.
    waiting: Vec<Record>,
    /// What records said was lost when the counts of losses were last read.
    known_lost: u64,
    counted: Option<Instant>,
    losses: Vec<Loss>,
    lacks_reports: bool,
    is_sampling: bool,
    is_over: bool,
}

impl Unprivileged {
    /// Prepares to sample these events.
    ///
    /// # Errors
    /// If the kernel lets this user sample nothing; the message says what to do.
    pub fn new(options: &Options, events: &[Event], door: Door) -> anyhow::Result<Self> {
        perf::check_own().map_err(|error| refused(error, "processes of this user"))?;
        let sampled = |(number, event): (u8, &Event)| {
            let Source::Counter { counter, rate } = event.source else { return None };
            let period_ns = match rate {
                Rate::Frequency(hz) => 1_000_000_000 / hz.max(1),
                Rate::Period(units) => units,
            };
            let period_ns = Some(period_ns).filter(|_| event.unit == "ns");
            Some(Sampled { number, name: event.name.clone(), counter, rate, period_ns })
        };
        let chosen: Vec<Sampled> = (0..).zip(events).filter_map(sampled).collect();
        ensure!(chosen.len() == events.len(), "bug: an event needs privileges");
        for event in &chosen {
            if let Rate::Frequency(hz) = event.rate {
                check_rate(hz)?;
            }
        }
        let bytes = options.stack_bytes.min(MAX_STACK_BYTES) / 8 * 8;
        Ok(Self {
            online: proc::cpus::online()?,
            sampled: options.cpus.clone(),
            events: chosen,
            copied: (options.unwind != Unwind::Fp).then(|| (records::register_set(), bytes)),
            is_of_threads: matches!(options.target, Target::Threads(_)),
            ring_bytes: options.ring_bytes,
            door,
            state: RefCell::default(),
        })
    }

    /// Follows the threads of a process, and those that they will make; samples them unless threads are the target.
    ///
    /// A thread that is being made while its creator is followed can be missed: within microseconds the kernel has copied the creator's events
    /// and not yet reported the thread.
    pub(crate) fn add_process(&self, tgid: u32) -> anyhow::Result<()> {
        loop {
            let is_new = |tid: &u32| !self.state.borrow().opened.contains(tid);
            let mut threads: Vec<u32> = scan::threads(tgid).filter(is_new).collect();
            if !threads.is_empty() && !self.state.borrow().opened.is_empty() {
                // What a followed thread has made is reported by now, and followed already.
                std::thread::sleep(REPORTED_WITHIN);
                self.state.borrow_mut().drain();
                threads.retain(|tid| !self.state.borrow().inherited.contains(tid));
            }
            if threads.is_empty() {
                return Ok(());
            }
            for tid in threads {
                self.add(tgid, tid)?;
            }
        }
    }

    /// Samples a thread, and follows its process.
    pub(crate) fn add_thread(&self, tid: u32) -> anyhow::Result<()> {
        let Some(tgid) = scan::tgid_of(tid) else { return Ok(()) };
        self.add_process(tgid)?;
        let state = &mut *self.state.borrow_mut();
        state.threads.insert(tid);
        self.sample(state, tid)
    }

    /// Forgets a target that has ended.
    pub(crate) fn forget(&self, id: u32) {
        let state = &mut *self.state.borrow_mut();
        state.threads.remove(&id);
        state.translator.forget(id);
    }

    /// Returns true if a target is still alive.
    pub(crate) fn has_targets(&self) -> bool {
        let state = self.state.borrow();
        if self.is_of_threads {
            return state.threads.iter().any(|tid| scan::is_alive(*tid));
        }
        state.translator.processes().any(scan::is_alive)
    }

    /// Opens the events of a thread; those of a thread that has ended are left out.
    fn add(&self, tgid: u32, tid: u32) -> anyhow::Result<()> {
        let state = &mut *self.state.borrow_mut();
        state.opened.insert(tid);
        let mut tasks = Vec::new();
        for cpu in &self.online {
            let thread = OwnThread { tid, cpu: *cpu, inherits: true, wakeup_bytes: WAKEUP_BYTES };
            match perf::open_own_tasks(thread) {
                Ok(event) => tasks.push((*cpu, event)),
                Err(error) if has_ended(&error) => return Ok(()),
                Err(error) if is_offline(&error) => {}
                Err(error) => return Err(refused(error, &format!("process {tgid}"))),
            }
        }
        if state.queues.is_empty() {
            state.queues = map_queues(&tasks, self.ring_bytes)?;
            state.polled = state.queues.iter().map(|(_, queue)| queue.event().as_raw_fd()).collect();
        } else {
            for (cpu, event) in &tasks {
                state.write_into_queue(*cpu, event)?;
            }
        }
        state.tasks.extend(tasks);
        state.translator.thread(tgid, tid, &scan::comm_of(tid));
        if self.is_of_threads { Ok(()) } else { self.sample(state, tid) }
    }

    /// Opens the events that sample a thread.
    fn sample(&self, state: &mut State, tid: u32) -> anyhow::Result<()> {
        for cpu in &self.sampled {
            for event in &self.events {
                let inherits = !self.is_of_threads;
                let thread = OwnThread { tid, cpu: *cpu, inherits, wakeup_bytes: WAKEUP_BYTES };
                let opened = match perf::open_own_sampling(event.counter, event.rate, thread, self.copied) {
                    Ok(opened) => opened,
                    Err(error) if has_ended(&error) => return Ok(()),
                    Err(error) if is_offline(&error) => continue,
                    Err(error) => return Err(refused(error, &format!("`{}` of thread {tid}", event.name))),
                };
                state.write_into_queue(*cpu, &opened)?;
                state.translator.event(perf::id(opened.as_fd())?, event.number);
                state.sampling.push((*cpu, event.number, opened));
            }
        }
        Ok(())
    }

    /// Starts to sample.
    pub(crate) fn arm_sampling(&self) -> anyhow::Result<()> {
        let state = &mut *self.state.borrow_mut();
        state.is_sampling = true;
        state.inherited.clear();
        let mut events = state.sampling.iter();
        events.try_for_each(|(.., event)| perf::enable(event.as_fd())).context("cannot start an event")
    }

    /// Ends sampling. Tasks are still reported.
    pub(crate) fn disarm_sampling(&self) {
        self.state.borrow().sampling.iter().for_each(|(.., event)| perf::disable(event.as_raw_fd()));
    }

    /// Ends the reports of tasks. Records in the queues stay there.
    pub(crate) fn disarm(&self) {
        self.disarm_sampling();
        let state = &mut *self.state.borrow_mut();
        state.tasks.iter().for_each(|(_, event)| perf::disable(event.as_raw_fd()));
        state.is_over = true;
    }

    /// Waits until a queue has enough records, at most for `at_most`.
    pub(crate) fn wait(&self, at_most: Duration) {
        let mut polled = std::mem::take(&mut self.state.borrow_mut().polled);
        poll::wait_for_any(&mut polled, at_most);
        self.state.borrow_mut().polled = polled;
    }

    /// Empties the queues, and gives `take` the records of the ring that say the same.
    pub(crate) fn consume(&self, take: &mut dyn FnMut(&[u8])) {
        let state = &mut *self.state.borrow_mut();
        let until_ns =
            if state.is_over { u64::MAX } else { clock::monotonic_ns().saturating_sub(UNDERWAY_NS) };
        state.drain();
        state.waiting.sort_by_key(|record| record.time_ns);
        let ready = state.waiting.partition_point(|record| record.time_ns <= until_ns);
        for record in state.waiting.drain(..ready) {
            state.translator.translate(&record, &|tgid, address| self.mapping(tgid, address), take);
        }
    }

    /// Returns the mapping of a process in which an address lies; `None` if the process has ended or cannot be read.
    fn mapping(&self, tgid: u32, address: u64) -> Option<Range<u64>> {
        let text = Memory::of(tgid, &self.door).maps().ok()?;
        maps::all(&text).map(|line| line.start..line.end).find(|range| range.contains(&address))
    }

    /// Moves the reports of mappings to the end of `into`; returns true if some may be missing.
    pub(crate) fn take_reports(&self, into: &mut Vec<u8>) -> bool {
        let state = &mut *self.state.borrow_mut();
        into.append(&mut state.translator.said.reports);
        std::mem::take(&mut state.lacks_reports)
    }

    /// Returns what was lost so far; their times are 0.
    pub(crate) fn losses(&self) -> Vec<Loss> {
        let state = &mut *self.state.borrow_mut();
        let lost = state.translator.said.lost;
        let is_old = state.counted.is_none_or(|at| at.elapsed() >= COUNT_EVERY);
        if lost > state.known_lost || state.is_over || state.is_sampling && is_old {
            state.counted = Some(Instant::now());
            state.lacks_reports |= lost > state.known_lost;
            state.known_lost = lost;
            state.losses = state.count_losses(&self.events);
        }
        state.losses.clone()
    }
}

/// The kernel wakes the recorder when this much waits in a queue: a quarter of the smallest one.
const WAKEUP_BYTES: u32 = 32 << 10;

impl State {
    fn write_into_queue(&self, cpu: u32, event: &OwnedFd) -> anyhow::Result<()> {
        let (_, queue) = self
            .queues
            .iter()
            .find(|(of, _)| *of == cpu)
            .with_context(|| format!("CPU {cpu} has come online since the recording began"))?;
        perf::write_into(event.as_fd(), queue.event()).context("cannot share a queue of samples")
    }

    /// Takes all records out of the queues.
    fn drain(&mut self) {
        let mut bytes = Vec::new();
        for (_, queue) in &self.queues {
            bytes.clear();
            queue.drain(&mut bytes);
            self.waiting.extend(records::records(&bytes));
        }
        // All targets are followed before sampling begins.
        if !self.is_sampling {
            self.inherited.extend(self.waiting.iter().filter_map(Record::new_thread));
        }
    }

    /// Counts what found no room, and what was not sampled because it ran in the kernel: time that a clock counted without samples.
    fn count_losses(&self, events: &[Sampled]) -> Vec<Loss> {
        let (mut of_samples, mut clocks) = (FxHashMap::<(u32, u8), u64>::default(), FxHashMap::default());
        let mut is_told = true;
        for (cpu, number, event) in &self.sampling {
            let Ok((value, lost)) = perf::counted(event.as_fd()) else { continue };
            is_told &= lost.is_some();
            *of_samples.entry((*cpu, *number)).or_default() += lost.unwrap_or(0);
            *clocks.entry((*cpu, *number)).or_insert(0_u64) += value;
        }
        let mut losses = Vec::new();
        let period = |number: u8| events.iter().find(|event| event.number == number)?.period_ns;
        for ((cpu, event), count) in &of_samples {
            let weight = period(*event).map_or(0, |period| period.saturating_mul(*count));
            losses.push(Loss {
                cpu: *cpu,
                event: *event,
                weight,
                ..Loss::of(Cause::RING_FULL_SAMPLE, *count)
            });
            // One clock is enough.
            let clock = events.iter().find(|event| event.period_ns.is_some()).map(|event| event.number);
            if let Some(period) = period(*event).filter(|_| clock == Some(*event)) {
                let ran = clocks.get(&(*cpu, *event)).copied().unwrap_or(0);
                let (_, sampled) =
                    self.translator.said.taken.get(&(*cpu, *event)).copied().unwrap_or_default();
                // While it lasts, the newest samples have not been taken.
                let newest = if self.is_over { 0 } else { UNDERWAY_NS + period };
                let weight = ran.saturating_sub(sampled).saturating_sub(weight).saturating_sub(newest);
                let count = (weight + period / 2) / period.max(1);
                losses.push(Loss { cpu: *cpu, event: *event, weight, ..Loss::of(Cause::NOT_SAMPLED, count) });
            }
        }
        let mut of_tasks = 0;
        for (_, event) in &self.tasks {
            of_tasks += perf::counted(event.as_fd()).ok().and_then(|(_, lost)| lost).unwrap_or(0);
        }
        losses.push(Loss::of(Cause::RING_FULL_TASK, of_tasks));
        if !is_told {
            // It is unknown of what.
            losses.push(Loss::of(Cause::RING_FULL_SAMPLE, self.known_lost));
        }
        losses.retain(|loss| loss.count > 0);
        losses
    }
}

/// Maps the queue of each CPU, all of one size: the largest one that this user may have.
fn map_queues(tasks: &[(u32, OwnedFd)], most_bytes: u64) -> anyhow::Result<Vec<(u32, Queue)>> {
    let page = usage::page_bytes() as usize;
    let map = |pages: usize| -> io::Result<Vec<(u32, Queue)>> {
        let mapped =
            |(cpu, event): &(u32, OwnedFd)| Ok((*cpu, Queue::map_with(event.try_clone()?, pages * page)?));
        tasks.iter().map(mapped).collect()
    };
    let mut refusal = io::Error::from_raw_os_error(libc::EPERM);
    let fits = |pages: &usize| *pages == 32 || (pages * page * tasks.len()) as u64 <= most_bytes;
    for pages in QUEUE_PAGES.into_iter().filter(fits) {
        match map(pages) {
            Err(error) if error.raw_os_error() == Some(libc::EPERM) => refusal = error,
            mapped => return mapped.context("cannot map the queues of samples"),
        }
    }
    Err(anyhow!(
        "cannot map the queues of samples: {refusal}: this user has locked all the memory that it may (kernel.perf_event_mlock_kb is {} for \
         each CPU); end other recordings, or raise the limit with `ulimit -l`",
        perf::sysctl("perf_event_mlock_kb")
    ))
}

fn has_ended(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ESRCH)
}

fn is_offline(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

/// Explains why the kernel refuses an event without privileges, and what to do.
fn refused(error: io::Error, what: &str) -> anyhow::Error {
    let remedy = why_refused(error.raw_os_error(), perf::sysctl("perf_event_paranoid").parse().ok());
    anyhow::Error::new(error).context(format!("cannot sample {what} without privileges: {remedy}"))
}

/// Returns why, from the number of the error and the level of `kernel.perf_event_paranoid`.
fn why_refused(error: Option<i32>, level: Option<i64>) -> String {
    match (error, level) {
        (Some(libc::EACCES | libc::EPERM), Some(level @ 3..)) => format!(
            "kernel.perf_event_paranoid is {level}, as Debian and Ubuntu set it: `sudo sysctl kernel.perf_event_paranoid=2` lets users \
             sample their own processes in user mode; or {}",
            perf::PRIVILEGES
        ),
        (Some(libc::EACCES | libc::EPERM), _) => format!(
            "it is of another user, or has had other rights, or a filter of system calls (a container's) forbids it: {}",
            perf::PRIVILEGES
        ),
        (Some(libc::EMFILE | libc::ENFILE), _) => {
            "too many open files, of which each thread of a target needs two for each CPU: raise the limit with `ulimit -n`".to_owned()
        }
        (Some(libc::EINVAL), _) => format!(
            "the kernel refuses this rate; kernel.perf_event_max_sample_rate is {}",
            perf::sysctl("perf_event_max_sample_rate")
        ),
        (Some(libc::ENOENT | libc::EOPNOTSUPP), _) => "this machine cannot count it: use -e cpu-clock".to_owned(),
        _ => "the kernel has no such event".to_owned(),
    }
}

#[cfg(test)]
mod tests;
