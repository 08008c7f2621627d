//! The tracker thread turns chunks into batches. It looks at files and kernel symbols on behalf of the
//! `Tracker`, which is pure.

mod again;
mod counters;
mod mappings;
mod moved;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::{Duration, Instant};

use icecore_elf::Avma;
use icecore_format::records::{Cause, Loss, Omission, TriggerCause};
use rustc_hash::{FxHashMap, FxHashSet};

use super::chunk::{Chunk, Turn};
use super::closing::{Close, Closing, Embedded, put_jit};
use super::counts::Counts;
use super::store::ToWriter;
use super::triggers::{Trigger, Triggers};
use crate::collect::Collector;
use crate::foreign::Door;
use crate::frame_pointers::FramePointers;
use crate::interpreters::Interpreters;
use crate::kernel::names::KernelNames;
use crate::kernel::sampler::SentPages;
use crate::kernel::wire::{self, Event, Report, Sample};
use crate::machine::cgroups::{Cgroups, Moved};
use crate::machine::identity::Identities;
use crate::machine::mounts::Mounts;
use crate::proc::kallsyms::{Kallsyms, KernelFunction};
use crate::settings::{Condition, Embed, Pace};
use crate::sys::{clock, rest, usage};
use crate::track::conditions::Conditions;
use crate::track::floods::Floods;
use crate::track::followed::Followed;
use crate::track::tracker::{Totals, Tracker, kept_ns};
use again::Unseen;
use counters::Counting;
pub use mappings::READ_AGAIN_SHARE;
use mappings::ReadBudget;
use moved::MovedCode;

/// The results of the tracker thread for the last file.
#[derive(Debug)]
pub struct Digested {
    pub totals: Totals,
    /// Items lost, by cause.
    pub losses: FxHashMap<Cause, u64>,
    pub(crate) embedded: Embedded,
}

/// The most conditions that are passed on at once.
const MAX_ASKS: usize = 16;

/// A message says that files are being embedded if that takes longer than this.
const TOLD_AFTER: Duration = Duration::from_millis(1500);

/// What to embed of the images, and what ends that.
#[derive(Debug, Clone, Copy)]
pub struct Wishes<'a> {
    pub embed: Embed,
    pub max_bytes: u64,
    /// Stacks are copied.
    pub has_stacks: bool,
    /// A message is printed if embedding takes long.
    pub is_told: bool,
    /// Prints a message at once.
    pub tell: fn(&str),
    /// The user requested an end.
    pub stop: &'a AtomicBool,
    /// The disk refused a block.
    pub refused: &'a AtomicBool,
    /// Takes the counts so far.
    pub counts: &'a Counts,
    /// Conditions that ask for the history.
    pub when: &'a [Condition],
    /// How often counters are read.
    pub counters_every: Duration,
    /// Takes what asks.
    pub triggers: &'a Triggers,
    /// The part of the time that reading address spaces again may take, 0 to 1.
    pub read_share: f64,
}

/// The processes, as known when recording begins.
pub struct Processes {
    pub followed: Option<FxHashSet<u32>>,
    /// The way to the files that they have mapped.
    pub door: Door,
    /// Finds the processes whose stacks need not be copied; `None` if all stacks are copied, or none.
    pub frame_pointers: Option<FramePointers>,
    /// The sampler's list of the stack pages that it has sent; `None` if no stacks are copied.
    pub sent_pages: Option<SentPages>,
    /// Names kernel functions one by one; `None` if `/proc/kallsyms` must be read.
    pub kernel_names: Option<KernelNames>,
}

/// Digests chunks until the last has arrived.
pub fn digest(
    chunks: &Receiver<Chunk>,
    batches: SyncSender<ToWriter>,
    processes: Processes,
    pace: Pace,
    wishes: Wishes<'_>,
) -> Digested {
    // If stacks are copied, the ring fills in a tenth of a second, and this thread must keep its priority.
    if !wishes.has_stacks {
        usage::lower_priority();
    }
    let Processes { followed, door, frame_pointers, sent_pages, kernel_names } = processes;
    let door = Arc::new(door);
    let mut digest = Digest {
        tracker: Tracker::new(pace),
        has_file: false,
        identities: Identities::new(Arc::clone(&door)),
        cgroups: Cgroups::new(),
        mounts: Mounts::default(),
        collector: (wishes.embed != Embed::None).then(|| Collector::new(Arc::clone(&door))),
        door,
        frame_pointers,
        interpreters: Interpreters::new(),
        sent_pages,
        kernel_names,
        kallsyms: None,
        reading: ReadBudget::new(wishes.read_share),
        moved: MovedCode::default(),
        unseen: Unseen::default(),
        complete_until_ns: 0,
        followed: Followed::new(followed),
        losses: FxHashMap::default(),
        floods: Floods::default(),
        counting: Counting::default(),
        conditions: Conditions::new(wishes.when, wishes.counters_every),
        asks: Vec::new(),
        tell: wishes.tell,
        batches,
        turns: VecDeque::new(),
        lost_before: FxHashMap::default(),
        samples_before: 0,
    };
    for chunk in chunks {
        digest.chunk(&chunk);
        digest.settle(chunk.complete_until_ns);
        wishes.counts.note(digest.samples_before + digest.totals().samples, digest.losses.iter());
        // The first block of the file must be written before any batch.
        if digest.has_file && digest.tracker.is_due(clock::monotonic_ns()) {
            digest.flush(Flush::Batch);
        }
        for what in digest.asks.drain(..) {
            wishes.triggers.ask(Trigger::new(TriggerCause::CONDITION, what));
        }
    }
    digest.tracker.end_all_waits();
    digest.settle(u64::MAX);
    digest.flush(Flush::Last);
    let (totals, losses) = (digest.totals(), digest.losses_of_file());
    let embedded = digest.embed(&wishes);
    Digested { totals, losses, embedded }
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flush {
    /// A batch.
    Batch,
    /// The last batch of a file that another one follows.
    OfFile,
    /// The last batch of all.
    Last,
}

struct Digest {
    tracker: Tracker,
    has_file: bool,
    door: Arc<Door>,
    identities: Identities,
    cgroups: Cgroups,
    mounts: Mounts,
    /// `None` with `--embed none`.
    collector: Option<Collector>,
    frame_pointers: Option<FramePointers>,
    interpreters: Interpreters,
    sent_pages: Option<SentPages>,
    kernel_names: Option<KernelNames>,
    /// Read when the first kernel function needs a name and [`KernelNames`] gives none.
    kallsyms: Option<Kallsyms>,
    reading: ReadBudget,
    moved: MovedCode,
    /// What is not known since the last pause.
    unseen: Unseen,
    /// All events before this moment have arrived.
    complete_until_ns: u64,
    followed: Followed,
    losses: FxHashMap<Cause, u64>,
    floods: Floods,
    counting: Counting,
    conditions: Conditions,
    /// What holds of the conditions, and has not been passed on.
    asks: Vec<String>,
    tell: fn(&str),
    batches: SyncSender<ToWriter>,
    /// Files that end when all events up to their end are settled.
    turns: VecDeque<Turn>,
    /// What was lost, and how many samples were taken, before the current file.
    lost_before: FxHashMap<Cause, u64>,
    samples_before: u64,
}

impl Digest {
    fn chunk(&mut self, chunk: &Chunk) {
        self.has_file |= chunk.has_file;
        self.turns.extend(chunk.turn.clone());
        if let Some(began_ns) = chunk.began_ns {
            self.tracker.begin_account(began_ns);
        }
        chunk.rates.iter().for_each(|change| self.tracker.rate(*change));
        self.found(&chunk.found);
        if let Some(again) = &chunk.again {
            self.go_on(again);
        }
        for record in chunk.records() {
            match wire::decode(record) {
                Ok(event) => self.event(&event),
                Err(_) => self.lost(Loss::of(Cause::UNDECODABLE, 1)),
            }
        }
        // Reports come after the events of the ring, which decide which processes are followed.
        for report in wire::reports(&chunk.reports) {
            // The recorder pauses because it has used too much, and looks at all processes when it goes on.
            if rest::is_needed() {
                self.tracker.lack_reports(clock::monotonic_ns());
                break;
            }
            match report {
                Report::Mapping(mapping) => self.mapping(&mapping),
                Report::Lost(count) => self.lost(Loss::of(Cause::MAPPING_QUEUE_FULL, count)),
            }
        }
        self.followed.forget_until(chunk.complete_until_ns);
        chunk.readings.iter().for_each(|reading| self.count(reading));
        if chunk.lacks_reports {
            self.tracker.lack_reports(clock::monotonic_ns());
        }
        if let Some(sent) = &self.sent_pages {
            self.tracker.take_missing_pages().into_iter().for_each(|page| sent.forget(page));
        }
        chunk.losses.iter().for_each(|loss| self.lost(*loss));
        if chunk.shrinks {
            self.tracker.file_mut().forget();
            usage::give_back_memory();
        }
    }

    fn event(&mut self, event: &Event<'_>) {
        self.followed.event(event);
        self.mounts.event(event);
        let interpreter = |tgid| self.frame_pointers.as_ref()?.interpreter(tgid);
        let sample: Option<(&Sample<'_>, fn(_) -> _)> = match event {
            Event::Sample(sample) => Some((sample, Event::Sample)),
            Event::WaitStack(stack) => Some((stack, Event::WaitStack)),
            _ => None,
        };
        let merged = sample.and_then(|(sample, event)| {
            self.interpreters.merge(sample, interpreter(sample.head.tgid)?, &self.door).map(event)
        });
        self.tracker.event(merged.as_ref().unwrap_or(event));
        match event {
            Event::Interpreted(taken) => self.interpreters.hold(taken),
            Event::Exec { head } | Event::Exit { head, whole_group: true, .. } => {
                self.interpreters.forget(head.tgid);
            }
            _ => {}
        }
        if let (Event::Fork { head, parent_tgid, .. }, Some(frame_pointers)) =
            (event, &mut self.frame_pointers)
        {
            frame_pointers.fork(*parent_tgid, head.tgid);
        }
        if let (Event::NoTable(missed), Some(frame_pointers)) = (event, &mut self.frame_pointers) {
            let held = |image| self.collector.as_ref()?.file(image);
            frame_pointers.miss(missed, &self.tracker, held);
        }
        self.look(event);
        self.cgroup(event);
    }

    /// Looks whether a condition holds.
    fn look(&mut self, event: &Event<'_>) {
        if self.conditions.is_empty() {
            return;
        }
        let comm = |tgid| String::from_utf8_lossy(self.tracker.comm(tgid).unwrap_or_default());
        match event {
            Event::Process(process) => {
                let comm = comm(process.tgid).into_owned();
                self.conditions.process(process, &comm);
            }
            Event::Exit { head, whole_group: true, status } => {
                let comm =
                    if head.tid == head.tgid { String::from_utf8_lossy(head.comm) } else { comm(head.tgid) };
                self.asks.extend(self.conditions.exit(&comm, head.tgid, *status));
            }
            Event::Wait(wait) => {
                let ns = wait.head.time_ns.saturating_sub(wait.ready_ns.max(wait.began_ns));
                let comm = String::from_utf8_lossy(wait.head.comm);
                self.asks.extend(self.conditions.waited(&comm, wait.head.tid, ns));
            }
            _ => {}
        }
        self.asks.truncate(MAX_ASKS);
    }

    fn cgroup(&mut self, event: &Event<'_>) {
        if let Event::Sample(sample) = event {
            self.counting.hit(sample.head.cgroup_id);
        }
        let (time_ns, moved) = match event {
            Event::Sample(sample) => (kept_ns(sample.head.time_ns), self.cgroups.seen(&sample.head)),
            Event::Wait(wait) => (kept_ns(wait.head.time_ns), self.cgroups.seen(&wait.head)),
            Event::Fork { head, parent_tgid, .. } if *parent_tgid != head.tgid => {
                (head.time_ns, self.cgroups.forked(*parent_tgid, head))
            }
            Event::Exec { head } => (head.time_ns, self.cgroups.executed(head)),
            Event::Cgroup { head, path } => return self.cgroups.made(head.cgroup_id, path),
            Event::Fork { .. } | Event::Comm { .. } | Event::Exit { .. } => return,
            Event::NoTable(_) | Event::Registers(_) | Event::StackPage(_) | Event::Stack(_) => return,
            Event::Interpreted(_) => return,
            Event::WaitStack(_) | Event::CpuTime(_) | Event::Process(_) => return,
        };
        self.moved(time_ns, moved);
    }

    fn moved(&mut self, time_ns: u64, moved: Option<Moved>) {
        if let Some(Moved { tgid, tid, path }) = moved {
            self.tracker.cgroup(time_ns, tgid, tid, path.as_deref());
        }
    }

    fn lost(&mut self, loss: Loss) {
        *self.losses.entry(loss.cause).or_default() += loss.count;
        self.tracker.loss(Loss { time_ns: clock::monotonic_ns(), ..loss });
    }

    /// Settles all events up to a moment, in their files.
    fn settle(&mut self, until_ns: u64) {
        while let Some(turn) = self.turns.front().filter(|turn| turn.at_ns <= until_ns).cloned() {
            if !self.settle_in_file(turn.at_ns, until_ns == u64::MAX) {
                return;
            }
            self.turns.pop_front();
            self.turn(turn);
        }
        self.settle_in_file(until_ns, until_ns == u64::MAX);
    }

    /// Settles all events up to a moment. Returns false if they must wait for another look at processes, which `now` does not allow.
    fn settle_in_file(&mut self, until_ns: u64, now: bool) -> bool {
        self.complete_until_ns = self.complete_until_ns.max(until_ns);
        let unsure = self.tracker.unsure();
        if !unsure.is_empty() {
            // One reading proves the address spaces of all waiting samples.
            if !now && self.reading.is_early() {
                return false;
            }
            self.read_again(&unsure);
        }
        self.name_floods();
        self.learn_interpreted();
        match self.tracker.settle(self.complete_until_ns) {
            0 => {}
            count => self.lost(Loss::of(Cause::STACKS_EXHAUSTED, count)),
        }
        match self.tracker.take_refused_stacks() {
            0 => {}
            count => self.lost(Loss::of(Cause::STACK_SHORTENED, count)),
        }
        let notes = self.tracker.take_notes();
        self.prove_moved(&notes);
        if let Some(collector) = &mut self.collector {
            collector.note(&notes);
        }
        let changed = self.tracker.take_changed();
        if let Some(frame_pointers) = &mut self.frame_pointers {
            frame_pointers.settle(changed, &self.tracker);
        }
        true
    }

    /// Finds out what interpreters run in samples that wait, so that it is known when these are settled.
    fn learn_interpreted(&mut self) {
        let Some(collector) = &mut self.collector else { return };
        collector.note_early(&self.tracker.take_notes());
        for (tgid, interpreter) in collector.take_interpreters() {
            self.tracker.interpreter(tgid, interpreter);
        }
    }

    fn flush(&mut self, what: Flush) {
        self.name_kernel_functions();
        let (is_of_file, is_last) = (what != Flush::Batch, what == Flush::Last);
        // The batch defines the paths of cgroups in it.
        let counters = self.tracker.take_counters(clock::monotonic_ns(), is_of_file);
        let mut batch = self.tracker.take_batch();
        batch.counters = counters;
        batch.cpu_times = self.tracker.take_cpu_times(clock::monotonic_ns(), is_of_file, is_last);
        let (code, counts) = self.tracker.take_hits();
        let mut jit = Vec::new();
        if let Some(collector) = &mut self.collector {
            code.into_iter().for_each(|(image, file_off)| collector.hit(image, file_off));
            counts.into_iter().for_each(|(image, hits)| collector.count(image, hits));
            jit = collector.take_jit();
            collector.release();
        }
        jit.extend(self.interpreters.take_rows(self.complete_until_ns));
        let batches = &self.batches;
        // The writer takes batches until this sender is dropped.
        let mut put = |batch| _ = batches.send(ToWriter::Batch(Box::new(batch)));
        put(batch);
        put_jit(self.tracker.file_mut(), &jit, &mut put);
    }

    /// Ends the file with what is settled, and begins the next one. The writer of the old file finishes it meanwhile.
    fn turn(&mut self, turn: Turn) {
        self.flush(Flush::OfFile);
        let Turn { spent, next, turned, .. } = turn;
        let (totals, losses) = (self.totals(), self.losses_of_file());
        let closing = self.closing(false);
        self.interpreters.turn(self.complete_until_ns);
        self.samples_before += totals.samples;
        self.lost_before = self.losses.clone();
        let close = Box::new(Close { closing, totals, losses, spent, turned });
        // The writer of the old file takes this and nothing more.
        let _ = std::mem::replace(&mut self.batches, next).send(ToWriter::Close(close));
    }

    /// Takes what is needed to close the current file, and begins another one unless it is the last.
    fn closing(&mut self, is_last: bool) -> Closing {
        let frame_pointers = self.frame_pointers.as_mut();
        let untabled = frame_pointers.map(|it| it.untabled(&self.tracker)).unwrap_or_default();
        let refused = self.frame_pointers.iter().flat_map(|it| it.refused_interpreters()).collect();
        let mut collector = self.collector.take();
        if is_last {
            return Closing { file: self.tracker.end(), collector, untabled, refused };
        }
        let (file, live) = self.tracker.turn(|tgid| self.mounts.of(tgid));
        self.collector = collector.as_ref().map(|collector| collector.successor(&live));
        if let Some(collector) = &mut collector {
            collector.ask_by((*self.door).clone());
        }
        Closing { file, collector, untabled, refused }
    }

    /// Writes the results of the collector after sampling has ended. A signal ends only this, even if it is the second one; the next signal
    /// aborts the recorder.
    fn embed(mut self, wishes: &Wishes<'_>) -> Embedded {
        let Wishes { embed, max_bytes, stop, refused, tell, .. } = *wishes;
        let takes_files = [Embed::Sections, Embed::All].contains(&embed);
        if takes_files {
            usage::background_priority();
        }
        let was_asked = takes_files && stop.swap(false, Ordering::Relaxed);
        let begun = Instant::now();
        let mut is_told = !wishes.is_told;
        let mut goes_on = || {
            if !is_told && begun.elapsed() > TOLD_AFTER {
                is_told = true;
                tell(
                    "icecore-record: sampling is over; taking files into the recording (Ctrl-C ends that)\n",
                );
            }
            !(stop.load(Ordering::Relaxed) || refused.load(Ordering::Relaxed))
        };
        let closing = self.closing(true);
        let mut put = |batch| _ = self.batches.send(ToWriter::Batch(Box::new(batch)));
        let mut embedded = closing.embed(embed, max_bytes, &mut put, &mut goes_on);
        stop.fetch_or(was_asked, Ordering::Relaxed);
        if refused.load(Ordering::Relaxed) {
            let rows = embedded.files.left_out.iter_mut().map(|omitted| &mut omitted.row);
            rows.filter(|row| row.why == Omission::INTERRUPTED)
                .for_each(|row| row.why = Omission::WRITE_FAILED);
        }
        embedded
    }

    /// Returns the counts of the current file.
    fn totals(&self) -> Totals {
        self.tracker.file().totals()
    }

    /// Returns what was lost since the current file began.
    fn losses_of_file(&self) -> FxHashMap<Cause, u64> {
        let before = |cause| self.lost_before.get(cause).copied().unwrap_or(0);
        let losses = self.losses.iter().map(|(cause, count)| (*cause, count - before(cause)));
        losses.filter(|(_, count)| *count > 0).collect()
    }

    fn name_kernel_functions(&mut self) {
        let addresses = self.tracker.take_kernel_addresses();
        // A return address may lie after the last instruction of its function.
        let before = |address: Avma| [address, Avma(address.0.saturating_sub(1))];
        let addresses: Vec<Avma> = addresses.into_iter().flat_map(before).collect();
        if addresses.is_empty() {
            return;
        }
        let tracker = &mut self.tracker;
        let mut name = |function: KernelFunction<'_>| {
            tracker.kernel_function(function.start..function.end, function.name, function.module);
        };
        if self.kernel_names.as_ref().is_some_and(|names| names.find(&addresses, &mut name).is_ok()) {
            return;
        }
        let read = || {
            Kallsyms::read().unwrap_or_else(|error| {
                (self.tell)(&format!("icecore-record: cannot read the names of kernel functions: {error}\n"));
                Kallsyms::default()
            })
        };
        let table = self.kallsyms.get_or_insert_with(read);
        addresses.into_iter().filter_map(|address| table.find(address)).for_each(name);
    }
}
