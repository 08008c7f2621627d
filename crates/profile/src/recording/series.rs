//! Recordings one after the other: their order, one clock for all of them, and the time between them that nobody recorded.
//!
//! Sessions of one boot of a host have one clock, `CLOCK_MONOTONIC`, whatever was done to the clock on the wall. It stands still while
//! the machine sleeps, so behind a gap the clock on the wall may say that more time has passed, and never that less has:
//!
//! ```text
//! own clock   ├── a ──┤├── b ──┤            ├── c ──┤        b touches a; c does not touch b
//! one clock   ├── a ──┤├── b ──┤                  ├── c ──┤  the machine slept, or its clock was set forward
//! ```
//!
//! Sessions of different boots or hosts have only the clock on the wall in common.

/// The longest time between the end of a session and the start of the next one that is no gap, ns.
pub const TOUCHING_NS: u64 = 50_000_000;

/// When a session ran, and by which clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run<'a> {
    /// Host name; empty if unknown.
    pub host: &'a str,
    /// Which boot of the host; empty if unknown.
    pub boot_id: &'a str,
    /// Start, ns `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End, by the same clock: that of the receipt; the last sample if there is none.
    pub end_ns: u64,
    /// Start, ns since 1970-01-01 UTC.
    pub start_unix_ns: u64,
}

/// A session on the clock that it shares with the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
    /// Start, ns since 1970-01-01 UTC, by that clock.
    pub start_ns: u64,
    /// The first session of the same boot of the host, a position.
    pub boot: usize,
    /// The first of the sessions that follow each other without a gap up to this one, a position.
    pub chain: usize,
}

/// Time between two sessions of a host in which nobody recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// The session that ended last before it, a position.
    pub after: usize,
    /// The session that began then, a position.
    pub before: usize,
    /// Its length.
    pub ns: u64,
}

/// Puts sessions on one clock.
///
/// # Shape   one output per input, same order
pub fn place(runs: &[Run<'_>]) -> Vec<Placed> {
    let alone = |(at, run): (usize, &Run<'_>)| Placed { start_ns: run.start_unix_ns, boot: at, chain: at };
    let mut placed: Vec<Placed> = runs.iter().enumerate().map(alone).collect();
    let mut order: Vec<usize> = (0..runs.len()).filter(|at| runs[*at].has_boot()).collect();
    order.sort_by_key(|at| (runs[*at].host, runs[*at].boot_id, runs[*at].start_ns, *at));
    for of_boot in order.chunk_by(|a, b| runs[*a].is_of_boot(&runs[*b])) {
        let mut of_chain = of_boot[0];
        // From the own clock to the common one, and how far sessions reach on the own clock.
        let (mut offset, mut reach_ns) = (runs[of_chain].offset(), 0u64);
        for at in of_boot {
            let run = &runs[*at];
            if *at != of_boot[0] && run.start_ns.saturating_sub(reach_ns) > TOUCHING_NS {
                offset = offset.max(run.offset());
                of_chain = *at;
            }
            reach_ns = reach_ns.max(run.end_ns);
            let start_ns = (i128::from(run.start_ns) + offset).clamp(0, i128::from(u64::MAX)) as u64;
            placed[*at] = Placed { start_ns, boot: of_boot[0], chain: of_chain };
        }
    }
    placed
}

/// Returns the positions of sessions in the order of time.
pub fn order(runs: &[Run<'_>]) -> Vec<usize> {
    let placed = place(runs);
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|at| (placed[*at].start_ns, *at));
    order
}

/// Finds the gaps between the sessions of each host, in the order of time. Sessions without a host or a date have none.
pub fn gaps(runs: &[Run<'_>]) -> Vec<Gap> {
    let placed = place(runs);
    let mut known: Vec<usize> =
        (0..runs.len()).filter(|at| !runs[*at].host.is_empty() && runs[*at].start_unix_ns > 0).collect();
    known.sort_by_key(|at| (runs[*at].host, placed[*at].start_ns, *at));
    let mut gaps = Vec::new();
    for of_host in known.chunk_by(|a, b| runs[*a].host == runs[*b].host) {
        let end_ns = |at: usize| placed[at].start_ns.saturating_add(runs[at].len_ns());
        let mut last = of_host[0];
        for at in &of_host[1..] {
            let ns = placed[*at].start_ns.saturating_sub(end_ns(last));
            if ns > TOUCHING_NS {
                gaps.push(Gap { after: last, before: *at, ns });
            }
            if end_ns(*at) >= end_ns(last) {
                last = *at;
            }
        }
    }
    gaps.sort_by_key(|gap| (placed[gap.before].start_ns, gap.before));
    gaps
}

impl Run<'_> {
    fn has_boot(&self) -> bool {
        !self.host.is_empty() && !self.boot_id.is_empty() && self.start_unix_ns > 0
    }

    fn is_of_boot(&self, other: &Self) -> bool {
        (self.host, self.boot_id) == (other.host, other.boot_id)
    }

    fn len_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// What the clock on the wall is ahead of the own one.
    fn offset(&self) -> i128 {
        i128::from(self.start_unix_ns) - i128::from(self.start_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn run<'a>(boot_id: &'a str, start_s: u64, end_s: u64, unix_s: u64) -> Run<'a> {
        let [start_ns, end_ns, start_unix_ns] = [start_s, end_s, unix_s].map(|seconds| seconds * S);
        Run { host: "h", boot_id, start_ns, end_ns, start_unix_ns }
    }

    fn starts(runs: &[Run<'_>]) -> Vec<u64> {
        place(runs).iter().map(|placed| placed.start_ns / S).collect()
    }

    #[test]
    fn sessions_that_touch_are_on_one_clock_whatever_the_wall_says() {
        // The clock on the wall was set back by 30 s, and forward by 100 s.
        let runs = [run("b", 10, 20, 1_000), run("b", 20, 30, 980), run("b", 30, 40, 1_120)];
        assert_eq!(starts(&runs), [1_000, 1_010, 1_020]);
        assert!(gaps(&runs).is_empty());
        assert!(place(&runs).iter().all(|placed| (placed.boot, placed.chain) == (0, 0)));
    }

    #[test]
    fn a_gap_is_more_than_50_ms_between_the_end_of_all_and_the_next_start() {
        let late = |ns: u64| Run { start_ns: 20 * S + ns, end_ns: 30 * S, ..run("b", 20, 30, 1_010) };
        assert!(gaps(&[run("b", 10, 20, 1_000), late(TOUCHING_NS)]).is_empty());
        let found = gaps(&[run("b", 10, 20, 1_000), late(TOUCHING_NS + 1)]);
        assert_eq!(found, [Gap { after: 0, before: 1, ns: TOUCHING_NS + 1 }]);
        // The second one ran while the first did; the order of the list does not matter.
        let runs = [run("b", 40, 50, 1_030), run("b", 12, 15, 1_002), run("b", 10, 20, 1_000)];
        assert_eq!(gaps(&runs), [Gap { after: 2, before: 0, ns: 20 * S }]);
        assert_eq!(order(&runs), [2, 1, 0]);
        assert_eq!(place(&runs).iter().map(|placed| placed.chain).collect::<Vec<_>>(), [0, 2, 2]);
    }

    #[test]
    fn behind_a_gap_a_machine_may_have_slept_but_time_has_not_run_backwards() {
        let slept = [run("b", 10, 20, 1_000), run("b", 25, 30, 4_015)];
        assert_eq!((starts(&slept), gaps(&slept)[0].ns), (vec![1_000, 4_015], 3_005 * S));
        let set_back = [run("b", 10, 20, 1_000), run("b", 25, 30, 900)];
        assert_eq!((starts(&set_back), gaps(&set_back)[0].ns), (vec![1_000, 1_015], 5 * S));
    }

    #[test]
    fn boots_are_compared_by_the_wall_and_hosts_not_at_all() {
        let boots = [run("b", 500, 510, 1_000), run("c", 3, 13, 1_040), run("", 7, 8, 1_050)];
        assert_eq!((starts(&boots), order(&boots)), (vec![1_000, 1_040, 1_050], vec![0, 1, 2]));
        assert_eq!(gaps(&boots), [Gap { after: 0, before: 1, ns: 30 * S }]);
        let other = Run { host: "i", ..run("b", 40, 50, 2_000) };
        assert!(gaps(&[run("b", 10, 20, 1_000), other]).is_empty());
        assert!(gaps(&[Run::default(), Run { host: "", ..run("b", 40, 50, 2_000) }]).is_empty());
        assert!(gaps(&[]).is_empty() && order(&[]).is_empty());
        let [first, last] = [run("b", 0, 1, 1), Run { start_ns: u64::MAX, ..run("b", 9, 9, 1) }];
        assert_eq!(place(&[last, first])[0].boot, 1, "hostile times do no harm");
    }
}
