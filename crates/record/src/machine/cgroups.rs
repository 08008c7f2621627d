//! Follows which cgroup every process and thread is in, and the paths of cgroups.
//!
//! ```text
//! sample, fork, exec: id of the cgroup ─► differs from the last one? ─► path of the id ─► a row
//! ```
//!
//! Records of the ring carry the ids, so that the id is right even for a process that lives a few milliseconds. The kernel reports
//! the path of a new cgroup; the paths of older ones come from a walk through the hierarchy.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::kernel::wire::Head;
use crate::proc::cgroup;
use crate::skeleton::types::limits;
use crate::sys::clock;

/// The number of processes, of threads outside the cgroup of their process, and of cgroups that are remembered before all are forgotten.
const REMEMBERED: usize = 64 << 10;
/// The hierarchy is walked again for an unknown id, but at most this often.
const WALK_EVERY_NS: u64 = 1_000_000_000;

/// The BPF programs copy no more bytes of a path than this: a NUL follows.
const MAX_TOLD: usize = limits::CGROUP_PATH_LEN.0 as usize - 1;
/// Marks a truncated path.
const CUT: &str = "…";

/// The path of a cgroup; `None` if it is unknown.
pub(crate) type Known = Option<Arc<[u8]>>;

/// A change: a task is in another cgroup now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) tgid: u32,
    /// The id of a thread; that of the process if all of its threads moved.
    pub(crate) tid: u32,
    pub(crate) path: Known,
}

/// The cgroups of tasks, as far as rows in the file report them.
#[derive(Debug, Default)]
pub(crate) struct Cgroups {
    paths: Paths,
    /// By process id.
    processes: FxHashMap<u32, Membership>,
    /// Threads that are in another cgroup than their process, by thread id.
    threads: FxHashMap<u32, (u32, Membership)>,
}

/// The cgroup of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Membership {
    /// 0 if only the path is known.
    id: u64,
    pub path: Known,
}

impl Cgroups {
    pub(crate) fn new() -> Self {
        let own = std::fs::read("/proc/self/cgroup").unwrap_or_default();
        let has_v1 = cgroup::membership(&own).is_some_and(|of| of.has_v1);
        Self { paths: Paths { mount: cgroup::mount(), has_v1, ..Paths::default() }, ..Self::default() }
    }

    /// Notes a process that existed before the recording, with the text of its `/proc/PID/cgroup`.
    pub(crate) fn found(&mut self, tgid: u32, text: &[u8]) -> Option<Moved> {
        let path: Arc<[u8]> = cgroup::membership(text)?.path.into();
        self.settle(tgid, Membership { id: 0, path: Some(path) })
    }

    /// Returns the path of a cgroup of cgroup2 and its folder; `None` if one of them is unknown.
    pub(crate) fn place(&self, id: u64) -> Option<(Arc<[u8]>, PathBuf)> {
        let path = self.paths.of_id.get(&id)?;
        let below = path.strip_prefix(b"/")?;
        let folder = self.paths.mount.as_ref()?.join(OsStr::from_bytes(below));
        Some((Arc::clone(path), folder))
    }

    /// Notes a new cgroup.
    pub(crate) fn made(&mut self, id: u64, path: &[u8]) {
        if path.len() >= MAX_TOLD {
            self.paths.learn(id, &[path, CUT.as_bytes()].concat());
        } else {
            self.paths.learn(id, path);
        }
    }

    /// Notes that a process was forked. It starts in the cgroup of its creator.
    pub(crate) fn forked(&mut self, creator: u32, child: &Head<'_>) -> Option<Moved> {
        self.leave(child.tgid);
        match self.processes.get(&creator).cloned() {
            Some(place) => self.processes.insert(child.tgid, place),
            None => self.processes.remove(&child.tgid),
        };
        self.seen(child)
    }

    /// Notes that a process runs a new program. By now its starter has moved it to the cgroup where it belongs.
    pub(crate) fn executed(&mut self, head: &Head<'_>) -> Option<Moved> {
        // Version 1 has no ids in the records of the ring that would show a move.
        if self.paths.asks_v1(head.cgroup_id) {
            let path = self.paths.of_process(head.tgid)?;
            return self.settle(head.tgid, Membership { id: head.cgroup_id, path: Some(path) });
        }
        self.seen(head)
    }

    /// Notes in which cgroup a task was seen.
    pub(crate) fn seen(&mut self, head: &Head<'_>) -> Option<Moved> {
        let Head { tgid, tid, cgroup_id: id, .. } = *head;
        let last = self.last(tgid, tid);
        if id == 0 || last.is_some_and(|last| last.id == id) {
            return None;
        }
        // If the path of this id is unknown, the path that the task had without an id is taken.
        let same = last.filter(|last| last.id == 0).and_then(|last| last.path.clone());
        let place = Membership { id, path: self.paths.of(id, tgid).or(same) };
        if tid == tgid || !self.processes.contains_key(&tgid) {
            self.settle(tgid, place)
        } else {
            self.settle_thread(tgid, tid, place)
        }
    }

    /// Returns the last known cgroup of a task.
    fn last(&self, tgid: u32, tid: u32) -> Option<&Membership> {
        let apart = if self.threads.is_empty() || tid == tgid {
            None
        } else {
            self.threads.get(&tid).filter(|(of, _)| *of == tgid).map(|(_, place)| place)
        };
        apart.or_else(|| self.processes.get(&tgid))
    }

    /// Sets the cgroup of a process and of all its threads.
    fn settle(&mut self, tgid: u32, place: Membership) -> Option<Moved> {
        if self.processes.len() >= REMEMBERED {
            self.processes.clear();
        }
        let path = place.path.clone();
        let last = self.processes.insert(tgid, place);
        let is_new = last.is_none_or(|last| last.path != path);
        if is_new {
            self.leave(tgid);
        }
        is_new.then_some(Moved { tgid, tid: tgid, path })
    }

    /// Sets the cgroup of one thread.
    fn settle_thread(&mut self, tgid: u32, tid: u32, place: Membership) -> Option<Moved> {
        if self.last(tgid, tid).is_some_and(|last| last.path == place.path) {
            // Only the id is new.
            match self.threads.get_mut(&tid) {
                Some(own) => *own = (tgid, place),
                None => drop(self.processes.insert(tgid, place)),
            }
            return None;
        }
        if self.threads.len() >= REMEMBERED {
            self.threads.clear();
        }
        let path = place.path.clone();
        self.threads.insert(tid, (tgid, place));
        Some(Moved { tgid, tid, path })
    }

    /// Forgets the threads of a process that are elsewhere.
    fn leave(&mut self, tgid: u32) {
        if !self.threads.is_empty() {
            self.threads.retain(|_, (of, _)| *of != tgid);
        }
    }
}

/// Paths by id.
#[derive(Debug, Default)]
struct Paths {
    of_id: FxHashMap<u64, Arc<[u8]>>,
    mount: Option<PathBuf>,
    /// There are hierarchies of version 1. They give the paths of processes in the root of cgroup2.
    has_v1: bool,
    /// 0 until it was searched.
    root_id: u64,
    walked_ns: Option<u64>,
}

impl Paths {
    fn learn(&mut self, id: u64, path: &[u8]) {
        if self.of_id.len() >= REMEMBERED {
            self.of_id.clear();
        }
        if path == b"/" {
            self.root_id = id;
        }
        self.of_id.insert(id, path.into());
    }

    fn of(&mut self, id: u64, tgid: u32) -> Known {
        if !self.of_id.contains_key(&id) {
            self.walk();
        }
        match self.of_id.get(&id) {
            Some(path) if !self.asks_v1(id) => Some(Arc::clone(path)),
            // The path of a process is not remembered for the id: the process may have moved since.
            _ => self.of_process(tgid),
        }
    }

    fn of_process(&self, tgid: u32) -> Known {
        let text = std::fs::read(format!("/proc/{tgid}/cgroup")).ok()?;
        Some(cgroup::membership(&text)?.path.into())
    }

    /// Returns true if the path must come from a hierarchy of version 1. A machine that has version 1 alone does not mount the root of
    /// cgroup2, whose id is 1.
    fn asks_v1(&self, id: u64) -> bool {
        self.has_v1 && (id == self.root_id || id == 1)
    }

    fn walk(&mut self) {
        let now_ns = clock::monotonic_ns();
        let is_early = |walked_ns: u64| now_ns.saturating_sub(walked_ns) < WALK_EVERY_NS;
        if self.walked_ns.is_some_and(is_early) {
            return;
        }
        self.walked_ns = Some(now_ns);
        let Some(mount) = &self.mount else { return };
        for (id, path) in cgroup::walk(mount) {
            self.learn(id, &path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns three cgroups; the ids of their processes do not exist on this machine.
    fn cgroups() -> Cgroups {
        let mut cgroups = Cgroups::default();
        for (id, path) in [(10, "/a"), (11, "/b"), (12, "/c")] {
            cgroups.made(id, path.as_bytes());
        }
        cgroups
    }

    const P: u32 = u32::MAX - 100;

    fn head(tgid: u32, tid: u32, cgroup_id: u64) -> Head<'static> {
        Head { time_ns: 5, cpu: 0, tgid, tid, comm: b"x", cgroup_id }
    }

    fn moved(tgid: u32, tid: u32, path: &str) -> Option<Moved> {
        Some(Moved { tgid, tid, path: (!path.is_empty()).then(|| path.as_bytes().into()) })
    }

    #[test]
    fn only_changes_are_told_and_a_child_begins_where_its_creator_is() {
        let mut c = cgroups();
        assert_eq!(c.found(P, b"0::/a\n"), moved(P, P, "/a"));
        assert_eq!(c.seen(&head(P, P + 1, 10)), None, "the id of a path that was told");
        assert_eq!(c.forked(P, &head(P + 2, P + 2, 10)), None);
        assert_eq!(c.seen(&head(P + 2, P + 2, 11)), moved(P + 2, P + 2, "/b"));
        assert_eq!(c.seen(&head(P + 2, P + 2, 11)), None);
        assert_eq!(c.forked(P, &head(P + 3, P + 3, 12)), moved(P + 3, P + 3, "/c"), "made in another");
        assert_eq!(c.executed(&head(P + 3, P + 3, 11)), moved(P + 3, P + 3, "/b"));
        assert_eq!(c.seen(&head(P, P, 0)), None, "a kernel without cgroups");
    }

    #[test]
    fn a_process_that_nobody_told_of_is_told_whole_and_its_threads_apart() {
        let mut c = cgroups();
        assert_eq!(c.seen(&head(P, P + 1, 10)), moved(P, P, "/a"));
        assert_eq!(c.seen(&head(P, P + 1, 11)), moved(P, P + 1, "/b"));
        assert_eq!(c.seen(&head(P, P + 2, 10)), None);
        assert_eq!(c.seen(&head(P, P + 1, 11)), None, "it stays where it is");
        assert_eq!(c.seen(&head(P, P, 12)), moved(P, P, "/c"));
        assert_eq!(c.seen(&head(P, P + 1, 11)), moved(P, P + 1, "/b"), "the process took it along");
        assert_eq!(c.seen(&head(P, P + 1, 12)), moved(P, P + 1, "/c"));
        assert_eq!(c.forked(P, &head(P, P, 12)), None, "the number is used again");
        assert!(c.threads.is_empty());
    }

    #[test]
    fn an_unknown_cgroup_is_told_as_unknown_once() {
        let mut c = cgroups();
        assert_eq!(c.seen(&head(P, P, 10)), moved(P, P, "/a"));
        assert_eq!(c.seen(&head(P, P, 99)), moved(P, P, ""));
        assert_eq!(c.seen(&head(P, P, 99)), None);
        assert_eq!(c.found(P + 1, b"0::/gone (deleted)"), moved(P + 1, P + 1, "/gone"));
        assert_eq!(c.seen(&head(P + 1, P + 1, 98)), None, "its path was read before it was gone");
        assert_eq!(c.found(P + 2, b""), None);
    }

    #[test]
    fn a_path_that_is_cut_says_so() {
        let mut c = cgroups();
        c.made(20, &[b'x'; MAX_TOLD - 1]);
        c.made(21, &[b'x'; MAX_TOLD]);
        assert_eq!(c.seen(&head(P, P, 20)), moved(P, P, &"x".repeat(MAX_TOLD - 1)));
        assert_eq!(c.seen(&head(P, P, 21)), moved(P, P, &format!("{}…", "x".repeat(MAX_TOLD))));
    }

    #[test]
    fn memory_is_bounded() {
        let mut c = cgroups();
        for n in 0..REMEMBERED as u32 + 9 {
            c.seen(&head(n + P / 2, n + P / 2, 10));
            c.made(u64::from(n) + 1000, b"/x");
        }
        assert!(c.processes.len() <= REMEMBERED && c.paths.of_id.len() <= REMEMBERED);
    }
}
