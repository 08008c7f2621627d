//! Finds processes by their names.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;

use icecore_text::glob::is_like;

use super::scan;

/// The most bytes that the kernel keeps of the name of a program.
///
/// # Source
/// Linux `include/linux/sched.h`: `TASK_COMM_LEN`, without the zero byte at the end
const COMM_BYTES: usize = 15;
/// What the kernel adds to the path of a file that was removed.
const REMOVED: &[u8] = b" (deleted)";

/// A process with its name: that of its first thread, or a longer one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) tgid: u32,
    pub(crate) name: String,
    /// What the kernel keeps of a longer name.
    kept: Option<String>,
}

impl Named {
    /// Makes the name from what the kernel keeps and the path of the file that the process runs. Where the kernel cuts a name, it is that of
    /// the file, if this begins with what is kept: scripts and threads have other names than their files.
    fn new(tgid: u32, comm: &[u8], exe: impl FnOnce() -> Option<Vec<u8>>) -> Self {
        let lossy = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        let longer = if comm.len() == COMM_BYTES { exe() } else { None };
        let longer = longer.and_then(|path| {
            let path = path.strip_suffix(REMOVED).unwrap_or(&path);
            let name = path.rsplit(|byte| *byte == b'/').next()?;
            (name.len() > comm.len() && name.starts_with(comm)).then(|| lossy(name))
        });
        match longer {
            Some(name) => Self { tgid, name, kept: Some(lossy(comm)) },
            None => Self { tgid, name: lossy(comm), kept: None },
        }
    }

    /// Returns true if the name, or what the kernel keeps of it, matches a pattern.
    pub(crate) fn is_like(&self, pattern: &str) -> bool {
        is_like(pattern, &self.name) || self.kept.as_ref().is_some_and(|kept| is_like(pattern, kept))
    }
}

/// Lists the processes that can run, in the order of their numbers; without this one and those that it has started.
pub(crate) fn others() -> Vec<Named> {
    let own = std::process::id();
    let started = scan::descendants(&[own].into_iter().collect());
    let named = |tgid: u32| {
        let exe = || Some(fs::read_link(format!("/proc/{tgid}/exe")).ok()?.as_os_str().as_bytes().to_vec());
        Named::new(tgid, &scan::comm_of(tgid), exe)
    };
    let is_other = |tgid: &u32| *tgid != own && !started.contains(tgid) && scan::is_alive(*tgid);
    let mut all: Vec<Named> = scan::processes().filter(is_other).map(named).collect();
    all.retain(|process| !process.name.is_empty());
    all.sort_unstable();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(comm: &str, exe: &str) -> Named {
        Named::new(1, comm.as_bytes(), || Some(exe.as_bytes().to_vec()))
    }

    #[test]
    fn a_name_that_the_kernel_cuts_is_that_of_the_file() {
        let cut = named("a-long-name-of-", "/usr/bin/a-long-name-of-a-program");
        assert_eq!(cut.name, "a-long-name-of-a-program");
        for pattern in ["a-long-name-of-a-program", "a-long-name-of-", "*program", "a-long*"] {
            assert!(cut.is_like(pattern), "{pattern}");
        }
        assert!(!cut.is_like("a-long-name") && !cut.is_like("program"));
        assert_eq!(named("a-long-name-of-", "/x/a-long-name-of-it (deleted)").name, "a-long-name-of-it");
    }

    #[test]
    fn names_of_scripts_threads_and_kernel_threads_are_their_own() {
        for (comm, exe) in [
            ("a-long-name-of-", "/usr/bin/python3"),
            ("short", "/usr/bin/short-and-more"),
            ("exactly-fifteen", "/usr/bin/exactly-fifteen"),
            ("kworker/u8:1-events_unbound", ""),
        ] {
            let process = named(comm, exe);
            assert_eq!((&*process.name, process.kept), (comm, None));
        }
        assert_eq!(Named::new(1, b"caf\xe9", || None).name, "caf\u{fffd}");
    }

    #[test]
    fn a_process_never_finds_itself_and_its_children() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("a child");
        let found = others();
        assert!(!found.iter().any(|process| [std::process::id(), child.id()].contains(&process.tgid)));
        assert!(found.is_sorted_by_key(|process| process.tgid));
        let _ = child.kill();
        let _ = child.wait();
    }
}
