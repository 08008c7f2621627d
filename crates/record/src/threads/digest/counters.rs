//! Reads the counters of the cgroups that were sampled, when those of the machine and of processes were read.

use std::cmp::Reverse;
use std::time::Instant;

use icecore_format::records::Counter;
use rustc_hash::FxHashMap;

use super::Digest;
use crate::kernel::census::{Reading, rest};
use crate::proc::counters;
use crate::sys::clock;

/// The most cgroups of one reading.
const MAX_CGROUPS: usize = 64;
/// The most cgroups whose samples are counted between two readings.
const MAX_COUNTED: usize = 4096;

/// What was sampled since the last reading.
#[derive(Debug, Default)]
pub(super) struct Counting {
    /// Samples by cgroup.
    samples: FxHashMap<u64, u64>,
    /// The next reading does not begin before, so that readings take at most the 100th part of one CPU's time.
    next: Option<Instant>,
}

impl Counting {
    /// Notes a sample in a cgroup.
    pub(super) fn hit(&mut self, cgroup_id: u64) {
        if self.samples.len() < MAX_COUNTED || self.samples.contains_key(&cgroup_id) {
            *self.samples.entry(cgroup_id).or_default() += 1;
        }
    }
}

impl Digest {
    /// Notes a reading, after its records of processes, and reads the cgroups that were sampled since the last one.
    pub(super) fn count(&mut self, reading: &Reading) {
        let mut values = reading.machine.clone();
        values.push((Counter::PROCESSES_LEFT_OUT, reading.left_out + self.tracker.end_reading()));
        let (begun, cpu_ns) = (Instant::now(), clock::thread_cpu_ns());
        if self.counting.next.is_none_or(|next| begun >= next) {
            values.push((Counter::CGROUPS_LEFT_OUT, self.read_cgroups()));
            self.counting.next = Some(begun + rest(cpu_ns));
        }
        self.asks.extend(self.conditions.reading(reading.time_ns, &values));
        self.tracker.machine(reading.time_ns, values);
    }

    /// Reads the cgroups with the most samples; returns how many others there are.
    fn read_cgroups(&mut self) -> u64 {
        let mut sampled: Vec<(u64, u64)> = self.counting.samples.drain().collect();
        sampled.sort_unstable_by_key(|(id, samples)| (Reverse(*samples), *id));
        // The root is the machine.
        let places = sampled.iter().filter_map(|(id, _)| self.cgroups.place(*id));
        let mut places: Vec<_> = places.filter(|(path, _)| **path != *b"/").collect();
        let left_out = places.len().saturating_sub(MAX_CGROUPS) as u64;
        places.truncate(MAX_CGROUPS);
        for (path, folder) in places {
            let values = counters::cgroup(&folder);
            self.tracker.counters_of_cgroup(clock::monotonic_ns(), &path, values);
        }
        left_out
    }
}
