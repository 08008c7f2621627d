//! Stops running programs again and again, and collects what a recorder would have seen.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use icecore_elf::Avma;
use icecore_unwind::{Miss, Registers, StackMemory};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::images::Images;
use crate::stopped::{Memory, Victim, registers};

/// The longest time that a thread may take to stop.
const PATIENCE: Duration = Duration::from_secs(20);
/// The longest time that a program is observed.
const LONGEST: Duration = Duration::from_secs(60);

/// Registers and the whole stack of a thread.
pub(crate) struct Snapshot {
    pub(crate) registers: Registers,
    pub(crate) images: Rc<Images>,
    memory: Range<u64>,
    bytes: Vec<u8>,
}

impl StackMemory for Snapshot {
    #[inline]
    fn read_u64(&self, Avma(address): Avma) -> Result<u64, Miss> {
        let miss = if self.memory.contains(&address) { Miss::Beyond } else { Miss::Elsewhere };
        let off = usize::try_from(address.checked_sub(self.memory.start).ok_or(miss)?).map_err(|_| miss)?;
        let word = self.bytes.get(off..).and_then(|bytes| bytes.first_chunk()).ok_or(miss)?;
        Ok(u64::from_le_bytes(*word))
    }
}

impl Snapshot {
    /// Bytes of the stack.
    #[allow(dead_code)] // only the benchmark asks
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }
}

/// Runs a command, and takes snapshots of all its threads about every two milliseconds, until it ends or there are `count`.
pub(crate) fn snapshots(command: &mut Command, count: usize) -> Vec<Snapshot> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let victim = Victim(child.unwrap_or_else(|error| panic!("{command:?} must be installed: {error}")));
    let pid = victim.pid();
    let mut snapshots = Vec::new();
    let mut seen = HashSet::new();
    let mut images = None;
    let deadline = Instant::now() + LONGEST;
    while snapshots.len() < count && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { break };
        let before = seen.len();
        for thread in threads.flatten() {
            let Ok(tid) = thread.file_name().to_string_lossy().parse() else { continue };
            let Some(stopped) = Stopped::new(Pid::from_raw(tid)) else { continue };
            let Some(snapshot) = snapshot(pid, &stopped, &mut images) else { continue };
            // A thread that waits is where it was.
            let registers = &snapshot.registers;
            if seen.insert((tid, registers.pc(), registers.sp(), seen_count(registers))) {
                snapshots.push(snapshot);
            }
        }
        if seen.len() == before && !std::path::Path::new(&format!("/proc/{pid}/exe")).exists() {
            break;
        }
    }
    snapshots
}

/// Takes the snapshot of a thread, unless another thread ends the process meanwhile.
fn snapshot(pid: Pid, stopped: &Stopped, known: &mut Option<(String, Rc<Images>)>) -> Option<Snapshot> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let memory = Memory::of(pid)?;
    let registers = registers(stopped.0)?;
    if known.as_ref().is_none_or(|known| known.0 != maps) {
        let images = Rc::new(Images::of(&maps, &memory.file));
        *known = Some((maps, images));
    }
    let images = known.as_ref()?.1.clone();
    let Avma(sp) = registers.sp();
    let stack = sp..images.writable(sp)?.end;
    let mut bytes = vec![0; (stack.end - stack.start) as usize];
    memory.file.read_exact_at(&mut bytes, stack.start).ok()?;
    Some(Snapshot { registers, images, memory: stack, bytes })
}

/// Distinguishes visits of one location.
fn seen_count(registers: &Registers) -> u64 {
    (0..16).filter_map(|number| registers.value(number)).fold(0, |sum, value| sum.rotate_left(7) ^ value)
}

/// Waits until a traced thread stops or ends. One that sleeps where nothing wakes it is let alone: it ends with its
/// process.
fn wait_for(tid: Pid) -> Option<WaitStatus> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // This process may have stood still itself: what has come about meanwhile counts.
        let is_late = Instant::now() > deadline;
        match waitpid(tid, Some(WaitPidFlag::__WALL | WaitPidFlag::WNOHANG)).ok()? {
            WaitStatus::StillAlive if is_late => return None,
            WaitStatus::StillAlive => std::thread::sleep(Duration::from_micros(50)),
            stopped => return Some(stopped),
        }
    }
}

/// A thread that is traced until this is dropped, and stands still.
struct Stopped(Pid);

impl Stopped {
    fn new(tid: Pid) -> Option<Self> {
        ptrace::seize(tid, ptrace::Options::empty()).ok()?;
        let traced = Self(tid);
        ptrace::interrupt(tid).ok()?;
        match wait_for(tid) {
            Some(WaitStatus::PtraceEvent(..)) => Some(traced),
            Some(WaitStatus::Stopped(_, signal)) => {
                traced.let_go(Some(signal));
                None
            }
            _ => {
                // It has ended and is reaped, or does not stop.
                std::mem::forget(traced);
                None
            }
        }
    }

    /// Lets it run on, with the signal that it was about to get.
    fn let_go(self, signal: Option<Signal>) {
        if ptrace::detach(self.0, signal).is_ok() {
            std::mem::forget(self);
        }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // A thread that ended meanwhile is ours to reap: its process could not end otherwise.
        if ptrace::detach(self.0, None).is_err() {
            let _ = wait_for(self.0);
        }
    }
}
