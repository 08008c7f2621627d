//! Fork, exec, exit and renaming of tasks, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{payload, references};
use crate::kind::Kind;

/// What happened to a task; the numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Change(pub u8);

impl Change {
    /// It was there when the recording began.
    pub const FOUND: Self = Self(1);
    /// It was created by `parent_tgid`, `parent_tid`.
    pub const FORK: Self = Self(2);
    /// It runs a new program: its address space is empty now.
    pub const EXEC: Self = Self(3);
    /// It renamed itself.
    pub const COMM: Self = Self(4);
    /// It ended.
    pub const EXIT: Self = Self(5);
    /// Not every mapping of its process is in the recording: they were too many, or came too fast.
    pub const MAPPINGS_REFUSED: Self = Self(6);
    /// Its process has the address space of `parent_tgid`, not one of its own, until it runs a new program (clone(2), `CLONE_VM`).
    pub const SHARES: Self = Self(7);
}

/// One change of one task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifecycle {
    /// When, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// What.
    pub change: Change,
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// Process id of the creator ([`Change::FORK`] and [`Change::FOUND`]), or of another process with the same address space
    /// ([`Change::SHARES`]); else 0.
    pub parent_tgid: u32,
    /// Name afterwards, a string id.
    pub comm: u32,
}

references!(Lifecycle {
    time_ns: time,
    change: plain,
    tgid: process,
    tid: process,
    parent_tgid: process,
    comm: id(Strings),
});

/// Changes of tasks, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct LifecycleV1 {
    /// Earliest time, ns.
    pub first_ns: u64,
    /// Latest time, ns.
    pub last_ns: u64,
    /// Times, as differences from the row before (the first: from `first_ns`), ns.
    pub after_ns: Packed,
    /// Numbers of [`Change`].
    pub change: Packed,
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// Process ids minus thread ids; signs folded.
    pub tid: Packed,
    /// 0 without a creator, else 1 + (process id minus that of the creator, sign folded).
    pub creator: Packed,
    /// Names, string ids.
    pub comm: Packed,
}

payload!(
    LifecycleV1, ArchivedLifecycleV1, Kind::LIFECYCLE, 1,
    count after_ns, same change, same tgid, same tid, same creator, same comm,
    span first_ns last_ns
);

impl LifecycleV1 {
    /// Builds the columns; `rows` are ordered by time.
    pub fn from_rows(rows: &[Lifecycle]) -> Self {
        let first_ns = rows.first().map_or(0, |r| r.time_ns);
        let mut before_ns = first_ns;
        let after = |r: &Lifecycle| r.time_ns.saturating_sub(std::mem::replace(&mut before_ns, r.time_ns));
        let from_tgid = |r: &Lifecycle, id: u32| fold(u64::from(r.tgid).wrapping_sub(u64::from(id)));
        let creator = |r: &Lifecycle| match r.parent_tgid {
            0 => 0,
            creator => from_tgid(r, creator) + 1,
        };
        Self {
            first_ns,
            last_ns: rows.last().map_or(0, |r| r.time_ns),
            after_ns: rows.iter().map(after).collect(),
            change: rows.iter().map(|r| u64::from(r.change.0)).collect(),
            tgid: Packed::steps(rows.iter().map(|r| u64::from(r.tgid))),
            tid: rows.iter().map(|r| from_tgid(r, r.tid)).collect(),
            creator: rows.iter().map(creator).collect(),
            comm: rows.iter().map(|r| r.comm).collect(),
        }
    }
}

impl ArchivedLifecycleV1 {
    /// Lists the changes in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Lifecycle> + '_ {
        let mut time_ns = self.first_ns.to_native();
        let [after_ns, change, tid, creator] =
            [&self.after_ns, &self.change, &self.tid, &self.creator].map(|column| column.values());
        let columns = self.tgid.sums().into_iter().zip(self.comm.values_u32()).enumerate();
        columns.map(move |(i, (tgid, comm))| {
            time_ns = time_ns.saturating_add(after_ns[i]);
            let to_id = |difference: u64| narrow(tgid.wrapping_sub(unfold(difference)));
            Lifecycle {
                time_ns,
                change: Change(change[i] as u8),
                tgid: narrow(tgid),
                tid: to_id(tid[i]),
                parent_tgid: if creator[i] == 0 { 0 } else { to_id(creator[i] - 1) },
                comm,
            }
        })
    }
}
