//! Simulates many rings: gives the records of this machine to trackers as if they came from many rings, each with its own processes.
//! By this `trackers.rs` measures the load that a machine of 256 CPUs would put on a pool of trackers.

use std::fs;
use std::mem::{MaybeUninit, offset_of};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use icecore_format::records::Cause;

use icecore_record::cli::summary::tell;
use icecore_record::foreign::{Keeper, Process, Scan};
use icecore_record::frame_pointers::FramePointers;
use icecore_record::kernel::events;
use icecore_record::kernel::feed::Feed;
use icecore_record::kernel::sampler::{Sampler, WAYS};
use icecore_record::run::WAITING;
use icecore_record::settings::{Embed, Options};
use icecore_record::skeleton::types::{
    cpu_time_record, page_record, record_head, record_type, registers_record, sample_record, stack_record,
    task_record,
};
use icecore_record::sys::clock;
use icecore_record::threads::chunk::Chunk;
use icecore_record::threads::counts::Counts;
use icecore_record::threads::digest::{Digested, Processes, READ_AGAIN_SHARE, Wishes, digest};
use icecore_record::threads::pump::{Begin, Looks, Pump};
use icecore_record::threads::store::ToWriter;
use icecore_record::threads::tempo::{Asked, Used};
use icecore_record::threads::triggers::Triggers;

/// All ids of processes and threads are below this number (`PID_MAX_LIMIT` of the kernel), so that the ids of 64 rings do not overlap.
const IDS: u32 = 1 << 22;
/// The largest number of rings.
pub(crate) const MAX_RINGS: u32 = 64;

/// The chunks that the main thread took from the kernel.
pub(crate) struct Captured {
    /// The processes that existed before the recording.
    found: Vec<Process>,
    chunks: Vec<Chunk>,
    /// The number of CPUs that were sampled.
    cpus: u32,
}

/// The results of the trackers.
#[derive(Debug)]
pub(crate) struct Fed {
    /// Samples that went into batches.
    pub(crate) samples: u64,
    /// The time from the first chunk to the last.
    pub(crate) took: Duration,
    /// CPU time of each tracker in between.
    pub(crate) cpu: Vec<Duration>,
    /// Stacks that were shortened because there was no memory.
    pub(crate) shortened: u64,
}

/// Samples with these options, writes nothing, and keeps a copy of all chunks.
///
/// # Errors
/// The errors of a recording.
pub(crate) fn capture(options: &Options) -> anyhow::Result<Captured> {
    let mut storage = [const { MaybeUninit::uninit() }; WAYS];
    let chosen = events::chosen(options, &mut Vec::new());
    let mut sampler = Sampler::load(&mut storage, options, &chosen, None)?;
    let opened = events::open_sampling(options, &chosen, &mut Vec::new())?;
    let queues = events::open_queues()?;
    let cpus = u32::try_from(options.cpus.len())?;
    sampler.arm_tasks()?;
    let keeper = Keeper::start()?;
    let frame_pointers = Some(FramePointers::new(&sampler, false, &keeper.door())?);
    let processes = Processes {
        followed: None,
        door: keeper.door(),
        frame_pointers,
        sent_pages: Some(sampler.sent_pages()?),
        kernel_names: sampler.kernel_names(),
    };
    let mut feed = Feed::Programs(Box::new(sampler));
    let nobody = Nobody::default();
    let chunks = thread::scope(|scope| {
        let (taken_to, taken) = sync_channel::<Chunk>(WAITING);
        let (chunks_to, chunks) = sync_channel(WAITING);
        let tracker = Tracker::start(scope, chunks, processes, options, &nobody);
        let copier = scope.spawn(move || {
            let mut copies = Vec::new();
            for chunk in taken {
                copies.push(chunk.clone());
                let _ = chunks_to.send(chunk);
            }
            copies
        });
        let pump = Pump {
            options,
            queues: &queues,
            stop: &nobody.flag,
            refused: &nobody.flag,
            chunks: taken_to,
            events: &chosen,
            files: None,
            looks: Looks::default(),
            show: &|_| {},
            asked: &Asked::default(),
            used: &|_| Used::default(),
            again: &|_| Vec::new(),
        };
        let mut seen = pump.look_around(&feed, Scan::all(keeper.door()))?;
        feed.arm_sampling(&chosen, opened)?;
        let begin = Begin::Began(clock::monotonic_ns());
        let census = pump.count(&feed, &begin, &mut seen);
        pump.run(&mut feed, (begin, seen, census), None)?;
        drop(pump);
        let copies = copier.join().ok().context("bug: a thread panicked")?;
        tracker.end()?;
        anyhow::Ok(copies)
    })?;
    let mut captured = Captured { found: Vec::new(), chunks, cpus };
    captured.chunks.iter_mut().for_each(|chunk| captured.found.append(&mut chunk.found));
    Ok(captured)
}

impl Captured {
    /// Returns the number of bytes that came through the ring.
    pub(crate) fn ring_bytes(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.ring.len()).sum()
    }

    /// Returns the number of records that came through the ring.
    pub(crate) fn ring_records(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.records().count()).sum()
    }

    /// Gives the records of this number of rings to this number of trackers; all processes of a ring go to one tracker.
    ///
    /// # Errors
    /// If there are more than [`MAX_RINGS`], or a thread cannot be started.
    pub(crate) fn feed(&self, options: &Options, rings: u32, trackers: usize) -> anyhow::Result<Fed> {
        anyhow::ensure!(
            rings <= MAX_RINGS,
            "at most {MAX_RINGS} rings: process ids are told apart by 6 bits"
        );
        // The times are in the past, so batches are due by their size only.
        let options = &Options { flush_ns: u64::MAX, embed: Embed::None, ..options.clone() };
        let nobody = Nobody::default();
        let keeper = Keeper::start().expect("a process");
        thread::scope(|scope| {
            let mut pool = Vec::new();
            for _ in 0..trackers {
                let (chunks_to, chunks) = sync_channel(WAITING);
                let processes = Processes {
                    followed: None,
                    door: keeper.door(),
                    frame_pointers: None,
                    sent_pages: None,
                    kernel_names: None,
                };
                pool.push((chunks_to, Tracker::start(scope, chunks, processes, options, &nobody)));
            }
            let tracker_of = |ring: u32| ring as usize % trackers;
            for ring in 0..rings {
                let found = self.found.iter().map(|process| of_ring(process, ring)).collect();
                let _ = pool[tracker_of(ring)].0.send(Chunk { found, ..Chunk::default() });
            }
            pool.iter().for_each(|(chunks, _)| wait_for(chunks));
            let cpu_of = |pool: &[(SyncSender<Chunk>, Tracker<'_>)]| -> Vec<Duration> {
                pool.iter().map(|(_, tracker)| tracker.cpu()).collect()
            };
            let (begun, before) = (Instant::now(), cpu_of(&pool));
            for chunk in &self.chunks {
                for ring in 0..rings {
                    let is_last = ring + trackers as u32 >= rings;
                    let _ = pool[tracker_of(ring)].0.send(chunk_of_ring(chunk, ring, self.cpus, is_last));
                }
            }
            pool.iter().for_each(|(chunks, _)| wait_for(chunks));
            let took = begun.elapsed();
            let cpu = cpu_of(&pool).iter().zip(before).map(|(after, before)| *after - before).collect();
            let mut fed = Fed { samples: 0, took, cpu, shortened: 0 };
            for (chunks, tracker) in pool {
                drop(chunks);
                let digested = tracker.end()?;
                fed.samples += digested.totals.samples;
                fed.shortened += digested.losses.get(&Cause::STACK_SHORTENED).copied().unwrap_or(0);
            }
            Ok(fed)
        })
    }
}

/// What others share with a recorder: nobody stops it or looks at its counts.
#[derive(Default)]
struct Nobody {
    flag: AtomicBool,
    counts: Counts,
    triggers: Triggers,
}

/// A running tracker, whose batches are dropped.
struct Tracker<'scope> {
    thread: ScopedJoinHandle<'scope, Digested>,
    /// Its folder in `/proc`.
    folder: PathBuf,
}

impl<'scope> Tracker<'scope> {
    fn start<'env>(
        scope: &'scope thread::Scope<'scope, 'env>,
        chunks: Receiver<Chunk>,
        processes: Processes,
        options: &'env Options,
        nobody: &'env Nobody,
    ) -> Self {
        let (batches_to, batches) = sync_channel::<ToWriter>(WAITING);
        let (folder_to, folder) = sync_channel(1);
        scope.spawn(move || batches.iter().for_each(drop));
        let wishes = Wishes {
            embed: Embed::None,
            max_bytes: 0,
            has_stacks: true,
            is_told: false,
            tell,
            stop: &nobody.flag,
            refused: &nobody.flag,
            counts: &nobody.counts,
            when: &[],
            counters_every: Duration::ZERO,
            triggers: &nobody.triggers,
            read_share: READ_AGAIN_SHARE,
        };
        let thread = scope.spawn(move || {
            let _ = folder_to.send(fs::read_link("/proc/thread-self").unwrap_or_default());
            digest(&chunks, batches_to, processes, options.pace(&[]), wishes)
        });
        Self { thread, folder: Path::new("/proc").join(folder.recv().unwrap_or_default()) }
    }

    /// Returns the CPU time so far; zero if it cannot be read.
    fn cpu(&self) -> Duration {
        let text = fs::read_to_string(self.folder.join("schedstat")).unwrap_or_default();
        Duration::from_nanos(text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0))
    }

    fn end(self) -> anyhow::Result<Digested> {
        self.thread.join().ok().context("bug: a tracker panicked")
    }
}

/// Waits until the trackers have digested all chunks.
fn wait_for(chunks: &SyncSender<Chunk>) {
    (0..=WAITING).for_each(|_| {
        let _ = chunks.send(Chunk::default());
    });
}

/// Returns a process of the simulated ring.
fn of_ring(process: &Process, ring: u32) -> Process {
    let shift = ring * IDS;
    let Process { tgid, parent_tgid, .. } = *process;
    Process { tgid: tgid + shift, parent_tgid: parent_tgid + shift, ..process.clone() }
}

/// Returns the records that a ring and its queues would have sent. `is_last`: no other ring of the tracker sends anything in this pass.
fn chunk_of_ring(chunk: &Chunk, ring: u32, cpus: u32, is_last: bool) -> Chunk {
    let (ids, cpus) = (ring * IDS, ring * cpus);
    let mut chunk = Chunk { losses: Vec::new(), ..chunk.clone() };
    if !is_last {
        chunk.complete_until_ns = 0;
    }
    let mut left = &mut chunk.ring[..];
    while let Some((len, rest)) = left.split_first_chunk_mut() {
        let Some((record, rest)) = rest.split_at_mut_checked(u32::from_ne_bytes(*len) as usize) else {
            break;
        };
        shift_record(record, ids, cpus);
        left = rest;
    }
    let mut left = &mut chunk.reports[..];
    while let Some(size) = left.get(6..).and_then(|bytes| bytes.first_chunk().copied()) {
        let Some((report, rest)) = left.split_at_mut_checked(u16::from_ne_bytes(size).into()) else { break };
        // Process and thread of a mapping report.
        [8, 12].into_iter().for_each(|off| shift(report, off, ids));
        left = rest;
    }
    chunk
}

/// Moves the processes, threads and CPUs of a record of the ring.
fn shift_record(record: &mut [u8], ids: u32, cpus: u32) {
    let Some(kind) = record.first_chunk().map(|bytes| record_type(u32::from_ne_bytes(*bytes))) else {
        return;
    };
    match kind {
        record_type::RECORD_REGISTERS => shift_buffer(record, offset_of!(registers_record, snapshot), cpus),
        record_type::RECORD_STACK_PAGE => {
            shift_buffer(record, offset_of!(page_record, snapshot), cpus);
            shift(record, offset_of!(page_record, tid), ids);
        }
        record_type::RECORD_STACK => {
            shift_buffer(record, offset_of!(stack_record, snapshot), cpus);
            shift(record, offset_of!(stack_record, tid), ids);
        }
        record_type::RECORD_CPU_TIME => {
            shift(record, offset_of!(cpu_time_record, tgid), ids);
            shift(record, offset_of!(cpu_time_record, tid), ids);
            // Task addresses are multiples of 64, which leaves room for the ring's number.
            shift(record, offset_of!(cpu_time_record, task), ids / IDS);
        }
        _ => {
            shift(record, offset_of!(record_head, cpu), cpus);
            shift(record, offset_of!(record_head, tgid), ids);
            shift(record, offset_of!(record_head, tid), ids);
            if kind == record_type::RECORD_SAMPLE {
                shift_buffer(record, offset_of!(sample_record, snapshot), cpus);
            }
            if kind == record_type::RECORD_FORK {
                shift(record, offset_of!(task_record, parent_tgid), ids);
            }
        }
    }
}

/// Adds to the number of the buffer in the number of a snapshot: its bits from 40 on.
fn shift_buffer(record: &mut [u8], off: usize, by: u32) {
    shift(record, off + 4, by << 8);
}

/// Adds to the number at an offset.
fn shift(record: &mut [u8], off: usize, by: u32) {
    if let Some(bytes) = record.get_mut(off..).and_then(|bytes| bytes.first_chunk_mut()) {
        *bytes = u32::from_ne_bytes(*bytes).wrapping_add(by).to_ne_bytes();
    }
}
