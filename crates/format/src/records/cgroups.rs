//! Which control group tasks belong to, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{payload, references};
use crate::kind::Kind;

/// A process, or one of its threads, belongs to this cgroup from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cgroup {
    /// Since when, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Process id.
    pub tgid: u32,
    /// Thread id. That of the first thread stands for all threads of the process, another for itself.
    pub tid: u32,
    /// Path of the cgroup in its hierarchy, a string id; 0 if it is unknown.
    pub path: u32,
}

references!(Cgroup { time_ns: time, tgid: process, tid: process, path: id(Strings) });

/// Cgroups of tasks, ordered by time. Only changes are written: a process begins in the cgroup of its creator.
#[derive(Debug, Default, Archive, Serialize)]
pub struct CgroupsV1 {
    /// Earliest time, ns.
    pub first_ns: u64,
    /// Latest time, ns.
    pub last_ns: u64,
    /// Times, as differences from the row before (the first: from `first_ns`), ns.
    pub after_ns: Packed,
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// Process ids minus thread ids; signs folded.
    pub tid: Packed,
    /// Paths, string ids.
    pub path: Packed,
}

payload!(
    CgroupsV1, ArchivedCgroupsV1, Kind::CGROUPS, 1,
    count after_ns, same tgid, same tid, same path,
    span first_ns last_ns
);

impl CgroupsV1 {
    /// Builds the columns; `rows` are ordered by time.
    pub fn from_rows(rows: &[Cgroup]) -> Self {
        let first_ns = rows.first().map_or(0, |r| r.time_ns);
        let mut before_ns = first_ns;
        let after = |r: &Cgroup| r.time_ns.saturating_sub(std::mem::replace(&mut before_ns, r.time_ns));
        let tid = |r: &Cgroup| fold(u64::from(r.tgid).wrapping_sub(u64::from(r.tid)));
        Self {
            first_ns,
            last_ns: rows.last().map_or(0, |r| r.time_ns),
            after_ns: rows.iter().map(after).collect(),
            tgid: Packed::steps(rows.iter().map(|r| u64::from(r.tgid))),
            tid: rows.iter().map(tid).collect(),
            path: rows.iter().map(|r| r.path).collect(),
        }
    }
}

impl ArchivedCgroupsV1 {
    /// Lists the rows in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Cgroup> + '_ {
        let mut time_ns = self.first_ns.to_native();
        let ids = self.tgid.sums().into_iter().zip(self.tid.values());
        let columns = self.after_ns.values().into_iter().zip(ids).zip(self.path.values_u32());
        columns.map(move |((after_ns, (tgid, tid)), path)| {
            time_ns = time_ns.saturating_add(after_ns);
            Cgroup { time_ns, tgid: narrow(tgid), tid: narrow(tgid.wrapping_sub(unfold(tid))), path }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload;

    #[test]
    fn rows_survive_a_round_trip() {
        let row = |time_ns, tgid, tid, path| Cgroup { time_ns, tgid, tid, path };
        let rows = [row(5, 7, 7, 1), row(5, 7, 9, 2), row(900, 3, 3, 0), row(901, 4_000_000, 1, u32::MAX)];
        let payload = CgroupsV1::from_rows(&rows);
        assert_eq!((payload.items(), payload.span_ns()), (4, (5, 901)));
        let bytes = payload.to_bytes().expect("fits");
        let view = CgroupsV1::view(&bytes).expect("own bytes");
        assert_eq!(view.rows().collect::<Vec<_>>(), rows);
    }
}
