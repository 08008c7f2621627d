//! Task identities, version 1.

use rkyv::{Archive, Serialize};

use super::payload;
use crate::block::Kind;

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

/// Tasks that samples name by id. Ids count up from 0 over the whole file.
#[derive(Debug, Default, Archive, Serialize)]
pub struct TasksV1 {
    /// Id of the first task in this block.
    pub first_id: u32,
    /// Process ids.
    pub tgid: Vec<u32>,
    /// Thread ids.
    pub tid: Vec<u32>,
    /// Names, string ids.
    pub comm: Vec<u32>,
}

payload!(TasksV1, ArchivedTasksV1, Kind::TASKS, 1, count tgid, same tid, same comm);

impl TasksV1 {
    /// Builds the columns.
    pub fn from_rows(first_id: u32, rows: &[Task]) -> Self {
        Self {
            first_id,
            tgid: rows.iter().map(|t| t.tgid).collect(),
            tid: rows.iter().map(|t| t.tid).collect(),
            comm: rows.iter().map(|t| t.comm).collect(),
        }
    }
}

impl ArchivedTasksV1 {
    /// Lists the tasks; the first has id `first_id`.
    pub fn rows(&self) -> impl Iterator<Item = Task> + '_ {
        self.tgid.iter().zip(self.tid.iter()).zip(self.comm.iter()).map(|((tgid, tid), comm)| Task {
            tgid: tgid.to_native(),
            tid: tid.to_native(),
            comm: comm.to_native(),
        })
    }
}
