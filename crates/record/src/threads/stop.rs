//! Requests to end: signals as flags that the threads look at.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;

use crate::sys::child::is_ignored;

/// Whether somebody asked for an end.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    asked: Arc<AtomicBool>,
    /// The last signal that asked; 0 before.
    signal: Arc<AtomicUsize>,
    /// The next SIGINT or SIGTERM aborts.
    is_last: Arc<AtomicBool>,
}

/// The end was asked for before anything was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped before recording began: nothing was run, and no file was written")]
pub(crate) struct Stopped {
    /// What a shell would show for the signal.
    pub(crate) exit_code: u8,
}

impl Stop {
    /// Listens for SIGINT, SIGTERM and SIGHUP.
    ///
    /// A second SIGHUP does nothing, because a terminal that is closed may send several. If SIGHUP is ignored at the start, as
    /// under `nohup`, it stays ignored. SIGXFSZ is caught, so that a write beyond the limit to the size of files is an error, and
    /// not the end of the recorder; a handler, unlike ignoring, is not inherited by a command.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.is_last))?;
        }
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize)?;
            flag::register(signal, Arc::clone(&stop.asked))?;
        }
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(stop)
    }

    /// From now on a second SIGINT or SIGTERM aborts. Before, it would leave a file in which nothing is.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn let_the_second_abort(&self) -> std::io::Result<()> {
        [SIGINT, SIGTERM]
            .into_iter()
            .try_for_each(|signal| flag::register(signal, Arc::clone(&self.is_last)).map(drop))
    }

    /// The flag, for threads that end their work when it is set.
    pub(crate) fn asked(&self) -> &AtomicBool {
        &self.asked
    }

    /// Refuses to go on if an end was asked for.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(crate) fn check(&self) -> Result<(), Stopped> {
        if self.asked.load(Ordering::Relaxed) {
            Err(Stopped { exit_code: 128 + self.signal.load(Ordering::Relaxed) as u8 })
        } else {
            Ok(())
        }
    }
}
