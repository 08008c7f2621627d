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

/// Something asks.
#[derive(Debug, Clone)]
pub(crate) struct Trigger {
    /// When, ns `CLOCK_MONOTONIC`.
    pub(crate) time_ns: u64,
    pub(crate) cause: TriggerCause,
    /// What held, or who asked, as people read it.
    pub(crate) what: String,
    /// Who waits to be told what became of it.
    pub(crate) answer: Option<SyncSender<Result<Written, String>>>,
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
        Self { time_ns: clock::monotonic_ns(), cause, what: what.into(), answer: None }
    }

    /// Tells who waits what became of it.
    pub(crate) fn answer(&self, told: Result<Written, String>) {
        // Who waited may be gone.
        let _ = self.answer.as_ref().map(|answer| answer.try_send(told));
    }
}

/// The first trigger that has not been served yet. Threads and a signal set it; the main thread serves it.
#[derive(Debug, Default)]
pub struct Triggers {
    asked: Mutex<Option<Trigger>>,
}

impl Triggers {
    /// Asks; returns false if something else has asked already, and is served first.
    pub(crate) fn ask(&self, trigger: Trigger) -> bool {
        let mut asked = self.asked();
        let is_first = asked.is_none();
        asked.get_or_insert(trigger);
        is_first
    }

    /// Returns what kind of trigger asks.
    pub(crate) fn cause(&self) -> Option<TriggerCause> {
        self.asked().as_ref().map(|trigger| trigger.cause)
    }

    /// Takes what asks.
    pub(crate) fn take(&self) -> Option<Trigger> {
        self.asked().take()
    }

    fn asked(&self) -> MutexGuard<'_, Option<Trigger>> {
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
    fn the_first_one_is_served_and_then_the_next_one_may_ask() {
        let triggers = Triggers::default();
        assert!(triggers.cause().is_none() && triggers.take().is_none());
        assert!(triggers.ask(Trigger::new(TriggerCause::CONDITION, "a")));
        assert!(!triggers.ask(Trigger::new(TriggerCause::SIGNAL, "b")));
        assert_eq!(triggers.take().map(|trigger| trigger.what), Some("a".to_owned()));
        assert!(triggers.ask(Trigger::new(TriggerCause::SIGNAL, "b")));
        assert_eq!(triggers.cause(), Some(TriggerCause::SIGNAL));
    }
}
