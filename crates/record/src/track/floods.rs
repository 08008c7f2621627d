//! Processes that map code faster than anybody can follow. A program of any user can: without a limit, it would take the time
//! in which samples of all others are worked through.

use rustc_hash::{FxHashMap, FxHashSet};

/// What one process may map: programs have some hundred pieces of code at their start, and a runtime that maps what it makes
/// piece by piece makes some hundred a second.
const OF_ONE: Limit = Limit { at_once: 16 << 10, a_second: 1_000 };
/// What all may: a build starts a thousand programs a second, each with 30 pieces.
const OF_ALL: Limit = Limit { at_once: 256 << 10, a_second: 64 << 10 };
/// Processes that are remembered before all are forgotten.
const REMEMBERED: usize = 64 << 10;

/// Mappings that are followed.
#[derive(Debug, Clone, Copy)]
struct Limit {
    at_once: u64,
    a_second: u64,
}

/// What may still be mapped.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: u64,
    /// Up to when what a second gives is in it, ns `CLOCK_MONOTONIC`.
    given_ns: u64,
}

/// Decides which reports of mappings are taken.
#[derive(Debug, Default)]
pub(crate) struct Floods {
    all: Option<Allowance>,
    by_tgid: FxHashMap<u32, Allowance>,
    named: FxHashSet<u32>,
    /// What was not told yet: reports that were refused, and processes that were not named before, and since when.
    refused: u64,
    new: Vec<(u32, u64)>,
}

impl Floods {
    /// Tells whether a mapping that a process has made is followed; if not, it is counted.
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

    /// Has a process named of which mappings are missing.
    pub(crate) fn name(&mut self, tgid: u32, time_ns: u64) {
        if self.named.len() >= REMEMBERED {
            self.named.clear();
        }
        if self.named.insert(tgid) {
            self.new.push((tgid, time_ns));
        }
    }

    /// Takes the number of reports that were refused since it was taken, and the processes that are to be named, and since when.
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
