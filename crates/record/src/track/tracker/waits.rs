//! Makes samples of waits. The kernel stack of a wait comes when it ends, and the user stack when the thread returns to user space; what a
//! thread waits for on the way there has the same user stack.

use icecore_elf::Avma;
use icecore_format::records::{Sample, StackRepair, Wait, WaitFlags, WaitState, WalkEnd, WokenBy};
use rustc_hash::FxHashMap;

use super::live::Name;
use super::waiting::{Unplaced, WaitOf, Waker, What};
use super::{SAMPLE_UNIT_NS, Tracker, kept_ns};
use crate::kernel::wire::{self, Frames};
use crate::track::snapshots::Taken;

/// The most waits that wait for their user stack. Beyond it, all of them become samples without one.
const MAX_DUE: usize = 16 << 10;

/// States of a task in the kernel (include/linux/sched.h).
const INTERRUPTIBLE: u32 = 1;
const UNINTERRUPTIBLE: u32 = 2;
const STOPPED_OR_TRACED: u32 = 4 | 8;
const NO_LOAD: u32 = 0x400;
const UNKNOWN: u32 = u32::MAX;

/// Waits whose user stack has not come yet, by thread.
#[derive(Debug, Default)]
pub(super) struct Due {
    of_threads: FxHashMap<u32, Vec<Ended>>,
    count: usize,
}

/// A wait that has ended.
#[derive(Debug)]
struct Ended {
    tgid: u32,
    tid: u32,
    comm: Name,
    waker: Option<Waker>,
    cpu: u16,
    epoch: u64,
    time_ns: u64,
    kernel_end: u8,
    kernel: Vec<Avma>,
    /// Weight and row of each part that is a sample.
    parts: Vec<(u64, Wait)>,
}

impl Due {
    fn put(&mut self, wait: Ended) {
        self.count += 1;
        self.of_threads.entry(wait.tid).or_default().push(wait);
    }

    fn take(&mut self, tid: u32) -> Vec<Ended> {
        let waits = self.of_threads.remove(&tid).unwrap_or_default();
        self.count -= waits.len();
        waits
    }

    fn take_all(&mut self) -> Vec<Ended> {
        self.count = 0;
        let mut waits: Vec<Ended> = self.of_threads.drain().flat_map(|(_, waits)| waits).collect();
        waits.sort_by_key(|wait| (wait.time_ns, wait.tid));
        waits
    }
}

impl Tracker {
    /// Notes a wait.
    pub(super) fn wait_of(&mut self, wait: &wire::Wait<'_>) {
        let head = &wait.head;
        // An interrupt has thread 0, and a sample.
        let has_waker = wait.waker_ns != 0 || wait.waker_tid != 0;
        let (tgid, tid, comm) = (wait.waker_tgid, wait.waker_tid, wait.waker_comm.into());
        let waker = has_waker.then_some(Waker { tgid, tid, comm });
        let row = Wait {
            time_ns: 0,
            task: 0,
            event: 0,
            state: state_of(wait.state),
            flags: flags_of(wait.began_before && wait.ready_ns <= wait.began_ns, wait.has_not_ended),
            woken_by: WokenBy(wait.woken_by),
            began_ns: wait.began_ns,
            ended_ns: wait.ready_ns,
            waker_task: None,
            waker_time_ns: if wait.waker_ns == 0 { 0 } else { kept_ns(wait.waker_ns) },
        };
        let delay = Wait {
            event: self.pace.events.run_delay,
            state: WaitState::RUNNABLE,
            began_ns: wait.ready_ns,
            ended_ns: head.time_ns,
            ..row
        };
        let blocked = Wait {
            event: self.pace.events.off_cpu,
            // Otherwise it waits for a CPU still, and for nothing else.
            flags: flags_of(wait.began_before, wait.has_not_ended && wait.ready_ns >= head.time_ns),
            ..row
        };
        let mut parts = vec![(wait.blocked_weight, blocked), (wait.delay_weight, delay)];
        parts.retain(|(weight, _)| *weight > 0);
        let ended = Ended {
            tgid: head.tgid,
            tid: head.tid,
            comm: head.comm.into(),
            waker,
            cpu: head.cpu as u16,
            epoch: wait.epoch,
            time_ns: head.time_ns,
            kernel_end: wait.kernel_end,
            kernel: whole_stack(&wait.inner, &wait.kernel),
            parts,
        };
        if !wait.has_stack {
            return self.waited(ended, None);
        }
        self.due.put(ended);
        if self.due.count > MAX_DUE {
            self.end_all_waits();
        }
    }

    /// Notes the user stack of the waits of a thread.
    pub(super) fn stack_of_waits(&mut self, stack: &wire::Sample<'_>) {
        let snapshot = self.arriving.take(stack.snapshot);
        let waits = self.due.take(stack.head.tid);
        let mut sharing = waits.iter().filter(|wait| wait.epoch == stack.weight).count() as u64;
        for wait in waits {
            if wait.epoch != stack.weight {
                self.waited(wait, None);
                continue;
            }
            // Time, task and event name a sample, so those that share a stack stand one after the other, the last where it was read.
            sharing -= 1;
            let time_ns = stack.head.time_ns.saturating_sub(sharing * u64::from(SAMPLE_UNIT_NS));
            self.waited(wait, Some((time_ns, stack, snapshot.as_ref())));
        }
    }

    /// Makes samples of a thread's waits whose user stack will not come.
    pub(super) fn end_waits(&mut self, tid: u32) {
        self.due.take(tid).into_iter().for_each(|wait| self.waited(wait, None));
    }

    /// Makes samples of all waits whose user stack has not come.
    pub(crate) fn end_all_waits(&mut self) {
        self.due.take_all().into_iter().for_each(|wait| self.waited(wait, None));
    }

    /// Makes the samples of a wait. With a user stack they count from the moment at which it was read, as the address space is that of this
    /// moment.
    fn waited(&mut self, ended: Ended, stack: Option<(u64, &wire::Sample<'_>, Option<&Taken>)>) {
        let (time_ns, user_end) = match stack {
            Some((time_ns, stack, _)) => (time_ns, WalkEnd(stack.user_end)),
            None => (ended.time_ns, WalkEnd::NONE),
        };
        for (weight, wait) in ended.parts {
            let row = Sample {
                time_ns,
                cpu: ended.cpu,
                event: wait.event,
                user_end,
                kernel_end: WalkEnd(ended.kernel_end),
                task: 0,
                user_stack: 0,
                kernel_stack: 0,
                weight,
                snapshot: 0,
                repair: StackRepair::NONE,
            };
            let kernel = self.waiting.note_frames(ended.kernel.iter().copied());
            let user = stack.iter().flat_map(|(_, stack, _)| stack.user.leaf_first());
            let user = self.waiting.note_frames(user);
            let snapshot = stack.and_then(|(_, _, taken)| taken.cloned()).map(Box::new);
            let wait = Wait { time_ns: kept_ns(time_ns), ..wait };
            let wait = Some(Box::new(WaitOf { row: wait, waker: ended.waker.clone() }));
            let (tgid, tid, comm) = (ended.tgid, ended.tid, ended.comm.clone());
            self.wait(
                time_ns,
                What::Sample(Unplaced { row, tgid, tid, comm, kernel, user, snapshot, wait, field: None }),
            );
        }
    }
}

/// Joins the innermost frames of a stack with the stack from which the kernel has left some of them out.
fn whole_stack(inner: &Frames<'_>, shown: &Frames<'_>) -> Vec<Avma> {
    let mut shown = shown.leaf_first().peekable();
    let (mut whole, mut joined) = (Vec::new(), 0);
    for frame in inner.leaf_first() {
        whole.push(frame);
        if shown.next_if_eq(&frame).is_some() {
            joined = whole.len();
        }
    }
    whole.truncate(joined);
    whole.extend(shown);
    whole
}

fn flags_of(began_before: bool, has_not_ended: bool) -> WaitFlags {
    let mut flags = WaitFlags::default();
    if began_before {
        flags = flags.with(WaitFlags::BEGAN_BEFORE);
    }
    if has_not_ended {
        flags = flags.with(WaitFlags::NOT_ENDED);
    }
    flags
}

fn state_of(kernel: u32) -> WaitState {
    match kernel {
        0 => WaitState::RUNNABLE,
        UNKNOWN => WaitState::UNKNOWN,
        bits if bits & INTERRUPTIBLE != 0 => WaitState::SLEEPING,
        bits if bits & UNINTERRUPTIBLE != 0 && bits & NO_LOAD != 0 => WaitState::IDLE,
        bits if bits & UNINTERRUPTIBLE != 0 => WaitState::UNINTERRUPTIBLE,
        bits if bits & STOPPED_OR_TRACED != 0 => WaitState::STOPPED,
        _ => WaitState::UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::wire::{Event, Head};
    use crate::settings::{Pace, WaitEvents};

    const TID: u32 = 11;

    fn tracker() -> Tracker {
        let events = WaitEvents { off_cpu: 1, run_delay: 2 };
        Tracker::new(Pace {
            flush_ns: 1_000,
            flush_bytes: 1 << 20,
            period_ns: 1_000_000,
            events,
            fields: Vec::new(),
        })
    }

    fn head(time_ns: u64) -> Head<'static> {
        Head { time_ns, cpu: 1, tgid: 10, tid: TID, comm: b"worker", cgroup_id: 0 }
    }

    /// Notes a wait that ends at a moment, of 2,000 ns until it was woken and 1,000 ns for a CPU.
    fn wait(tracker: &mut Tracker, ended_ns: u64, epoch: u64, has_stack: bool) {
        let kernel: Vec<u8> = ended_ns.to_ne_bytes().to_vec();
        tracker.event(&Event::Wait(wire::Wait {
            head: head(ended_ns),
            began_ns: ended_ns - 3_000,
            ready_ns: ended_ns - 1_000,
            blocked_weight: 2_000,
            delay_weight: 10_000,
            epoch,
            waker_ns: 0,
            waker_tgid: 0,
            waker_tid: 0,
            waker_comm: b"",
            state: 1,
            woken_by: 0,
            began_before: false,
            has_not_ended: false,
            has_stack,
            kernel_end: 1,
            inner: Frames::from_bytes(&[]),
            kernel: Frames::from_bytes(&kernel),
        }));
    }

    #[test]
    fn what_the_kernel_leaves_out_stands_before_the_rest_of_a_stack() {
        let whole = |inner: &[u64], rest: &[u64]| {
            let bytes =
                |frames: &[u64]| frames.iter().flat_map(|frame| frame.to_ne_bytes()).collect::<Vec<_>>();
            let (inner, rest) = (bytes(inner), bytes(rest));
            whole_stack(&Frames::from_bytes(&inner), &Frames::from_bytes(&rest))
        };
        assert_eq!(whole(&[1, 2, 3, 4], &[3, 4, 5]), [1, 2, 3, 4, 5].map(Avma));
        assert_eq!(whole(&[1, 3, 2, 4, 2], &[3, 4, 5]), [1, 3, 2, 4, 5].map(Avma), "also between others");
        assert_eq!(whole(&[3, 4], &[3, 4, 5]), [3, 4, 5].map(Avma), "nothing is left out");
        assert_eq!(whole(&[], &[3]), [3].map(Avma));
        assert_eq!(whole(&[1, 2], &[3]), [3].map(Avma), "of another stack, or too deep");
        assert_eq!(whole(&[1, 2], &[]), [], "there is no stack");
    }

    fn stack(tracker: &mut Tracker, time_ns: u64, epoch: u64, user: u64) {
        let frames = user.to_ne_bytes();
        tracker.event(&Event::WaitStack(wire::Sample {
            head: head(time_ns),
            weight: epoch,
            kernel_end: 0,
            user_end: 1,
            kernel: Frames::from_bytes(&[]),
            user: Frames::from_bytes(&frames),
            snapshot: 0,
            interpreted: 0,
            field: &[],
            event: 0,
        }));
    }

    /// Returns time, event, weight and whether there is a user stack, of each sample.
    fn samples(tracker: &mut Tracker) -> Vec<(u64, u8, u64, bool)> {
        tracker.settle(u64::MAX);
        assert_eq!(tracker.file.samples.len(), tracker.file.waits.len(), "each sample has its row");
        for (sample, wait) in tracker.file.samples.iter().zip(&tracker.file.waits) {
            assert_eq!(
                (kept_ns(sample.time_ns), sample.event, sample.task),
                (wait.time_ns, wait.event, wait.task)
            );
        }
        let names: std::collections::BTreeSet<_> =
            tracker.file.waits.iter().map(|wait| (wait.time_ns, wait.task, wait.event)).collect();
        assert_eq!(names.len(), tracker.file.waits.len(), "no two waits have one name");
        let row = |sample: &Sample| (sample.time_ns, sample.event, sample.weight, sample.user_stack != 0);
        tracker.file.samples.drain(..).map(|sample| row(&sample)).collect()
    }

    #[test]
    fn both_parts_of_a_wait_have_the_stack_that_comes_later() {
        let mut tracker = tracker();
        wait(&mut tracker, 5_000, 7, true);
        assert_eq!(samples(&mut tracker), [], "the stack has not come");
        stack(&mut tracker, 6_000, 7, 0x5000);
        assert_eq!(samples(&mut tracker), [(6_000, 1, 2_000, true), (6_000, 2, 10_000, true)]);
        let [blocked, delay] = tracker.file.waits[..] else { panic!("two") };
        assert_eq!((blocked.state, blocked.began_ns, blocked.ended_ns), (WaitState::SLEEPING, 2_000, 4_000));
        assert_eq!((delay.state, delay.began_ns, delay.ended_ns), (WaitState::RUNNABLE, 4_000, 5_000));
    }

    #[test]
    fn waits_on_the_way_to_user_space_share_its_stack_and_others_do_not() {
        let mut tracker = tracker();
        // The stack of the first was lost; the others wait in one system call.
        for (ended_ns, epoch) in [(5_000, 6), (10_000, 7), (15_000, 7)] {
            wait(&mut tracker, ended_ns, epoch, true);
        }
        stack(&mut tracker, 20_000, 7, 0x5000);
        let found = samples(&mut tracker);
        let of = |time_ns: u64, has_stack: bool| {
            found.iter().filter(|row| (row.0, row.3) == (time_ns, has_stack)).count()
        };
        assert_eq!([of(5_000, false), of(19_000, true), of(20_000, true)], [2; 3]);
    }

    #[test]
    fn a_stack_that_will_not_come_is_not_waited_for() {
        let mut tracker = tracker();
        wait(&mut tracker, 5_000, 7, false);
        assert_eq!(samples(&mut tracker).len(), 2, "the kernel said so");
        tracker.file.waits.clear();
        wait(&mut tracker, 5_000, 7, true);
        tracker.event(&Event::Exit { head: head(6_000), whole_group: false, status: 0 });
        assert_eq!(samples(&mut tracker).len(), 2, "the thread has ended");
        tracker.file.waits.clear();
        for number in 0..=MAX_DUE as u64 {
            wait(&mut tracker, 10_000 + number * 3_000, 7, true);
        }
        assert_eq!(samples(&mut tracker).len(), 2 * (MAX_DUE + 1), "they are bounded");
        assert_eq!(tracker.due.count, 0);
    }
}
