//! What the recorder has used: for its budget.

use std::cell::RefCell;

use anyhow::bail;
use icecore_text::quantity;
use rustc_hash::FxHashMap;

use crate::foreign::Keeper;
use crate::kernel::feed::Feed;
use crate::settings::Budget;
use crate::sys::clock;
use crate::sys::usage::{self, BpfRuns};
use crate::threads::counts::Counts;
use crate::threads::tempo::Used;

/// Reads it.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    budget: Budget,
    keeper: &'a Keeper,
    counts: &'a Counts,
    /// The CPU time of the processes that read files, also of those that have ended, ns.
    readers: RefCell<FxHashMap<u32, u64>>,
}

impl<'a> Meter<'a> {
    pub(super) fn new(budget: Budget, keeper: &'a Keeper, counts: &'a Counts) -> Self {
        Self { budget, keeper, counts, readers: RefCell::default() }
    }

    /// Returns what the recorder has used, as far as there is a budget of it.
    pub(super) fn used(&self, sampler: &Feed<'_>) -> Used {
        let Budget { cpu, memory, disk } = self.budget;
        let samples = cpu.map_or(BpfRuns::default(), |_| sampler.runs());
        let of_own = || clock::own_cpu_ns() + self.of_readers() + samples.ns + sampler.runs_of_tasks().ns;
        Used {
            cpu_ns: cpu.map_or(0, |_| of_own()),
            runs: samples.count,
            disk_bytes: disk.map_or(0, |_| self.counts.written_bytes()),
            memory_bytes: memory.map_or(0, |_| usage::rss_bytes()),
        }
    }

    fn of_readers(&self) -> u64 {
        let mut readers = self.readers.borrow_mut();
        for pid in self.keeper.processes() {
            let cpu_ns = readers.entry(pid).or_default();
            *cpu_ns = clock::process_cpu_ns(pid).max(*cpu_ns);
        }
        readers.values().sum()
    }
}

/// Of a budget of memory, at most this part may be in use before sampling begins.
const AT_BEGIN: f64 = 0.75;

/// Checks that a budget of memory leaves room for samples.
///
/// # Errors
/// If it does not; the message says what would.
pub(super) fn check_memory(budget: Budget, used_bytes: u64) -> anyhow::Result<()> {
    let Some(limit) = budget.memory else { return Ok(()) };
    let needed = used_bytes as f64 / AT_BEGIN;
    if needed > limit as f64 {
        let mib = (needed / f64::from(1 << 20)).ceil();
        bail!(
            "cannot keep within memory={}: the recorder has {} before it samples; allow memory={mib}M, or give a smaller --ring",
            quantity::bytes(limit),
            quantity::bytes(used_bytes)
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_leaves_no_room_is_refused_and_the_remedy_fits() {
        let budget = |mib: u64| Budget { memory: Some(mib << 20), ..Budget::default() };
        assert!(
            check_memory(budget(64), 48 << 20).is_ok() && check_memory(Budget::default(), u64::MAX).is_ok()
        );
        let refused = check_memory(budget(32), 40 << 20).expect_err("it has more");
        assert!(
            refused.to_string().contains("has 40.0 MiB before it samples; allow memory=54M"),
            "{refused}"
        );
        assert!(check_memory(budget(54), 40 << 20).is_ok());
    }
}
