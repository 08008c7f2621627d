//! Events to rows: interns names, tasks, images and stacks, and collects rows until a batch is due.
//!
//! Pure: what the outside world knows (identities of files, names of kernel functions) is given to it.

use icecore_format::records::{
    Change, Image, ImagesV1, KernelSymbol, KernelSymbolsV1, Lifecycle, LifecycleV1, Loss, LossesV1, Mapping,
    MappingsV1, Origin, Sample, SamplesV1, StringsV1, Task, TasksV1, WalkEnd,
};
use rustc_hash::FxHashSet;

use crate::batch::Batch;
use crate::identity::Identity;
use crate::intern::Interner;
use crate::proc::kallsyms::Kallsyms;
use crate::stacks::Stacks;
use crate::wire::{self, Event, Head};

/// A batch is written when its first row is this old.
const BATCH_NS: u64 = 1_000_000_000;
/// … or when its columns reach about this many bytes.
const BATCH_BYTES: usize = 1 << 20;
/// No CPU's samples may lie further apart inside one batch; see the limit of the format.
const BATCH_SPAN_NS: u64 = icecore_format::limits::MAX_BLOCK_SPAN_NS / 2;
/// Keys of one kind that are remembered before all are forgotten.
const REMEMBERED: usize = 64 << 10;

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
}

/// Counts over the whole recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) samples: u64,
}

/// The state between events and batches. Bounded: see [`Interner`] and [`Stacks`].
#[derive(Debug)]
pub(crate) struct Tracker {
    strings: Interner<Vec<u8>>,
    tasks: Interner<Task>,
    images: Interner<Image>,
    stacks: Stacks,
    lifecycle: Vec<Lifecycle>,
    mappings: Vec<Mapping>,
    samples: Vec<Sample>,
    losses: Vec<Loss>,
    /// Kernel addresses that are new since the last batch.
    kernel_addresses: Vec<u64>,
    /// Starts of kernel functions that are in the file.
    kernel_written: FxHashSet<u64>,
    /// Earliest time in the batch.
    first_ns: Option<u64>,
    totals: Totals,
}

impl Default for Tracker {
    fn default() -> Self {
        Self {
            strings: Interner::new(1, REMEMBERED),
            tasks: Interner::new(0, REMEMBERED),
            images: Interner::new(0, REMEMBERED),
            stacks: Stacks::default(),
            lifecycle: Vec::new(),
            mappings: Vec::new(),
            samples: Vec::new(),
            losses: Vec::new(),
            kernel_addresses: Vec::new(),
            kernel_written: FxHashSet::default(),
            first_ns: None,
            totals: Totals::default(),
        }
    }
}

impl Tracker {
    /// Notes an event of the ring.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match event {
            Event::Sample(sample) => self.sample(sample),
            Event::Fork { head, parent_tgid } => self.change(Change::FORK, head, *parent_tgid),
            Event::Exec { head } => self.change(Change::EXEC, head, 0),
            Event::Comm { head } => self.change(Change::COMM, head, 0),
            Event::Exit { head, .. } => self.change(Change::EXIT, head, 0),
        }
    }

    /// Notes a process that was there before.
    pub(crate) fn found(&mut self, time_ns: u64, tgid: u32, parent_tgid: u32, comm: &[u8]) {
        let head = Head { time_ns, cpu: 0, tgid, tid: tgid, comm };
        self.change(Change::FOUND, &head, parent_tgid);
    }

    /// Notes a mapping.
    pub(crate) fn mapping(&mut self, row: &MappingRow<'_>) {
        let identity = row.identity;
        let image = Image {
            kind: identity.kind,
            path: self.string(&identity.path),
            build_id: identity.build_id.clone(),
            dev: identity.dev,
            inode: identity.inode,
            size_bytes: identity.size_bytes,
            modified_unix_ns: identity.modified_unix_ns,
        };
        let image = self.images.id(&image);
        self.begin(row.time_ns);
        self.mappings.push(Mapping {
            time_ns: row.time_ns,
            tgid: row.tgid,
            start: row.start,
            len: row.len,
            file_off: row.file_off,
            image,
            origin: row.origin,
        });
    }

    /// Notes a loss.
    pub(crate) fn loss(&mut self, loss: Loss) {
        self.begin(loss.time_ns);
        self.losses.push(loss);
    }

    /// Tells whether the batch should be written at this time.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        let bytes = self.samples.len() * size_of::<Sample>() + self.stacks.waiting() * 12;
        bytes >= BATCH_BYTES || self.first_ns.is_some_and(|first| now_ns.saturating_sub(first) >= BATCH_NS)
    }

    /// Tells whether a sample at this time must wait for the next batch.
    pub(crate) fn is_too_late_for_batch(&self, time_ns: u64) -> bool {
        self.samples.first().is_some_and(|first| time_ns.abs_diff(first.time_ns) >= BATCH_SPAN_NS)
    }

    /// Tells whether kernel functions wait for their names.
    pub(crate) fn wants_kernel_names(&self) -> bool {
        !self.kernel_addresses.is_empty()
    }

    /// Counts over the recording so far.
    pub(crate) fn totals(&self) -> Totals {
        self.totals
    }

    /// Takes everything that was noted since the last batch.
    pub(crate) fn take_batch(&mut self, kallsyms: Option<&Kallsyms>) -> Batch {
        self.first_ns = None;
        let kernel_symbols = kallsyms.map_or_else(Vec::new, |table| self.kernel_symbols(table));
        self.lifecycle.sort_by_key(|row| row.time_ns);
        self.mappings.sort_by_key(|row| row.time_ns);
        self.samples.sort_by_key(|row| row.time_ns);
        let samples = SamplesV1::from_rows(&std::mem::take(&mut self.samples))
            .expect("bug: samples are in order and a batch is shorter than the format's limit");

        let (first_id, new) = self.strings.take_new();
        let mut strings = StringsV1::starting_at(first_id);
        new.iter().for_each(|text| strings.push(text));
        let (first_task, tasks) = self.tasks.take_new();
        let (first_image, images) = self.images.take_new();
        Batch {
            strings,
            tasks: TasksV1::from_rows(first_task, &tasks),
            lifecycle: LifecycleV1::from_rows(&std::mem::take(&mut self.lifecycle)),
            images: ImagesV1::from_rows(first_image, &images),
            mappings: MappingsV1::from_rows(&std::mem::take(&mut self.mappings)),
            stacks: self.stacks.take_new(),
            kernel_symbols: KernelSymbolsV1::from_rows(&kernel_symbols),
            losses: LossesV1::from_rows(&std::mem::take(&mut self.losses)),
            samples,
        }
    }

    fn sample(&mut self, sample: &wire::Sample<'_>) {
        let head = &sample.head;
        let comm = self.string(head.comm);
        let task = self.tasks.id(&Task { tgid: head.tgid, tid: head.tid, comm });
        let kernel = &mut self.kernel_addresses;
        let kernel_stack = self.stacks.id(sample.kernel.leaf_first().rev(), |address| kernel.push(address));
        let user_stack = self.stacks.id(sample.user.leaf_first().rev(), |_| ());
        self.begin(head.time_ns);
        self.totals.samples += 1;
        self.samples.push(Sample {
            time_ns: head.time_ns,
            cpu: head.cpu as u16,
            event: 0,
            user_end: WalkEnd(sample.user_end),
            kernel_end: WalkEnd(sample.kernel_end),
            task,
            user_stack,
            kernel_stack,
            weight: sample.weight,
        });
    }

    fn change(&mut self, change: Change, head: &Head<'_>, parent_tgid: u32) {
        let comm = self.string(head.comm);
        self.begin(head.time_ns);
        self.lifecycle.push(Lifecycle {
            time_ns: head.time_ns,
            change,
            tgid: head.tgid,
            tid: head.tid,
            parent_tgid,
            comm,
        });
    }

    fn string(&mut self, text: &[u8]) -> u32 {
        if text.is_empty() { 0 } else { self.strings.id(text) }
    }

    fn begin(&mut self, time_ns: u64) {
        self.first_ns = Some(self.first_ns.map_or(time_ns, |first| first.min(time_ns)));
    }

    fn kernel_symbols(&mut self, kallsyms: &Kallsyms) -> Vec<KernelSymbol> {
        let mut rows = Vec::new();
        for address in std::mem::take(&mut self.kernel_addresses) {
            // A return address may lie behind the last instruction of its function.
            for address in [address, address.saturating_sub(1)] {
                let Some(function) = kallsyms.find(address) else { continue };
                if self.kernel_written.insert(function.start) {
                    let name = self.string(function.name);
                    let module = self.string(function.module);
                    rows.push(KernelSymbol { start: function.start, end: function.end, name, module });
                }
            }
        }
        rows
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_format::records::Payload as _;

    fn head(time_ns: u64) -> Head<'static> {
        Head { time_ns, cpu: 1, tgid: 10, tid: 11, comm: b"worker" }
    }

    fn sampled(tracker: &mut Tracker, time_ns: u64) {
        let frames = [0x10_u64, 0x20].map(u64::to_ne_bytes).concat();
        let kernel = [0xffff_ffff_8100_0010_u64].map(u64::to_ne_bytes).concat();
        tracker.event(&Event::Sample(wire::Sample {
            head: head(time_ns),
            weight: 5,
            kernel_end: 1,
            user_end: 1,
            kernel: wire::Frames::from_bytes(&kernel),
            user: wire::Frames::from_bytes(&frames),
        }));
    }

    #[test]
    fn a_batch_names_everything_that_its_samples_need_once() {
        let mut tracker = Tracker::default();
        sampled(&mut tracker, 100);
        sampled(&mut tracker, 90);
        assert!(tracker.wants_kernel_names());
        let batch = tracker.take_batch(Some(&Kallsyms::parse(b"ffffffff81000000 T do_work\n")));
        assert_eq!((batch.samples.items(), batch.samples.span_ns()), (2, (90, 100)));
        assert_eq!((batch.stacks.items(), batch.tasks.items()), (3, 1));
        assert_eq!(
            (batch.kernel_symbols.start, batch.kernel_symbols.name),
            (vec![0xffff_ffff_8100_0000], vec![2])
        );
        assert_eq!(batch.strings.bytes, b"workerdo_work");

        sampled(&mut tracker, 200);
        let batch = tracker.take_batch(None);
        let new =
            [batch.strings.items(), batch.tasks.items(), batch.stacks.items(), batch.kernel_symbols.items()];
        assert_eq!((batch.samples.items(), new), (1, [0; 4]));
        assert_eq!(tracker.totals(), Totals { samples: 3 });
    }

    #[test]
    fn a_batch_is_due_after_a_second_and_never_spans_more_than_the_format_allows() {
        let mut tracker = Tracker::default();
        assert!(!tracker.is_due(u64::MAX));
        sampled(&mut tracker, 100);
        assert!(!tracker.is_due(100 + BATCH_NS - 1));
        assert!(tracker.is_due(100 + BATCH_NS));
        assert!(!tracker.is_too_late_for_batch(101));
        assert!(tracker.is_too_late_for_batch(100 + BATCH_SPAN_NS));
    }

    #[test]
    fn a_renamed_thread_is_a_second_task() {
        let mut tracker = Tracker::default();
        sampled(&mut tracker, 1);
        tracker.event(&Event::Comm { head: Head { comm: b"other", ..head(2) } });
        tracker.event(&Event::Exit { head: head(3), whole_group: true });
        let batch = tracker.take_batch(None);
        assert_eq!(batch.lifecycle.change, [Change::COMM.0, Change::EXIT.0]);
        assert_eq!(batch.strings.bytes, b"workerother");
    }
}
