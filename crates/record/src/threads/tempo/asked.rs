//! How often somebody wants the recorder to sample: threads ask, the main thread does it and answers.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use icecore_format::records::RateChange;

use super::Step;

/// How often somebody wants the recorder to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The share of the requested rate, in parts of [`RateChange::WHOLE`]; it may be larger.
    pub(crate) share: u32,
    pub(crate) is_stopped: bool,
    /// The process that asked last.
    pub(crate) by: u32,
}

impl Default for Wish {
    fn default() -> Self {
        Self { share: RateChange::WHOLE, is_stopped: false, by: 0 }
    }
}

/// What was asked, and what is so now.
#[derive(Debug, Default)]
pub struct Asked(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    wish: Wish,
    now: Step,
    /// Who waits to be told what became of it.
    answers: Vec<SyncSender<Step>>,
}

impl Asked {
    /// Asks for a change, by a process; the answer comes when all that was asked is so.
    pub(crate) fn ask(&self, by: u32, change: impl FnOnce(&mut Wish)) -> Receiver<Step> {
        let (answer, answered) = sync_channel(1);
        let mut state = self.state();
        let before = state.wish;
        change(&mut state.wish);
        if state.wish != before {
            state.wish.by = by;
        }
        state.answers.push(answer);
        answered
    }

    /// Returns how often somebody wants it to sample.
    pub(crate) fn wish(&self) -> Wish {
        self.state().wish
    }

    /// Returns how often the recorder samples now.
    pub(crate) fn now(&self) -> Step {
        self.state().now
    }

    /// Notes how often the recorder samples now, and tells all that have asked.
    pub(super) fn answer(&self, now: Step) {
        let mut state = self.state();
        state.now = now;
        // Who waited may be gone.
        state.answers.drain(..).for_each(|answer| _ = answer.try_send(now));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
