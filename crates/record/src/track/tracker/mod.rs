//! Events to rows: interns names, tasks, images and stacks, and collects rows until a batch is due.
//!
//! Pure: what the outside world knows (identities of files, names of kernel functions) is given to it.
//!
//! Events come from two sources, the ring and the mapping queues, and wait here until both have told what
//! happened before: [`Tracker::settle`] then replays them in the order of time, so that every sample meets the
//! address space in which it was taken.

mod notes;
mod take;
mod waiting;

pub(crate) use notes::Note;

use std::cmp::Reverse;
use std::ops::Range;

use icecore_format::block::Processes;
use icecore_format::records::{
    Cgroup, Change, Image, ImageKind, Lifecycle, Location, Loss, Mapping, Mending, Origin, Sample, Task,
    WalkEnd,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::wire::{self, Event, Head, PageKey};
use crate::machine::cgroups::Moved;
use crate::machine::identity::Identity;
use crate::settings::Pace;
use crate::track::account::Account;
use crate::track::intern::Interner;
use crate::track::snapshots::{Arriving, Snapshots};
use crate::track::spaces::{Region, Space, Spaces};
use crate::track::stacks::{Exhausted, Stacks};
use notes::Notes;
use waiting::{Queue, Unplaced, What};

/// Times of samples are kept to a microsecond: what is finer is the noise of interrupts.
const SAMPLE_UNIT_NS: u32 = 1_000;
/// Keys of one kind that are remembered before all are forgotten.
const REMEMBERED: usize = 64 << 10;
/// Bytes of names and paths that are remembered, each counted as so much more than its length.
const REMEMBERED_BYTES: usize = 8 << 20;
const OF_EACH: usize = 64;

/// The time of a sample as it is kept: what it tells first, counts from there, or the sample itself would miss it.
pub(crate) fn kept_ns(time_ns: u64) -> u64 {
    time_ns - time_ns % u64::from(SAMPLE_UNIT_NS)
}

/// A mapping to note.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MappingRow<'a> {
    pub(crate) time_ns: u64,
    pub(crate) tgid: u32,
    pub(crate) start: u64,
    pub(crate) len: u64,
    pub(crate) file_off: u64,
    pub(crate) identity: &'a Identity,
    pub(crate) origin: Origin,
    /// 0 if unknown.
    pub(crate) mount_ns: u64,
}

/// Counts over the whole recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) samples: u64,
}

/// The state between events and batches. Bounded: see [`Interner`] and [`Stacks`].
#[derive(Debug)]
pub(crate) struct Tracker {
    pace: Pace,
    strings: Interner<Vec<u8>>,
    tasks: Interner<Task>,
    images: Interner<Image>,
    spaces: Spaces,
    stacks: Stacks,
    arriving: Arriving,
    snapshots: Snapshots,
    waiting: Queue,
    /// Everything up to this moment is settled.
    settled_ns: u64,
    lifecycle: Vec<Lifecycle>,
    cgroups: Vec<Cgroup>,
    mappings: Vec<Mapping>,
    samples: Vec<Sample>,
    losses: Vec<Loss>,
    account: Account,
    processes: Processes,
    /// Kernel addresses that are new since the last batch.
    kernel_addresses: Vec<u64>,
    /// Code in images that is new since it was taken: image and offset in its file.
    code: Vec<(u32, u64)>,
    notes: Notes,
    /// Starts of kernel functions that are in the file.
    kernel_written: FxHashSet<u64>,
    /// Earliest time in the batch.
    first_ns: Option<u64>,
    totals: Totals,
}

impl Tracker {
    pub(crate) fn new(pace: Pace) -> Self {
        Self {
            pace,
            strings: Interner::weighing(1, REMEMBERED_BYTES, |text| text.len() + OF_EACH),
            tasks: Interner::new(0, REMEMBERED),
            images: Interner::new(0, REMEMBERED),
            spaces: Spaces::default(),
            stacks: Stacks::default(),
            arriving: Arriving::default(),
            snapshots: Snapshots::default(),
            waiting: Queue::default(),
            settled_ns: 0,
            lifecycle: Vec::new(),
            cgroups: Vec::new(),
            mappings: Vec::new(),
            samples: Vec::new(),
            losses: Vec::new(),
            account: Account::default(),
            processes: Processes::NONE,
            kernel_addresses: Vec::new(),
            code: Vec::new(),
            notes: Notes::default(),
            kernel_written: FxHashSet::default(),
            first_ns: None,
            totals: Totals::default(),
        }
    }

    /// Takes note of when sampling began: CPU time before that is not part of the recording.
    pub(crate) fn begin_account(&mut self, began_ns: u64) {
        self.account.begin(began_ns);
    }

    /// Notes an event of the ring.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Sample(sample) => self.sample(sample),
            Event::Fork { head, parent_tgid } => self.change(Change::FORK, head, *parent_tgid, false),
            Event::Exec { head } => self.change(Change::EXEC, head, 0, false),
            Event::Comm { head } => self.change(Change::COMM, head, 0, false),
            Event::Exit { head, whole_group } => self.change(Change::EXIT, head, 0, *whole_group),
            // What matters of it comes with whoever is in it.
            Event::Cgroup { .. } => {}
            Event::Registers(registers) => self.arriving.registers(registers),
            Event::StackPage(page) => self.arriving.page(page),
            Event::Stack(stack) => self.arriving.stack(stack),
            Event::CpuTime(reading) => self.waiting.push(reading.time_ns, What::CpuTime(*reading)),
        }
    }

    /// Notes a process that was there before.
    pub(crate) fn found(&mut self, time_ns: u64, tgid: u32, parent_tgid: u32, comm: &[u8]) {
        let head = Head { time_ns, cpu: 0, tgid, tid: tgid, comm, cgroup_id: 0 };
        self.change(Change::FOUND, &head, parent_tgid, false);
    }

    /// Notes that a task came into a cgroup.
    pub(crate) fn cgroup(&mut self, time_ns: u64, moved: &Moved) {
        let path = moved.path.as_ref().map_or(0, |path| self.string(path));
        self.begin(time_ns);
        self.cgroups.push(Cgroup { time_ns, tgid: moved.tgid, tid: moved.tid, path });
    }

    /// Notes a mapping; returns the id of its image.
    pub(crate) fn mapping(&mut self, row: &MappingRow<'_>) -> u32 {
        let identity = row.identity;
        let path = self.string(&identity.path);
        let image = self.images.id(&image(identity, path));
        let region = Region {
            end: row.start.saturating_add(row.len),
            image: is_image(identity.kind).then_some(image),
            file_off: row.file_off,
            since_ns: row.time_ns,
            is_twice: false,
        };
        let row = Mapping {
            time_ns: row.time_ns,
            tgid: row.tgid,
            start: row.start,
            len: row.len,
            file_off: row.file_off,
            image,
            origin: row.origin,
            mount_ns: row.mount_ns,
        };
        self.wait(row.time_ns, What::Mapping { row, region });
        image
    }

    /// Notes a loss.
    pub(crate) fn loss(&mut self, loss: Loss) {
        self.begin(loss.time_ns);
        self.losses.push(loss);
    }

    /// Takes note that reports of mappings may be missing of all that happened up to a moment.
    pub(crate) fn lack_reports(&mut self, until_ns: u64) {
        self.spaces.lack_until(until_ns);
    }

    /// Lists the processes with samples that wait for their address space to be proven, those with most samples first.
    pub(crate) fn unsure(&self) -> Vec<u32> {
        let mut counts: FxHashMap<u32, u32> = FxHashMap::default();
        let may_be_proven = |tgid| !self.spaces.is_given_up(tgid);
        let unsure = self.waiting.samples().filter(|(time_ns, tgid)| !self.spaces.is_sure(*tgid, *time_ns));
        let unsure = unsure.filter(|(_, tgid)| may_be_proven(*tgid));
        unsure.for_each(|(_, tgid)| *counts.entry(tgid).or_default() += 1);
        let mut tgids: Vec<u32> = counts.keys().copied().collect();
        tgids.sort_unstable_by_key(|tgid| (Reverse(counts[tgid]), *tgid));
        tgids
    }

    /// What is known of an address space by now, of what waits as well, and since when what is missing there may have been
    /// mapped.
    pub(crate) fn latest(&self, tgid: u32) -> (Space, u64) {
        let (mut space, mut since_ns) = (self.spaces.of(tgid).cloned(), self.settled_ns);
        for what in self.waiting.of(tgid) {
            match what {
                What::Change { row, .. } if row.change == Change::FORK => {
                    (space, since_ns) = (self.spaces.of(row.parent_tgid).cloned(), row.time_ns);
                }
                What::Change { row, .. } => (space, since_ns) = (None, row.time_ns),
                What::Mapping { row, region } => {
                    space = Some(space.unwrap_or_default().with(row.start, *region));
                }
                What::Only { ranges, .. } => space = space.map(|space| space.within(ranges)),
                What::Sample(_) | What::CpuTime(_) => {}
            }
        }
        (space.unwrap_or_default(), since_ns)
    }

    /// The images that a mapping of a file can have: as `/proc` tells it, and as the kernel reports it. `None` stands for code
    /// in no file.
    pub(crate) fn images_of(&self, identity: &Identity) -> Vec<Option<u32>> {
        if !is_image(identity.kind) {
            return vec![None];
        }
        let Some(path) = self.strings.find(&identity.path) else { return Vec::new() };
        let told = image(identity, path);
        let reported = Image { dev: 0, inode: 0, size_bytes: 0, modified_unix_ns: 0, ..told.clone() };
        [told, reported].iter().filter_map(|image| self.images.find(image)).map(Some).collect()
    }

    /// Takes note of all code that a process has mapped at a moment: ranges of addresses, in order.
    pub(crate) fn has_only(&mut self, tgid: u32, time_ns: u64, ranges: Vec<Range<u64>>) {
        self.wait(time_ns, What::Only { tgid, ranges });
    }

    /// Takes note that reports of mappings of a process are missing up to a moment.
    pub(crate) fn lack_reports_of(&mut self, tgid: u32, until_ns: u64) {
        self.spaces.lack_of(tgid, until_ns);
    }

    /// Takes note that a process has too many mappings: nothing is known of it until it runs another program.
    pub(crate) fn give_up(&mut self, tgid: u32, time_ns: u64) {
        self.spaces.give_up(tgid, time_ns);
    }

    /// Takes note that not every mapping of a process is followed, whatever its name is now.
    pub(crate) fn refuse_mappings(&mut self, time_ns: u64, tgid: u32, comm: &[u8]) {
        let head = Head { time_ns, cpu: 0, tgid, tid: tgid, comm, cgroup_id: 0 };
        self.change(Change::MAPPINGS_REFUSED, &head, 0, false);
    }

    /// Takes note of how an address space compares with what is known of it ([`Tracker::latest`]).
    pub(crate) fn prove(&mut self, tgid: u32, time_ns: u64, was_right: bool) {
        self.spaces.prove(tgid, time_ns, was_right);
    }

    /// Makes rows of all events up to a moment; both sources must have told all that happened before it.
    /// Returns the number of samples that are lost because there were no more ids for their frames.
    pub(crate) fn settle(&mut self, until_ns: u64) -> u64 {
        let mut lost = 0;
        self.spaces.forget_ended();
        for what in self.waiting.take_until(until_ns) {
            match what {
                What::Change { row, ends_process } => self.changed(row, ends_process),
                What::Mapping { row, region } => {
                    self.spaces.map(row.tgid, row.start, region);
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

    /// Tells whether the batch should be written at this time.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let bytes = size_of_val(&self.samples[..])
            + size_of_val(self.stacks.waiting())
            + self.snapshots.waiting_bytes()
            + size_of_val(&self.mappings[..])
            + size_of_val(&self.lifecycle[..])
            + size_of_val(&self.cgroups[..])
            + self.strings.waiting();
        bytes >= self.pace.flush_bytes
            || self.first_ns.is_some_and(|first| now_ns.saturating_sub(first) >= self.pace.flush_ns)
    }

    /// Tells whether kernel functions wait for their names.
    pub(crate) fn wants_kernel_names(&self) -> bool {
        !self.kernel_addresses.is_empty()
    }

    /// Takes the number of stacks of which less is kept than came: too many waited.
    pub(crate) fn take_refused_stacks(&mut self) -> u64 {
        self.arriving.take_refused()
    }

    /// Takes the pages of stacks that the sampler must send again.
    pub(crate) fn take_missing_pages(&mut self) -> Vec<PageKey> {
        self.arriving.take_missing()
    }

    /// Counts over the recording so far.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Takes the processes whose address space has changed since they were taken.
    pub(crate) fn take_changed(&mut self) -> FxHashSet<u32> {
        self.spaces.take_changed()
    }

    /// The address space of a process as it is at the moment that was settled last.
    pub(crate) fn space(&self, tgid: u32) -> Option<&Space> {
        self.spaces.of(tgid)
    }

    /// Takes what happened to processes since it was taken, in the order of time.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        self.notes.take()
    }

    fn sample(&mut self, sample: &wire::Sample<'_>) {
        let head = &sample.head;
        let comm = self.string(head.comm);
        let task = self.tasks.id(&Task { tgid: head.tgid, tid: head.tid, comm });
        let kernel = self.waiting.note_frames(sample.kernel);
        let user = self.waiting.note_frames(sample.user);
        let row = Sample {
            time_ns: head.time_ns,
            cpu: head.cpu as u16,
            event: 0,
            user_end: WalkEnd(sample.user_end),
            kernel_end: WalkEnd(sample.kernel_end),
            task,
            user_stack: 0,
            kernel_stack: 0,
            weight: sample.weight,
            snapshot: 0,
            mending: Mending::NONE,
        };
        let snapshot = self.arriving.take(head.cpu, sample.snapshot).map(Box::new);
        self.wait(
            head.time_ns,
            What::Sample(Unplaced { row, tgid: head.tgid, tid: head.tid, kernel, user, snapshot }),
        );
    }

    fn change(&mut self, change: Change, head: &Head<'_>, parent_tgid: u32, ends_process: bool) {
        let comm = self.string(head.comm);
        let row =
            Lifecycle { time_ns: head.time_ns, change, tgid: head.tgid, tid: head.tid, parent_tgid, comm };
        self.wait(head.time_ns, What::Change { row, ends_process });
    }

    fn wait(&mut self, time_ns: u64, what: What) {
        self.begin(time_ns);
        self.waiting.push(time_ns, what);
    }

    fn changed(&mut self, row: Lifecycle, ends_process: bool) {
        match row.change {
            Change::FORK if row.parent_tgid != row.tgid => {
                self.spaces.fork(row.parent_tgid, row.tgid, row.time_ns);
            }
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
        let kernel_stack = self.stacks.id(kernel.map(|address| Location::Address(*address)))?;
        let nodes = self.stacks.waiting();
        let new = &nodes[nodes.len() - (self.stacks.newest() - known) as usize..];
        self.kernel_addresses.extend(new.iter().filter_map(|node| match node.location {
            Location::Address(address) => Some(address),
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
                // What unwinding finds is among them.
                for address in self.snapshots.at_addresses() {
                    if self.notes.held(sample.row.time_ns, sample.tgid, *address) {
                        self.code.extend(space.code(address.saturating_sub(1)));
                    }
                }
                id
            }
            _ => 0,
        };
        self.samples.push(Sample { kernel_stack, user_stack, user_end, snapshot, ..sample.row });
        self.totals.samples += 1;
        self.processes = self.processes.with(sample.tgid);
        Ok(())
    }

    fn string(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() { 0 } else { self.strings.id(text) }
    }

    fn begin(&mut self, time_ns: u64) {
        self.first_ns = Some(self.first_ns.map_or(time_ns, |first| first.min(time_ns)));
    }
}

/// The row of an image; `path` is the id of its path.
fn image(identity: &Identity, path: u32) -> Image {
    Image {
        kind: identity.kind,
        path,
        build_id: identity.build_id.clone(),
        dev: identity.dev,
        inode: identity.inode,
        size_bytes: identity.size_bytes,
        modified_unix_ns: identity.modified_unix_ns,
    }
}

/// Returns true if code there is told by its offset in a file.
fn is_image(kind: ImageKind) -> bool {
    kind == ImageKind::FILE || kind == ImageKind::VDSO
}

#[cfg(test)]
mod tests;
