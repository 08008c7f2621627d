//! Reads processes that existed before the recording began.

use std::time::{Duration, Instant};
use std::{fs, io};

use super::door::Door;
use super::memory::Memory;
use crate::proc::scan;
use crate::sys::clock;

/// A process, as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The time before the first file of the process was read, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    pub tgid: u32,
    pub parent_tgid: u32,
    pub comm: Vec<u8>,
    /// Text of `/proc/PID/maps`; empty for kernel threads, and for processes that the recorder may not read.
    pub maps: Vec<u8>,
    /// What it has mapped was not read: it, or two others of its user, gave no answer.
    pub is_silent: bool,
    /// Text of `/proc/PID/cgroup`; empty where the kernel has no cgroups.
    pub cgroup: Vec<u8>,
}

/// A step ends when it has read this many bytes.
const STEP_BYTES: usize = 1 << 20;
const STEP_TIME: Duration = Duration::from_millis(5);

/// Reads processes, some at a time; processes that end meanwhile are skipped.
///
/// # Cost
/// Each step reads about a mebibyte, or takes 5 ms, and may exceed that by the list of one process.
#[derive(Debug, Clone)]
pub struct Scan {
    left: std::vec::IntoIter<u32>,
    door: Door,
}

impl Scan {
    /// Makes a scan of all processes.
    pub fn all(door: Door) -> Self {
        Self::of(scan::processes(), door)
    }

    /// Makes a scan of these processes.
    pub(crate) fn of(tgids: impl IntoIterator<Item = u32>, door: Door) -> Self {
        let mut tgids: Vec<u32> = tgids.into_iter().collect();
        tgids.sort_unstable();
        Self { left: tgids.into_iter(), door }
    }
}

impl Iterator for Scan {
    type Item = Vec<Process>;

    fn next(&mut self) -> Option<Vec<Process>> {
        let (begun, mut bytes) = (Instant::now(), 0);
        let mut found = Vec::new();
        while bytes < STEP_BYTES && begun.elapsed() < STEP_TIME {
            let Some(tgid) = self.left.next() else {
                return (!found.is_empty()).then_some(found);
            };
            if let Some(process) = Process::of(tgid, &self.door) {
                bytes += process.maps.len();
                found.push(process);
            }
        }
        Some(found)
    }
}

impl Process {
    /// Reads a process; `None` if there is none.
    pub(crate) fn of(tgid: u32, door: &Door) -> Option<Self> {
        let time_ns = clock::monotonic_ns();
        let status = fs::read(format!("/proc/{tgid}/status")).ok()?;
        let maps = Memory::of(tgid, door).maps();
        Some(Self {
            time_ns,
            tgid,
            parent_tgid: scan::status_field(&status, "PPid").unwrap_or(0),
            comm: scan::comm_of(tgid),
            is_silent: maps.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut),
            maps: maps.unwrap_or_default(),
            cgroup: fs::read(format!("/proc/{tgid}/cgroup")).unwrap_or_default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proc::maps;

    #[test]
    fn this_process_is_found_with_its_mappings() {
        let (own, door) = (std::process::id(), Door::of_test());
        let found = Process::of(own, &door).expect("we are running");
        assert!(found.tgid == own && !found.is_silent);
        assert!(maps::executable(&found.maps).count() > 0);
        assert!(Scan::all((*door).clone()).flatten().any(|process| process.tgid == own));
        assert_eq!(Scan::of([own, u32::MAX], (*door).clone()).flatten().count(), 1);
    }
}
