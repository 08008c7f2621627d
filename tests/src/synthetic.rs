//! Makes synthetic recordings from known facts, with the same bytes every time.
//!
//! [`Builder`] interns as the recorder does; [`story`] makes the recording of the goldens.

mod fleet;
mod held;
mod named;
mod pages;
mod waiting;

use std::collections::HashMap;
use std::path::Path;

use icecore_format::Error;
use icecore_format::records::{
    Basis, Cause, Cgroup, CgroupsV1, Change, CodeTable, CodeV1, CounterValue, CountersV1, CpuScope, CpuTime,
    CpuTimesV1, EmbedMode, EndReason, EventMeaning, EventV1, Field, FieldsV1, Image, ImageKind, ImagePartsV1,
    ImagesV1, JitCode, JitV1, KernelSymbol, KernelSymbolsV1, LabelV1, LeftOut, LeftOutV1, Lifecycle,
    LifecycleV1, Location, Loss, LossesV1, Maker, Mapping, MappingsV1, Mark, NameTable, NamesV1, Node,
    Origin, RateChange, RatesV1, ReceiptV1, Sample, SamplesV1, SessionV1, SourceTable, SourcesV1,
    StackMarksV1, StackRepair, StacksV1, StringsV1, Symbol, SymbolsV1, TargetKind, Task, TasksV1, TriggerV1,
    UnwindMode, UnwindRule, UnwindRulesV1, Wait, WaitsV1, WalkEnd,
};
use icecore_format::write::Writer;

pub use fleet::{FIRST_UNIX_NS, Fleet, REGRESSION_DAY, SICK_HOST};
pub use held::{Copied, Held, broken_walks};
pub use named::named;
pub use pages::{HOSTILE_NAMES, busy, changed, deep, hostile, paused, wide};
pub use waiting::{EVENTS, meaning, waiting};

/// Start of every synthetic session, ns `CLOCK_MONOTONIC`.
pub const START_NS: u64 = 1_000_000_000_000;
/// The weight of a sample: the period of 1,000 Hz.
pub const PERIOD_NS: u64 = 1_000_000;

/// Rows of a block of stacks: readers believe so many, however well they compress.
const BLOCK_LEN: usize = 1024;

/// The mount namespace of the recorder and of all mappings.
pub const MOUNT_NS: u64 = 4_026_531_841;

/// Collects the facts of a recording.
#[derive(Debug, Default)]
pub struct Builder {
    strings: Vec<String>,
    string_ids: HashMap<String, u32>,
    tasks: Vec<Task>,
    images: Vec<Image>,
    nodes: Vec<Node>,
    node_ids: HashMap<Node, u32>,
    /// Changes of tasks.
    pub lifecycle: Vec<Lifecycle>,
    /// Cgroups of tasks.
    pub cgroups: Vec<Cgroup>,
    /// Mappings.
    pub mappings: Vec<Mapping>,
    /// Kernel symbols.
    pub kernel_symbols: Vec<KernelSymbol>,
    /// Symbols of images.
    pub symbols: Vec<Symbol>,
    /// Pieces of the files of images, block by block.
    pub image_parts: Vec<ImagePartsV1>,
    /// JIT code.
    pub jit: Vec<JitCode>,
    /// Bytes before return addresses in JIT code.
    /// Facts about code that a report found.
    pub names: NameTable,
    /// Source files.
    pub sources: SourceTable,
    /// Code of functions.
    pub code: CodeTable,
    /// Skipped files.
    pub left_out: Vec<LeftOut>,
    /// Marks of nodes.
    pub marks: Vec<(u32, Mark)>,
    /// Registers and stack memory.
    pub held: Held,
    /// Unwind tables of images.
    pub unwind_rules: Vec<UnwindRule>,
    /// Samples.
    pub samples: Vec<Sample>,
    /// Waits.
    pub waits: Vec<Wait>,
    /// Fields of tracepoints.
    pub fields: Vec<Field>,
    /// Values of counters.
    pub counters: Vec<CounterValue>,
    /// CPU time by the kernel's account.
    pub cpu_times: Vec<CpuTime>,
    /// Losses.
    pub losses: Vec<Loss>,
    /// The session; [`session`] by default.
    pub session: Option<SessionV1>,
    /// Changes of the sampling rate.
    pub rates: Vec<RateChange>,
    /// What asked for it; `None` by default.
    pub trigger: Option<TriggerV1>,
    /// The receipt; `None` by default.
    pub receipt: Option<ReceiptV1>,
    /// The bases of the columns of samples; times are rounded to their unit.
    pub basis: Basis,
    /// The UUID of the file.
    pub uuid: Option<[u8; 16]>,
    /// Samples of one block; 0: all in one.
    pub block_len: usize,
}

impl Builder {
    /// Interns text.
    pub fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        let next = self.strings.len() as u32 + 1;
        *self.string_ids.entry(text.to_owned()).or_insert_with(|| {
            self.strings.push(text.to_owned());
            next
        })
    }

    /// Interns a thread under a name.
    pub fn task(&mut self, tgid: u32, tid: u32, comm: &str) -> u32 {
        let task = Task { tgid, tid, comm: self.string(comm) };
        let known = self.tasks.iter().position(|known| *known == task);
        known.unwrap_or_else(|| {
            self.tasks.push(task);
            self.tasks.len() - 1
        }) as u32
    }

    /// Adds an image without a build-id.
    pub fn image(&mut self, kind: ImageKind, path: &str) -> u32 {
        let path = self.string(path);
        let (dev, inode, size_bytes, modified_unix_ns) = (0, 0, 0, 0);
        self.images.push(Image { kind, path, build_id: vec![], dev, inode, size_bytes, modified_unix_ns });
        self.images.len() as u32 - 1
    }

    /// Adds an image as it lies on this machine's disk, by size and modification time.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn image_on_disk(&mut self, path: &Path) -> std::io::Result<u32> {
        let meta = std::fs::metadata(path)?;
        let modified = meta.modified()?.duration_since(std::time::UNIX_EPOCH);
        let image = self.image(ImageKind::FILE, &path.display().to_string());
        self.images[image as usize].size_bytes = meta.len();
        self.images[image as usize].modified_unix_ns = modified.map_or(0, |d| d.as_nanos() as u64);
        Ok(image)
    }

    /// Interns a stack, given leaf first, and returns its id.
    pub fn stack(&mut self, leaf_first: &[u64]) -> u32 {
        self.stack_at(&leaf_first.iter().map(|address| Location::Address(*address)).collect::<Vec<_>>())
    }

    /// Interns a stack of any locations, given leaf first, and returns its id.
    pub fn stack_at(&mut self, leaf_first: &[Location]) -> u32 {
        leaf_first.iter().rev().fold(0, |parent, location| {
            let next = self.nodes.len() as u32 + 1;
            let node = Node { parent, location: *location };
            *self.node_ids.entry(node).or_insert_with(|| {
                self.nodes.push(node);
                next
            })
        })
    }

    /// Adds a change of a process's leading thread.
    pub fn change(&mut self, at_ns: u64, change: Change, tgid: u32, parent_tgid: u32, comm: &str) {
        let comm = self.string(comm);
        let time_ns = START_NS + at_ns;
        self.lifecycle.push(Lifecycle { time_ns, change, tgid, tid: tgid, parent_tgid, comm });
    }

    /// Puts a process into a cgroup; an empty path stands for an unknown cgroup.
    pub fn cgroup(&mut self, at_ns: u64, tgid: u32, path: &str) {
        self.cgroup_of_thread(at_ns, tgid, tgid, path);
    }

    /// Puts a thread into a cgroup.
    pub fn cgroup_of_thread(&mut self, at_ns: u64, tgid: u32, tid: u32, path: &str) {
        let path = self.string(path);
        self.cgroups.push(Cgroup { time_ns: START_NS + at_ns, tgid, tid, path });
    }

    /// Adds a mapping of 64 KiB at offset 0x1000 of its image.
    pub fn map(&mut self, at_ns: u64, tgid: u32, start: u64, image: u32, origin: Origin) {
        let (time_ns, len, file_off) = (START_NS + at_ns, 0x1_0000, 0x1000);
        let mount_ns = MOUNT_NS;
        self.mappings.push(Mapping { time_ns, tgid, start, len, file_off, image, origin, mount_ns });
    }

    /// Adds a sample whose walks ended at a root.
    pub fn sample(&mut self, at_ns: u64, cpu: u16, task: u32, user: &[u64], kernel: &[u64]) -> &mut Sample {
        let (user_stack, kernel_stack) = (self.stack(user), self.stack(kernel));
        let end = |stack, end| if stack == 0 { WalkEnd::NONE } else { end };
        self.samples.push(Sample {
            time_ns: START_NS + at_ns,
            cpu,
            event: 0,
            user_end: end(user_stack, WalkEnd::ROOT),
            kernel_end: end(kernel_stack, WalkEnd::UNSAID),
            task,
            user_stack,
            kernel_stack,
            weight: PERIOD_NS,
            snapshot: 0,
            repair: StackRepair::NONE,
        });
        self.samples.last_mut().expect("bug: just pushed")
    }

    /// Writes the recording, and closes it if requested.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write(self, path: &Path, close: bool) -> Result<(), Error> {
        Self::write_all(vec![self], path, close)
    }

    /// Writes a recording of several sessions, and closes it if requested. It has the UUID of the first one.
    ///
    /// # Errors
    /// The errors of the writer.
    pub fn write_all(sessions: Vec<Self>, path: &Path, close: bool) -> Result<(), Error> {
        let uuid = sessions.first().and_then(|first| first.uuid).unwrap_or([0x1c; 16]);
        let mut writer = Writer::create(std::fs::File::create(path)?, uuid)?;
        sessions.into_iter().try_for_each(|session| session.append_to(&mut writer))?;
        if close {
            writer.finish()?;
        }
        Ok(())
    }

    /// Appends the session to a recording.
    fn append_to(mut self, writer: &mut Writer) -> Result<(), Error> {
        self.lifecycle.sort_by_key(|row| row.time_ns);
        self.cgroups.sort_by_key(|row| row.time_ns);
        self.mappings.sort_by_key(|row| row.time_ns);
        self.samples.sort_by_key(|row| row.time_ns);
        self.waits.sort_by_key(|row| row.time_ns);
        self.fields.sort_by_key(|row| row.time_ns);
        self.counters.sort_by_key(|row| row.time_ns);
        self.rates.sort_by_key(|row| row.time_ns);
        writer.append(&self.session.take().unwrap_or_else(session))?;
        writer.append(&StringsV1::from_rows(1, &self.strings))?;
        writer.append(&TasksV1::from_rows(0, &self.tasks))?;
        writer.append(&ImagesV1::from_rows(0, &self.images))?;
        writer.append(&LifecycleV1::from_rows(&self.lifecycle))?;
        if !self.cgroups.is_empty() {
            writer.append(&CgroupsV1::from_rows(&self.cgroups))?;
        }
        writer.append(&MappingsV1::from_rows(&self.mappings))?;
        writer.append(&KernelSymbolsV1::from_rows(&self.kernel_symbols))?;
        for (first, rows) in (1..).step_by(BLOCK_LEN).zip(self.nodes.chunks(BLOCK_LEN)) {
            writer.append(&StacksV1::from_rows(first, rows)?)?;
        }
        if !self.marks.is_empty() {
            writer.append(&StackMarksV1::from_rows(&self.marks))?;
        }
        self.held.write(writer)?;
        if !self.unwind_rules.is_empty() {
            writer.append(&UnwindRulesV1::from_rows(&self.unwind_rules))?;
        }
        let block_len = if self.block_len == 0 { usize::MAX } else { self.block_len };
        for rows in self.samples.chunks(block_len.min(self.samples.len().max(1))) {
            writer.append(&SamplesV1::from_rows(rows, &self.basis)?)?;
        }
        if !self.symbols.is_empty() {
            writer.append(&SymbolsV1::from_rows(&self.symbols))?;
        }
        for parts in &self.image_parts {
            writer.append(parts)?;
        }
        if !self.jit.is_empty() {
            writer.append(&JitV1::from_rows(&self.jit))?;
        }
        if !self.names.places.is_empty() {
            writer.append(&NamesV1::from_table(&self.names))?;
        }
        if !self.sources.files.is_empty() {
            writer.append(&SourcesV1::from_table(&self.sources))?;
        }
        if !self.code.stretches.is_empty() {
            writer.append(&CodeV1::from_table(&self.code))?;
        }
        if !self.left_out.is_empty() {
            writer.append(&LeftOutV1::from_rows(&self.left_out))?;
        }
        if !self.waits.is_empty() {
            writer.append(&WaitsV1::from_rows(&self.waits))?;
        }
        if !self.fields.is_empty() {
            writer.append(&FieldsV1::from_rows(&self.fields))?;
        }
        if !self.counters.is_empty() {
            writer.append(&CountersV1::from_rows(&self.counters))?;
        }
        if !self.cpu_times.is_empty() {
            writer.append(&CpuTimesV1::from_rows(&self.cpu_times))?;
        }
        if !self.losses.is_empty() {
            writer.append(&LossesV1::from_rows(&self.losses))?;
        }
        if !self.rates.is_empty() {
            writer.append(&RatesV1::from_rows(&self.rates))?;
        }
        if let Some(trigger) = &self.trigger {
            writer.append(trigger)?;
        }
        if let Some(receipt) = &self.receipt {
            writer.append(receipt)?;
        }
        Ok(())
    }
}

/// Returns the session of every synthetic recording.
pub fn session() -> SessionV1 {
    SessionV1 {
        recorder: "0.1.0".into(),
        command_line: ["icecore-record", "-a", "-F", "1000", "-d", "2"].map(String::from).into(),
        host: "station".into(),
        kernel_release: "6.18.0".into(),
        kernel_version: "#1 SMP".into(),
        arch: "x86_64".into(),
        boot_id: "b007".into(),
        kernel_build_id: vec![0xab, 0xcd],
        start_ns: START_NS,
        start_unix_ns: 1_767_225_600_000_000_000,
        cpus: vec![0, 1],
        page_bytes: 4096,
        maker: Maker::RECORDER,
        target: TargetKind::SYSTEM,
        target_ids: vec![],
        target_cgroups: vec![],
        cpu_scope: CpuScope::ALL,
        unwind: UnwindMode::AUTO,
        stack_bytes: 1 << 20,
        embed: EmbedMode::HITS,
        missing_features: vec![],
        events: vec![EventV1 {
            name: "cpu-clock".into(),
            unit: "ns".into(),
            frequency_hz: 1000,
            period: 0,
            meaning: EventMeaning::CPU_TIME,
        }],
        max_depth: 1024,
        user: true,
        kernel: true,
        idle: false,
        ring_bytes: 8 << 20,
        labels: vec![LabelV1 { key: "build".into(), value: "42".into() }],
        notes: vec!["cycles are not available here: cpu-clock instead".into()],
        mount_ns: MOUNT_NS,
    }
}

/// Kernel text in [`story`]: eight symbols of 0x100 bytes.
pub const KERNEL: u64 = 0xffff_ffff_8100_0000;

/// Makes a recording of two seconds. Its images are on no disk, so that every reader sees the same.
///
/// | process | does |
/// |---|---|
/// | `make` 100 | was there; computes, recurses, calls the kernel; two threads |
/// | `sh` 200 → `cc` 200 | forked by make at 0.5 s, runs another program at 0.6 s |
/// | `cc` 200 again | a child of make gets the same process id at 1.5 s |
/// | `jit` 300 | anonymous code, the vdso, a library that is opened later, addresses in no mapping |
/// | `kworker` 2 | a kernel thread |
pub fn story() -> Builder {
    let mut b = Builder { block_len: 100, ..Builder::default() };
    kernel(&mut b);
    processes(&mut b);
    let make = b.task(100, 100, "make");
    let helper = b.task(100, 101, "make-io");
    let (sh, cc, again) = (b.task(200, 200, "sh"), b.task(200, 200, "cc"), b.task(200, 200, "make"));
    let jit = b.task(300, 300, "jit");
    let kworker = b.task(2, 2, "kworker/0:1");
    for i in 0..200u64 {
        let at = i * 10_000_000;
        let cpu = (i % 2) as u16;
        // main → rec → rec → rec, between one and four deep.
        let depth = (i % 4 + 1) as usize;
        let mut stack = vec![0x1_0200 + i % 3 * 0x10];
        stack.extend(std::iter::repeat_n(0x1_0108, depth));
        stack.push(0x1_0050);
        b.sample(at, cpu, make, &stack, &[]);
        if i % 2 == 0 {
            // 0x600 is the address after the last byte of `a;b`, which never returns.
            let kernel = [KERNEL + 0x10, KERNEL + 0x600, KERNEL + 0x1a0, KERNEL + 0x2a0];
            b.sample(at + 1, cpu, helper, &[0x1_0300, 0x1_0050], &kernel);
        }
        if i % 5 == 0 {
            b.sample(at + 2, cpu, kworker, &[], &[KERNEL + 0x310, KERNEL + 0x405, KERNEL + 0x9000]);
        }
        match at / 1_000_000 {
            500..600 => drop(b.sample(at + 3, cpu, sh, &[0x1_0400, 0x1_0050], &[])),
            600..1400 => {
                b.sample(at + 3, cpu, cc, &[0x1_0123, 0x1_0050], &[]).user_end = WalkEnd::NOT_MONOTONIC;
            }
            1500.. => drop(b.sample(at + 3, cpu, again, &[0x1_0500, 0x1_0050], &[])),
            _ => {}
        }
        if i % 4 == 0 {
            let leaf = [0x7_0010, 0x8_0010, 0x9_0010, 0x66][i as usize / 4 % 4];
            b.sample(at + 4, cpu, jit, &[leaf, 0x3_0020], &[]).user_end =
                if leaf == 0x66 { WalkEnd::DEPTH } else { WalkEnd::ROOT };
        }
    }
    ending(&mut b);
    b
}

fn kernel(b: &mut Builder) {
    let names =
        ["do_idle", "vfs_read", "entry_SYSCALL_64", "worker_thread", "kthread", "a;b", "ext4_read", "x"];
    for (i, name) in (0u64..).zip(names) {
        let start = KERNEL + i * 0x100;
        let module = if name == "ext4_read" || name == "worker_thread" { b.string("ext4") } else { 0 };
        let name = b.string(name);
        b.kernel_symbols.push(KernelSymbol { start, end: start + 0x100, name, module });
    }
}

fn processes(b: &mut Builder) {
    let make = b.image(ImageKind::FILE, "/no/such/bin/make");
    let cc = b.image(ImageKind::FILE, "/no/such/bin/cc");
    let jit = b.image(ImageKind::FILE, "/no/such/bin/jit");
    let lib = b.image(ImageKind::FILE, "/no/such/lib/libplugin.so.1 (deleted)");
    let heap = b.image(ImageKind::ANONYMOUS, "//anon");
    let vdso = b.image(ImageKind::VDSO, "[vdso]");
    b.change(1_000, Change::FOUND, 100, 1, "make");
    b.change(1_001, Change::FOUND, 300, 1, "jit");
    b.change(1_002, Change::FOUND, 2, 0, "kworker/0:1");
    b.map(2_000, 100, 0x1_0000, make, Origin::SCAN);
    b.map(2_001, 300, 0x3_0000, jit, Origin::SCAN);
    b.map(2_002, 300, 0x7_0000, heap, Origin::SCAN);
    b.map(2_003, 300, 0x8_0000, vdso, Origin::SCAN);
    // dlopen after one second: earlier addresses there are in no mapping.
    b.map(1_000_000_000, 300, 0x9_0000, lib, Origin::EVENT);
    b.change(500_000_000, Change::FORK, 200, 100, "sh");
    b.change(600_000_000, Change::EXEC, 200, 0, "cc");
    b.map(600_000_000, 200, 0x1_0000, cc, Origin::EVENT);
    b.change(1_400_000_000, Change::EXIT, 200, 0, "cc");
    b.change(1_500_000_000, Change::FORK, 200, 100, "make");
}

fn ending(b: &mut Builder) {
    let time_ns = START_NS + 900_000_000;
    b.losses.push(Loss {
        time_ns,
        cpu: 1,
        event: 0,
        weight: 5 * PERIOD_NS,
        ..Loss::of(Cause::RING_FULL_SAMPLE, 5)
    });
    b.losses.push(Loss { time_ns, ..Loss::of(Cause::MAPPING_QUEUE_FULL, 1) });
    b.receipt = Some(ReceiptV1 {
        end_ns: START_NS + 2_000_000_000,
        end_reason: EndReason::DURATION,
        exit_code: -1,
        samples: b.samples.len() as u64,
        lost: 6,
        user_cpu_ns: 1_200_000,
        kernel_cpu_ns: 800_000,
        peak_rss_bytes: 12 << 20,
        bpf_runs: b.samples.len() as u64,
        bpf_ns: b.samples.len() as u64 * 2_400,
        ring_high_water_bytes: 40_960,
        file_bytes: 9_000,
        ..ReceiptV1::default()
    });
}
