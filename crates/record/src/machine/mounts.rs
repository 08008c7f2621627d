//! Finds the mount namespace of every process that maps code: the paths of its mappings are paths in that namespace.

use rustc_hash::FxHashMap;

use crate::kernel::wire::Event;
use crate::proc::namespace;

/// The number of processes that are remembered before all are forgotten.
const REMEMBERED: usize = 64 << 10;

/// Mount namespaces by process; 0 for a process that had ended before it was looked at.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    known: FxHashMap<u32, u64>,
}

impl Mounts {
    /// Forgets the namespace of a process at its fork, exec and end. A container is created between fork and exec, so only
    /// mappings after the exec are in its namespace.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match event {
            // The new task is a thread of the same process.
            Event::Fork { head, parent_tgid, .. } if *parent_tgid == head.tgid => {}
            Event::Fork { head, .. } | Event::Exec { head } | Event::Exit { head, whole_group: true, .. } => {
                self.known.remove(&head.tgid);
            }
            _ => {}
        }
    }

    /// Returns the mount namespace of a process; 0 if it has ended.
    ///
    /// # Cost
    /// One look into `/proc` for each program that a process runs.
    pub(crate) fn of(&mut self, tgid: u32) -> u64 {
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        *self.known.entry(tgid).or_insert_with(|| namespace::mount(tgid).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::wire::Head;

    #[test]
    fn a_process_is_looked_at_once_for_each_program_that_it_runs() {
        let own = std::process::id();
        let mut mounts = Mounts::default();
        assert_eq!((mounts.of(own), mounts.of(u32::MAX)), (namespace::mount("self").expect("we run"), 0));
        mounts.known.insert(own, 5);
        assert_eq!(mounts.of(own), 5);
        let head = |tgid| Head { time_ns: 1, cpu: 0, tgid, tid: tgid, comm: b"x", cgroup_id: 0 };
        mounts.event(&Event::Exec { head: head(own + 1) });
        mounts.event(&Event::Fork {
            head: Head { tid: own + 2, ..head(own) },
            parent_tgid: own,
            shares_memory: false,
        });
        assert_eq!(mounts.of(own), 5, "another process, and a thread");
        mounts.event(&Event::Exec { head: head(own) });
        assert_ne!(mounts.of(own), 5);
    }
}
