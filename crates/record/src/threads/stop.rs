//! Requests to end: signals set flags, which the threads check.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::sys::child::is_ignored;
use crate::sys::{leftover, pty};

/// Shows whether the user requested an end.
#[derive(Debug)]
pub(crate) struct Stop {
    requested: Arc<AtomicBool>,
    /// The last signal that requested an end; 0 if there was none.
    signal: Arc<AtomicUsize>,
    /// The next SIGINT or SIGTERM aborts.
    is_last: Arc<AtomicBool>,
    /// Every SIGINT, and who sent it.
    interrupts: RefCell<SignalsInfo<WithRawSiginfo>>,
}

/// The user requested an end before anything was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stopped before recording began: nothing was run, and no file was written")]
pub(crate) struct Stopped {
    /// The exit code that a shell would show for the signal.
    pub(crate) exit_code: u8,
}

impl Stop {
    /// Listens for SIGINT, SIGTERM and SIGHUP.
    ///
    /// A second SIGHUP does nothing, because a terminal that closes may send several. If SIGHUP is ignored at the start, as
    /// under `nohup`, it stays ignored. SIGXFSZ has a handler, so that a write beyond the file size limit is an error and does not kill
    /// the recorder; a command does not inherit a handler, but would inherit that the signal is ignored.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn listen() -> std::io::Result<Self> {
        let stop = Self {
            requested: Arc::default(),
            signal: Arc::default(),
            is_last: Arc::default(),
            interrupts: RefCell::new(SignalsInfo::new([SIGINT])?),
        };
        for signal in [SIGINT, SIGTERM] {
            pty::give_back_at(signal, Arc::clone(&stop.is_last))?;
            leftover::remove_at(signal, Arc::clone(&stop.is_last))?;
            flag::register_conditional_shutdown(signal, 128 + signal, Arc::clone(&stop.is_last))?;
        }
        let hangup = (!is_ignored(SIGHUP)).then_some(SIGHUP);
        for signal in [SIGINT, SIGTERM].into_iter().chain(hangup) {
            flag::register_usize(signal, Arc::clone(&stop.signal), signal as usize)?;
            flag::register(signal, Arc::clone(&stop.requested))?;
        }
        flag::register(SIGXFSZ, Arc::default())?;
        Ok(stop)
    }

    /// Makes a second SIGINT or SIGTERM abort the recorder. Earlier, an abort would leave an empty file.
    ///
    /// # Errors
    /// As the operating system says.
    pub(crate) fn let_the_second_abort(&self) -> std::io::Result<()> {
        [SIGINT, SIGTERM]
            .into_iter()
            .try_for_each(|signal| flag::register(signal, Arc::clone(&self.is_last)).map(drop))
    }

    /// Lets the next signal request an end again, of what is left to do, instead of aborting; the result says whether one did.
    pub(crate) fn again(&self) -> impl Fn() -> bool {
        self.requested.store(false, Ordering::Relaxed);
        self.is_last.store(false, Ordering::Relaxed);
        let requested = Arc::clone(&self.requested);
        move || requested.load(Ordering::Relaxed)
    }

    /// Returns the flag that is set by a request to end.
    pub(crate) fn requested(&self) -> &AtomicBool {
        &self.requested
    }

    /// Returns true if a terminal has sent SIGINT since the last call: Ctrl-C goes to all processes of the job in the foreground. A
    /// SIGINT of `kill` goes to the recorder alone.
    pub(crate) fn is_of_terminal(&self) -> bool {
        // All are taken; the kernel itself is the sender for a terminal.
        self.interrupts.borrow_mut().pending().filter(|info| info.si_code == libc::SI_KERNEL).count() > 0
    }

    /// Returns an error if the user requested an end.
    ///
    /// # Errors
    /// [`Stopped`].
    pub(crate) fn check(&self) -> Result<(), Stopped> {
        if self.requested.load(Ordering::Relaxed) {
            Err(Stopped { exit_code: 128 + self.signal.load(Ordering::Relaxed) as u8 })
        } else {
            Ok(())
        }
    }
}
