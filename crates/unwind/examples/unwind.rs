//! Unwinds stacks of a command with both engines, and prints nanoseconds per frame.
//!
//! usage: unwind STACKS COMMAND…
//!
//! The example first takes stacks by stopping the command again and again. `first` begins with an empty cache; `cold` empties the
//! cache before each stack; `warm` is the best of ten further passes over all stacks; `hot` is the same over 32 stacks at a time,
//! which stay in the processor's cache.

#[path = "../tests/unwind/images.rs"]
#[allow(dead_code)]
mod images;
#[path = "../tests/unwind/running.rs"]
mod running;
#[path = "../tests/unwind/stopped.rs"]
#[allow(dead_code)]
mod stopped;

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use framehop::Unwinder as _;
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use icecore_elf::Avma;
use icecore_unwind::{Frame, Limits, Machine, StackMemory, Unwinder};

use running::{Snapshot, snapshots};

/// The number of passes, of which the best counts.
const PASSES: usize = 10;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (Some(Ok(count)), [_, program, rest @ ..]) = (args.first().map(|count| count.parse()), &args[..])
    else {
        eprintln!("usage: unwind STACKS COMMAND…");
        return ExitCode::from(2);
    };
    let snapshots = snapshots(Command::new(program).args(rest), count);
    let bytes: usize = snapshots.iter().map(Snapshot::len).sum();
    println!("{} stacks, {} KiB each", snapshots.len(), bytes / snapshots.len().max(1) / 1024);

    let mut unwinder = Unwinder::new(Limits::new(Machine::X86_64));
    let (frames, time) = ours(&mut unwinder, &snapshots);
    print("icecore first", frames, time);
    println!("  {} rows read", unwinder.misses());
    let (mut frames, mut time) = (0, Duration::ZERO);
    for snapshot in &snapshots {
        unwinder = Unwinder::new(Limits::new(Machine::X86_64));
        let one = ours(&mut unwinder, std::slice::from_ref(snapshot));
        (frames, time) = (frames + one.0, time + one.1);
    }
    print("icecore cold", frames, time);
    unwinder = Unwinder::new(Limits::new(Machine::X86_64));
    ours(&mut unwinder, &snapshots);
    let before = unwinder.misses();
    let (frames, time) = best(|| ours(&mut unwinder, &snapshots));
    print("icecore warm", frames, time);
    println!("  {} rows read in a pass", (unwinder.misses() - before) as usize / PASSES);
    let (frames, time) = in_groups(&snapshots, |group| ours(&mut unwinder, group));
    print("icecore hot", frames, time);
    if let Some(last) = snapshots.last() {
        let framehop = last.images.framehop();
        let mut cache = CacheX86_64::new();
        let (frames, time) = best(|| theirs(&framehop, &mut cache, &snapshots));
        print("framehop warm", frames, time);
        let (frames, time) = in_groups(&snapshots, |group| theirs(&framehop, &mut cache, group));
        print("framehop hot", frames, time);
    }
    ExitCode::SUCCESS
}

fn in_groups(
    snapshots: &[Snapshot],
    mut pass: impl FnMut(&[Snapshot]) -> (usize, Duration),
) -> (usize, Duration) {
    let groups = snapshots.chunks(32).map(|group| best(|| pass(group)));
    groups.fold((0, Duration::ZERO), |sum, group| (sum.0 + group.0, sum.1 + group.1))
}

fn best(mut pass: impl FnMut() -> (usize, Duration)) -> (usize, Duration) {
    (0..PASSES).map(|_| pass()).min_by_key(|pass| pass.1).expect("there are passes")
}

fn print(name: &str, frames: usize, time: Duration) {
    println!("{name:15} {frames} frames, {:.1} ns each", time.as_nanos() as f64 / frames.max(1) as f64);
}

fn ours(unwinder: &mut Unwinder, snapshots: &[Snapshot]) -> (usize, Duration) {
    let mut frames: Vec<Frame> = Vec::with_capacity(1 << 20);
    let begin = Instant::now();
    let mut count = 0;
    for snapshot in snapshots {
        frames.clear();
        unwinder.unwind(snapshot.registers.clone(), snapshot, &*snapshot.images, &mut frames);
        count += frames.len();
    }
    (count, begin.elapsed())
}

fn theirs(
    unwinder: &UnwinderX86_64<&'static [u8]>,
    cache: &mut CacheX86_64,
    snapshots: &[Snapshot],
) -> (usize, Duration) {
    let begin = Instant::now();
    let mut count = 0;
    for snapshot in snapshots {
        let registers = &snapshot.registers;
        let rbp = registers.value(6).unwrap_or_default();
        let start = UnwindRegsX86_64::new(registers.pc().0, registers.sp().0, rbp);
        let mut read = |address| snapshot.read_u64(Avma(address)).map_err(drop);
        let mut frames = unwinder.iter_frames(registers.pc().0, start, cache, &mut read);
        while let Ok(Some(frame)) = frames.next() {
            std::hint::black_box(frame);
            count += 1;
        }
    }
    (count, begin.elapsed())
}
