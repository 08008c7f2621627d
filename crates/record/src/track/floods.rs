//! Limits how fast processes may map code. A program of any user can flood the recorder with mappings: without a limit, samples of
//! all other programs would have to wait.

use rustc_hash::{FxHashMap, FxHashSet};

/// The limit of one process. A program maps some hundred pieces of code at its start, and a runtime that maps its JIT code piece by
/// piece maps some hundred a second.
const OF_ONE: Limit = Limit { at_once: 16 << 10, a_second: 1_000 };
/// The limit of all processes together. A build starts a thousand programs a second, each with 30 mappings.
const OF_ALL: Limit = Limit { at_once: 256 << 10, a_second: 64 << 10 };
/// The number of processes that are remembered before all are forgotten.
const REMEMBERED: usize = 64 << 10;

/// How many mappings are followed.
#[derive(Debug, Clone, Copy)]
struct Limit {
    at_once: u64,
    a_second: u64,
}

/// How many more mappings are followed.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: u64,
    /// The time up to which the allowance of each second was added, ns `CLOCK_MONOTONIC`.
    given_ns: u64,
}

/// Decides which reports of mappings are taken.
#[derive(Debug, Default)]
pub(crate) struct Floods {
    all: Option<Allowance>,
    by_tgid: FxHashMap<u32, Allowance>,
    named: FxHashSet<u32>,
    /// Not yet reported: the number of refused reports, and the newly named processes with the time since which reports are missing.
    refused: u64,
    new: Vec<(u32, u64)>,
}

impl Floods {
    /// Returns true if a new mapping of a process is followed; otherwise counts it.
    pub(crate) fn takes(&mut self, tgid: u32, time_ns: u64) -> bool {
        if self.by_tgid.len() >= REMEMBERED {
            self.by_tgid.clear();
        }
        let full = |limit: Limit| move || Allowance { left: limit.at_once, given_ns: time_ns };
        let own = self.by_tgid.entry(tgid).or_insert_with(full(OF_ONE));
        let all = self.all.get_or_insert_with(full(OF_ALL));
        let is_taken = own.take(OF_ONE, time_ns) && all.take(OF_ALL, time_ns);
        if !is_taken {
            self.refused += 1;
            self.name(tgid, time_ns);
        }
        is_taken
    }

    /// Notes that mappings of a process are missing, so that the recording names the process.
    pub(crate) fn name(&mut self, tgid: u32, time_ns: u64) {
        if self.named.len() >= REMEMBERED {
            self.named.clear();
        }
        if self.named.insert(tgid) {
            self.new.push((tgid, time_ns));
        }
    }

    /// Takes the number of reports that were refused since the last call, and the processes to name with the times since which reports are missing.
    pub(crate) fn take(&mut self) -> (u64, Vec<(u32, u64)>) {
        (std::mem::take(&mut self.refused), std::mem::take(&mut self.new))
    }
}

impl Allowance {
    fn take(&mut self, limit: Limit, time_ns: u64) -> bool {
        let passed_ns = time_ns.saturating_sub(self.given_ns);
        let given = u128::from(passed_ns) * u128::from(limit.a_second) / 1_000_000_000;
        if given > 0 {
            self.left = limit.at_once.min(self.left.saturating_add(given as u64));
            self.given_ns = time_ns;
        }
        let left = self.left.checked_sub(1);
        self.left = left.unwrap_or(0);
        left.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn who_maps_too_fast_is_named_once_and_others_go_on() {
        let mut floods = Floods::default();
        let mut mapped =
            |tgid, count: u64, time_ns| (0..count).filter(|_| floods.takes(tgid, time_ns)).count() as u64;
        assert_eq!(mapped(1, 2 * OF_ONE.at_once, 0), OF_ONE.at_once);
        assert_eq!(mapped(2, 500, 0), 500);
        assert_eq!(mapped(1, 2 * OF_ONE.a_second, SECOND), OF_ONE.a_second);
        assert_eq!(mapped(1, 10, SECOND - 1), 0, "another CPU tells later");
        assert_eq!(floods.take(), (OF_ONE.at_once + OF_ONE.a_second + 10, vec![(1, 0)]));
        assert_eq!(floods.take(), (0, vec![]));
    }

    #[test]
    fn many_processes_together_have_a_limit_too() {
        let mut floods = Floods::default();
        let taken = (0..2 * OF_ALL.at_once as u32).filter(|tgid| floods.takes(*tgid, 0)).count() as u64;
        assert_eq!(taken, OF_ALL.at_once);
        assert!(floods.by_tgid.len() <= REMEMBERED && floods.named.len() <= REMEMBERED);
    }
}
