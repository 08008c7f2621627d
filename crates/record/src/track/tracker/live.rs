//! The processes that live, as far as events have told: a new file begins with them.

use std::sync::Arc;

use icecore_format::records::{Change, Lifecycle};
use rustc_hash::FxHashMap;

/// The number of processes, and of threads in cgroups of their own, that are remembered, about 150 bytes each. The next file does not
/// know the names and cgroups of further ones until they change.
const MAX_LIVE: usize = 256 << 10;

/// What is known of the processes that live.
#[derive(Debug, Default)]
pub(super) struct Live {
    pub(super) processes: FxHashMap<u32, Process>,
    /// Threads in another cgroup than their process, by thread id: their process, and the path.
    pub(super) threads: FxHashMap<u32, (u32, Path)>,
    /// Processes that have ended. They stay until the next events are settled, as their last samples may come after their end.
    ended: Vec<u32>,
}

/// A name of a task, or another text.
pub(super) type Name = Box<[u8]>;

/// The path of a cgroup; `None` if it is unknown.
pub(super) type Path = Option<Arc<[u8]>>;

/// A process.
#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) parent_tgid: u32,
    pub(super) comm: Name,
    /// `None` if no event told.
    pub(super) cgroup: Option<Path>,
}

impl Live {
    /// Notes a change of a process.
    pub(super) fn change(&mut self, row: &Lifecycle, comm: &Name, ends_process: bool) {
        let Lifecycle { tgid, tid, parent_tgid, .. } = *row;
        match row.change {
            Change::FORK if parent_tgid != tgid => {
                let cgroup = self.processes.get(&parent_tgid).and_then(|parent| parent.cgroup.clone());
                self.put(tgid, Process { parent_tgid, comm: comm.clone(), cgroup });
            }
            Change::FOUND => self.put(tgid, Process { parent_tgid, comm: comm.clone(), cgroup: None }),
            Change::EXEC | Change::COMM if tid == tgid => {
                if let Some(process) = self.processes.get_mut(&tgid) {
                    process.comm = comm.clone();
                }
            }
            Change::EXIT => {
                self.threads.remove(&tid);
                self.ended.extend(ends_process.then_some(tgid));
            }
            _ => {}
        }
    }

    fn put(&mut self, tgid: u32, process: Process) {
        self.ended.retain(|ended| *ended != tgid);
        if self.processes.len() < MAX_LIVE || self.processes.contains_key(&tgid) {
            self.leave(tgid);
            self.processes.insert(tgid, process);
        }
    }

    /// Notes in which cgroup a task is: a thread, or with `tid` = `tgid` a process with all its threads.
    pub(super) fn moved(&mut self, tgid: u32, tid: u32, path: &Path) {
        if tid != tgid {
            if self.threads.len() < MAX_LIVE {
                self.threads.insert(tid, (tgid, path.clone()));
            }
            return;
        }
        self.leave(tgid);
        if let Some(process) = self.processes.get_mut(&tgid) {
            process.cgroup = Some(path.clone());
        }
    }

    /// Forgets the threads of a process that are elsewhere.
    fn leave(&mut self, tgid: u32) {
        if !self.threads.is_empty() {
            self.threads.retain(|_, (of, _)| *of != tgid);
        }
    }

    /// Forgets the processes that had ended.
    pub(super) fn forget_ended(&mut self) {
        for tgid in std::mem::take(&mut self.ended) {
            self.processes.remove(&tgid);
            self.leave(tgid);
        }
    }
}
