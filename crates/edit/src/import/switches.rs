//! Turns switches of threads into waits: for how long a thread did not run, with the stack with which it left its CPU.
//!
//! ```text
//! sched_switch: A ─► B    A begins to wait, with this stack; the wait of B ends here
//! ```
//!
//! That needs every switch of the whole machine: perf recorded it with `-a`, each one (`-c 1`, the default of tracepoints), and lost
//! nothing. Otherwise there are no waits, and a note says why.

use icecore_format::records::{
    CpuScope, EventMeaning, EventV1, Sample, SessionV1, TargetKind, Wait, WaitFlags, WaitState, WokenBy,
};

use super::perf_data::{PerfData, PerfSample, Switch};
use icecore_profile::map::Map;

/// The event of the waits.
const NAME: &str = "off-cpu";

/// Threads that do not run, and the waits that are not written yet.
#[derive(Debug)]
pub(super) struct Switches {
    /// The event that samples switches, a position in the attributes; `None` if there are no waits to find.
    attr: Option<u32>,
    /// The event of the waits, a position in those of the session.
    event: u8,
    /// By thread: how it left its CPU.
    away: Map<u32, Away>,
    waits: Vec<Wait>,
}

/// How a thread left its CPU.
#[derive(Debug, Clone, Copy)]
struct Away {
    tgid: u32,
    row: Sample,
    state: WaitState,
}

impl Switches {
    /// Prepares to find waits, and describes their event in the session, if perf recorded what they need; notes why not.
    pub(super) fn new(
        data: &PerfData,
        session: &mut SessionV1,
        has_losses: bool,
        most_events: usize,
    ) -> Self {
        let attr = data.switches();
        let whole = session.target == TargetKind::SYSTEM && session.cpu_scope == CpuScope::ALL;
        let why = match attr {
            None => None,
            Some(attr) if data.attrs[attr as usize].rate() != (0, 1) => {
                Some("perf did not record each of them (-c 1)")
            }
            Some(_) if !whole => Some("perf did not record those of all threads (-a)"),
            Some(_) if has_losses => Some("perf lost records"),
            Some(_) if session.events.len() >= most_events => Some("there are too many events"),
            Some(_) => None,
        };
        if let Some(why) = why {
            session.notes.push(format!("switches of threads are no waits here: {why}"));
        }
        let attr = attr.filter(|_| why.is_none());
        let event = session.events.len() as u8;
        if attr.is_some() {
            let (unit, meaning) = ("ns".to_owned(), EventMeaning::OFF_CPU);
            session.events.push(EventV1 {
                name: NAME.into(),
                unit,
                meaning,
                period: 1,
                ..EventV1::default()
            });
        }
        Self { attr, event, away: Map::default(), waits: Vec::new() }
    }

    /// Returns the resolution of the times of samples, ns: rows of waits find their samples by times, and have microseconds.
    pub(super) fn unit_ns(&self) -> u32 {
        if self.attr.is_some() { 1_000 } else { 1 }
    }

    /// Reads the switch of a sample.
    pub(super) fn switch(&self, data: &PerfData, attr: u32, sample: &PerfSample<'_>) -> Option<Switch> {
        if self.attr == Some(attr) { data.features.switch?.switch(sample.raw) } else { None }
    }

    /// Notes a switch of the thread of a sample; returns the sample of the wait that ends there, if its
    /// begin is known, and its process.
    pub(super) fn note(
        &mut self,
        switch: Switch,
        (tgid, tid): (u32, u32),
        row: &Sample,
    ) -> Option<(u32, Sample)> {
        // The idle thread waits for nothing, and a thread that ends runs no more.
        if let Some(state) = state_of(switch.prev_state).filter(|_| tid != 0) {
            self.away.insert(tid, Away { tgid, row: *row, state });
        }
        let away = self.away.remove(&switch.next_tid)?;
        Some(self.end(away, row.time_ns, row.cpu, WaitFlags::default()))
    }

    /// Ends all waits that go on when the recording ends; returns their processes and samples.
    pub(super) fn close(&mut self, time_ns: u64) -> Vec<(u32, Sample)> {
        let mut away: Vec<Away> = std::mem::take(&mut self.away).into_values().collect();
        away.sort_by_key(|away| (away.row.time_ns, away.row.task));
        away.into_iter().map(|away| self.end(away, time_ns, away.row.cpu, WaitFlags::NOT_ENDED)).collect()
    }

    fn end(
        &mut self,
        Away { tgid, row, state }: Away,
        ended_ns: u64,
        cpu: u16,
        flags: WaitFlags,
    ) -> (u32, Sample) {
        let woken_by = if state == WaitState::RUNNABLE { WokenBy::NOBODY } else { WokenBy::UNKNOWN };
        self.waits.push(Wait {
            time_ns: ended_ns,
            task: row.task,
            event: self.event,
            state,
            flags,
            woken_by,
            began_ns: row.time_ns,
            ended_ns,
            waker_task: None,
            waker_time_ns: 0,
        });
        let weight = ended_ns.saturating_sub(row.time_ns).max(1);
        (tgid, Sample { time_ns: ended_ns, cpu, event: self.event, weight, ..row })
    }

    /// Takes the waits that ended since the last call, by the times of their samples.
    pub(super) fn take(&mut self) -> Vec<Wait> {
        std::mem::take(&mut self.waits)
    }
}

/// Returns what a thread does that has left its CPU; `None` if it has ended.
///
/// # Source   Linux `include/trace/events/sched.h`: `sched_switch`; bits as `task_state_index` makes them, and 0x100 for a preemption
fn state_of(prev_state: u64) -> Option<WaitState> {
    const PREEMPTED: u64 = 0x100;
    const ENDED: u64 = 0x10 | 0x20;
    match prev_state {
        _ if prev_state & ENDED != 0 => None,
        0 => Some(WaitState::RUNNABLE),
        _ if prev_state & PREEMPTED != 0 => Some(WaitState::RUNNABLE),
        1 => Some(WaitState::SLEEPING),
        2 => Some(WaitState::UNINTERRUPTIBLE),
        4 | 8 => Some(WaitState::STOPPED),
        0x80 => Some(WaitState::IDLE),
        _ => Some(WaitState::UNKNOWN),
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{StackRepair, WalkEnd};

    use super::*;

    fn switches() -> Switches {
        Switches { attr: Some(0), event: 1, away: Map::default(), waits: Vec::new() }
    }

    fn switch(prev_state: u64, next_tid: u32) -> Switch {
        Switch { prev_state, next_tid }
    }

    /// The sample of a switch by a task.
    fn row(time_ns: u64, task: u32) -> Sample {
        Sample {
            time_ns,
            cpu: 3,
            event: 0,
            user_end: WalkEnd::UNSAID,
            kernel_end: WalkEnd::NONE,
            task,
            user_stack: 10 + task,
            kernel_stack: 0,
            weight: 1,
            snapshot: 0,
            repair: StackRepair::NONE,
        }
    }

    #[test]
    fn a_thread_waits_from_the_switch_away_from_it_to_the_one_to_it() {
        let mut switches = switches();
        // Thread 7 sleeps, then 8 is preempted for it, then 7 ends, and 8 goes on.
        assert_eq!(switches.note(switch(1, 8), (7, 7), &row(1_000_000, 70)), None, "8 may have begun now");
        let (tgid, waited) = switches.note(switch(0x100, 7), (9, 8), &row(3_000_000, 80)).expect("7 goes on");
        assert_eq!((tgid, waited.time_ns, waited.weight, waited.event), (7, 3_000_000, 2_000_000, 1));
        assert_eq!((waited.task, waited.user_stack), (70, 80), "the stack is that of the one that waited");
        let (tgid, waited) = switches.note(switch(0x10, 8), (7, 7), &row(4_000_000, 70)).expect("8 goes on");
        assert_eq!((tgid, waited.task, waited.weight), (9, 80, 1_000_000));
        // Nobody waits any more; the idle thread never does.
        assert_eq!(switches.note(switch(0, 8), (0, 0), &row(5_000_000, 1)), None);
        assert_eq!(switches.note(switch(2, 0), (9, 8), &row(6_000_000, 80)), None);
        assert_eq!(switches.note(switch(0, 7), (0, 0), &row(6_500_000, 1)), None, "7 has ended");
        let last = switches.close(10_000_000);
        assert_eq!(last.iter().map(|(_, row)| (row.task, row.weight)).collect::<Vec<_>>(), [(80, 4_000_000)]);
        let told = switches
            .take()
            .into_iter()
            .map(|wait| (wait.task, wait.state, wait.woken_by, wait.flags, wait.ended_ns - wait.began_ns));
        let (none, open) = (WaitFlags::default(), WaitFlags::NOT_ENDED);
        let expected = [
            (70, WaitState::SLEEPING, WokenBy::UNKNOWN, none, 2_000_000),
            (80, WaitState::RUNNABLE, WokenBy::NOBODY, none, 1_000_000),
            (80, WaitState::UNINTERRUPTIBLE, WokenBy::UNKNOWN, open, 4_000_000),
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn what_a_thread_does_is_what_the_tracepoint_says() {
        let states = [0, 1, 2, 4, 8, 0x80, 0x100, 0x101].map(state_of);
        let names = states.map(|state| state.map_or_else(|| "ended".to_owned(), WaitState::name));
        let expected =
            ["runnable", "sleeping", "uninterruptible", "stopped", "stopped", "idle", "runnable", "runnable"];
        assert_eq!(names, expected);
        assert_eq!([0x10, 0x20, 0x40].map(state_of), [None, None, Some(WaitState::UNKNOWN)]);
    }
}
