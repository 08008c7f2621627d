//! The recorded command. Its process is created first, and its program starts when the recorder is ready.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command};
use std::thread::{self, Builder, JoinHandle};
use std::time::{Duration, Instant};

use super::pty::{Ends, Relay, Slave};
use super::user::User;

/// How often a program that does not start is looked at, and how long nothing else is done meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(1);
const MOST_STARTS_WITHIN: Duration = Duration::from_millis(250);

/// Signals for which the recorder has handlers.
const OURS: [libc::c_int; 3] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP];

/// A process that waits before its `exec`. It ends if it is dropped before [`Paused::start`].
///
/// `Command::spawn` returns after the exec, so it runs on a thread of its own; the new process sends its id through one
/// pipe and waits for a byte on the other.
#[derive(Debug)]
pub(crate) struct Paused {
    pid: u32,
    go: Option<io::PipeWriter>,
    spawn: Option<JoinHandle<io::Result<Child>>>,
    /// The terminal of a command of another user.
    terminal: Option<Ends>,
}

/// The command after the recorder let its process run the program.
#[derive(Debug)]
pub struct Started {
    pid: u32,
    /// The thread that waits until the program runs.
    spawn: Option<JoinHandle<io::Result<Child>>>,
    child: Option<Child>,
    /// What is between its terminal and that of the recorder.
    relay: Option<Relay>,
}

impl Paused {
    /// Creates the process. It becomes one of another user when it starts, if there is one. Its standard output is that of the recorder,
    /// or else its standard error.
    pub(crate) fn new(command: &[OsString], to_stderr: bool, user: Option<&User>) -> io::Result<Self> {
        let (mut pid_from, pid_to) = io::pipe()?;
        let (go_from, go) = io::pipe()?;
        let mut child = Command::new(&command[0]);
        child.args(&command[1..]);
        if to_stderr {
            child.stdout(io::stderr());
        }
        let (mut terminal, mut slave) = (None, None);
        if let Some(user) = user {
            child.env_clear().envs(user.environment());
            let (ends, made) = Ends::open(to_stderr)?;
            (terminal, slave) = (ends, Some(made));
        }
        let user = user.cloned();
        let own_go = go.as_raw_fd();
        let wait = move || {
            // SAFETY: plain system calls. The descriptor is this process's copy of the writing end, which nothing
            // else here uses; while it is open, the end of the recorder would not be seen below. The recorder's
            // handlers mean nothing here.
            unsafe {
                libc::close(own_go);
                for signal in OURS.into_iter().filter(|signal| !is_ignored(*signal)) {
                    libc::signal(signal, libc::SIG_DFL);
                }
            }
            super::usage::restore_max_files();
            (&pid_to).write_all(&std::process::id().to_ne_bytes())?;
            // An end of file means that the recorder gave up or is gone: then the command must not run.
            (&go_from).read_exact(&mut [0])?;
            slave.as_ref().map_or(Ok(()), Slave::take)?;
            user.as_ref().map_or(Ok(()), User::take_over)
        };
        // SAFETY: between fork and exec only `close`, `sigaction`, `signal`, `getpid`, `write`, `read` and the calls that change the
        // user, session and descriptors are called; nothing allocates unless a pipe fails.
        unsafe { child.pre_exec(wait) };
        let spawn = Builder::new().spawn(move || child.spawn())?;
        let mut pid = [0; 4];
        if let Err(silent) = pid_from.read_exact(&mut pid) {
            // The process was not created; the thread has the error.
            drop(go);
            return Err(join(spawn).err().unwrap_or(silent));
        }
        Ok(Self { pid: u32::from_ne_bytes(pid), go: Some(go), spawn: Some(spawn), terminal })
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the process run its program, and waits for a moment until it does. While a file system does not answer, that never comes.
    ///
    /// # Errors
    /// If the program cannot be run.
    pub(crate) fn start(mut self) -> io::Result<Started> {
        let (Some(mut go), Some(spawn)) = (self.go.take(), self.spawn.take()) else {
            return Err(io::Error::other("bug: a command was started twice"));
        };
        let relay = self.terminal.take().map(Ends::relay).transpose()?;
        go.write_all(&[1])?;
        let until = Instant::now() + MOST_STARTS_WITHIN;
        while !spawn.is_finished() && Instant::now() < until {
            thread::sleep(LOOK_EVERY);
        }
        let mut started = Started { pid: self.pid, spawn: Some(spawn), child: None, relay };
        started.look()?;
        Ok(started)
    }
}

impl Started {
    fn look(&mut self) -> io::Result<()> {
        if let Some(spawn) = self.spawn.take_if(|spawn| spawn.is_finished()) {
            self.child = Some(join(spawn)?);
        }
        Ok(())
    }

    /// Returns true if the program has ended.
    ///
    /// # Errors
    /// If it cannot be run.
    pub(crate) fn has_ended(&mut self) -> io::Result<bool> {
        self.look()?;
        self.child.as_mut().map_or(Ok(false), |child| Ok(child.try_wait()?.is_some()))
    }

    /// Returns the process, and what is between the terminals; `None` if the kernel still waits for the file of the program. Then the process
    /// ends as soon as it can.
    pub(crate) fn running(mut self) -> Option<(Child, Option<Relay>)> {
        if self.look().is_ok() && self.child.is_none() {
            // SAFETY: takes no pointers; nobody has waited for the process, so its id is its own.
            unsafe { libc::kill(self.pid as libc::pid_t, libc::SIGKILL) };
        }
        Some((self.child?, self.relay))
    }

    /// Ends a command that nobody records.
    pub(crate) fn end(self) {
        if let Some((mut child, _)) = self.running() {
            terminate(&child);
            let _ = child.wait();
        }
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        drop(self.go.take());
        // The process ends now, and `Command::spawn` reaps it.
        if let Some(spawn) = self.spawn.take() {
            let _ = join(spawn);
        }
    }
}

fn join(spawn: JoinHandle<io::Result<Child>>) -> io::Result<Child> {
    spawn.join().unwrap_or_else(|_| Err(io::Error::other("the thread that starts the command failed")))
}

/// Returns the exit code that a shell would show.
pub(crate) fn exit_code(status: std::process::ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    code as u8
}

/// Returns the name of the signal that ended a command; `None` if it ended by itself.
pub(crate) fn ended_by(status: std::process::ExitStatus) -> Option<String> {
    let signal = status.signal()?;
    let name = signal_hook::low_level::signal_name(signal);
    Some(name.map_or_else(|| format!("signal {signal}"), str::to_owned))
}

/// Sends SIGINT to the process group of a command that is in a session of its own.
pub(crate) fn interrupt(child: &Child) {
    // SAFETY: takes no pointers; the child has not been waited for, so its id, which is that of its group, is its own.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGINT) };
}

/// Ends all processes of a child's group, which is its own, at once.
pub(crate) fn kill_group(child: &Child) {
    // SAFETY: as above.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
}

/// Lets a program run as a user, with the user's home and without capabilities unless that is root, and else with this environment.
pub(crate) fn run_as(command: &mut Command, user: User) {
    command.envs(user.environment());
    // SAFETY: it is safe between fork and exec.
    unsafe { command.pre_exec(move || user.take_over()) };
}

/// Sends SIGTERM to the command.
pub(crate) fn terminate(child: &Child) {
    // SAFETY: takes no pointers; the child has not been waited for, so its id is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// Returns true if the command is in the process group of this process: then a terminal sends Ctrl-C to both.
pub(crate) fn is_in_own_group(child: &Child) -> bool {
    // SAFETY: takes no pointers; the child has not been waited for, so its id is its own.
    unsafe { libc::getpgid(child.id() as libc::pid_t) == libc::getpgrp() }
}

/// Returns true if this process ignores a signal.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: an all-zero sigaction is a valid value, and without a new one sigaction only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_paused_command_that_is_given_up_ends_without_running() {
        let dir = tempfile::tempdir().expect("a folder for temporary files");
        let trace = dir.path().join("it ran");
        let paused = Paused::new(&["touch".into(), trace.clone().into()], false, None).expect("a process");
        let pid = paused.pid();
        let is_there = || Path::new(&format!("/proc/{pid}")).exists();
        assert!(is_there());
        drop(paused);
        assert!(!is_there() && !trace.exists());
    }

    #[test]
    fn a_paused_command_runs_when_it_is_started() {
        let paused =
            Paused::new(&["sh".into(), "-c".into(), "exit 7".into()], false, None).expect("a process");
        let pid = paused.pid();
        let (mut child, _) = paused.start().expect("sh is there").running().expect("it runs");
        assert_eq!((child.id(), exit_code(child.wait().expect("ours"))), (pid, 7));
    }

    #[test]
    fn what_cannot_be_executed_is_an_error_at_the_start() {
        let paused = Paused::new(&["/nonexistent/program".into()], false, None)
            .expect("the process itself is no problem");
        assert_eq!(paused.start().expect_err("no such file").kind(), io::ErrorKind::NotFound);
    }
}
