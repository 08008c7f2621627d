//! `--live`: another program shows the recording while it is made. It reads the file as anybody can who may read it.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use crate::settings::Options;
use crate::sys::{child, rights};

/// The program that shows a recording.
const PROGRAM: &str = "icecore-report";
/// How long it may take to notice that the recording has ended: it looks every two seconds.
const PATIENCE: Duration = Duration::from_secs(6);

/// What shows the recording.
#[derive(Debug)]
pub(super) struct View(Child);

/// Finds the program.
///
/// # Errors
/// If it is not there, or has no terminal of its own.
pub(super) fn program(options: &Options) -> anyhow::Result<PathBuf> {
    if !options.command.is_empty() {
        bail!(
            "cannot show the recording (--live): the command has the terminal; run `icecore-report tui --follow FILE` in another one"
        );
    }
    if !io::stdout().is_terminal() {
        bail!(
            "cannot show the recording (--live): stdout is no terminal; `icecore-report tui --follow FILE` prints tables into a pipe"
        );
    }
    beside("show the recording (--live)")
}

/// Finds the program for something. A path of the environment could name the program of another user, so it must lie beside the recorder.
///
/// # Errors
/// If it is not there.
pub(super) fn beside(what_for: &str) -> anyhow::Result<PathBuf> {
    let own = std::fs::read_link("/proc/self/exe").context("cannot find out where this program lies")?;
    let program = own.with_file_name(PROGRAM);
    ensure!(program.is_file(), "cannot {what_for}: `{}` is missing; install it there", program.display());
    Ok(program)
}

/// Starts a program on a thread of its own: what a thread gives up, the programs that it starts do not have either, and this thread still
/// needs it.
///
/// # Errors
/// Those of `spawn`.
pub(super) fn started(spawn: impl FnOnce() -> io::Result<Child> + Send) -> io::Result<Child> {
    let started = thread::scope(|scope| scope.spawn(spawn).join());
    started.unwrap_or_else(|_| Err(io::Error::other("the thread that starts it failed")))
}

impl View {
    /// Starts the program on a file that is being written, without any capability.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn start(program: &Path, file: &Path) -> anyhow::Result<Self> {
        let started = started(|| {
            rights::keep_none()?;
            Command::new(program).args(["tui", "--follow", "--"]).arg(file).spawn()
        });
        Ok(Self(started.with_context(|| format!("cannot run `{}`", program.display()))?))
    }

    /// Waits until it has noticed that the recording has ended, and given the terminal back.
    pub(super) fn end(mut self) {
        let until = Instant::now() + PATIENCE;
        while matches!(self.0.try_wait(), Ok(None)) && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
        if matches!(self.0.try_wait(), Ok(None)) {
            child::terminate(&self.0);
            let _ = self.0.wait();
        }
    }
}
