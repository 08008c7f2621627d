//! The processes whose mappings are recorded.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::kernel::wire::Event;

/// The processes whose mappings are recorded. `None` means all.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    tgids: Option<FxHashSet<u32>>,
    /// Those of them that have ended, and when, ns.
    ended: FxHashMap<u32, u64>,
}

impl Followed {
    pub(crate) fn new(tgids: Option<FxHashSet<u32>>) -> Self {
        Self { tgids, ended: FxHashMap::default() }
    }

    /// Notes begins and ends of processes.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        let Some(tgids) = &mut self.tgids else { return };
        match event {
            Event::Fork { head, .. } => {
                tgids.insert(head.tgid);
                self.ended.remove(&head.tgid);
            }
            Event::Exit { head, whole_group: true, .. } => {
                self.ended.insert(head.tgid, head.time_ns);
            }
            _ => {}
        }
    }

    /// Adds processes that are recorded, whose begin was not reported.
    pub(crate) fn add(&mut self, more: &[u32]) {
        let Some(tgids) = &mut self.tgids else { return };
        tgids.extend(more);
        more.iter().for_each(|tgid| _ = self.ended.remove(tgid));
    }

    pub(crate) fn has(&self, tgid: u32) -> bool {
        self.tgids.as_ref().is_none_or(|tgids| tgids.contains(&tgid))
    }

    /// Forgets the processes that ended before a moment; all their mappings must have come. The kernel may reuse their ids.
    pub(crate) fn forget_until(&mut self, time_ns: u64) {
        let Some(tgids) = &mut self.tgids else { return };
        self.ended.retain(|tgid, ended_ns| {
            let is_late = *ended_ns >= time_ns;
            if !is_late {
                tgids.remove(tgid);
            }
            is_late
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::wire::Head;

    fn head(tgid: u32, time_ns: u64) -> Head<'static> {
        Head { time_ns, cpu: 0, tgid, tid: tgid, comm: b"a", cgroup_id: 0 }
    }

    fn exit(tgid: u32, time_ns: u64) -> Event<'static> {
        Event::Exit { head: head(tgid, time_ns), whole_group: true, status: 0 }
    }

    #[test]
    fn a_process_is_followed_until_the_mappings_from_before_its_end_have_come() {
        let mut followed = Followed::new(Some(FxHashSet::from_iter([5])));
        followed.event(&Event::Fork { head: head(6, 10), parent_tgid: 5, shares_memory: false });
        followed.event(&exit(6, 90));
        // Its mappings may come later than its end, because queues are read before the ring.
        followed.forget_until(90);
        assert!(followed.has(6) && followed.has(5) && !followed.has(7));
        followed.forget_until(91);
        assert!(!followed.has(6) && followed.has(5));
    }

    #[test]
    fn the_next_process_with_the_same_id_is_followed() {
        let mut followed = Followed::new(Some(FxHashSet::default()));
        followed.event(&exit(6, 90));
        followed.event(&Event::Fork { head: head(6, 95), parent_tgid: 5, shares_memory: false });
        followed.forget_until(200);
        assert!(followed.has(6));
    }

    #[test]
    fn all_processes_are_followed_whatever_ends() {
        let mut followed = Followed::new(None);
        followed.event(&exit(6, 90));
        followed.forget_until(200);
        assert!(followed.has(6));
    }
}
