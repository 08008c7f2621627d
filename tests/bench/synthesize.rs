//! Writes a large recording that nobody had to wait for: `synthesize SAMPLES FILE [names]`; or the recordings of a fleet:
//! `synthesize fleet DIR DAYS HOSTS SAMPLES`.
//!
//! Eight CPUs at 999 Hz run 200 threads of ten processes. Each process has 5,000 distinct user stacks of 30 frames, of
//! which few are hot; each calls the kernel in one way, of 2,000, of ten frames. Blocks are as the recorder writes them: one second each. It prints, as JSON, what
//! writing took, and what the same samples take as plain rows in zstd frames of a second (the plain estimate). With `names`,
//! each image and the kernel have 256 functions with names.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use icecore_format::block::Processes;
use icecore_format::records::{
    Basis, Change, EndReason, Image, ImageKind, ImagesV1, KernelSymbol, KernelSymbolsV1, Lifecycle,
    LifecycleV1, Location, Mapping, MappingsV1, Node, Origin, ReceiptV1, Sample, SamplesV1, StackRepair,
    StacksV1, StringsV1, Symbol, SymbolsV1, Task, TasksV1, WalkEnd,
};
use icecore_format::write::{Measure, Writer};
use icecore_tests::synthetic;

const CPUS: u64 = 8;
const PERIOD_NS: u64 = 1_001_001;
const PROCESSES: u32 = 10;
const THREADS: u32 = 20;
const IMAGES: u32 = 40;
/// User stacks of one process.
const USER_STACKS: u64 = 5_000;
const USER_DEPTH: u64 = 30;
const KERNEL_STACKS: u64 = 2_000;
const KERNEL_DEPTH: u64 = 10;
/// The functions of an image, and of the kernel.
const FUNCTIONS: u64 = 256;
const FUNCTION_LEN: u64 = CODE_LEN / FUNCTIONS;
const CODE_LEN: u64 = 1 << 20;
/// Where code begins in an image.
const CODE_OFF: u64 = 0x1000;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let (samples, path, with_names) = match &args[..] {
        [_, fleet, folder, days, hosts, samples] if fleet == "fleet" => {
            let [days, hosts, samples] = [days.parse()?, hosts.parse()?, samples.parse()?];
            std::fs::create_dir_all(folder)?;
            let written = synthetic::Fleet { first: 0, days, hosts, samples }.write(Path::new(folder))?;
            println!("{{\"recordings\": {written}}}");
            return Ok(());
        }
        [_, samples, path] => (samples, path, false),
        [_, samples, path, names] if names == "names" => (samples, path, true),
        _ => {
            return Err(
                "usage: synthesize SAMPLES FILE [names] | synthesize fleet DIR DAYS HOSTS SAMPLES".into()
            );
        }
    };
    let samples: u64 = samples.parse()?;
    let mut random = Random(1);
    let mut writer = Writer::create(File::create(Path::new(path))?, [0x1c; 16])?;
    writer.append(&synthetic::session())?;
    let names: Vec<String> = (0..IMAGES).map(|n| format!("/opt/service/lib/lib{n}.so")).collect();
    let kernel: Vec<String> = (0..FUNCTIONS).map(|n| format!("kernel_function_{n}")).collect();
    writer.append(&StringsV1::from_rows(1, &[&["service".to_owned()][..], &names, &kernel].concat()))?;
    writer.append(&TasksV1::from_rows(0, &tasks()))?;
    writer.append(&LifecycleV1::from_rows(&processes()))?;
    writer.append(&ImagesV1::from_rows(0, &images()))?;
    writer.append(&MappingsV1::from_rows(&mappings()))?;
    if with_names {
        writer.append(&SymbolsV1::from_rows(&symbols()))?;
        writer.append(&KernelSymbolsV1::from_rows(&kernel_symbols()))?;
    }
    let stacks = Stacks::grow(&mut random);
    for (number, nodes) in stacks.nodes.chunks(32 << 10).enumerate() {
        writer.append(&StacksV1::from_rows(1 + (number * (32 << 10)) as u32, nodes)?)?;
    }
    let mut clocks: Vec<u64> = (0..CPUS).map(|cpu| synthetic::START_NS + cpu * 100_000).collect();
    let mut running: Vec<u32> = (0..CPUS as u32).collect();
    let (mut written, mut plain_bytes, mut ns, mut plain_ns) = (0, 0, 0, 0);
    let mut plain = Measure::new()?;
    while written < samples {
        let rows = second(&mut clocks, &mut running, &stacks, &mut random);
        let rows = &rows[..rows.len().min((samples - written) as usize)];
        let processes = (1..=PROCESSES).fold(Processes::NONE, |all, process| all.with(process * 1000));
        let newest_stack = stacks.nodes.len() as u32;
        let basis = Basis { unit_ns: 1_000, period_ns: PERIOD_NS, newest_stack, processes };
        let begun = Instant::now();
        writer.append(&SamplesV1::from_rows(rows, &basis)?)?;
        ns += begun.elapsed().as_nanos();
        let begun = Instant::now();
        plain_bytes += plain.stored_len(&plain_rows(rows))? as u64;
        plain_ns += begun.elapsed().as_nanos();
        written += rows.len() as u64;
    }
    let end_ns = clocks.into_iter().max().unwrap_or_default();
    writer.append(&ReceiptV1 {
        end_ns,
        end_reason: EndReason::DURATION,
        exit_code: -1,
        samples,
        ..Default::default()
    })?;
    let bytes = writer.finish()?;
    println!(
        "{{\"samples\": {samples}, \"bytes\": {bytes}, \"ns_per_sample\": {:.1}, \"plain_bytes\": {plain_bytes}, \"plain_ns_per_sample\": {:.1}}}",
        ns as f64 / samples as f64,
        plain_ns as f64 / samples as f64,
    );
    Ok(())
}

/// A generator of numbers that are the same every time (a linear congruence).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    /// Small numbers are more likely: half of all are in the first 64th.
    fn hot(&mut self, limit: u64) -> u64 {
        let even = self.below(1 << 20) as f64 / f64::from(1 << 20);
        (even.powi(6) * limit as f64) as u64
    }
}

/// The trie, and the leaves of whole stacks.
struct Stacks {
    nodes: Vec<Node>,
    user: Vec<u32>,
    kernel: Vec<u32>,
}

impl Stacks {
    /// Grows stacks that branch off each other at random depths.
    fn grow(random: &mut Random) -> Self {
        let mut stacks = Self { nodes: Vec::new(), user: Vec::new(), kernel: Vec::new() };
        let user_stacks = USER_STACKS * u64::from(PROCESSES);
        for number in 0..user_stacks + KERNEL_STACKS {
            let is_kernel = number >= user_stacks;
            let whole = if is_kernel { KERNEL_DEPTH } else { USER_DEPTH };
            let siblings = if is_kernel { &stacks.kernel } else { &stacks.user };
            let sibling = siblings.get(random.below(siblings.len().max(1) as u64) as usize).copied();
            let kept = random.below(whole);
            let mut parent = sibling.unwrap_or(0);
            for _ in kept..whole {
                parent = stacks.nodes.get(parent.wrapping_sub(1) as usize).map_or(0, |node| node.parent);
            }
            let depth = if parent == 0 { 0 } else { kept };
            for _ in depth..whole {
                let file_off = CODE_OFF + random.hot(CODE_LEN);
                let location = if is_kernel {
                    Location::Address(synthetic::KERNEL + file_off)
                } else {
                    Location::Image { image: random.hot(u64::from(IMAGES)) as u32, file_off }
                };
                stacks.nodes.push(Node { parent, location });
                parent = stacks.nodes.len() as u32;
            }
            if is_kernel { stacks.kernel.push(parent) } else { stacks.user.push(parent) }
        }
        stacks
    }
}

/// The samples of one second.
fn second(clocks: &mut [u64], running: &mut [u32], stacks: &Stacks, random: &mut Random) -> Vec<Sample> {
    let mut rows = Vec::with_capacity(clocks.len() * 1000);
    let until = clocks[0] + 1_000_000_000;
    for (cpu, (clock, task)) in clocks.iter_mut().zip(running).enumerate() {
        while *clock < until {
            *clock += PERIOD_NS;
            if random.below(20) == 0 {
                *task = random.below(u64::from(PROCESSES * THREADS)) as u32;
            }
            let in_kernel = random.below(5) == 0;
            let stack = u64::from(*task / THREADS) * USER_STACKS + random.hot(USER_STACKS);
            let kernel_stack = stacks.kernel[(stack % KERNEL_STACKS) as usize];
            rows.push(Sample {
                time_ns: *clock + random.hot(20_000),
                cpu: cpu as u16,
                event: 0,
                user_end: WalkEnd::ROOT,
                kernel_end: if in_kernel { WalkEnd::ROOT } else { WalkEnd::NONE },
                task: *task,
                user_stack: stacks.user[stack as usize],
                kernel_stack: if in_kernel { kernel_stack } else { 0 },
                weight: PERIOD_NS,
                snapshot: 0,
                repair: StackRepair::NONE,
            });
        }
    }
    rows.sort_by_key(|row| row.time_ns);
    rows
}

/// The samples as a struct would lie in memory: 8 + 2 + 3 + 4 + 4 + 4 + 8 bytes each.
fn plain_rows(rows: &[Sample]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(rows.len() * 33);
    for row in rows {
        bytes.extend_from_slice(&row.time_ns.to_le_bytes());
        bytes.extend_from_slice(&row.cpu.to_le_bytes());
        bytes.extend_from_slice(&[row.event, row.user_end.0, row.kernel_end.0]);
        [row.task, row.user_stack, row.kernel_stack]
            .iter()
            .for_each(|id| bytes.extend_from_slice(&id.to_le_bytes()));
        bytes.extend_from_slice(&row.weight.to_le_bytes());
    }
    bytes
}

fn tasks() -> Vec<Task> {
    let thread = |n: u32| (n / THREADS + 1) * 1000 + n % THREADS;
    (0..PROCESSES * THREADS)
        .map(|n| Task { tgid: thread(n - n % THREADS), tid: thread(n), comm: 1 })
        .collect()
}

fn processes() -> Vec<Lifecycle> {
    let found = |n: u32| Lifecycle {
        time_ns: synthetic::START_NS,
        change: Change::FOUND,
        tgid: n * 1000,
        tid: n * 1000,
        parent_tgid: 1,
        comm: 1,
    };
    (1..=PROCESSES).map(found).collect()
}

fn symbols() -> Vec<Symbol> {
    let symbol = |image: u32, n: u64| {
        let start = CODE_OFF + n * FUNCTION_LEN;
        let name = format!("service::part{image}::Worker::function_{n}");
        Symbol::new(image, start..start + FUNCTION_LEN, name)
    };
    (0..IMAGES).flat_map(|image| (0..FUNCTIONS).map(move |n| symbol(image, n))).collect()
}

fn kernel_symbols() -> Vec<KernelSymbol> {
    let symbol = |n: u64| {
        let start = synthetic::KERNEL + CODE_OFF + n * FUNCTION_LEN;
        KernelSymbol { start, end: start + FUNCTION_LEN, name: 2 + IMAGES + n as u32, module: 0 }
    };
    (0..FUNCTIONS).map(symbol).collect()
}

fn images() -> Vec<Image> {
    let image = |n: u32| Image {
        kind: ImageKind::FILE,
        path: n + 2,
        build_id: vec![n as u8; 20],
        dev: 1,
        inode: u64::from(n),
        size_bytes: 4 << 20,
        modified_unix_ns: 1,
    };
    (0..IMAGES).map(image).collect()
}

fn mappings() -> Vec<Mapping> {
    let mapping = |process: u32, image: u32| Mapping {
        time_ns: synthetic::START_NS,
        tgid: process * 1000,
        start: 0x7f00_0000_0000 + u64::from(process) * 0x1_0000_0000 + u64::from(image) * 0x80_0000,
        len: 2 << 20,
        file_off: CODE_OFF,
        image,
        origin: Origin::SCAN,
        mount_ns: synthetic::MOUNT_NS,
    };
    (1..=PROCESSES).flat_map(|process| (0..IMAGES).map(move |image| mapping(process, image))).collect()
}
