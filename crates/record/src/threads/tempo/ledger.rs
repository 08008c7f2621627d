//! What the recorder has used in the last ten seconds, and what follows from its budget.
//!
//! ```text
//! of the budget of any ten seconds
//! 0 %            25 %                      60 % or less          100 %
//! │   goes on     │  samples, more or less  │  pauses: the rest is │
//! │  after a pause│  often                  │  for what must end   │
//! ```
//!
//! Sampling is one part of what the recorder does; the other one, following tasks, grows with what happens on the machine. So it first samples
//! less often; and where that does not help, or samples cannot be what takes the time, it pauses. A pause takes a little as well: after a
//! whole window of it, nothing but that is in the account, and waiting for less is useless.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use icecore_format::records::{RateCause, RateChange};

use crate::settings::Budget;

/// The time over which a budget holds.
const WINDOW: Duration = Duration::from_secs(10);
/// How often the recorder looks at what it has used: the less of its budget is left, and the faster it goes, the sooner. The fastest use that it
/// must expect at any moment is that of so many CPUs: programs at switches and tracepoints run on all of them.
const LOOK_EVERY: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
const FASTEST: f64 = 2.0;
/// What less time has taken says little about what a rate takes.
const SOONEST: Duration = Duration::from_millis(40);
/// How often that is noted.
const NOTE_EVERY: Duration = Duration::from_millis(100);
/// How often the rate is changed, and over what time the use is looked at for that.
const CHANGE_EVERY: Duration = Duration::from_secs(1);
/// At this part of the budget of a window it pauses, and at this one it goes on.
const PAUSE_AT: f64 = 0.6;
/// What must end takes so much CPU time at most, ns: of a small budget more than the rest must be left for it, down to [`PAUSE_AT_LEAST`].
const ENDING_NS: f64 = 50e6;
const PAUSE_AT_LEAST: f64 = 0.35;
const GO_ON_AT: f64 = 0.25;
/// After a pause as long as the window it goes on at this part of what lets it pause.
const GO_ON_AT_LAST: f64 = 0.8;
/// The part of the budget that a lowered rate aims at, and the one that no rate should exceed.
const AIM: f64 = 0.4;
const MOST: f64 = 0.5;
/// How fast the rate rises again.
const FASTER: f64 = 1.5;
/// A sample takes at most so much CPU time, with all that follows from it, ns: measured in the first seconds of a program of 900 MB. More than
/// twice of what samples can have taken at most is of other work: a lower rate does not help. More than four times: a higher one does not matter.
const SAMPLE_NS: u64 = 300_000;
const USELESS_BELOW: f64 = 0.5;
const HARMLESS_BELOW: f64 = 0.25;
/// The rate is never lowered further than to this share; below it, the recorder pauses.
const LEAST: u32 = RateChange::WHOLE / 1_000;
/// Of the budget of memory: at this part memory is given back, and at this one the recorder pauses.
const SHRINK_AT: f64 = 0.8;
const FULL_AT: f64 = 0.95;
/// How often memory is given back.
const SHRINK_EVERY: Duration = Duration::from_secs(2);
/// How long the rate stays whole after lowering it did not help.
const USELESS_FOR: Duration = Duration::from_secs(60);

/// What the recorder has used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Used {
    /// CPU time of its processes and of its programs in the kernel, ns.
    pub(crate) cpu_ns: u64,
    /// How often these programs ran for a sample.
    pub(crate) runs: u64,
    /// What it has written, bytes.
    pub(crate) disk_bytes: u64,
    /// Its resident memory now, bytes.
    pub(crate) memory_bytes: u64,
}

/// How much of the requested rate the budget allows, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    /// In parts of [`RateChange::WHOLE`].
    pub(super) share: u32,
    pub(super) cause: RateCause,
    pub(super) measured: u64,
    pub(super) limit: u64,
}

impl Default for Verdict {
    fn default() -> Self {
        Self { share: RateChange::WHOLE, cause: RateCause::UNKNOWN, measured: 0, limit: 0 }
    }
}

/// What was used up to a moment.
#[derive(Debug, Clone, Copy)]
struct Entry {
    at: Instant,
    used: Used,
}

/// The account of the last ten seconds.
#[derive(Debug)]
pub(super) struct Ledger {
    budget: Budget,
    entries: VecDeque<Entry>,
    last: Entry,
    next_look: Instant,
    /// The rate that the budget allows while the recorder does not pause.
    share: u32,
    verdict: Verdict,
    next_change: Instant,
    /// Since when the recorder pauses, if it does.
    rests_since: Option<Instant>,
    /// Since when the rate is what it is and the recorder does not pause, and what was used by then.
    steady: Entry,
    /// The share and the use of the budget when the rate was lowered last.
    lowered: Option<(u32, f64)>,
    whole_until: Option<Instant>,
    next_shrink: Instant,
    shrinks: bool,
}

impl Ledger {
    pub(super) fn new(budget: Budget, now: Instant) -> Self {
        let begin = Entry { at: now, used: Used::default() };
        Self {
            budget,
            entries: VecDeque::new(),
            last: begin,
            next_look: now,
            share: RateChange::WHOLE,
            verdict: Verdict::default(),
            next_change: now + CHANGE_EVERY,
            rests_since: None,
            steady: begin,
            lowered: None,
            whole_until: None,
            next_shrink: now,
            shrinks: false,
        }
    }

    /// Looks at what was used, and decides.
    pub(super) fn look(&mut self, now: Instant, used: impl FnOnce() -> Used) -> Verdict {
        if now < self.next_look {
            return self.verdict;
        }
        let before = self.last;
        self.note(Entry { at: now, used: used() });
        self.verdict = self.decide(now);
        self.next_look = now + self.look_in(before);
        self.verdict
    }

    /// Returns how long the next look is away, at most.
    pub(super) fn next_in(&self, now: Instant) -> Duration {
        self.next_look.saturating_duration_since(now)
    }

    /// Returns how long it may take until so much is used that the recorder must pause, as far as the use since an earlier moment tells, or half of
    /// that.
    fn look_in(&self, before: Entry) -> Duration {
        let (least, most) = LOOK_EVERY;
        let Some(limit) = self.budget.cpu else { return least * 4 };
        let room = (self.pause_at() - self.of_window().0) * WINDOW.as_secs_f64();
        let speed = self.since(before, self.last.at) * 2.0;
        let fastest = FASTEST * 1e6 / limit as f64;
        Duration::try_from_secs_f64(room / speed.max(fastest)).unwrap_or(least).clamp(least, most)
    }

    /// Notes that sampling went on, or pauses.
    pub(super) fn changed(&mut self, goes_on: bool, now: Instant) {
        (self.next_change, self.next_look) = (now + CHANGE_EVERY, now + LOOK_EVERY.0);
        self.rests_since = (!goes_on).then(|| self.rests_since.unwrap_or(now));
        if goes_on {
            self.steady = Entry { at: now, ..self.last };
        }
    }

    /// Returns true if the recorder pauses because so much is used, so that work that can wait should.
    pub(super) fn is_over(&self) -> bool {
        self.verdict.share == 0
    }

    /// Returns true once if memory should be given back.
    pub(super) fn take_shrink(&mut self) -> bool {
        std::mem::take(&mut self.shrinks)
    }

    fn note(&mut self, entry: Entry) {
        if self.entries.is_empty() {
            // What starting the recorder took is no part of it.
            self.steady = entry;
        }
        if self.entries.back().is_none_or(|last| entry.at >= last.at + NOTE_EVERY) {
            self.entries.push_back(entry);
        }
        // The oldest entry is as old as the window, or a little older: nothing of the window is left out.
        while self.entries.get(1).is_some_and(|next| next.at + WINDOW <= entry.at) {
            self.entries.pop_front();
        }
        self.last = entry;
    }

    fn decide(&mut self, now: Instant) -> Verdict {
        let memory = self.memory(now);
        let (part, cause) = self.of_window();
        let was_resting = self.verdict.share == 0;
        let rests = part >= if was_resting { self.go_on_at(now) } else { self.pause_at() };
        if memory.is_some_and(|rests| rests) {
            return self.told(RateCause::MEMORY, 0);
        }
        if rests {
            if !was_resting {
                self.lower(now);
            }
            return self.told(cause, 0);
        }
        if !was_resting && now >= self.next_change {
            self.next_change = now + CHANGE_EVERY;
            self.change(now);
        }
        self.told(cause, self.share)
    }

    /// Returns at which part of the budget of a window the recorder pauses.
    fn pause_at(&self) -> f64 {
        let window_ns =
            self.budget.cpu.map_or(f64::INFINITY, |limit| limit as f64 * 1e3 * WINDOW.as_secs_f64());
        (1.0 - ENDING_NS / window_ns).clamp(PAUSE_AT_LEAST, PAUSE_AT)
    }

    /// Returns at which part a pause ends.
    fn go_on_at(&self, now: Instant) -> f64 {
        let is_long = self.rests_since.is_some_and(|since| since + WINDOW <= now);
        if is_long { self.pause_at() * GO_ON_AT_LAST } else { GO_ON_AT }
    }

    /// Chooses the rate by the use since the last change.
    fn change(&mut self, now: Instant) {
        let part = self.since(self.entry_before(now, CHANGE_EVERY), now);
        let next = self.higher();
        if part > MOST {
            self.lower(now);
        } else if part * f64::from(next) / f64::from(self.share) <= MOST {
            self.set(next);
        }
    }

    /// Lowers the rate, unless that did not help the last time.
    fn lower(&mut self, now: Instant) {
        let from = self.entry_before(now, CHANGE_EVERY);
        let from = if from.at < self.steady.at { self.steady } else { from };
        let (part, share) = (self.since(from, now), f64::from(self.share));
        if now < from.at + SOONEST || self.whole_until.is_some_and(|until| now < until) {
            return;
        }
        let of_samples = self.of_samples(&from);
        if of_samples < USELESS_BELOW {
            if of_samples < HARMLESS_BELOW {
                self.set(self.higher());
            }
            return;
        }
        let last = self.lowered.replace((self.share, part));
        if last.is_some_and(|(before, used)| share < f64::from(before) * 0.7 && part > used * 0.7) {
            (self.lowered, self.whole_until) = (None, Some(now + USELESS_FOR));
            return self.set(RateChange::WHOLE);
        }
        let less = (AIM / part).clamp(0.125, 0.9);
        self.set(((share * less) as u32).max(LEAST));
    }

    /// Returns the next higher rate.
    fn higher(&self) -> u32 {
        (f64::from(self.share) * FASTER).min(f64::from(RateChange::WHOLE)) as u32
    }

    /// Returns which part of what was used since an earlier moment samples can have taken at most.
    fn of_samples(&self, from: &Entry) -> f64 {
        // Some kernels do not count runs.
        if self.last.used.runs == 0 || self.disk_part(from) > self.cpu_part(from) {
            return 1.0;
        }
        let cpu_ns = self.last.used.cpu_ns.saturating_sub(from.used.cpu_ns);
        let runs = self.last.used.runs.saturating_sub(from.used.runs);
        runs.saturating_mul(SAMPLE_NS) as f64 / cpu_ns.max(1) as f64
    }

    fn set(&mut self, share: u32) {
        if share != self.share {
            (self.share, self.steady) = (share, self.last);
        }
    }

    /// Returns whether the recorder must pause because of its memory; `None` without such a budget.
    fn memory(&mut self, now: Instant) -> Option<bool> {
        let part = self.last.used.memory_bytes as f64 / self.budget.memory? as f64;
        if part >= SHRINK_AT && now >= self.next_shrink {
            self.next_shrink = now + SHRINK_EVERY;
            self.shrinks = true;
        }
        let rests = self.verdict.share == 0 && self.verdict.cause == RateCause::MEMORY;
        Some(part >= if rests { SHRINK_AT } else { FULL_AT })
    }

    /// Returns the largest part of a budget that was used in the last window, and of which.
    fn of_window(&self) -> (f64, RateCause) {
        let Some(first) = self.entries.front() else { return (0.0, RateCause::CPU) };
        let cpu = self.cpu_part(first) / WINDOW.as_secs_f64();
        let disk = self.disk_part(first) / WINDOW.as_secs_f64();
        if disk > cpu { (disk, RateCause::DISK) } else { (cpu, RateCause::CPU) }
    }

    /// Returns the largest part of a budget that was used since an earlier moment, if it were used so all the time.
    fn since(&self, from: Entry, now: Instant) -> f64 {
        let seconds = (now - from.at).as_secs_f64().max(LOOK_EVERY.0.as_secs_f64());
        self.cpu_part(&from).max(self.disk_part(&from)) / seconds
    }

    /// Returns for how many seconds the budget of CPU time would have been enough for what was used since an earlier moment.
    fn cpu_part(&self, from: &Entry) -> f64 {
        let used = self.last.used.cpu_ns.saturating_sub(from.used.cpu_ns) as f64;
        self.budget.cpu.map_or(0.0, |limit| used / 1e3 / limit as f64)
    }

    fn disk_part(&self, from: &Entry) -> f64 {
        let used = self.last.used.disk_bytes.saturating_sub(from.used.disk_bytes) as f64;
        self.budget.disk.map_or(0.0, |limit| used / limit as f64)
    }

    /// Returns the newest entry that is at least so old, or the oldest one.
    fn entry_before(&self, now: Instant, age: Duration) -> Entry {
        let older = self.entries.iter().rev().find(|entry| entry.at + age <= now);
        older.or(self.entries.front()).copied().unwrap_or(self.last)
    }

    fn told(&self, cause: RateCause, share: u32) -> Verdict {
        let Budget { cpu, memory, disk } = self.budget;
        let seconds = WINDOW.as_secs();
        let first = self.entries.front().map_or(self.last.used, |entry| entry.used);
        let Used { cpu_ns, disk_bytes, memory_bytes, .. } = self.last.used;
        let (measured, limit) = match cause {
            RateCause::MEMORY => (memory_bytes, memory),
            RateCause::DISK => (disk_bytes.saturating_sub(first.disk_bytes) / seconds, disk),
            _ => (cpu_ns.saturating_sub(first.cpu_ns) / 1_000 / seconds, cpu),
        };
        Verdict { share, cause, measured, limit: limit.unwrap_or(0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A recorder whose use of CPU time grows with its rate and with what happens on the machine.
    struct Recorder {
        ledger: Ledger,
        begin: Instant,
        cpu: Vec<u64>,
        /// What samples have taken, ns.
        sampling: u64,
        shares: Vec<u32>,
    }

    /// Runs for so many seconds, a step a millisecond. `per_second` returns what sampling at the whole rate takes, and what following tasks takes
    /// while the recorder does not pause, ns a second. To go on after a pause takes 2 ms, and a sample 20 µs.
    fn run(budget: Budget, seconds: u32, per_second: impl Fn(u32) -> (u64, u64)) -> Recorder {
        run_where_a_pause_takes(0, budget, seconds, per_second)
    }

    fn run_where_a_pause_takes(
        rest: u64,
        budget: Budget,
        seconds: u32,
        per_second: impl Fn(u32) -> (u64, u64),
    ) -> Recorder {
        let begin = Instant::now();
        let mut it = Recorder {
            ledger: Ledger::new(budget, begin),
            begin,
            cpu: vec![50_000_000],
            sampling: 0,
            shares: Vec::new(),
        };
        for ms in 0..seconds * 1_000 {
            let cpu_ns = it.cpu[ms as usize];
            let used = Used { cpu_ns, runs: it.sampling / 20_000, disk_bytes: cpu_ns, memory_bytes: 1 << 20 };
            let verdict = it.ledger.look(it.begin + MS * ms, || used);
            let before = it.shares.last().copied().unwrap_or(RateChange::WHOLE);
            let mut takes = if before == 0 && verdict.share > 0 { 2_000_000 } else { 0 };
            if (before == 0) != (verdict.share == 0) {
                it.ledger.changed(verdict.share > 0, it.begin + MS * ms);
            }
            let (sampling, following) = per_second(ms / 1_000);
            let sampling =
                u128::from(sampling) * u128::from(verdict.share) / u128::from(RateChange::WHOLE) / 1_000;
            it.sampling += sampling as u64;
            takes += if verdict.share > 0 { sampling as u64 + following / 1_000 } else { rest / 1_000 };
            it.cpu.push(used.cpu_ns + takes);
            it.shares.push(verdict.share);
        }
        it
    }

    impl Recorder {
        /// Returns the most CPU time of any window, ns.
        fn most(&self) -> u64 {
            let window = WINDOW.as_millis() as usize;
            (0..self.cpu.len())
                .map(|at| self.cpu[at] - self.cpu[at.saturating_sub(window)])
                .max()
                .unwrap_or(0)
        }

        /// Returns which part of the time it sampled, and how often on average, from a second on.
        fn sampled(&self, from: usize) -> (f64, f64) {
            let shares = &self.shares[from * 1_000..];
            let on = shares.iter().filter(|share| **share > 0).count() as f64 / shares.len() as f64;
            let sum: f64 = shares.iter().map(|share| f64::from(*share) / 1e6).sum();
            (on, sum / shares.len() as f64)
        }
    }

    const CPU: Budget = Budget { cpu: Some(10_000), memory: None, disk: None };
    const LIMIT_NS: u64 = 100_000_000;

    #[test]
    fn a_recorder_that_uses_little_samples_as_often_as_was_asked_for() {
        let it = run(CPU, 60, |_| (4_000_000, 500_000));
        assert!(it.shares.iter().all(|share| *share == RateChange::WHOLE));
    }

    #[test]
    fn where_sampling_costs_it_samples_less_often_and_never_pauses_for_long() {
        for sampling in [12, 30, 100, 400] {
            let it = run(CPU, 120, |_| (sampling * 1_000_000, 500_000));
            let (on, mean) = it.sampled(30);
            assert!(it.most() < LIMIT_NS, "{sampling} ms a second: {} in a window", it.most());
            let fits = 10.0 / sampling as f64;
            assert!(on > 0.95 && mean > 0.2 * fits && mean < fits, "{sampling} ms a second: {on} {mean}");
        }
    }

    #[test]
    fn where_following_tasks_costs_it_pauses_and_keeps_its_rate() {
        for following in [50, 200, 900] {
            let it = run(CPU, 180, |_| (2_000_000, following * 1_000_000));
            assert!(it.most() < LIMIT_NS, "{following} ms a second: {} in a window", it.most());
            let (on, mean) = it.sampled(60);
            assert!(on > 1.0 / following as f64 && mean > 0.5 * on, "{following} ms a second: {on} {mean}");
        }
    }

    #[test]
    fn what_a_pause_takes_does_not_make_it_endless() {
        let it = run_where_a_pause_takes(3_000_000, CPU, 180, |_| (2_000_000, 900_000_000));
        assert!(it.most() < LIMIT_NS, "{} in a window", it.most());
        let on = it.sampled(60).0;
        assert!(on > 0.001, "{on}");
    }

    #[test]
    fn when_the_storm_is_over_the_rate_rises_again() {
        let it = run(CPU, 200, |second| if second < 60 { (90_000_000, 0) } else { (3_000_000, 100_000) });
        assert!(it.most() < LIMIT_NS);
        assert_eq!(it.shares.last(), Some(&RateChange::WHOLE));
        let at = it.shares.iter().rposition(|share| *share < RateChange::WHOLE).expect("it was lowered");
        assert!(at < 100_000, "at {at} ms");
    }

    #[test]
    fn bytes_have_a_budget_of_the_same_kind() {
        let budget = Budget { disk: Some(10_000_000), ..Budget::default() };
        let it = run(budget, 120, |_| (100_000_000, 0));
        assert!(it.most() < LIMIT_NS, "{}", it.most());
        assert!(it.sampled(30).0 > 0.95 && it.ledger.verdict.cause == RateCause::DISK);
    }

    #[test]
    fn memory_is_given_back_and_then_the_recorder_pauses() {
        let budget = Budget { memory: Some(100 << 20), ..Budget::default() };
        let (begin, mut verdicts) = (Instant::now(), Vec::new());
        let mut ledger = Ledger::new(budget, begin);
        for (second, mib) in [50, 79, 82, 96, 90, 79, 50].into_iter().enumerate() {
            let used = Used { memory_bytes: mib << 20, ..Used::default() };
            let verdict = ledger.look(begin + CHANGE_EVERY * second as u32, || used);
            verdicts.push((verdict.share > 0, ledger.take_shrink()));
        }
        let (samples, pauses) = (true, false);
        let expected = [
            (samples, false),
            (samples, false),
            (samples, true),
            (pauses, false),
            (pauses, true),
            (samples, false),
            (samples, false),
        ];
        assert_eq!(verdicts, expected);
    }
}
