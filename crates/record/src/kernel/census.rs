//! Reads the counters of processes at the interval of `--counters`, and chooses of which processes the recording has rows.

use std::collections::HashSet;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link};
use rustc_hash::FxHashMap;

use crate::kernel::wire::{self, Event, Process};
use crate::proc::cgroup::{self, Cgroup};
use crate::proc::counters::{self, Values};
use crate::settings::Target;
use crate::skeleton::types::process_record;
use crate::sys::clock;

/// The most processes of one reading.
pub(crate) const MAX_PROCESSES: usize = 256;
/// A reading takes at most this fraction of one CPU's time: with very many threads the interval grows.
const COST: u32 = 100;

/// The iterator over all processes, and its last results.
pub struct Census<'a> {
    /// `None` if counters are not recorded, or the kernel has no iterator.
    link: Option<Link>,
    target: &'a Target,
    every: Duration,
    next: Instant,
    before: Before,
    in_targets: InTargets,
}

/// One reading.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(crate) time_ns: u64,
    /// The number of processes that ran and were not chosen.
    pub(crate) left_out: u64,
    /// The counters of the machine.
    pub(crate) machine: Values,
}

/// The last reading of each process.
#[derive(Debug, Default)]
struct Before {
    processes: FxHashMap<(u32, u64), Known>,
    is_first: bool,
}

/// A process at the last reading.
#[derive(Debug, Clone)]
struct Known {
    cpu_ns: u64,
    record: Box<[u8]>,
    /// The recording has rows of that reading.
    is_told: bool,
}

impl<'a> Census<'a> {
    /// Makes readings of the processes of a target, `every` so often.
    pub(crate) fn new(link: Option<Link>, every: Duration, target: &'a Target) -> Self {
        let before = Before { is_first: true, ..Before::default() };
        Self { link, target, every, next: Instant::now(), before, in_targets: InTargets::default() }
    }

    /// Makes a reading now as if it were the first: another file begins.
    pub(crate) fn begin_file(&mut self) {
        self.before = Before { is_first: true, ..Before::default() };
        self.next = Instant::now();
    }

    /// If a reading is due, reads the machine, and gives `take` the records of the chosen processes, in the format of the ring.
    pub(crate) fn look(&mut self, is_last: bool, take: &mut impl FnMut(&[u8])) -> Option<Reading> {
        let (begun, cpu_ns) = (Instant::now(), clock::thread_cpu_ns());
        let link = self.link.as_ref().filter(|_| is_last || begun >= self.next)?;
        let mut bytes = Vec::new();
        // After an error, the records that were read before it are valid.
        let _ = Iter::new(link).map(|mut iter| iter.read_to_end(&mut bytes));
        let records = bytes.chunks_exact(size_of::<process_record>());
        let mut processes: Vec<(&[u8], Process)> = records
            .filter_map(|record| match wire::decode(record) {
                Ok(Event::Process(process)) => Some((record, process)),
                _ => None,
            })
            .collect();
        if let Target::Cgroups(cgroups) = self.target {
            self.in_targets.keep(cgroups, &mut processes);
        }
        let is_listed = matches!(self.target, Target::Processes(_) | Target::Threads(_) | Target::Command);
        let left_out = self.before.choose(&processes, is_listed && is_last, is_listed, take);
        let (time_ns, machine) = (clock::monotonic_ns(), counters::machine());
        self.next = begun + self.every.max(rest(cpu_ns));
        Some(Reading { time_ns, left_out, machine })
    }
}

/// Returns how long to wait from the begin of a reading, at which the thread had this much CPU time, to the next one.
pub(crate) fn rest(cpu_ns: u64) -> Duration {
    Duration::from_nanos(clock::thread_cpu_ns().saturating_sub(cpu_ns)) * COST
}

impl Before {
    /// Gives `take` the processes that ran since the last reading; with `all`, or at the first reading with `from_start`, the others, too.
    /// Returns how many it left out.
    fn choose(
        &mut self,
        processes: &[(&[u8], Process)],
        all: bool,
        from_start: bool,
        take: &mut impl FnMut(&[u8]),
    ) -> u64 {
        let tells_idle = all || from_start && self.is_first;
        let mut chosen: Vec<(u64, usize)> = Vec::new();
        for (position, (_, process)) in processes.iter().enumerate() {
            let known = self.processes.get(&process.key());
            // Of a process that was there before the first reading it is not known when it ran.
            let before_ns =
                if self.is_first { process.cpu_ns } else { known.map_or(0, |known| known.cpu_ns) };
            let ran_ns = process.cpu_ns.saturating_sub(before_ns);
            if ran_ns > 0 || tells_idle {
                chosen.push((ran_ns, position));
            }
        }
        chosen.sort_by_key(|(ran_ns, position)| (std::cmp::Reverse(*ran_ns), *position));
        let left_out = chosen.len().saturating_sub(MAX_PROCESSES);
        chosen.truncate(MAX_PROCESSES);
        let chosen: HashSet<usize> = chosen.into_iter().map(|(_, position)| position).collect();
        let mut now = FxHashMap::default();
        for (position, (record, process)) in processes.iter().enumerate() {
            let known = self.processes.remove(&process.key());
            let is_told = chosen.contains(&position);
            if is_told {
                // Differences need the reading before.
                known.iter().filter(|known| !known.is_told).for_each(|known| take(&known.record));
                take(record);
            }
            now.insert(process.key(), Known { cpu_ns: process.cpu_ns, record: (*record).into(), is_told });
        }
        self.processes = now;
        self.is_first = false;
        left_out as u64
    }
}

/// Which cgroups are in the targets.
#[derive(Debug, Default)]
struct InTargets {
    by_id: FxHashMap<u64, bool>,
}

impl InTargets {
    /// Keeps the processes that are in the targets, or below them.
    fn keep(&mut self, targets: &[Cgroup], processes: &mut Vec<(&[u8], Process)>) {
        if processes.iter().any(|(_, process)| !self.by_id.contains_key(&process.cgroup_id)) {
            self.by_id.clear();
            for target in targets {
                let root = std::fs::metadata(&target.folder).map(|meta| meta.ino());
                let below = cgroup::walk(&target.folder).into_iter().map(|(id, _)| id);
                self.by_id.extend(root.into_iter().chain(below).map(|id| (id, true)));
            }
            for (_, process) in processes.iter() {
                self.by_id.entry(process.cgroup_id).or_insert(false);
            }
        }
        processes.retain(|(_, process)| self.by_id.get(&process.cgroup_id) == Some(&true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chooses from processes of (process id, CPU time); returns the (process id, CPU time) that were taken, and how many were left out.
    fn chosen(before: &mut Before, processes: &[(u32, u64)], is_listed: bool) -> (Vec<(u32, u64)>, u64) {
        let processes: Vec<([u8; 12], Process)> = processes
            .iter()
            .map(|&(tgid, cpu_ns)| {
                let mut bytes = [0; 12];
                bytes[..4].copy_from_slice(&tgid.to_ne_bytes());
                bytes[4..].copy_from_slice(&cpu_ns.to_ne_bytes());
                (bytes, Process { tgid, cpu_ns, ..Process::default() })
            })
            .collect();
        let processes: Vec<(&[u8], Process)> =
            processes.iter().map(|(bytes, process)| (&bytes[..], *process)).collect();
        let mut taken = Vec::new();
        let left_out = before.choose(&processes, false, is_listed, &mut |record| {
            let (tgid, cpu_ns) = record.split_first_chunk().expect("twelve bytes");
            let cpu_ns = cpu_ns.first_chunk().expect("eight bytes");
            taken.push((u32::from_ne_bytes(*tgid), u64::from_ne_bytes(*cpu_ns)));
        });
        (taken, left_out)
    }

    #[test]
    fn a_process_is_told_when_it_ran_with_the_reading_before() {
        let mut before = Before { is_first: true, ..Before::default() };
        assert_eq!(chosen(&mut before, &[(1, 10), (2, 20)], false), (vec![], 0));
        assert_eq!(chosen(&mut before, &[(1, 10), (2, 25)], false), (vec![(2, 20), (2, 25)], 0));
        assert_eq!(
            chosen(&mut before, &[(1, 11), (2, 25), (3, 4)], false),
            (vec![(1, 10), (1, 11), (3, 4)], 0)
        );
        assert_eq!(chosen(&mut before, &[(1, 11), (2, 26)], false), (vec![(2, 25), (2, 26)], 0));
    }

    #[test]
    fn listed_processes_are_told_from_the_start() {
        let mut before = Before { is_first: true, ..Before::default() };
        assert_eq!(chosen(&mut before, &[(1, 10)], true), (vec![(1, 10)], 0));
        assert_eq!(chosen(&mut before, &[(1, 10), (2, 1)], true), (vec![(2, 1)], 0));
    }

    #[test]
    fn those_that_ran_longest_are_told_and_the_others_counted() {
        let mut before = Before::default();
        let many: Vec<(u32, u64)> = (0..MAX_PROCESSES as u32 + 44).map(|n| (n, u64::from(n) + 1)).collect();
        let (taken, left_out) = chosen(&mut before, &many, false);
        assert_eq!((taken.len(), left_out, taken[0]), (MAX_PROCESSES, 44, (44, 45)));
    }
}
