//! In which mount namespace every process is that maps code: its paths are paths in there.

use rustc_hash::FxHashMap;

use crate::kernel::wire::Event;
use crate::proc::namespace;

/// Processes that are remembered before all are forgotten.
const REMEMBERED: usize = 64 << 10;

/// Mount namespaces by process, 0 of those that were gone when they were looked at.
#[derive(Debug, Default)]
pub(crate) struct Mounts {
    known: FxHashMap<u32, u64>,
}

impl Mounts {
    /// Notes what happened to a process. Containers come to be between fork and exec, so only what is mapped from
    /// the exec on is in the same one.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        match event {
            // A thread of its creator's process.
            Event::Fork { head, parent_tgid } if *parent_tgid == head.tgid => {}
            Event::Fork { head, .. } | Event::Exec { head } | Event::Exit { head, whole_group: true } => {
                self.known.remove(&head.tgid);
            }
            _ => {}
        }
    }

    /// The mount namespace of a process; 0 if it cannot be told any more.
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
        mounts.event(&Event::Fork { head: Head { tid: own + 2, ..head(own) }, parent_tgid: own });
        assert_eq!(mounts.of(own), 5, "another process, and a thread");
        mounts.event(&Event::Exec { head: head(own) });
        assert_ne!(mounts.of(own), 5);
    }
}
