//! Fork, exec, exit and renaming of tasks, version 1.

use rkyv::{Archive, Serialize};

use super::payload;
use crate::block::Kind;

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
    /// Process id of the creator ([`Change::FORK`] and [`Change::FOUND`]), else 0.
    pub parent_tgid: u32,
    /// Name afterwards, a string id.
    pub comm: u32,
}

/// Changes of tasks, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct LifecycleV1 {
    /// Earliest time, ns.
    pub first_ns: u64,
    /// Latest time, ns.
    pub last_ns: u64,
    /// Times, ns after `first_ns`.
    pub after_ns: Vec<u64>,
    /// Numbers of [`Change`].
    pub change: Vec<u8>,
    /// Process ids.
    pub tgid: Vec<u32>,
    /// Thread ids.
    pub tid: Vec<u32>,
    /// Creators.
    pub parent_tgid: Vec<u32>,
    /// Names, string ids.
    pub comm: Vec<u32>,
}

payload!(
    LifecycleV1, ArchivedLifecycleV1, Kind::LIFECYCLE, 1,
    count after_ns, same change, same tgid, same tid, same parent_tgid, same comm,
    span first_ns last_ns
);

impl LifecycleV1 {
    /// Builds the columns; `rows` are ordered by time.
    pub fn from_rows(rows: &[Lifecycle]) -> Self {
        let first_ns = rows.first().map_or(0, |r| r.time_ns);
        Self {
            first_ns,
            last_ns: rows.last().map_or(0, |r| r.time_ns),
            after_ns: rows.iter().map(|r| r.time_ns.saturating_sub(first_ns)).collect(),
            change: rows.iter().map(|r| r.change.0).collect(),
            tgid: rows.iter().map(|r| r.tgid).collect(),
            tid: rows.iter().map(|r| r.tid).collect(),
            parent_tgid: rows.iter().map(|r| r.parent_tgid).collect(),
            comm: rows.iter().map(|r| r.comm).collect(),
        }
    }
}

impl ArchivedLifecycleV1 {
    /// Lists the changes in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Lifecycle> + '_ {
        let first_ns = self.first_ns.to_native();
        (0..self.after_ns.len()).map(move |i| Lifecycle {
            time_ns: first_ns.saturating_add(self.after_ns[i].to_native()),
            change: Change(self.change[i]),
            tgid: self.tgid[i].to_native(),
            tid: self.tid[i].to_native(),
            parent_tgid: self.parent_tgid[i].to_native(),
            comm: self.comm[i].to_native(),
        })
    }
}
