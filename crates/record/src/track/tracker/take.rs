//! Hands over the settled rows, as columns for the writer.

use icecore_elf::{Avma, FileOff};
use icecore_format::block::Processes;
use icecore_format::records::{
    Basis, CgroupsV1, CountersV1, CpuTimesV1, FieldsV1, ImagePartsV1, ImagesV1, JitCode, JitInlined, JitLine,
    JitV1, KernelSymbolsV1, LifecycleV1, Location, LossesV1, MappingsV1, SamplesV1, StackMarksV1, StacksV1,
    StringsV1, SymbolsV1, TasksV1, UnwindRulesV1, WaitsV1,
};
use rustc_hash::FxHashMap;

use crate::kernel::wire::PageKey;

use super::{Note, SAMPLE_UNIT_NS, Tracker};
use crate::track::batch::Batch;
use crate::track::jit::{Inlined, Made};
use crate::track::stacks::Hits;

/// How long rows of CPU time wait for a block: one block each second would be little more than its header.
const ACCOUNT_NS: u64 = 10_000_000_000;

impl Tracker {
    /// Takes all rows that were settled since the last batch.
    pub(crate) fn take_batch(&mut self) -> Batch {
        self.first_ns = self.waiting.first_ns();
        // An event may arrive after its moment was settled, so the rows of the batch are sorted again.
        self.kernel_symbols.sort_unstable_by_key(|row| row.start);
        self.lifecycle.sort_by_key(|row| row.time_ns);
        self.cgroups.sort_by_key(|row| row.time_ns);
        self.mappings.sort_by_key(|row| row.time_ns);
        self.samples.sort_by_key(|row| row.time_ns);
        self.waits.sort_by_key(|row| row.time_ns);
        let mut fields = self.fields.take();
        fields.sort_by_key(|row| row.time_ns);
        let (first_node, nodes) = self.stacks.take_new();
        self.code.extend(nodes.iter().filter_map(|node| match node.location {
            Location::Image { image, file_off } => Some((image, FileOff(file_off))),
            Location::Address(_) => None,
        }));
        let basis = Basis {
            unit_ns: SAMPLE_UNIT_NS,
            period_ns: self.pace.period_ns,
            newest_stack: first_node - 1,
            processes: std::mem::replace(&mut self.processes, Processes::NONE),
        };
        let held = self.snapshots.take_new();
        self.code.extend(held.in_images);
        let (first_string, strings) = self.strings.take_new();
        let (first_task, tasks) = self.tasks.take_new();
        let (first_image, images) = self.images.take_new();
        Batch {
            strings: StringsV1::from_rows(first_string, &strings),
            tasks: TasksV1::from_rows(first_task, &tasks),
            lifecycle: LifecycleV1::from_rows(&std::mem::take(&mut self.lifecycle)),
            cgroups: CgroupsV1::from_rows(&std::mem::take(&mut self.cgroups)),
            images: ImagesV1::from_rows(first_image, &images),
            mappings: MappingsV1::from_rows(&std::mem::take(&mut self.mappings)),
            stacks: StacksV1::from_rows(first_node, &nodes).expect("bug: a node before its caller"),
            stack_marks: StackMarksV1::from_rows(&self.stacks.take_marks()),
            kernel_symbols: KernelSymbolsV1::from_rows(&std::mem::take(&mut self.kernel_symbols)),
            losses: LossesV1::from_rows(&std::mem::take(&mut self.losses)),
            cpu_times: CpuTimesV1::default(),
            counters: CountersV1::default(),
            stack_code: held.code,
            stack_pieces: held.pieces,
            stack_nodes: held.nodes,
            snapshots: held.snapshots,
            samples: SamplesV1::from_rows(&std::mem::take(&mut self.samples), &basis)
                .expect("bug: samples out of order"),
            waits: WaitsV1::from_rows(&std::mem::take(&mut self.waits)),
            fields: FieldsV1::from_rows(&fields),
            symbols: SymbolsV1::default(),
            unwind_rules: UnwindRulesV1::default(),
            image_parts: ImagePartsV1::default(),
            jit: JitV1::default(),
        }
    }

    /// Takes the CPU times of threads if there are enough rows for a block, or if this is the last call.
    pub(crate) fn take_cpu_times(&mut self, now_ns: u64, is_last: bool) -> CpuTimesV1 {
        let is_due = self.account.first_ns().is_some_and(|first| now_ns.saturating_sub(first) >= ACCOUNT_NS);
        if is_due || is_last {
            CpuTimesV1::from_rows(&self.account.take(is_last))
        } else {
            CpuTimesV1::default()
        }
    }

    /// Takes the values of counters likewise. A block holds several readings, so that it has small differences.
    pub(crate) fn take_counters(&mut self, now_ns: u64, is_last: bool) -> CountersV1 {
        let is_due = self.counters.first_ns().is_some_and(|first| now_ns.saturating_sub(first) >= ACCOUNT_NS);
        if is_due || is_last || self.counters.is_full() {
            CountersV1::from_rows(&self.counters.take())
        } else {
            CountersV1::default()
        }
    }

    /// Takes the code in images that was hit since the last call, and how often each image was hit.
    pub(crate) fn take_hits(&mut self) -> (Vec<(u32, FileOff)>, FxHashMap<u32, u64>) {
        let Hits { counts, by_address } = self.stacks.take_hits();
        self.code.extend(by_address);
        (std::mem::take(&mut self.code), counts)
    }

    /// Makes a batch of JIT code and of the names of its source files.
    pub(crate) fn jit(&mut self, made: &[Made]) -> Batch {
        let rows: Vec<JitCode<&[u8]>> = made
            .iter()
            .map(|Made { tgid, piece }| JitCode {
                tgid: *tgid,
                start: piece.start.0,
                end: piece.end.0,
                since_ns: piece.since_ns,
                until_ns: piece.until_ns,
                name: &piece.name[..],
                rules: &piece.rules[..],
                lines: piece
                    .lines
                    .iter()
                    .map(|line| JitLine {
                        off: line.off,
                        file: self.string(&line.file),
                        line: line.line,
                        inlined: line.inlined.iter().map(|it| self.inlined(it)).collect(),
                    })
                    .collect(),
                language: piece.language,
            })
            .collect();
        let (first_string, strings) = self.strings.take_new();
        let strings = StringsV1::from_rows(first_string, &strings);
        Batch { strings, jit: JitV1::from_rows(&rows), ..Batch::default() }
    }

    fn inlined(&mut self, inlined: &Inlined) -> JitInlined {
        let Inlined { name, call_file, call_line } = inlined;
        JitInlined { name: self.string(name), call_file: self.string(call_file), call_line: *call_line }
    }

    /// Takes the kernel addresses that were first sampled since the last call.
    pub(crate) fn take_kernel_addresses(&mut self) -> Vec<Avma> {
        std::mem::take(&mut self.kernel_addresses)
    }

    /// Returns true if the batch should be written now.
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
