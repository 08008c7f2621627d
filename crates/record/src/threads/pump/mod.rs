//! The main thread moves records and reports from the kernel into chunks.

mod begin;
mod pause;
mod progress;

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use icecore_format::records::EndReason;

use crate::foreign::Scan;
use crate::kernel::census::Census;
use crate::kernel::feed::{Feed, Ring};
use crate::kernel::sweep::Sweep;
use crate::settings::{Event, Options, Target};
use crate::sys::child::Started;
use crate::sys::clock;
use crate::sys::queue::Queue;
use crate::sys::rest;
use crate::sys::rights::{self, Part};
use crate::threads::chunk::{Chunk, Turn};
use crate::threads::jitter::Varying;
use crate::threads::tempo::{Asked, Step, Tempo, Used};
pub use begin::{Begin, Phase};
pub use progress::{Looks, Progress};

/// A chunk is passed on when it has this many bytes.
const CHUNK_BYTES: usize = 1 << 20;
/// The longest time between the moment of an event and its arrival in the ring.
const UNDERWAY_NS: u64 = 10_000_000;
/// The kernel frees a thread within this time.
const FREED_WITHIN: Duration = Duration::from_millis(100);
/// The number of records that are taken from the ring between two checks of the chunk's size.
const TAKE_AT_ONCE: usize = 256;
/// The interval in which a chunk is offered to a tracker that is too slow.
const OFFER_EVERY: Duration = Duration::from_millis(1);

/// Why sampling ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    Duration,
    Signal,
    Command,
    TargetsGone,
    WriteFailed,
}

impl Reason {
    /// Returns the number that stands for it in a recording.
    pub(crate) fn recorded(self) -> EndReason {
        match self {
            Self::Duration => EndReason::DURATION,
            Self::Signal => EndReason::SIGNAL,
            Self::Command => EndReason::COMMAND,
            Self::TargetsGone => EndReason::TARGETS_GONE,
            Self::WriteFailed => EndReason::WRITE_FAILED,
        }
    }
}

/// The files of a recording that rotates.
pub trait Files {
    /// Returns true if the next file is to begin, and is open.
    fn is_due(&self) -> bool;

    /// Begins the next file at a moment, ns `CLOCK_MONOTONIC`. The ring had this much in it at most since the last one began.
    fn turn(&self, at_ns: u64, sampler: &Feed<'_>, ring_high_water_bytes: u64) -> Turn;
}

/// What the main thread needs to pump.
pub struct Pump<'a> {
    pub options: &'a Options,
    pub queues: &'a [Queue],
    /// The user requested an end.
    pub stop: &'a AtomicBool,
    /// The disk refused a block.
    pub refused: &'a AtomicBool,
    pub chunks: SyncSender<Chunk>,
    pub events: &'a [Event],
    pub looks: Looks,
    /// Makes the next file of a recording that rotates; `None` if there is one file.
    pub files: Option<&'a dyn Files>,
    /// Shows the user what the recorder does; it is called often.
    pub show: &'a dyn Fn(Phase),
    /// What was asked meanwhile.
    pub asked: &'a Asked,
    /// Returns what the recorder has used.
    pub used: &'a dyn Fn(&Feed<'_>) -> Used,
    /// Returns the processes that are recorded now.
    pub again: &'a dyn Fn(&Feed<'_>) -> Vec<u32>,
}

/// What the pump does until something changes.
enum Next {
    End(Reason),
    Step(Step),
}

/// The readers of the kernel's accounts.
struct Readers<'a> {
    sweep: Sweep,
    census: Census<'a>,
}

/// How pumping ended.
#[derive(Debug, Clone, Copy)]
pub struct Pumped {
    pub(crate) ended_by: Reason,
    /// Sampling began; false if the recording ended before.
    pub(crate) has_begun: bool,
    /// When sampling, or the last file, began or was to begin, ns `CLOCK_MONOTONIC`.
    pub(crate) began_ns: u64,
    /// When sampling ended, ns `CLOCK_MONOTONIC`.
    pub(crate) end_ns: u64,
    /// How long it took no samples of that, ns.
    pub(crate) paused_ns: u64,
    /// The most bytes that waited in the ring at one time.
    pub(crate) ring_high_water_bytes: u64,
    /// The longest time between two checks for a reason to end.
    pub(crate) longest_without_look: Duration,
    /// The longest time that one pass over ring and queues took, with the waits for the tracker.
    pub(crate) longest_pass: Duration,
}

impl Pump<'_> {
    /// Passes on the processes that exist, as a scan finds them, and drains ring and queues between two steps of the scan.
    pub fn look_around(&self, sampler: &Feed<'_>, scan: Scan) -> anyhow::Result<Progress> {
        let taken = Mutex::new(Vec::new());
        let mut seen = Progress::default();
        let ring = sampler.ring(take_into(&taken))?;
        for found in scan {
            let _ = self.chunks.send(Chunk { found, ..Chunk::default() });
            self.drain(sampler, &ring, &taken, &mut seen, &|| false);
            if self.is_stopped() {
                break;
            }
        }
        Ok(seen)
    }

    /// Begins to read the counters of processes. Unless the recording begins later, the first reading is made now: before the command
    /// runs, so that all that it does is in the difference of two readings.
    pub fn count(&self, sampler: &Feed<'_>, begin: &Begin, seen: &mut Progress) -> Census<'_> {
        let link = self.options.counters.and_then(|_| sampler.processes());
        let mut census = Census::new(link, self.options.counters.unwrap_or_default(), &self.options.target);
        if let Begin::Began(_) = begin {
            let taken = Mutex::new(Vec::new());
            seen.readings.extend(census.look(false, &mut |record| keep(&taken, record)));
            seen.records = taken.into_inner().unwrap_or_else(PoisonError::into_inner);
        }
        census
    }

    /// Pumps until there is a reason to end, then empties the ring; `seen` is the result of [`Pump::look_around`], and `census` that of
    /// [`Pump::count`].
    pub fn run(
        &self,
        sampler: &mut Feed<'_>,
        (begin, mut seen, census): (Begin, Progress, Census<'_>),
        mut command: Option<&mut Started>,
    ) -> anyhow::Result<Pumped> {
        let (began_ns, early) = self.begin(sampler, begin, &mut seen, command.as_deref_mut())?;
        rights::keep(Part::Main);
        let begun = Instant::now();
        self.looks.note();
        self.looks.longest.set(Duration::ZERO);
        seen.began_ns = began_ns;
        let until = self.options.duration.and_then(|duration| begun.checked_add(duration));
        let taken = Mutex::new(std::mem::take(&mut seen.records));
        let has_accounts = self.options.accounts() && early.is_none();
        let sweep = Sweep::new(has_accounts.then(|| sampler.accounts()).flatten());
        let mut readers = Readers { sweep, census };
        let ended_by = if let Some(reason) = early {
            reason
        } else {
            let varied =
                self.events.iter().enumerate().filter_map(|(n, event)| Some((n, event.varied_period()?)));
            let timers =
                varied.flat_map(|(n, period)| sampler.counters(n).map(move |counter| (counter, period)));
            let _rests = rest::UntilHere;
            // It ends before the counters are closed.
            let varying = Varying::begin(timers.collect());
            let mut tempo = Tempo::begin(self.asked, self.options.duty, self.options.budget, begun);
            loop {
                match self.until_change(
                    sampler,
                    &taken,
                    &mut seen,
                    &mut readers,
                    (&mut tempo, begun, until),
                    command.as_deref_mut(),
                )? {
                    Next::End(reason) => break reason,
                    Next::Step(step) => {
                        self.change(sampler, &taken, &mut seen, &mut readers, (&mut tempo, step), &varying)?
                    }
                }
            }
        };
        let longest_without_look = self.looks.longest.get();
        let end_ns = clock::monotonic_ns().max(seen.began_ns);
        sampler.disarm_sampling();
        if !seen.is_paused {
            wait_for_accounts(sampler, ended_by);
            readers.sweep.look(true, &mut |record| keep(&taken, record));
            if early.is_none() {
                seen.readings.extend(readers.census.look(true, &mut |record| keep(&taken, record)));
            }
            sampler.open_waits(&mut |record| keep(&taken, record));
        }
        sampler.disarm();
        let ring = sampler.ring(take_into(&taken))?;
        self.drain(sampler, &ring, &taken, &mut seen, &|| false);
        let paused_ns = seen.paused_until(end_ns);
        let Progress { high_water, longest_pass, began_ns, .. } = seen;
        let has_begun = early.is_none();
        Ok(Pumped {
            ended_by,
            has_begun,
            began_ns,
            end_ns,
            paused_ns,
            ring_high_water_bytes: high_water,
            longest_without_look,
            longest_pass,
        })
    }

    /// Pumps until there is a reason to end, or the recorder is to sample more or less often.
    fn until_change(
        &self,
        sampler: &Feed<'_>,
        taken: &Mutex<Vec<u8>>,
        seen: &mut Progress,
        readers: &mut Readers<'_>,
        (tempo, begun, until): (&mut Tempo<'_>, Instant, Option<Instant>),
        mut command: Option<&mut Started>,
    ) -> anyhow::Result<Next> {
        let ring = sampler.ring(take_into(taken))?;
        let used = || (self.used)(sampler);
        let tempo = RefCell::new(tempo);
        let is_over = || self.is_over(until) || tempo.borrow_mut().is_due(Instant::now(), used);
        loop {
            if !seen.is_paused {
                self.read_accounts(false, taken, seen, readers);
            }
            let now = Instant::now();
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
            ring.wait(left.min(seen.look_in()).min(tempo.borrow().next_in(now)));
            self.drain(sampler, &ring, taken, seen, &is_over);
            (self.show)(Phase::Since(begun));
            if let Target::Cgroups(cgroups) = &self.options.target
                && !sampler.follow_cgroups(cgroups)
                && self.files.is_none()
            {
                return Ok(Next::End(Reason::TargetsGone));
            }
            if let Some(files) = self.files.filter(|files| files.is_due()) {
                self.begin_file(files, (sampler, &ring), taken, seen, readers, &is_over);
            }
            if let Some(reason) = self.reason_to_end(sampler, until, command.as_deref_mut())? {
                return Ok(Next::End(reason));
            }
            let step = tempo.borrow_mut().look(Instant::now(), used);
            rest::need(tempo.borrow().is_over());
            seen.shrinks |= tempo.borrow_mut().take_shrink();
            if let Some(step) = step {
                return Ok(Next::Step(step));
            }
        }
    }

    /// Ends the file of this moment and begins the next one, unless the recording is about to end.
    fn begin_file(
        &self,
        files: &dyn Files,
        (sampler, ring): (&Feed<'_>, &Ring<'_>),
        taken: &Mutex<Vec<u8>>,
        seen: &mut Progress,
        readers: &mut Readers<'_>,
        is_over: &dyn Fn() -> bool,
    ) {
        if !seen.is_paused {
            self.read_accounts(true, taken, seen, readers);
        }
        let at_ns = clock::monotonic_ns();
        self.drain(sampler, ring, taken, seen, is_over);
        // Otherwise the recording ends.
        if seen.unsent.is_none() {
            let turn = Some(files.turn(at_ns, sampler, std::mem::take(&mut seen.high_water)));
            self.offer(Chunk { turn, ..Chunk::default() }, seen, is_over);
            readers.census.begin_file();
            seen.begin_file(at_ns);
        }
    }

    fn read_accounts(
        &self,
        now: bool,
        taken: &Mutex<Vec<u8>>,
        seen: &mut Progress,
        readers: &mut Readers<'_>,
    ) {
        readers.sweep.look(now, &mut |record| keep(taken, record));
        seen.readings.extend(readers.census.look(now, &mut |record| keep(taken, record)));
    }

    fn reason_to_end(
        &self,
        sampler: &Feed<'_>,
        until: Option<Instant>,
        command: Option<&mut Started>,
    ) -> anyhow::Result<Option<Reason>> {
        self.looks.note();
        Ok(if self.refused.load(Ordering::Relaxed) {
            Some(Reason::WriteFailed)
        } else if command.map_or(Ok(false), Started::has_ended).context("cannot run the command")? {
            Some(Reason::Command)
        } else if self.is_stopped() {
            Some(Reason::Signal)
        } else if until.is_some_and(|until| Instant::now() >= until) {
            Some(Reason::Duration)
        } else if !sampler.has_targets(&self.options.target) {
            Some(Reason::TargetsGone)
        } else {
            None
        })
    }

    /// Makes one pass: empties the queues, then takes the records that are in the ring at the beginning. The queues come first: if a
    /// process has a mapping in them, the event of its fork is in the ring by now. The pass ends early when it is over; the next one continues
    /// there.
    ///
    /// # Cost
    /// At most the bytes of one full ring, however fast it fills, and the time in which the tracker takes them.
    fn drain(
        &self,
        sampler: &Feed<'_>,
        ring: &Ring<'_>,
        taken: &Mutex<Vec<u8>>,
        seen: &mut Progress,
        is_over: &dyn Fn() -> bool,
    ) {
        let begun = Instant::now();
        // A mapping after this moment may be missing in the queues although a sample of it is in the ring.
        let complete_until_ns = clock::monotonic_ns().saturating_sub(UNDERWAY_NS);
        let mut fill = seen.look_at(self.queues);
        let mut waited = 0;
        loop {
            let is_sent = seen.unsent.take().is_none_or(|chunk| self.offer(chunk, seen, is_over));
            if !is_sent {
                break;
            }
            let has_more = ring.consume(TAKE_AT_ONCE);
            let mut bytes = taken.lock().unwrap_or_else(PoisonError::into_inner);
            // Once a ring's length of bytes was taken, all records from the beginning are.
            let is_last = !has_more || waited + bytes.len() as u64 >= self.options.ring_bytes;
            if !is_last && bytes.len() < CHUNK_BYTES {
                continue;
            }
            waited += bytes.len() as u64;
            let ring = std::mem::take(&mut *bytes);
            drop(bytes);
            seen.lacks_reports |= sampler.take_reports(&mut seen.reports);
            let mut chunk = Chunk { ring, losses: seen.new_losses(sampler), ..Chunk::default() };
            if is_last {
                chunk.reports = std::mem::take(&mut seen.reports);
                chunk.lacks_reports = std::mem::take(&mut seen.lacks_reports);
                chunk.complete_until_ns = complete_until_ns;
                chunk.readings = std::mem::take(&mut seen.readings);
                chunk.rates = std::mem::take(&mut seen.rates);
                chunk.again = seen.again.take();
                chunk.shrinks = std::mem::take(&mut seen.shrinks);
            }
            let is_sent = self.offer(chunk, seen, is_over);
            if is_last || !is_sent || is_over() {
                break;
            }
            fill = fill.max(seen.look_at(self.queues));
        }
        seen.note_fill(fill);
        seen.high_water = seen.high_water.max(waited);
        seen.longest_pass = seen.longest_pass.max(begun.elapsed());
    }

    /// Returns true if there is a reason to end, or the moment `until` has passed.
    fn is_over(&self, until: Option<Instant>) -> bool {
        self.looks.note();
        self.is_stopped()
            || self.refused.load(Ordering::Relaxed)
            || until.is_some_and(|until| Instant::now() >= until)
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Passes a chunk on. While the tracker is too slow, this waits, and the ring fills. If the recording ends before the tracker takes the
    /// chunk, the chunk is kept for the last pass, and this returns false.
    fn offer(&self, mut chunk: Chunk, seen: &mut Progress, is_over: &dyn Fn() -> bool) -> bool {
        loop {
            chunk = match self.chunks.try_send(chunk) {
                Err(TrySendError::Full(chunk)) => chunk,
                // The tracker ends only after this sender was dropped, unless it panicked: joining it shows that.
                Ok(()) | Err(TrySendError::Disconnected(_)) => return true,
            };
            if is_over() {
                seen.unsent = Some(chunk);
                return false;
            }
            std::thread::sleep(OFFER_EVERY);
        }
    }
}

/// Waits for the final CPU time of the threads that have just ended: the kernel frees them a little later. A process for which its
/// parent has not waited is reported by the last sweep.
fn wait_for_accounts(sampler: &Feed<'_>, ended_by: Reason) {
    let has_ended = matches!(ended_by, Reason::Command | Reason::TargetsGone);
    let until = Instant::now() + FREED_WITHIN;
    while has_ended && sampler.unfreed() > 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Appends the length of each record, and then the record, to `taken`.
fn take_into(taken: &Mutex<Vec<u8>>) -> impl FnMut(&[u8]) -> i32 + Send + '_ {
    |record| {
        keep(taken, record);
        0
    }
}

fn keep(taken: &Mutex<Vec<u8>>, record: &[u8]) {
    let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
    taken.extend_from_slice(&(record.len() as u32).to_ne_bytes());
    taken.extend_from_slice(record);
}
