//! Turns readings of counters into rows.
//!
//! Pure. [`crate::kernel::census`] reads the processes, and the BPF programs send the counters of a process at its end.

use icecore_format::records::{Counter, CounterValue, Owner};

use crate::kernel::census::MAX_PROCESSES;
use crate::kernel::wire::Process;

/// This many rows are written even if the block is young: about a MiB of memory.
const MAX_ROWS: usize = 32 << 10;
/// The processes that have ended are reduced to [`MAX_PROCESSES`] whenever so many wait for the next reading.
const MAX_ENDED: usize = 4 * MAX_PROCESSES;

/// Rows that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    rows: Vec<CounterValue>,
    of_cgroups: Vec<OfCgroup>,
    /// Processes that have ended since the last reading.
    ended: Vec<Process>,
    /// How many of them were left out.
    left_out: u64,
}

/// What was read of a cgroup.
#[derive(Debug)]
struct OfCgroup {
    time_ns: u64,
    path: Vec<u8>,
    values: Vec<(Counter, u64)>,
}

impl Counters {
    /// Notes the counters of a process.
    pub(crate) fn process(&mut self, process: &Process) {
        if !process.has_ended {
            self.tell(process);
            return;
        }
        self.ended.push(*process);
        if self.ended.len() >= MAX_ENDED {
            self.leave_out();
        }
    }

    /// Notes counters of a cgroup.
    pub(crate) fn of_cgroup(&mut self, time_ns: u64, path: &[u8], values: Vec<(Counter, u64)>) {
        self.of_cgroups.push(OfCgroup { time_ns, path: path.to_vec(), values });
    }

    /// Notes counters of the machine or a process.
    pub(crate) fn values(
        &mut self,
        time_ns: u64,
        owner: Owner,
        values: impl IntoIterator<Item = (Counter, u64)>,
    ) {
        let row = |(counter, value)| CounterValue { time_ns, owner, counter, value };
        self.rows.extend(values.into_iter().map(row));
    }

    /// Makes rows of the processes that have ended since the last reading; returns how many it left out.
    pub(crate) fn end_reading(&mut self) -> u64 {
        self.leave_out();
        let ended = std::mem::take(&mut self.ended);
        ended.iter().for_each(|process| self.tell(process));
        std::mem::take(&mut self.left_out)
    }

    /// Takes the rows up to a moment. `string` returns the id of a path in the file.
    pub(crate) fn take(&mut self, until_ns: u64, mut string: impl FnMut(&[u8]) -> u32) -> Vec<CounterValue> {
        for OfCgroup { time_ns, path, values } in self.of_cgroups.extract_if(.., |it| it.time_ns <= until_ns)
        {
            let owner = Owner::Cgroup(string(&path));
            let row = |(counter, value)| CounterValue { time_ns, owner, counter, value };
            self.rows.extend(values.into_iter().map(row));
        }
        self.rows.sort_by_key(|row| (row.time_ns, row.owner, row.counter));
        let later = self.rows.partition_point(|row| row.time_ns <= until_ns);
        let later = self.rows.split_off(later);
        std::mem::replace(&mut self.rows, later)
    }

    /// Returns true if so many rows wait that they should be written.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= MAX_ROWS
    }

    /// Returns the time of the oldest row that was not taken.
    pub(crate) fn first_ns(&self) -> Option<u64> {
        self.rows.first().map(|row| row.time_ns)
    }

    /// Keeps the processes with the most memory.
    fn leave_out(&mut self) {
        self.ended.sort_by_key(|process| std::cmp::Reverse(process.peak));
        self.left_out += self.ended.len().saturating_sub(MAX_PROCESSES) as u64;
        self.ended.truncate(MAX_PROCESSES);
    }

    fn tell(&mut self, process: &Process) {
        let Process { sums, disk, calls, .. } = *process;
        let values = [
            (Counter::CPU, sums.map(|_| process.cpu_ns)),
            (Counter::CPU_USER, sums.map(|sums| sums.user_ns)),
            (Counter::CPU_SYSTEM, sums.map(|sums| sums.system_ns)),
            (Counter::MEMORY, process.memory),
            (Counter::MEMORY_PEAK, process.peak),
            (Counter::MINOR_FAULTS, sums.map(|sums| sums.minor_faults)),
            (Counter::MAJOR_FAULTS, sums.map(|sums| sums.major_faults)),
            (Counter::SWITCHES, sums.map(|sums| sums.switches)),
            (Counter::INVOLUNTARY_SWITCHES, sums.map(|sums| sums.involuntary_switches)),
            (Counter::DISK_READ, disk.map(|disk| disk.read)),
            (Counter::DISK_WRITTEN, disk.map(|disk| disk.written)),
            (Counter::CALLS_READ, calls.map(|calls| calls.read)),
            (Counter::CALLS_WRITTEN, calls.map(|calls| calls.written)),
            // The threads of a process that ends are gone.
            (Counter::THREADS, (!process.has_ended).then_some(u64::from(process.threads))),
        ];
        let known = values.into_iter().filter_map(|(counter, value)| Some((counter, value?)));
        self.values(process.time_ns, Owner::Process(process.tgid), known);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::wire::{Bytes, Sums};

    fn process(tgid: u32, peak: u64) -> Process {
        Process { time_ns: 5, tgid, threads: 3, peak: Some(peak), ..Process::default() }
    }

    #[test]
    fn a_process_has_rows_of_what_is_known_alone() {
        let mut counters = Counters::default();
        counters.process(&process(7, 8192));
        let all = Process {
            memory: Some(1),
            cpu_ns: 9,
            sums: Some(Sums { switches: 4, ..Sums::default() }),
            calls: Some(Bytes { read: 1, written: 2 }),
            ..process(8, 3)
        };
        counters.process(&all);
        let taken = counters.take(u64::MAX, |_| 0);
        let of = |tgid| -> Vec<(String, u64)> {
            let rows = taken.iter().filter(|row| row.owner == Owner::Process(tgid));
            rows.map(|row| (row.counter.name(), row.value)).collect()
        };
        assert_eq!(of(7), [("memory_peak".to_owned(), 8192), ("threads".to_owned(), 3)]);
        assert_eq!(of(8).len(), 12, "all but the bytes of disks");
        assert_eq!(of(8)[0], ("cpu".to_owned(), 9));
        assert!(counters.take(u64::MAX, |_| 0).is_empty());
    }

    #[test]
    fn of_many_that_end_those_with_the_most_memory_are_told() {
        let mut counters = Counters::default();
        for n in 0..2_000 {
            counters.process(&Process { has_ended: true, ..process(n, u64::from(n)) });
            assert!(counters.ended.len() < MAX_ENDED);
        }
        assert_eq!(counters.end_reading(), 2_000 - MAX_PROCESSES as u64);
        let peaks: Vec<u64> = counters.take(u64::MAX, |_| 0).iter().map(|row| row.value).collect();
        assert_eq!((peaks.len(), peaks.iter().min()), (MAX_PROCESSES, Some(&(2_000 - MAX_PROCESSES as u64))));
        assert_eq!(counters.end_reading(), 0);
    }
}
