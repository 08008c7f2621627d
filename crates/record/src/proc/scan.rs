//! What `/proc` says of processes. What a process has mapped is not read here: that may wait for others (room `foreign`).

use std::fs;
use std::path::PathBuf;

use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the name of a process; empty if it has ended.
pub(crate) fn comm_of(tgid: u32) -> Vec<u8> {
    let comm = fs::read(format!("/proc/{tgid}/comm")).unwrap_or_default();
    comm.strip_suffix(b"\n").unwrap_or(&comm).to_vec()
}

/// Returns the folder of a process in `/proc`; that of another thread if the first one has ended: it has no memory any more, so that its
/// mappings and their files are not there.
pub(crate) fn folder(tgid: u32) -> PathBuf {
    let of = |tid: u32| PathBuf::from(format!("/proc/{tid}"));
    let has_memory = |folder: &PathBuf| fs::read_link(folder.join("exe")).is_ok();
    let own = of(tgid);
    if has_memory(&own) {
        return own;
    }
    threads(tgid).map(of).find(has_memory).unwrap_or(own)
}

/// Lists the processes that there are.
pub(crate) fn processes() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Lists the threads of a process.
pub(crate) fn threads(tgid: u32) -> impl Iterator<Item = u32> {
    let tasks = fs::read_dir(format!("/proc/{tgid}/task")).into_iter().flatten().flatten();
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok())
}

/// Finds a numeric field in the text of `/proc/PID/status`, which is not UTF-8 if the name of the thread is not.
pub fn status_field(status: &[u8], name: &str) -> Option<u32> {
    std::str::from_utf8(status_text(status, name)?).ok()?.parse().ok()
}

/// Lists the numbers of a field in the text of `/proc/PID/status`.
pub(crate) fn status_numbers(status: &[u8], name: &str) -> impl Iterator<Item = u32> {
    let words = status_text(status, name).unwrap_or_default().split(u8::is_ascii_whitespace);
    words.filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
}

/// Reads a field of `/proc/PID/status` that is a set of numbered bits: capabilities, signals.
pub(crate) fn status_set(status: &[u8], name: &str) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(status_text(status, name)?).ok()?, 16).ok()
}

fn status_text<'a>(status: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let mut lines = status.split(|&b| b == b'\n');
    lines.find_map(|line| line.strip_prefix(name.as_bytes())?.strip_prefix(b":")).map(<[u8]>::trim_ascii)
}

/// Lists the processes that descend from some, without these. Processes that have ended are left out.
pub(crate) fn descendants(of: &FxHashSet<u32>) -> Vec<u32> {
    let parent = |tgid: u32| {
        let status = fs::read(format!("/proc/{tgid}/status")).ok().filter(|status| can_run(status))?;
        Some((tgid, status_field(&status, "PPid")?))
    };
    let parents: FxHashMap<u32, u32> = processes().filter_map(parent).collect();
    let descends = |tgid: &u32| {
        let mut seen = 0;
        let ancestors = std::iter::successors(parents.get(tgid), |parent| {
            // Processes came and went meanwhile, and their numbers may form a circle.
            seen += 1;
            parents.get(*parent).filter(|_| seen < parents.len())
        });
        !of.contains(tgid) && ancestors.into_iter().any(|ancestor| of.contains(ancestor))
    };
    parents.keys().copied().filter(descends).collect()
}

/// Returns the process that a thread belongs to.
pub(crate) fn tgid_of(tid: u32) -> Option<u32> {
    status_field(&fs::read(format!("/proc/{tid}/status")).ok()?, "Tgid")
}

/// Returns true if a process, one of its threads, or a thread can still run: it exists and is no zombie.
pub(crate) fn is_alive(id: u32) -> bool {
    let runs = |path: String| fs::read(path).is_ok_and(|status| can_run(&status));
    // Only the id of a process stands for all of its threads.
    let leads = tgid_of(id) == Some(id);
    runs(format!("/proc/{id}/status"))
        || leads && threads(id).any(|tid| runs(format!("/proc/{id}/task/{tid}/status")))
}

pub fn can_run(status: &[u8]) -> bool {
    status_text(status, "State").and_then(<[u8]>::first).is_some_and(|state| !matches!(state, b'Z' | b'X'))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn this_process_is_alive() {
        let own = std::process::id();
        assert_eq!(tgid_of(own), Some(own));
        assert!(is_alive(own) && !is_alive(u32::MAX));
    }

    #[test]
    fn descendants_are_found_through_those_between() {
        // The shell starts another one, and waits for it.
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell.args(["-c", "sh -c 'sleep 60; :'; :"]).spawn().expect("a shell");
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut found = Vec::new();
        while found.len() < 2 && Instant::now() < deadline {
            found = descendants(&[shell.id()].into_iter().collect());
        }
        let names: Vec<Vec<u8>> = found.iter().map(|tgid| comm_of(*tgid)).collect();
        let all: FxHashSet<u32> = found.iter().copied().chain([shell.id()]).collect();
        assert!(descendants(&all).is_empty(), "the targets are not among their descendants");
        for tgid in all {
            let _ = std::process::Command::new("kill").arg(tgid.to_string()).status();
        }
        let _ = shell.wait();
        assert_eq!(names.len(), 2, "{names:?}");
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
        assert!(comm_of(u32::MAX).is_empty());
        assert_eq!(status_field(b"Name:\t\xc3\nTgid:\t17\n", "Tgid"), Some(17));
        assert_eq!(status_field(b"Tgid:\tmany", "Tgid"), None);
        assert_eq!(status_set(b"Name:\tx\nCapEff:\t000001ffffffffff\n", "CapEff"), Some(0x1ff_ffff_ffff));
    }
}
