//! What asks for the history that is held in memory, or for the next file of a recording that rotates.

use std::cell::RefCell;
use std::io;
use std::sync::mpsc::SyncSender;
use std::sync::{Mutex, MutexGuard, PoisonError};

use icecore_format::records::TriggerCause;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::sys::clock;
use crate::sys::sender::sender;

/// What asks may be so long, bytes; what asks beyond that is only counted.
const MAX_WHAT: usize = 1 << 10;

/// Something asks.
#[derive(Debug, Clone)]
pub(crate) struct Trigger {
    /// When, ns `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    pub(crate) cause: TriggerCause,
    /// What held, or who asked, as people read it.
    pub(crate) what: String,
    /// Who waits to be told what became of it.
    pub(crate) answers: Vec<SyncSender<Result<Written, String>>>,
}

/// A file that was written because something asked.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    /// `None` if its name cannot be told, because it is not UTF-8.
    pub(crate) path: Option<String>,
    pub(crate) samples: u64,
    pub(crate) lost: u64,
    pub(crate) bytes: u64,
    /// All of that for people.
    pub(crate) text: String,
}

impl Trigger {
    /// Makes one of this moment; nobody waits for an answer to it.
    pub(crate) fn new(cause: TriggerCause, what: impl Into<String>) -> Self {
        Self { time_ns: clock::monotonic_ns(), cause, what: what.into(), answers: Vec::new() }
    }

    /// Tells who waits what became of it.
    pub(crate) fn answer(&self, told: &Result<Written, String>) {
        // Who waited may be gone.
        self.answers.iter().for_each(|answer| _ = answer.try_send(told.clone()));
    }

    /// Takes another one along: one file serves both.
    fn join(&mut self, other: Self) {
        self.time_ns = self.time_ns.min(other.time_ns);
        self.answers.extend(other.answers);
        if self.what.len() < MAX_WHAT {
            self.what = format!("{}; {}", self.what, other.what);
        } else if !self.what.ends_with('…') {
            self.what.push('…');
        }
    }
}

/// What asks and has not been served yet. Threads and a signal set it; the main thread serves it.
#[derive(Debug, Default)]
pub struct Triggers {
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    /// Signals and requests, which are served at once.
    urgent: Option<Trigger>,
    /// Conditions, which may have to wait.
    conditions: Option<Trigger>,
}

impl Triggers {
    /// Asks, together with what has asked already.
    pub(crate) fn ask(&self, trigger: Trigger) {
        let mut asked = self.asked();
        let is_condition = trigger.cause == TriggerCause::CONDITION;
        let place = if is_condition { &mut asked.conditions } else { &mut asked.urgent };
        match place {
            Some(first) => first.join(trigger),
            None => *place = Some(trigger),
        }
    }

    /// Returns true if something asks; conditions count only with `conditions`.
    pub(crate) fn is_asked(&self, conditions: bool) -> bool {
        let asked = self.asked();
        asked.urgent.is_some() || conditions && asked.conditions.is_some()
    }

    /// Takes all that asks; conditions alone only with `conditions`.
    pub(crate) fn take(&self, conditions: bool) -> Option<Trigger> {
        let mut asked = self.asked();
        let Some(mut first) = asked.urgent.take() else {
            return asked.conditions.take_if(|_| conditions);
        };
        asked.conditions.take().into_iter().for_each(|other| first.join(other));
        Some(first)
    }

    fn asked(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Receives SIGUSR1.
#[derive(Debug)]
pub(crate) struct Signals(RefCell<SignalsInfo<WithRawSiginfo>>);

impl Signals {
    /// Listens. Otherwise the signal would end the recorder.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self(RefCell::new(SignalsInfo::new([SIGUSR1])?)))
    }

    /// Returns a trigger if the signal has come.
    pub(crate) fn take(&self) -> Option<Trigger> {
        let last = self.0.borrow_mut().pending().last()?;
        let sender = sender(&last).map(|pid| format!(" from process {pid}")).unwrap_or_default();
        Some(Trigger::new(TriggerCause::SIGNAL, format!("SIGUSR1{sender}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_file_serves_all_that_asks_and_conditions_may_have_to_wait() {
        let (triggers, new) = (Triggers::default(), Trigger::new);
        assert!(!triggers.is_asked(true) && triggers.take(true).is_none());
        triggers.ask(new(TriggerCause::CONDITION, "a"));
        triggers.ask(new(TriggerCause::CONDITION, "b"));
        assert!(triggers.is_asked(true) && !triggers.is_asked(false) && triggers.take(false).is_none());
        triggers.ask(new(TriggerCause::SIGNAL, "c"));
        let taken = triggers.take(false).expect("a signal does not wait");
        assert_eq!((taken.cause, taken.what.as_str()), (TriggerCause::SIGNAL, "c; a; b"));
        assert!(triggers.take(true).is_none());
        for _ in 0..1_000 {
            triggers.ask(new(TriggerCause::CONDITION, "something holds"));
        }
        let what = triggers.take(true).expect("they ask").what;
        assert!(what.len() < MAX_WHAT + 32 && what.ends_with('…'), "{what}");
    }
}
