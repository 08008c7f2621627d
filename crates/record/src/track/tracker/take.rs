//! Hands over the settled rows, as columns for the writer.

use icecore_elf::{Avma, FileOff};
use icecore_format::block::Processes;
use icecore_format::records::{
    Basis, CgroupsV1, CountersV1, CpuTimesV1, FieldsV1, Image, ImagePartsV1, ImagesV1, JitV1,
    KernelSymbolsV1, LifecycleV1, Location, LossesV1, MappingsV1, RatesV1, SamplesV1, StackMarksV1, StacksV1,
    SymbolsV1, TasksV1, UnwindRulesV1, WaitsV1,
};
use rustc_hash::FxHashMap;

use crate::kernel::wire::PageKey;

use super::{Note, SAMPLE_UNIT_NS, Tracker};
use crate::track::batch::Batch;
use crate::track::intern::Interner;
use crate::track::stacks::Hits;

/// How long rows of CPU time wait for a block: one block each second would be little more than its header.
const ACCOUNT_NS: u64 = 10_000_000_000;

impl Tracker {
    /// Takes all rows that were settled since the last batch.
    pub(crate) fn take_batch(&mut self) -> Batch {
        let file = &mut self.file;
        file.first_ns = self.waiting.first_ns();
        // An event may arrive after its moment was settled, so the rows of the batch are sorted again.
        file.kernel_symbols.sort_unstable_by_key(|row| row.start);
        file.lifecycle.sort_by_key(|row| row.time_ns);
        file.cgroups.sort_by_key(|row| row.time_ns);
        file.mappings.sort_by_key(|row| row.time_ns);
        file.samples.sort_by_key(|row| row.time_ns);
        file.waits.sort_by_key(|row| row.time_ns);
        let mut fields = self.fields.take();
        fields.sort_by_key(|row| row.time_ns);
        let (first_node, mut nodes) = file.stacks.take_new();
        for node in &mut nodes {
            if let Location::Image { image, file_off } = node.location {
                file.code.push((image, FileOff(file_off)));
            }
            node.location = file.location(node.location);
        }
        let basis = Basis {
            unit_ns: SAMPLE_UNIT_NS,
            period_ns: self.pace.period_ns,
            newest_stack: first_node - 1,
            processes: std::mem::replace(&mut file.processes, Processes::NONE),
        };
        let mut images = std::mem::replace(&mut file.images, Interner::new(0, 0));
        let held = file.snapshots.take_new(|location| match location {
            Location::Image { image, file_off } => Location::Image { image: images.id(&image), file_off },
            Location::Address(_) => location,
        });
        let (first_image, new) = images.take_new();
        file.images = images;
        file.code.extend(held.in_images);
        let rows = new.into_iter().map(|image| match self.images.row(image) {
            Some((row, path)) => Image { path: file.string(path), ..row.clone() },
            None => unreachable!("bug: an image that was forgotten while rows refer to it"),
        });
        let images: Vec<Image> = rows.collect();
        let (first_task, tasks) = file.tasks.take_new();
        let batch = Batch {
            strings: file.take_strings(),
            tasks: TasksV1::from_rows(first_task, &tasks),
            lifecycle: LifecycleV1::from_rows(&std::mem::take(&mut file.lifecycle)),
            cgroups: CgroupsV1::from_rows(&std::mem::take(&mut file.cgroups)),
            images: ImagesV1::from_rows(first_image, &images),
            mappings: MappingsV1::from_rows(&std::mem::take(&mut file.mappings)),
            stacks: StacksV1::from_rows(first_node, &nodes).expect("bug: a node before its caller"),
            stack_marks: StackMarksV1::from_rows(&file.stacks.take_marks()),
            kernel_symbols: KernelSymbolsV1::from_rows(&std::mem::take(&mut file.kernel_symbols)),
            losses: LossesV1::from_rows(&std::mem::take(&mut file.losses)),
            rates: RatesV1::from_rows(&std::mem::take(&mut file.rates)),
            cpu_times: CpuTimesV1::default(),
            counters: CountersV1::default(),
            stack_code: held.code,
            stack_pieces: held.pieces,
            stack_nodes: held.nodes,
            snapshots: held.snapshots,
            samples: SamplesV1::from_rows(&std::mem::take(&mut file.samples), &basis)
                .expect("bug: samples out of order"),
            waits: WaitsV1::from_rows(&std::mem::take(&mut file.waits)),
            fields: FieldsV1::from_rows(&fields),
            symbols: SymbolsV1::default(),
            unwind_rules: UnwindRulesV1::default(),
            image_parts: ImagePartsV1::default(),
            jit: JitV1::default(),
        };
        self.forget_images();
        batch
    }

    /// Takes the CPU times of threads if there are enough rows for a block, or if this is the last call for a file. The last call of all also
    /// takes those of threads that have ended and are not freed.
    pub(crate) fn take_cpu_times(&mut self, now_ns: u64, is_of_file: bool, is_last: bool) -> CpuTimesV1 {
        let is_due = self.account.first_ns().is_some_and(|first| now_ns.saturating_sub(first) >= ACCOUNT_NS);
        if is_due || is_of_file {
            CpuTimesV1::from_rows(&self.account.take(is_last))
        } else {
            CpuTimesV1::default()
        }
    }

    /// Takes the values of counters likewise. A block holds several readings, so that it has small differences.
    pub(crate) fn take_counters(&mut self, now_ns: u64, is_of_file: bool) -> CountersV1 {
        let is_due = self.counters.first_ns().is_some_and(|first| now_ns.saturating_sub(first) >= ACCOUNT_NS);
        if is_due || is_of_file || self.counters.is_full() {
            let file = &mut self.file;
            let until_ns = if is_of_file { self.settled_ns } else { u64::MAX };
            CountersV1::from_rows(&self.counters.take(until_ns, |path| file.string(path)))
        } else {
            CountersV1::default()
        }
    }

    /// Takes the code in images that was hit since the last call, and how often each image was hit.
    pub(crate) fn take_hits(&mut self) -> (Vec<(u32, FileOff)>, FxHashMap<u32, u64>) {
        let Hits { counts, by_address } = self.file.stacks.take_hits();
        self.file.code.extend(by_address);
        (std::mem::take(&mut self.file.code), counts)
    }

    /// Takes the kernel addresses that were first sampled since the last call.
    pub(crate) fn take_kernel_addresses(&mut self) -> Vec<Avma> {
        std::mem::take(&mut self.file.kernel_addresses)
    }

    /// Returns true if the batch should be written now.
    pub(crate) fn is_due(&self, now_ns: u64) -> bool {
        self.file.waiting_bytes() >= self.pace.flush_bytes
            || self.file.first_ns.is_some_and(|first| now_ns.saturating_sub(first) >= self.pace.flush_ns)
    }

    /// Takes the number of stacks that were shortened because too many waited.
    pub(crate) fn take_refused_stacks(&mut self) -> u64 {
        self.arriving.take_refused()
    }

    /// Takes the pages of stacks that the sampler must send again.
    pub(crate) fn take_missing_pages(&mut self) -> Vec<PageKey> {
        self.arriving.take_missing()
    }

    /// Takes the notes about processes since the last call, in the order of time.
    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        self.notes.take()
    }
}
