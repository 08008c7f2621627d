//! Processes that were there before the recording.

use std::fs::{self, File};
use std::io::Read as _;
use std::time::{Duration, Instant};

use crate::sys::clock;

/// A process, as `/proc` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Process {
    /// When it was looked at: before the first file of it was read, ns `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    pub(crate) tgid: u32,
    pub(crate) parent_tgid: u32,
    pub(crate) comm: Vec<u8>,
    /// Text of `/proc/PID/maps`; empty for kernel threads and for processes that may not be read.
    pub(crate) maps: Vec<u8>,
    /// Text of `/proc/PID/cgroup`; empty where there are none.
    pub(crate) cgroup: Vec<u8>,
}

/// Bytes of one process's list of mappings that are read: 60,000 lines, which is as many as the kernel allows by default.
pub(crate) const MAX_MAPS_BYTES: u64 = 8 << 20;
/// What is read before it is passed on.
const STEP_BYTES: usize = 1 << 20;
const STEP_TIME: Duration = Duration::from_millis(5);

/// Reads processes, some at a time; those that end meanwhile are left out.
///
/// # Cost
/// Each step takes about a mebibyte, or 5 ms, and the list of one process more.
#[derive(Debug)]
pub(crate) struct Scan {
    left: std::vec::IntoIter<u32>,
}

impl Scan {
    /// Of all processes.
    pub(crate) fn all() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten();
        Self::of(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
    }

    /// Of these processes.
    pub(crate) fn of(tgids: impl IntoIterator<Item = u32>) -> Self {
        let mut tgids: Vec<u32> = tgids.into_iter().collect();
        tgids.sort_unstable();
        Self { left: tgids.into_iter() }
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
            if let Some(process) = one(tgid) {
                bytes += process.maps.len();
                found.push(process);
            }
        }
        Some(found)
    }
}

/// Reads one process.
pub(crate) fn one(tgid: u32) -> Option<Process> {
    let time_ns = clock::monotonic_ns();
    let status = fs::read(format!("/proc/{tgid}/status")).ok()?;
    Some(Process {
        time_ns,
        tgid,
        parent_tgid: status_field(&status, "PPid").unwrap_or(0),
        comm: comm_of(tgid),
        maps: maps_of(tgid),
        cgroup: fs::read(format!("/proc/{tgid}/cgroup")).unwrap_or_default(),
    })
}

/// The name of a process; empty if it has ended.
pub(crate) fn comm_of(tgid: u32) -> Vec<u8> {
    let comm = fs::read(format!("/proc/{tgid}/comm")).unwrap_or_default();
    comm.strip_suffix(b"\n").unwrap_or(&comm).to_vec()
}

/// The text of `/proc/PID/maps`, at most [`MAX_MAPS_BYTES`] of it; empty if it may not be read. A first thread that has ended
/// shows none, though others of its process go on.
pub(crate) fn maps_of(tgid: u32) -> Vec<u8> {
    let read = |path: String| {
        let mut maps = Vec::new();
        File::open(path).ok()?.take(MAX_MAPS_BYTES).read_to_end(&mut maps).ok()?;
        Some(maps).filter(|maps| !maps.is_empty())
    };
    let own = read(format!("/proc/{tgid}/maps"));
    let of_threads = || threads(tgid).find_map(|tid| read(format!("/proc/{tgid}/task/{tid}/maps")));
    own.or_else(of_threads).unwrap_or_default()
}

fn threads(tgid: u32) -> impl Iterator<Item = u32> {
    let tasks = fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok())
}

/// Finds a numeric field in the text of `/proc/PID/status`, which is not UTF-8 if the name of the thread is not.
pub(crate) fn status_field(status: &[u8], name: &str) -> Option<u32> {
    std::str::from_utf8(status_text(status, name)?).ok()?.parse().ok()
}

/// Lists the numbers of a field in the text of `/proc/PID/status`.
pub(crate) fn status_numbers(status: &[u8], name: &str) -> impl Iterator<Item = u32> {
    let words = status_text(status, name).unwrap_or_default().split(u8::is_ascii_whitespace);
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

fn status_text<'a>(status: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut lines = status.split(|&b| b == b'\n');
    lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":")).map(<[u8]>::trim_ascii)
}

/// The process that a thread belongs to.
pub(crate) fn tgid_of(tid: u32) -> Option<u32> {
    status_field(&fs::read(format!("/proc/{tid}/status")).ok()?, "Tgid")
}

/// Tells whether a process, one of its threads, or a thread can still run: it is there, and no zombie.
pub(crate) fn is_alive(id: u32) -> bool {
    let runs = |path: String| fs::read(path).is_ok_and(|status| can_run(&status));
    // Of a thread that does not lead its process, the threads of the process are listed.
    let leads = tgid_of(id) == Some(id);
    runs(format!("/proc/{id}/status"))
        || leads && threads(id).any(|tid| runs(format!("/proc/{id}/task/{tid}/status")))
}

pub(crate) fn can_run(status: &[u8]) -> bool {
    status_text(status, "State").and_then(<[u8]>::first).is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_with_its_mappings() {
        let own = std::process::id();
        let found = one(own).expect("we are running");
        assert_eq!(found.tgid, own);
        assert!(super::super::maps::executable(&found.maps).count() > 0);
        assert!(Scan::all().flatten().any(|process| process.tgid == own));
        assert_eq!(Scan::of([own, u32::MAX]).flatten().count(), 1);
        assert_eq!(tgid_of(own), Some(own));
        assert!(is_alive(own) && !is_alive(u32::MAX));
    }

    #[test]
    fn a_state_that_is_not_told_is_not_running() {
        assert!(can_run(b"State:\tS (sleeping)\n"));
        for text in [&b"State:\tZ (zombie)\n"[..], b"State:\t\n", b"State:", b""] {
            assert!(!can_run(text), "{}", text.escape_ascii());
        }
    }

    #[test]
    fn a_process_that_is_gone_is_left_out() {
        assert_eq!(one(u32::MAX), None);
        assert_eq!(status_field(b"Name:\t\xc3\nTgid:\t17\n", "Tgid"), Some(17));
        assert_eq!(status_field(b"Tgid:\tmany", "Tgid"), None);
    }
}
