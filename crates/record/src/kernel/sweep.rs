//! Looks at the kernel's account of every recorded thread once a second: also of those that no sample hits.

use std::io::Read as _;
use std::time::{Duration, Instant};

use libbpf_rs::{Iter, Link};
use rustc_hash::FxHashMap;

use crate::kernel::skeleton::types::cpu_time_record;
use crate::kernel::wire;

/// How often.
const EVERY: Duration = Duration::from_secs(1);
/// With very many threads, less often: a look takes so small a part of the time of one CPU.
const COST: u32 = 100;

/// The iterator over all threads, and what it told.
pub(crate) struct Sweep {
    /// None where accounts are not asked for.
    link: Option<Link>,
    next: Instant,
    /// What each thread had run at the last look: most threads sleep, and are not told again.
    before: FxHashMap<u64, u64>,
}

impl Sweep {
    pub(crate) fn new(link: Option<Link>) -> Self {
        Self { link, next: Instant::now(), before: FxHashMap::default() }
    }

    /// Appends the records of threads that have run since the last look, as if they came from the ring, if it is time.
    pub(crate) fn look(&mut self, is_last: bool, take: &mut impl FnMut(&[u8])) {
        let begun = Instant::now();
        let Some(link) = self.link.as_ref().filter(|_| is_last || begun >= self.next) else { return };
        let mut bytes = Vec::new();
        // What was read by then is right, too.
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
