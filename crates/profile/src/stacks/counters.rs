//! Chooses the values of counters that a filter admits.

use icecore_format::records::{CounterValue, Owner, Task};

use super::hits::Selection;
use crate::recording::cgroups::is_below;

impl Selection<'_> {
    /// Returns true if the filter admits a value of a counter; `part` is the number of its session.
    pub fn wants_counter(&self, part: u32, row: &CounterValue) -> bool {
        let Self { filter, tables, .. } = self;
        let zero_ns = tables.parts.zero_ns();
        filter.from.is_none_or(|from| row.time_ns >= zero_ns.saturating_add(from.ns))
            && filter.to.is_none_or(|to| row.time_ns < zero_ns.saturating_add(to.ns))
            && self.wants_owner(part, row)
    }

    /// The same, whatever the time of the value.
    ///
    /// Counters of the machine belong to every choice of its samples. A process counts all its threads, so a filter of threads
    /// admits no process.
    pub fn wants_owner(&self, part: u32, row: &CounterValue) -> bool {
        let Self { filter, tables, .. } = self;
        filter.wants_host(|| &tables.parts.part(part).session.host)
            && match row.owner {
                Owner::Machine | Owner::Other(..) => true,
                Owner::Process(tgid) => self.wants_process(tgid, row.time_ns),
                Owner::Cgroup(path) => {
                    let is_of_processes = !(filter.pids.is_empty() && filter.tids.is_empty());
                    !is_of_processes && filter.comms.is_empty() && self.wants_path(path)
                }
            }
    }

    fn wants_process(&self, tgid: u32, time_ns: u64) -> bool {
        let Self { filter, tables, spaces, cgroups, .. } = self;
        let pid = tables.parts.pid(tgid);
        let (cgroup, _) = cgroups.stay(tgid, tgid, time_ns);
        let task = Task { tgid, tid: tgid, comm: 0 };
        let name = || self.process_name(&task, spaces.space(tgid, time_ns));
        filter.tids.is_empty()
            && (filter.pids.is_empty() || filter.pids.contains(&pid))
            && (filter.cgroups.is_empty() || cgroups.is_below(cgroup, &filter.cgroups))
            && (filter.comms.is_empty() || filter.wants_name(name(), name()))
    }

    fn wants_path(&self, path: u32) -> bool {
        let wanted = &self.filter.cgroups;
        wanted.is_empty() || is_below(self.tables.text(path), wanted)
    }
}
