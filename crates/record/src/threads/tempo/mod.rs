//! How often to sample now: as somebody asked meanwhile, in the sampled part of each period, and as the budget allows.
//!
//! ```text
//! ctl rate, stop, start ─► asked ──┐
//! --duty ──────────────────────────┼─► tempo ─► step: the share of the requested rate, and why
//! CPU, memory, bytes ─► ledger ────┘
//! ```

mod asked;
mod ledger;

use std::time::{Duration, Instant};

use icecore_format::records::{RateCause, RateChange};

use crate::settings::{Budget, Duty};
pub use asked::Asked;
pub(crate) use asked::Wish;
pub use ledger::Used;
use ledger::{Ledger, Verdict};

/// The recorder samples so often, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// In parts of [`RateChange::WHOLE`]; 0: it pauses.
    pub(crate) share: u32,
    pub(crate) cause: RateCause,
    /// As [`RateChange`] has it.
    pub(crate) measured: u64,
    pub(crate) limit: u64,
}

impl Default for Step {
    fn default() -> Self {
        Self { share: RateChange::WHOLE, cause: RateCause::UNKNOWN, measured: 0, limit: 0 }
    }
}

impl Step {
    /// Returns the row of a step that is taken at a moment.
    pub(crate) fn at(self, time_ns: u64) -> RateChange {
        let Self { share, cause, measured, limit } = self;
        RateChange { time_ns, share, cause, measured, limit }
    }

    fn of(verdict: Verdict, share: u32) -> Self {
        let Verdict { cause, measured, limit, .. } = verdict;
        Self { share, cause, measured, limit }
    }
}

/// Decides how often to sample.
#[derive(Debug)]
pub(crate) struct Tempo<'a> {
    asked: &'a Asked,
    duty: Option<Duty>,
    ledger: Option<Ledger>,
    began: Instant,
    /// The share that somebody wanted when the recorder sampled last.
    wanted: u32,
    now: Step,
    /// What the last look decided, and when `--duty` next lets the recorder pause or go on.
    seen: (Wish, Option<Instant>),
}

impl<'a> Tempo<'a> {
    /// Begins at a moment at which the recorder samples as often as was asked for.
    pub(crate) fn begin(asked: &'a Asked, duty: Option<Duty>, budget: Budget, now: Instant) -> Self {
        let ledger = budget.is_limited().then(|| Ledger::new(budget, now));
        let seen = Default::default();
        Self { asked, duty, ledger, began: now, wanted: RateChange::WHOLE, now: Step::default(), seen }
    }

    /// Looks at what has changed; `used` returns what the recorder has used so far. Returns the next step if there is one.
    pub(crate) fn look(&mut self, now: Instant, used: impl FnOnce() -> Used) -> Option<Step> {
        let verdict = self.ledger.as_mut().map(|ledger| ledger.look(now, used));
        let wish = self.asked.wish();
        self.seen = (wish, self.duty.map(|duty| now + left_of_part(duty, now - self.began)));
        let step = self.step(now, wish, verdict.unwrap_or_default());
        if step.share > 0 {
            self.wanted = wish.share;
        }
        // Somebody may ask for the pause that there is.
        let is_asked = |step: Step| step.cause == RateCause::CONTROL;
        if step.share == self.now.share && (step.share > 0 || is_asked(step) == is_asked(self.now)) {
            self.asked.answer(self.now);
            return None;
        }
        self.now = step;
        Some(step)
    }

    /// Notes that a step was taken, for all that asked for it.
    pub(crate) fn taken(&mut self, now: Instant) {
        self.asked.answer(self.now);
        self.ledger.iter_mut().for_each(|ledger| ledger.changed(self.now.share > 0, now));
    }

    /// Returns true if it should look now, whatever waits; `used` as in [`Self::look`].
    pub(crate) fn is_due(&mut self, now: Instant, used: impl FnOnce() -> Used) -> bool {
        let (wish, edge) = self.seen;
        if edge.is_some_and(|edge| now >= edge) || self.asked.wish() != wish {
            return true;
        }
        let ledger = self.ledger.as_mut().filter(|_| self.now.share > 0);
        ledger.is_some_and(|ledger| ledger.look(now, used).share == 0)
    }

    /// Returns true if work that can wait is to.
    pub(crate) fn is_over(&self) -> bool {
        self.ledger.as_ref().is_some_and(Ledger::is_over)
    }

    /// Returns true once if memory should be given back.
    pub(crate) fn take_shrink(&mut self) -> bool {
        self.ledger.as_mut().is_some_and(Ledger::take_shrink)
    }

    /// Returns how long the next change by the clock, or the next look at what was used, is away, at most.
    pub(crate) fn next_in(&self, now: Instant) -> Duration {
        let by_duty = self.duty.map_or(Duration::MAX, |duty| left_of_part(duty, now - self.began));
        let ledger = self.ledger.as_ref().filter(|_| self.now.share > 0);
        by_duty.min(ledger.map_or(Duration::MAX, |ledger| ledger.next_in(now)))
    }

    fn step(&self, now: Instant, wish: Wish, verdict: Verdict) -> Step {
        if wish.is_stopped {
            return Step { share: 0, cause: RateCause::CONTROL, measured: wish.by.into(), limit: 0 };
        }
        if self.duty.is_some_and(|duty| into_period(duty, now - self.began) >= duty.on) {
            return Step { share: 0, cause: RateCause::DUTY, measured: 0, limit: 0 };
        }
        let share = u64::from(wish.share) * u64::from(verdict.share) / u64::from(RateChange::WHOLE);
        let share = if verdict.share == 0 { 0 } else { u32::try_from(share).unwrap_or(u32::MAX).max(1) };
        if verdict.share < RateChange::WHOLE {
            return Step::of(verdict, share);
        }
        let is_asked = wish.share != self.wanted || self.now.cause == RateCause::CONTROL;
        match self.now.cause {
            _ if is_asked => Step { share, cause: RateCause::CONTROL, measured: wish.by.into(), limit: 0 },
            RateCause::DUTY => Step { share, cause: RateCause::DUTY, measured: 0, limit: 0 },
            _ => Step::of(verdict, share),
        }
    }
}

/// Returns how much of the sampled part of the current period is left, or after it of the other one.
fn left_of_part(duty: Duty, passed: Duration) -> Duration {
    let into = into_period(duty, passed);
    let end = if into < duty.on { duty.on } else { duty.every };
    end - into
}

/// Returns how much of the current period is over.
fn into_period(duty: Duty, passed: Duration) -> Duration {
    let every = duty.every.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(passed.as_nanos() % every).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn none() -> Used {
        Used::default()
    }

    #[test]
    fn the_first_part_of_each_period_is_sampled() {
        let (asked, begin) = (Asked::default(), Instant::now());
        let duty = Some(Duty { on: 2 * S, every: 5 * S });
        let mut tempo = Tempo::begin(&asked, duty, Budget::default(), begin);
        let mut steps = Vec::new();
        for tenth in 0..120 {
            let now = begin + S / 10 * tenth;
            let edge = now + tempo.next_in(now);
            assert!(edge > now && edge <= now + 3 * S);
            let was_due = tempo.is_due(now, none);
            let step = tempo.look(now, none);
            assert!(step.is_none() || was_due && !tempo.is_due(now, none), "{tenth}");
            steps.extend(step.map(|step| (tenth, step.share, step.cause)));
        }
        let (on, off) = ((RateChange::WHOLE, RateCause::DUTY), (0, RateCause::DUTY));
        let expected = [(20, off), (50, on), (70, off), (100, on)];
        assert_eq!(steps, expected.map(|(at, (share, cause))| (at, share, cause)));
    }

    #[test]
    fn what_is_asked_for_in_a_pause_is_so_after_it_and_said_to_be() {
        let (asked, begin) = (Asked::default(), Instant::now());
        let duty = Some(Duty { on: 2 * S, every: 4 * S });
        let mut tempo = Tempo::begin(&asked, duty, Budget::default(), begin);
        let mut at = |second: u32| {
            let step = tempo.look(begin + S * second, none);
            step.map(|step| (step.share, step.cause, step.measured))
        };
        let fifth = RateChange::WHOLE / 5;
        assert_eq!(at(2), Some((0, RateCause::DUTY, 0)));
        let _rate = asked.ask(7, |wish| wish.share = fifth);
        assert_eq!(at(3), None, "the pause is that of the duty");
        assert_eq!(at(4), Some((fifth, RateCause::CONTROL, 7)));
        assert_eq!(at(6), Some((0, RateCause::DUTY, 0)));
        let _stop = asked.ask(8, |wish| wish.is_stopped = true);
        assert_eq!(at(7), Some((0, RateCause::CONTROL, 8)));
        assert_eq!(at(9), None, "it would sample");
        let _start = asked.ask(9, |wish| wish.is_stopped = false);
        assert_eq!(at(11), Some((0, RateCause::DUTY, 0)));
        assert_eq!(at(12), Some((fifth, RateCause::DUTY, 0)));
    }

    #[test]
    fn who_asks_is_answered_once_it_is_so() {
        let (asked, begin) = (Asked::default(), Instant::now());
        let mut tempo = Tempo::begin(&asked, None, Budget::default(), begin);
        assert_eq!(tempo.look(begin, none), None);
        let half = RateChange::WHOLE / 2;
        assert!(!tempo.is_due(begin, none));
        let answer = asked.ask(7, |wish| wish.share = half);
        assert!(tempo.is_due(begin, none));
        let step = tempo.look(begin, none);
        let expected = Step { share: half, cause: RateCause::CONTROL, measured: 7, limit: 0 };
        assert_eq!((step, answer.try_recv().ok()), (Some(expected), None), "it is not so yet");
        tempo.taken(begin);
        assert_eq!(answer.try_recv().ok(), Some(expected));
        // What is so already is answered at once.
        let again = asked.ask(8, |wish| wish.share = half);
        assert_eq!((tempo.look(begin, none), again.try_recv().ok()), (None, Some(expected)));
        let _stopped = asked.ask(9, |wish| wish.is_stopped = true);
        assert_eq!(tempo.look(begin, none).map(|step| (step.share, step.measured)), Some((0, 9)));
        let _started = asked.ask(10, |wish| wish.is_stopped = false);
        assert_eq!(tempo.look(begin, none).map(|step| (step.share, step.measured)), Some((half, 10)));
    }
}
