//! Reads the kernel's CPU time of every recorded thread once a second, also of threads that no sample hits.

use std::io::Read as _;
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link};
use rustc_hash::FxHashMap;

use crate::kernel::wire;
use crate::skeleton::types::cpu_time_record;

/// The interval between two readings.
const EVERY: Duration = Duration::from_secs(1);
/// A reading takes at most this fraction of one CPU's time: with very many threads the interval grows.
const COST: u32 = 100;

/// The iterator over all threads, and its last results.
pub(crate) struct Sweep {
    /// `None` if CPU time is not recorded.
    link: Option<Link>,
    next: Instant,
    /// The CPU time of each thread at the last reading. Most threads sleep, and are not reported again.
    before: FxHashMap<u64, u64>,
}

impl Sweep {
    pub(crate) fn new(link: Option<Link>) -> Self {
        Self { link, next: Instant::now(), before: FxHashMap::default() }
    }

    /// If a reading is due, gives `take` a record of each thread that has run since the last one, in the format of the ring.
    pub(crate) fn look(&mut self, is_last: bool, take: &mut impl FnMut(&[u8])) {
        let begun = Instant::now();
        let Some(link) = self.link.as_ref().filter(|_| is_last || begun >= self.next) else { return };
        let mut bytes = Vec::new();
        // After an error, the records that were read before it are valid.
        let _ = Iter::new(link).map(|mut iter| iter.read_to_end(&mut bytes));
        let mut now = FxHashMap::default();
        for record in bytes.chunks_exact(size_of::<cpu_time_record>()) {
            let Ok(wire::Event::CpuTime(reading)) = wire::decode(record) else { continue };
            if self.before.get(&reading.task) != Some(&reading.ran.all_ns) {
                take(record);
            }
            now.insert(reading.task, reading.ran.all_ns);
        }
        self.before = now;
        self.next = begun + EVERY.max(begun.elapsed() * COST);
    }
}
