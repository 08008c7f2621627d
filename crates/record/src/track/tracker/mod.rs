//! Turns events into rows: interns names, tasks, images and stacks, and collects rows until a batch is due.
//!
//! Pure: the caller passes in the identities of files and the names of kernel functions.
//!
//! Events come from two sources, the ring and the mapping queues, and wait here until both have reported
//! everything before them. [`Tracker::settle`] then replays them in the order of time, so that every sample
//! meets the address space in which it was taken.

mod fields;
mod images;
mod known;
mod live;
mod notes;
mod of_file;
mod settle;
mod take;
mod turn;
mod waiting;
mod waits;

pub(crate) use notes::Note;
pub(crate) use of_file::OfFile;

use std::ops::Range;

use icecore_elf::{Avma, FileOff};
use icecore_format::records::{
    Change, Counter, Image, ImageKind, KernelSymbol, Lifecycle, Loss, Mapping, Origin, Owner, RateChange,
    Sample, StackRepair, WalkEnd,
};

use crate::kernel::wire::{self, Event, Head};
use crate::settings::Pace;
use crate::track::account::Account;
use crate::track::counters::Counters;
use crate::track::jit::Interpreter;
use crate::track::snapshots::Arriving;
use crate::track::spaces::{Region, Spaces};
use fields::Fields;
use images::Images;
use live::Live;
use notes::Notes;
use waiting::{Backlog, Unplaced, What};
use waits::Due;

/// Times of samples are rounded down to a microsecond: finer differences are noise of interrupts.
const SAMPLE_UNIT_NS: u32 = 1_000;

/// Returns the stored time of a sample. What the sample reveals first must count from this time, or the sample itself would miss it.
pub(crate) fn kept_ns(time_ns: u64) -> u64 {
    time_ns - time_ns % u64::from(SAMPLE_UNIT_NS)
}

/// Counts over a whole file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    pub samples: u64,
}

/// The state between events and batches. Bounded: see [`Interner`](crate::track::intern::Interner) and
/// [`Stacks`](crate::track::stacks::Stacks).
#[derive(Debug)]
pub(crate) struct Tracker {
    pace: Pace,
    images: Images,
    spaces: Spaces,
    live: Live,
    arriving: Arriving,
    waiting: Backlog,
    /// All events up to this moment are settled.
    settled_ns: u64,
    fields: Fields,
    /// Waits whose user stack has not come yet.
    due: Due,
    account: Account,
    /// The sampling rate at the moment that was settled last; `None` if it is the requested one since the beginning.
    rate: Option<RateChange>,
    counters: Counters,
    notes: Notes,
    file: OfFile,
}

impl Tracker {
    /// Notes the interpreter of a process: frames of it are looked for from now on.
    pub(crate) fn interpreter(&mut self, tgid: u32, interpreter: Interpreter) {
        self.spaces.interpreter(tgid, interpreter);
    }

    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            images: Images::default(),
            spaces: Spaces::default(),
            live: Live::default(),
            arriving: Arriving::default(),
            waiting: Backlog::default(),
            settled_ns: 0,
            fields: Fields::of(&pace),
            pace,
            due: Due::default(),
            account: Account::default(),
            rate: None,
            counters: Counters::default(),
            notes: Notes::default(),
            file: OfFile::default(),
        }
    }

    /// Notes that the sampling rate changes.
    pub(crate) fn rate(&mut self, change: RateChange) {
        self.wait(change.time_ns, What::Rate(change));
    }

    /// Notes when sampling began, or went on after a pause: CPU time before that is not part of the recording.
    pub(crate) fn begin_account(&mut self, began_ns: u64) {
        self.account.begin(began_ns);
    }

    /// Returns the name of a process that lives, as far as events have told.
    pub(crate) fn comm(&self, tgid: u32) -> Option<&[u8]> {
        self.live.processes.get(&tgid).map(|process| &*process.comm)
    }

    /// Returns the processes that live, as far as events have told, in the order of their ids.
    pub(crate) fn live(&self) -> Vec<u32> {
        let mut tgids: Vec<u32> = self.live.processes.keys().copied().collect();
        tgids.sort_unstable();
        tgids
    }

    /// Notes an event of the ring.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Sample(sample) => self.sample(sample),
            Event::Fork { head, parent_tgid, shares_memory } => {
                self.change(Change::FORK, head, *parent_tgid, false);
                if *shares_memory {
                    self.change(Change::SHARES, head, *parent_tgid, false);
                }
            }
            Event::Exec { head } => self.change(Change::EXEC, head, 0, false),
            Event::Comm { head } => self.change(Change::COMM, head, 0, false),
            Event::Exit { head, whole_group, .. } => {
                self.end_waits(head.tid);
                self.change(Change::EXIT, head, 0, *whole_group);
            }
            // A row is made when a task is in the cgroup.
            Event::Cgroup { .. } => {}
            // The sampler has copied the stack.
            Event::NoTable(_) => {}
            // The functions are in the stack of the sample.
            Event::Interpreted(_) => {}
            Event::Wait(wait) => self.wait_of(wait),
            Event::WaitStack(stack) => self.stack_of_waits(stack),
            Event::Registers(registers) => self.arriving.registers(registers),
            Event::StackPage(page) => self.arriving.page(page),
            Event::Stack(stack) => self.arriving.stack(stack),
            Event::CpuTime(reading) => self.waiting.push(reading.time_ns, What::CpuTime(*reading)),
            Event::Process(process) => self.counters.process(process),
        }
    }

    /// Notes a process that existed before the recording.
    pub(crate) fn found(&mut self, time_ns: u64, tgid: u32, parent_tgid: u32, comm: &[u8]) {
        let head = Head { time_ns, cpu: 0, tgid, tid: tgid, comm, cgroup_id: 0 };
        self.change(Change::FOUND, &head, parent_tgid, false);
    }

    /// Notes that a process that was found has the address space of another one.
    pub(crate) fn found_sharing(&mut self, time_ns: u64, tgid: u32, of: u32, comm: &[u8]) {
        let head = Head { time_ns, cpu: 0, tgid, tid: tgid, comm, cgroup_id: 0 };
        self.change(Change::SHARES, &head, of, false);
    }

    /// Notes that a task moved into a cgroup; `path` is `None` if it is unknown.
    pub(crate) fn cgroup(&mut self, time_ns: u64, tgid: u32, tid: u32, path: Option<&[u8]>) {
        self.wait(time_ns, What::Cgroup { time_ns, tgid, tid, path: path.map(Into::into) });
    }

    /// Notes counters of the machine.
    pub(crate) fn machine(&mut self, time_ns: u64, values: Vec<(Counter, u64)>) {
        self.file.begin(time_ns);
        self.counters.values(time_ns, Owner::Machine, values);
    }

    /// Notes counters of a cgroup.
    pub(crate) fn counters_of_cgroup(&mut self, time_ns: u64, path: &[u8], values: Vec<(Counter, u64)>) {
        self.counters.of_cgroup(time_ns, path, values);
    }

    /// Notes that a reading of the processes is complete; returns how many that have ended were left out.
    pub(crate) fn end_reading(&mut self) -> u64 {
        self.counters.end_reading()
    }

    /// Notes a mapping of an image, and returns the id by which the tracker knows the image. The tracker fills in the image id of the row
    /// and the path id of the image.
    pub(crate) fn mapping(&mut self, row: Mapping, image: Image, path: &[u8]) -> u32 {
        let is_image = is_image(image.kind);
        let image = self.images.id(image, path);
        let region = Region {
            end: Avma(row.start.saturating_add(row.len)),
            image: is_image.then_some(image),
            file_off: FileOff(row.file_off),
            since_ns: row.time_ns,
            is_twice: false,
            shown: image,
            is_moved: row.origin == Origin::MOVED,
        };
        self.wait(row.time_ns, What::Mapping { row: Mapping { image, ..row }, region });
        image
    }

    /// Notes a kernel function at one of the addresses that were taken. Each function is written once.
    pub(crate) fn kernel_function(&mut self, code: Range<Avma>, name: &[u8], module: &[u8]) {
        let file = &mut self.file;
        if file.kernel_written.insert(code.start) {
            let (name, module) = (file.string(name), file.string(module));
            file.kernel_symbols.push(KernelSymbol { start: code.start.0, end: code.end.0, name, module });
        }
    }

    /// Notes a loss.
    pub(crate) fn loss(&mut self, loss: Loss) {
        self.file.begin(loss.time_ns);
        self.file.losses.push(loss);
    }

    /// Returns what the current file has.
    pub(crate) fn file(&self) -> &OfFile {
        &self.file
    }

    /// Returns what the current file has, for more that belongs into it.
    pub(crate) fn file_mut(&mut self) -> &mut OfFile {
        &mut self.file
    }

    fn sample(&mut self, sample: &wire::Sample<'_>) {
        let head = &sample.head;
        let kernel = self.waiting.note_frames(sample.kernel.leaf_first());
        let user = self.waiting.note_frames(sample.user.leaf_first());
        let row = Sample {
            time_ns: head.time_ns,
            cpu: head.cpu as u16,
            event: sample.event,
            user_end: WalkEnd(sample.user_end),
            kernel_end: WalkEnd(sample.kernel_end),
            task: 0,
            user_stack: 0,
            kernel_stack: 0,
            weight: sample.weight,
            snapshot: 0,
            repair: StackRepair::NONE,
        };
        let snapshot = self.arriving.take(sample.snapshot).map(Box::new);
        if let (Some(taken), Some(space)) = (&snapshot, self.spaces.of(sample.head.tgid)) {
            // So what runs can be found out before the sample is settled.
            for it in self.file.snapshots.running_on(space, taken) {
                self.notes.runs(sample.head.time_ns, sample.head.tgid, it.method, it.instruction);
            }
        }
        let field = self.field(sample).map(Box::new);
        self.wait(
            head.time_ns,
            What::Sample(Unplaced {
                row,
                tgid: head.tgid,
                tid: head.tid,
                comm: head.comm.into(),
                kernel,
                user,
                snapshot,
                wait: None,
                field,
            }),
        );
    }

    fn change(&mut self, change: Change, head: &Head<'_>, parent_tgid: u32, ends_process: bool) {
        let Head { time_ns, tgid, tid, .. } = *head;
        let row = Lifecycle { time_ns, change, tgid, tid, parent_tgid, comm: 0 };
        self.wait(time_ns, What::Change { row, comm: head.comm.into(), ends_process });
    }

    fn wait(&mut self, time_ns: u64, what: What) {
        self.file.begin(time_ns);
        self.waiting.push(time_ns, what);
    }
}

/// Returns true if code in such an image is stored by its offset in the file.
fn is_image(kind: ImageKind) -> bool {
    kind == ImageKind::FILE || kind == ImageKind::VDSO
}

#[cfg(test)]
mod tests;
