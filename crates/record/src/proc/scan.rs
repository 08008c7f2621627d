//! Processes that were there before the recording.

use std::fs;

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
}

/// Reads all processes; those that end meanwhile are left out.
pub(crate) fn all() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let mut tgids: Vec<u32> =
        entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    tgids.sort_unstable();
    tgids.into_iter().filter_map(one).collect()
}

/// Reads one process.
pub(crate) fn one(tgid: u32) -> Option<Process> {
    let time_ns = clock::monotonic_ns();
    let status = fs::read(format!("/proc/{tgid}/status")).ok()?;
    let comm = fs::read(format!("/proc/{tgid}/comm")).ok()?;
    Some(Process {
        time_ns,
        tgid,
        parent_tgid: status_field(&status, "PPid").unwrap_or(0),
        comm: comm.trim_ascii_end().to_vec(),
        maps: fs::read(format!("/proc/{tgid}/maps")).unwrap_or_default(),
    })
}

/// Finds a numeric field in the text of `/proc/PID/status`, which is not UTF-8 if the name of the thread is not.
pub(crate) fn status_field(status: &[u8], name: &str) -> Option<u32> {
    std::str::from_utf8(status_text(status, name)?).ok()?.parse().ok()
}

fn status_text<'a>(status: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut lines = status.split(|&b| b == b'\n');
    lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":")).map(<[u8]>::trim_ascii)
}

/// The process that a thread belongs to.
pub(crate) fn tgid_of(tid: u32) -> Option<u32> {
    status_field(&fs::read(format!("/proc/{tid}/status")).ok()?, "Tgid")
}

/// Tells whether a process or thread can still run: it is there, and no zombie.
pub(crate) fn is_alive(id: u32) -> bool {
    fs::read(format!("/proc/{id}/status")).is_ok_and(|status| can_run(&status))
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
        assert!(all().iter().any(|process| process.tgid == own));
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
