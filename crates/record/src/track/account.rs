//! Turns readings of the kernel's account into rows: the CPU time of each thread since its last row.
//!
//! Pure. [`crate::kernel::sweep`] reads the accounts, and the BPF programs send that of a thread at its end.

use icecore_format::records::CpuTime;
use rustc_hash::FxHashMap;

use crate::kernel::wire::{Moment, Ran, Reading};

/// Rows are rounded to a microsecond; the next row contains the remainder.
const UNIT_NS: u64 = 1_000;

/// The number of threads that are remembered, about 150 bytes each; the CPU time of others is not reported. A thread whose end was lost
/// stays.
const MAX_THREADS: usize = 512 << 10;

/// The CPU time of all threads.
#[derive(Debug, Default)]
pub(crate) struct Account {
    /// When sampling began, or went on; `None` until that is known. CPU time before this moment does not count, and readings made before it are ignored.
    began_ns: Option<u64>,
    threads: FxHashMap<u64, Thread>,
    rows: Vec<CpuTime>,
}

/// The CPU time of a thread, as far as rows contain it.
#[derive(Debug)]
struct Thread {
    reported: Ran,
    reported_ns: u64,
    /// The reading at the end of the thread; its row is made when the kernel frees the thread.
    ending: Option<Reading>,
}

impl Account {
    /// Notes when sampling began, or went on after a pause. It must be called before readings arrive.
    pub(crate) fn begin(&mut self, began_ns: u64) {
        self.began_ns = Some(began_ns);
        self.end_threads();
        self.threads.clear();
    }

    /// Makes the rows of threads that have ended and are not freed.
    fn end_threads(&mut self) {
        let ended = self.threads.values_mut();
        self.rows.extend(ended.filter_map(|thread| thread.ending.take().and_then(|end| thread.tell(&end))));
    }

    /// Notes a reading. Readings of one thread must come in the order of time.
    pub(crate) fn read(&mut self, reading: &Reading) {
        let Some(began_ns) = self.began_ns.filter(|began_ns| reading.time_ns >= *began_ns) else { return };
        let fresh = || {
            if reading.start_ns < began_ns {
                Thread { reported: reading.ran, reported_ns: reading.time_ns, ending: None }
            } else {
                Thread { reported: Ran::default(), reported_ns: reading.start_ns, ending: None }
            }
        };
        if self.threads.len() >= MAX_THREADS && !self.threads.contains_key(&reading.task) {
            return;
        }
        let thread = self.threads.entry(reading.task).or_insert_with(fresh);
        if reading.ran.all_ns < thread.reported.all_ns {
            // The end of the previous thread was lost.
            *thread = fresh();
        }
        match reading.moment {
            Moment::Ending => thread.ending = Some(*reading),
            Moment::Running => self.rows.extend(thread.tell(reading)),
            Moment::Freed => {
                // A thread that runs a program takes the id of the first thread, which is freed with the thread's own id.
                let ended = thread.ending.unwrap_or(*reading);
                self.rows.extend(thread.tell(&Reading { tgid: ended.tgid, tid: ended.tid, ..*reading }));
                self.threads.remove(&reading.task);
            }
        }
    }

    /// Takes the new rows; the last call also takes those of threads that have ended and are not freed.
    pub(crate) fn take(&mut self, is_last: bool) -> Vec<CpuTime> {
        if is_last {
            self.end_threads();
        }
        self.rows.sort_unstable_by_key(|row| (row.time_ns, row.tgid, row.tid));
        std::mem::take(&mut self.rows)
    }

    /// Returns the time of the oldest row that was not taken.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.rows.first().map(|row| row.time_ns)
    }
}

impl Thread {
    /// Makes a row of the CPU time that no row contains yet; `None` if there is none.
    fn tell(&mut self, reading: &Reading) -> Option<CpuTime> {
        self.ending = None;
        let since = |now: u64, reported: &mut u64| {
            let whole = now.saturating_sub(*reported) / UNIT_NS * UNIT_NS;
            *reported += whole;
            whole
        };
        let (ran, reported) = (reading.ran, &mut self.reported);
        let row = CpuTime {
            time_ns: reading.time_ns,
            since_ns: self.reported_ns,
            tgid: reading.tgid,
            tid: reading.tid,
            ran_ns: since(ran.all_ns, &mut reported.all_ns),
            user_ns: since(ran.user_ns, &mut reported.user_ns),
            kernel_ns: since(ran.kernel_ns, &mut reported.kernel_ns),
        };
        let has_run = row.ran_ns + row.user_ns + row.kernel_ns > 0;
        if has_run {
            self.reported_ns = reading.time_ns;
        }
        has_run.then_some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1_000;

    fn reading(time_us: u64, start_us: u64, ran_us: u64) -> Reading {
        let ran = Ran { all_ns: ran_us * US, user_ns: 0, kernel_ns: 0 };
        let (time_ns, start_ns) = (time_us * US, start_us * US);
        Reading { moment: Moment::Running, time_ns, task: 9, start_ns, tgid: 7, tid: 8, ran }
    }

    fn reported(account: &mut Account, is_last: bool) -> Vec<(u64, u64, u64)> {
        let row = |row: CpuTime| (row.since_ns / US, row.time_ns / US, row.ran_ns / US);
        account.take(is_last).into_iter().map(row).collect()
    }

    fn from(began_ns: u64) -> Account {
        let mut account = Account::default();
        account.begin(began_ns);
        account
    }

    #[test]
    fn what_a_thread_ran_before_the_recording_is_not_told() {
        let mut account = from(100 * US);
        account.read(&reading(101, 3, 5_000));
        account.read(&reading(201, 3, 5_000));
        account.read(&reading(301, 3, 5_060));
        assert_eq!(reported(&mut account, false), [(101, 301, 60)]);
        let new = Reading { task: 10, ..reading(301, 150, 40) };
        account.read(&new);
        assert_eq!(reported(&mut account, false), [(150, 301, 40)]);
    }

    #[test]
    fn who_ended_before_the_recording_began_is_not_told() {
        let mut account = Account::default();
        account.read(&Reading { moment: Moment::Freed, ..reading(90, 3, 33) });
        account.begin(100 * US);
        account.read(&Reading { moment: Moment::Freed, task: 10, ..reading(95, 3, 33) });
        account.read(&Reading { moment: Moment::Ending, task: 11, ..reading(95, 3, 33) });
        account.read(&Reading { moment: Moment::Freed, task: 11, ..reading(105, 3, 33) });
        assert_eq!(reported(&mut account, true), []);
    }

    #[test]
    fn an_end_is_told_when_the_thread_is_freed_or_at_the_very_last() {
        let mut account = from(0);
        account.read(&reading(100, 50, 30));
        account.read(&Reading { moment: Moment::Ending, ..reading(120, 50, 40) });
        assert_eq!(reported(&mut account, false), [(50, 100, 30)]);
        account.read(&Reading { moment: Moment::Freed, ..reading(130, 50, 45) });
        assert_eq!(reported(&mut account, false), [(100, 130, 15)]);
        // Another thread at the same place.
        account.read(&Reading { moment: Moment::Ending, ..reading(150, 140, 8) });
        assert_eq!(reported(&mut account, true), [(140, 150, 8)]);
        assert!(account.take(true).is_empty());
    }

    #[test]
    fn a_first_thread_keeps_its_id_when_another_one_runs_a_program() {
        let mut account = from(0);
        account.read(&Reading { moment: Moment::Ending, ..reading(120, 50, 40) });
        account.read(&Reading { moment: Moment::Freed, tid: 9, ..reading(130, 50, 45) });
        let rows = account.take(false);
        assert_eq!((rows.len(), rows[0].tid, rows[0].ran_ns), (1, 8, 45 * US));
    }

    #[test]
    fn what_a_thread_ran_in_a_pause_is_not_told() {
        let mut account = from(0);
        account.read(&reading(100, 50, 30));
        account.read(&Reading { moment: Moment::Ending, task: 10, ..reading(110, 50, 20) });
        account.begin(500 * US);
        account.read(&reading(501, 50, 400));
        account.read(&reading(600, 50, 460));
        assert_eq!(reported(&mut account, true), [(50, 100, 30), (50, 110, 20), (501, 600, 60)]);
    }

    #[test]
    fn a_thread_whose_end_was_lost_is_not_taken_for_the_next_one() {
        let mut account = from(0);
        account.read(&reading(100, 50, 30));
        account.read(&reading(200, 150, 20));
        assert_eq!(reported(&mut account, false), [(50, 100, 30), (150, 200, 20)]);
    }
}
