//! Events that wait until both sources have reported everything before them. They have names instead of ids: which file they will be in,
//! and with which ids, is decided when they are settled.

use std::ops::Range;

use icecore_elf::Avma;
use icecore_format::records::{Change, FieldKind, Lifecycle, Mapping, RateChange, Sample, Wait};

use super::live::{Name, Path};
use crate::kernel::wire::Reading;
use crate::track::snapshots::Taken;
use crate::track::spaces::Region;

/// The events in the order in which they arrived.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: Vec<Waiting>,
    /// Frames of the samples that wait, leaf first, kernel before user.
    frames: Vec<Avma>,
}

/// An event that waits for its turn.
#[derive(Debug)]
struct Waiting {
    time_ns: u64,
    what: What,
}

/// What happened.
#[derive(Debug)]
pub(super) enum What {
    Change {
        row: Lifecycle,
        comm: Name,
        ends_process: bool,
    },
    /// A task is in another cgroup now: a thread, or with `tid` = `tgid` a process with all its threads.
    Cgroup {
        time_ns: u64,
        tgid: u32,
        tid: u32,
        path: Path,
    },
    Mapping {
        row: Mapping,
        region: Region,
    },
    /// The complete list of a process's executable ranges, in order, read from `/proc`.
    Only {
        tgid: u32,
        ranges: Vec<Range<Avma>>,
    },
    Sample(Unplaced),
    CpuTime(Reading),
    Rate(RateChange),
}

/// A sample whose frames are still addresses, and whose row has neither task nor stacks; the ranges are positions in the frames of the queue.
#[derive(Debug)]
pub(super) struct Unplaced {
    pub(super) row: Sample,
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) comm: Name,
    pub(super) kernel: Range<usize>,
    pub(super) user: Range<usize>,
    pub(super) snapshot: Option<Box<Taken>>,
    /// The wait that the sample is of, if it is of one.
    pub(super) wait: Option<Box<WaitOf>>,
    /// The field that the sample has, if it has one.
    pub(super) field: Option<Box<FieldOf>>,
}

/// A wait whose row has no tasks yet.
#[derive(Debug)]
pub(super) struct WaitOf {
    pub(super) row: Wait,
    pub(super) waker: Option<Waker>,
}

/// The task that ended a wait.
#[derive(Debug, Clone)]
pub(super) struct Waker {
    pub(super) tgid: u32,
    pub(super) tid: u32,
    pub(super) comm: Name,
}

/// A field of a sample.
#[derive(Debug)]
pub(super) struct FieldOf {
    pub(super) kind: FieldKind,
    pub(super) number: u64,
    pub(super) text: Name,
}

impl Waiting {
    /// Returns the key of the order of time. At equal times an exec comes before the mappings of the new program,
    /// whose address space it empties, and before the renaming that belongs to it.
    fn turn(&self) -> (u64, u8) {
        let rank = match self.what {
            What::Change { row: Lifecycle { change: Change::EXEC, .. }, .. } => 0,
            What::Change { .. } | What::Only { .. } | What::Cgroup { .. } => 1,
            What::Mapping { .. } => 2,
            What::Sample(_) => 3,
            What::CpuTime(_) | What::Rate(_) => 4,
        };
        (self.time_ns, rank)
    }
}

impl Backlog {
    pub(super) fn push(&mut self, time_ns: u64, what: What) {
        self.waiting.push(Waiting { time_ns, what });
    }

    /// Takes the events up to a moment, in the order of time.
    pub(super) fn take_until(&mut self, until_ns: u64) -> impl Iterator<Item = What> + use<> {
        self.waiting.sort_by_key(Waiting::turn);
        let ready = self.waiting.partition_point(|waiting| waiting.time_ns <= until_ns);
        let later = self.waiting.split_off(ready);
        std::mem::replace(&mut self.waiting, later).into_iter().map(|waiting| waiting.what)
    }

    /// Returns times and processes of the waiting samples.
    pub(super) fn samples(&self) -> impl Iterator<Item = (u64, u32)> {
        self.waiting.iter().filter_map(|waiting| match &waiting.what {
            What::Sample(sample) => Some((waiting.time_ns, sample.tgid)),
            _ => None,
        })
    }

    /// Returns the images of mappings that wait.
    pub(super) fn images(&self) -> impl Iterator<Item = u32> {
        self.waiting.iter().filter_map(|waiting| match &waiting.what {
            What::Mapping { row, .. } => Some(row.image),
            _ => None,
        })
    }

    /// Returns the waiting events that begin an address space of a process or map into it, in the order of time. `shares` returns true
    /// for processes that have the same address space.
    pub(super) fn of(&self, tgid: u32, shares: impl Fn(u32) -> bool) -> Vec<&What> {
        let is_of = |what: &What| match what {
            What::Change { row, .. } if [Change::FORK, Change::SHARES].contains(&row.change) => {
                row.tgid == tgid && row.parent_tgid != tgid
            }
            What::Change { row, .. } => row.tgid == tgid && row.change == Change::EXEC,
            What::Mapping { row, .. } => row.tgid == tgid || shares(row.tgid),
            What::Only { tgid: of, .. } => *of == tgid || shares(*of),
            What::Sample(_) | What::CpuTime(_) | What::Cgroup { .. } | What::Rate(_) => false,
        };
        let mut found: Vec<&Waiting> = self.waiting.iter().filter(|waiting| is_of(&waiting.what)).collect();
        found.sort_by_key(|waiting| waiting.turn());
        found.into_iter().map(|waiting| &waiting.what).collect()
    }

    /// Returns the earliest time of a waiting event.
    pub(super) fn first_ns(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.time_ns).min()
    }

    /// Returns the frames of a sample.
    pub(super) fn frames(&self, of: &Range<usize>) -> &[Avma] {
        &self.frames[of.clone()]
    }

    /// Stores the frames of a sample that will wait.
    pub(super) fn note_frames(&mut self, leaf_first: impl Iterator<Item = Avma>) -> Range<usize> {
        let from = self.frames.len();
        self.frames.extend(leaf_first);
        from..self.frames.len()
    }

    /// Drops the frames of samples that are settled.
    pub(super) fn drop_frames(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        for waiting in &mut self.waiting {
            if let What::Sample(Unplaced { kernel, user, .. }) = &mut waiting.what {
                for range in [kernel, user] {
                    let from = self.frames.len();
                    self.frames.extend_from_slice(&frames[range.clone()]);
                    *range = from..self.frames.len();
                }
            }
        }
    }
}
