//! Programs that run, stopped again and again: what a recorder would have seen.

use std::collections::HashSet;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use icecore_report::unwind::{Miss, Registers, StackMemory};
use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::images::Images;
use crate::stopped::{Memory, Victim, registers};

/// Registers and the whole stack of a thread.
pub(crate) struct Snapshot {
    pub(crate) registers: Registers,
    pub(crate) images: Rc<Images>,
    memory: Range<u64>,
    bytes: Vec<u8>,
}

impl StackMemory for Snapshot {
    #[inline]
    fn read_u64(&self, address: u64) -> Result<u64, Miss> {
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

/// Runs a command, and looks at all of its threads about every two milliseconds, until it ends or there are so many.
pub(crate) fn snapshots(command: &mut Command, count: usize) -> Vec<Snapshot> {
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let victim = Victim(child.unwrap_or_else(|error| panic!("{command:?} must be installed: {error}")));
    let pid = victim.pid();
    let mut snapshots = Vec::new();
    let mut seen = HashSet::new();
    let mut images: Option<(String, Rc<Images>)> = None;
    while snapshots.len() < count {
        std::thread::sleep(Duration::from_millis(2));
        let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { break };
        let before = seen.len();
        for thread in threads.flatten() {
            let Ok(tid) = thread.file_name().to_string_lossy().parse() else { continue };
            let Some(stopped) = Stopped::new(Pid::from_raw(tid)) else { continue };
            let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("it stands still");
            let memory = Memory::of(pid);
            if images.as_ref().is_none_or(|known| known.0 != maps) {
                images = Some((maps, Rc::new(Images::of(pid.as_raw(), &memory.file))));
            }
            let Some((_, images)) = &images else { continue };
            let registers = registers(stopped.0);
            let Some(stack) = images.writable(registers.sp()) else { continue };
            let memory_range = registers.sp()..stack.end;
            let mut bytes = vec![0; (memory_range.end - memory_range.start) as usize];
            // A thread that waits is where it was.
            if memory.file.read_exact_at(&mut bytes, registers.sp()).is_ok()
                && seen.insert((tid, registers.pc(), registers.sp(), seen_count(&registers)))
            {
                snapshots.push(Snapshot { registers, images: images.clone(), memory: memory_range, bytes });
            }
        }
        if seen.len() == before && !std::path::Path::new(&format!("/proc/{pid}/exe")).exists() {
            break;
        }
    }
    snapshots
}

/// Tells apart visits of one place.
fn seen_count(registers: &Registers) -> u64 {
    (0..16).filter_map(|number| registers.value(number)).fold(0, |sum, value| sum.rotate_left(7) ^ value)
}

/// A thread that stands still until this is dropped.
struct Stopped(Pid);

impl Stopped {
    fn new(tid: Pid) -> Option<Self> {
        ptrace::seize(tid, ptrace::Options::empty()).ok()?;
        ptrace::interrupt(tid).ok()?;
        let status = waitpid(tid, Some(WaitPidFlag::__WALL)).ok()?;
        matches!(status, nix::sys::wait::WaitStatus::PtraceEvent(..)).then_some(Self(tid))
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // It may have ended.
        let _ = ptrace::detach(self.0, None);
    }
}
