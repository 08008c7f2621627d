//! Task identities, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{payload, references};
use crate::kind::Kind;

/// A thread under one name. A thread that renames itself becomes a second task, so a sample's task
/// says what the thread was called at that moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Task {
    /// Process id.
    pub tgid: u32,
    /// Thread id.
    pub tid: u32,
    /// Name of the thread, a string id.
    pub comm: u32,
}

references!(Task { tgid: process, tid: process, comm: id(Strings) });

/// Tasks that samples name by id. Ids count up from 0 over the whole session.
#[derive(Debug, Default, Archive, Serialize)]
pub struct TasksV1 {
    /// Id of the first task in this block.
    pub first_id: u32,
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// Process ids minus thread ids; signs folded.
    pub tid: Packed,
    /// Names, string ids.
    pub comm: Packed,
}

payload!(TasksV1, ArchivedTasksV1, Kind::TASKS, 1, count tgid, same tid, same comm);

impl TasksV1 {
    /// Builds the columns.
    pub fn from_rows(first_id: u32, rows: &[Task]) -> Self {
        Self {
            first_id,
            tgid: Packed::steps(rows.iter().map(|t| u64::from(t.tgid))),
            tid: rows.iter().map(|t| fold(u64::from(t.tgid).wrapping_sub(u64::from(t.tid)))).collect(),
            comm: rows.iter().map(|t| t.comm).collect(),
        }
    }
}

impl ArchivedTasksV1 {
    /// Lists the tasks; the first has id `first_id`.
    pub fn rows(&self) -> impl Iterator<Item = Task> + '_ {
        let (tgids, tids, comms) = (self.tgid.sums(), self.tid.values(), self.comm.values_u32());
        tgids.into_iter().zip(tids).zip(comms).map(|((tgid, tid), comm)| Task {
            tgid: narrow(tgid),
            tid: narrow(tgid.wrapping_sub(unfold(tid))),
            comm,
        })
    }
}
