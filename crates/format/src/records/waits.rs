//! What a report should know of waits besides their stacks, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{payload, references};
use crate::kind::Kind;
use crate::numbers::numbers;

/// Resolution on disk, ns; that of samples.
const UNIT_NS: u64 = 1_000;

numbers! {
    /// What a thread was doing while it waited; the numbers are on disk.
    #[derive(Default)]
    WaitState(u8), others "state",
    /// The recorder does not know it.
    UNKNOWN = 0,
    /// It slept until something happens, and a signal could end that (`TASK_INTERRUPTIBLE`).
    SLEEPING = 1,
    /// It slept, and no signal could end that: usually for a disk or a lock (`TASK_UNINTERRUPTIBLE`).
    UNINTERRUPTIBLE = 2,
    /// A signal or a debugger had stopped it.
    STOPPED = 3,
    /// It could run, and no CPU was free: it was preempted, or had not run yet after it was woken.
    RUNNABLE = 4,
    /// It slept as uninterruptible threads do, but counts for no load (`TASK_IDLE`): threads of the kernel without work.
    IDLE = 5,
}

/// What was not seen of a wait; bits, which are on disk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct WaitFlags(pub u8);

impl WaitFlags {
    /// The wait began before the recording: its times begin with the recording.
    pub const BEGAN_BEFORE: Self = Self(1);
    /// The wait had not ended when the recording ended: its times end with the recording.
    pub const NOT_ENDED: Self = Self(2);

    /// Returns true if all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these bits and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

numbers! {
    /// What ended a wait; the numbers are on disk.
    #[derive(Default)]
    WokenBy(u8), others "waker",
    /// The recorder does not know it.
    UNKNOWN = 0,
    /// A thread, in its own code or in a system call.
    THREAD = 1,
    /// A hard interrupt, on whatever thread it hit.
    HARD_INTERRUPT = 2 "hardirq",
    /// A soft interrupt, likewise: timers, network.
    SOFT_INTERRUPT = 3 "softirq",
    /// Nothing: the thread was ready to run all the time.
    NOBODY = 4,
}

/// One wait that is a sample: `time_ns`, `task` and `event` are those of the sample, and name it.
///
/// # Units   times ns `CLOCK_MONOTONIC`, on disk rounded down to a microsecond, as those of samples are
///
/// A wait of *d* ns is a sample with probability min(1, *d* / *T*), and the sample weighs max(*d*, *T*), where *T* is the period of
/// its event. So the sum of weights is, on average, the time that threads waited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// Time of the sample.
    pub time_ns: u64,
    /// Which thread waited, a task id.
    pub task: u32,
    /// Which event, a position in the session's events: `off-cpu` or `run-delay`.
    pub event: u8,
    /// What the thread was doing.
    pub state: WaitState,
    /// What was not seen of the wait.
    pub flags: WaitFlags,
    /// What ended the wait.
    pub woken_by: WokenBy,
    /// When the wait began.
    pub began_ns: u64,
    /// When it ended; not before it began.
    pub ended_ns: u64,
    /// What ended it, a task id; an interrupt is process 0 and thread 0. `None` if it is unknown.
    pub waker_task: Option<u32>,
    /// Time of the sample of the event `waker` that has its stack; 0 if there is none. That sample has the task `waker_task`.
    pub waker_time_ns: u64,
}

references!(Wait {
    time_ns: time,
    task: id(Tasks),
    event: event,
    state: plain,
    flags: plain,
    woken_by: plain,
    began_ns: time,
    ended_ns: time,
    waker_task: optional_id(Tasks),
    waker_time_ns: time_or_0,
});

/// Waits, ordered by the times of their samples.
#[derive(Debug, Default, Archive, Serialize)]
pub struct WaitsV1 {
    /// Earliest time of a sample, ns.
    pub first_ns: u64,
    /// Latest time of a sample, ns.
    pub last_ns: u64,
    /// Resolution of the columns of times, ns.
    pub unit_ns: u32,
    /// Times of samples, as differences from the row before (the first: from `first_ns`), in units.
    pub after: Packed,
    /// Task ids.
    pub task: Packed,
    /// Events.
    pub event: Packed,
    /// Numbers of [`WaitState`].
    pub state: Packed,
    /// Bits of [`WaitFlags`].
    pub flags: Packed,
    /// Numbers of [`WokenBy`].
    pub woken_by: Packed,
    /// Times of samples minus the ends of waits, in units; signs folded.
    pub ended: Packed,
    /// Lengths of waits, in units.
    pub lasted: Packed,
    /// 0 without a waker, else 1 + its task id.
    pub waker_task: Packed,
    /// 0 without a sample of the waker, else 1 + (the end of the wait minus the time of that sample, in units, sign folded).
    pub waker: Packed,
}

payload!(
    WaitsV1, ArchivedWaitsV1, Kind::WAITS, 1,
    count after, same task, same event, same state, same flags, same woken_by, same ended, same lasted,
    same waker_task, same waker,
    span first_ns last_ns
);

impl WaitsV1 {
    /// Builds the columns; `rows` are ordered by the times of their samples. Times are rounded down to a microsecond.
    pub fn from_rows(rows: &[Wait]) -> Self {
        let units = |ns: u64| ns / UNIT_NS;
        let first = rows.first().map_or(0, |row| units(row.time_ns));
        let mut before = first;
        let after = |row: &Wait| {
            let now = units(row.time_ns);
            now.saturating_sub(std::mem::replace(&mut before, now))
        };
        let minus = |from: u64, ns: u64| fold(units(from).wrapping_sub(units(ns)));
        let waker = |row: &Wait| match row.waker_time_ns {
            0 => 0,
            ns => minus(row.ended_ns, ns).saturating_add(1),
        };
        Self {
            first_ns: first * UNIT_NS,
            last_ns: rows.last().map_or(0, |row| units(row.time_ns) * UNIT_NS),
            unit_ns: UNIT_NS as u32,
            after: rows.iter().map(after).collect(),
            task: rows.iter().map(|row| row.task).collect(),
            event: rows.iter().map(|row| u64::from(row.event)).collect(),
            state: rows.iter().map(|row| u64::from(row.state.0)).collect(),
            flags: rows.iter().map(|row| u64::from(row.flags.0)).collect(),
            woken_by: rows.iter().map(|row| u64::from(row.woken_by.0)).collect(),
            ended: rows.iter().map(|row| minus(row.time_ns, row.ended_ns)).collect(),
            lasted: rows.iter().map(|row| units(row.ended_ns).saturating_sub(units(row.began_ns))).collect(),
            waker_task: rows.iter().map(|row| row.waker_task.map_or(0, |task| u64::from(task) + 1)).collect(),
            waker: rows.iter().map(waker).collect(),
        }
    }
}

impl ArchivedWaitsV1 {
    /// Lists the rows in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Wait> + '_ {
        let unit_ns = u64::from(self.unit_ns.to_native());
        let ns = move |units: u64| units.saturating_mul(unit_ns);
        // A difference of units back in time; never before 0.
        let back = move |from_ns: u64, folded: u64| {
            let units = unfold(folded) as i64;
            let distance = ns(units.unsigned_abs());
            if units < 0 { from_ns.saturating_add(distance) } else { from_ns.saturating_sub(distance) }
        };
        let mut time_ns = self.first_ns.to_native();
        let [after, task, event, state] =
            [&self.after, &self.task, &self.event, &self.state].map(|column| column.values());
        let [flags, woken_by, ended] =
            [&self.flags, &self.woken_by, &self.ended].map(|column| column.values());
        let [lasted, waker_task, waker] =
            [&self.lasted, &self.waker_task, &self.waker].map(|column| column.values());
        (0..after.len()).map(move |i| {
            time_ns = time_ns.saturating_add(ns(after[i]));
            let ended_ns = back(time_ns, ended[i]);
            Wait {
                time_ns,
                task: narrow(task[i]),
                event: byte(event[i]),
                state: WaitState(byte(state[i])),
                flags: WaitFlags(flags[i] as u8),
                woken_by: WokenBy(byte(woken_by[i])),
                began_ns: ended_ns.saturating_sub(ns(lasted[i])),
                ended_ns,
                waker_task: waker_task[i].checked_sub(1).map(narrow),
                waker_time_ns: waker[i].checked_sub(1).map_or(0, |folded| back(ended_ns, folded)),
            }
        })
    }
}

/// Makes the largest number of what does not fit.
fn byte(value: u64) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    fn wait(time_ns: u64, lasted_ns: u64) -> Wait {
        Wait {
            time_ns,
            task: 3,
            event: 1,
            state: WaitState::SLEEPING,
            flags: WaitFlags::default(),
            woken_by: WokenBy::THREAD,
            began_ns: time_ns.saturating_sub(lasted_ns),
            ended_ns: time_ns,
            waker_task: Some(0),
            waker_time_ns: time_ns - 4_000,
        }
    }

    fn back(rows: &[Wait]) -> Vec<Wait> {
        let bytes = WaitsV1::from_rows(rows).to_bytes().expect("fits");
        WaitsV1::view(&bytes).expect("own bytes").rows().collect()
    }

    #[test]
    fn rows_read_back_to_the_microsecond() {
        let open = Wait {
            state: WaitState(77),
            flags: WaitFlags::BEGAN_BEFORE.with(WaitFlags::NOT_ENDED),
            woken_by: WokenBy::UNKNOWN,
            ended_ns: 9_500_000,
            began_ns: 1_000_000,
            waker_task: None,
            waker_time_ns: 0,
            ..wait(9_000_000, 0)
        };
        let late =
            Wait { waker_time_ns: 9_001_000, waker_task: Some(u32::MAX - 1), ..wait(9_000_000, 8_000_000) };
        let rows = [wait(5_000_000, 3_000_000), wait(5_000_000, 0), open, late];
        assert_eq!(back(&rows), rows);
        let fine = WaitsV1::from_rows(&[wait(5_000_999, 1_999)]);
        assert_eq!((fine.span_ns(), fine.items()), ((5_000_000, 5_000_000), 1));
        assert_eq!(back(&[wait(5_000_999, 1_999)]), [wait(5_000_000, 1_000)]);
        assert!(back(&[]).is_empty());
    }

    #[test]
    fn bits_and_names_are_those_of_the_numbers() {
        let both = WaitFlags::BEGAN_BEFORE.with(WaitFlags::NOT_ENDED);
        assert!(both.has(WaitFlags::NOT_ENDED) && !WaitFlags::NOT_ENDED.has(both));
        assert_eq!((0..7).map(|n| WaitState(n).name()).collect::<Vec<_>>()[5..], ["idle", "state_6"]);
        assert_eq!((0..6).map(|n| WokenBy(n).name()).collect::<Vec<_>>()[4..], ["nobody", "waker_5"]);
    }

    proptest::proptest! {
        #[test]
        fn no_column_of_another_program_overflows(
            first_ns: u64, unit_ns: u32, after: u64, ended: u64, lasted: u64, waker: u64, task: u64
        ) {
            let one = |value: u64| [value].into_iter().collect::<Packed>();
            let payload = WaitsV1 {
                first_ns, last_ns: first_ns, unit_ns, after: one(after), task: one(task), event: one(task),
                state: one(task), flags: one(task), woken_by: one(task), ended: one(ended),
                lasted: one(lasted), waker_task: one(task), waker: one(waker),
            };
            let bytes = payload.to_bytes().expect("fits");
            let rows: Vec<Wait> = WaitsV1::view(&bytes).expect("own bytes").rows().collect();
            proptest::prop_assert!(rows.len() == 1 && rows[0].began_ns <= rows[0].ended_ns);
        }
    }
}
