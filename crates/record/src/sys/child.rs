//! The recorded command: created first, started when everything is armed.
#![allow(unsafe_code)]

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command};
use std::thread::JoinHandle;

/// A process that waits in front of its `exec`.
///
/// `Command::spawn` returns after the exec, so it runs on a thread of its own; the new process tells
/// its id through one pipe and waits for a byte on the other.
#[derive(Debug)]
pub(crate) struct Paused {
    pid: u32,
    go: io::PipeWriter,
    spawn: JoinHandle<io::Result<Child>>,
}

impl Paused {
    /// Creates the process.
    pub(crate) fn new(command: &[OsString]) -> io::Result<Self> {
        let (mut pid_from, pid_to) = io::pipe()?;
        let (go_from, go) = io::pipe()?;
        let mut child = Command::new(&command[0]);
        child.args(&command[1..]);
        let wait = move || {
            (&pid_to).write_all(&std::process::id().to_ne_bytes())?;
            // An end of file means that the recorder is gone: then the command must not run.
            (&go_from).read_exact(&mut [0])
        };
        // SAFETY: between fork and exec only `getpid`, `write` and `read` are called; nothing allocates
        // unless a pipe fails.
        unsafe { child.pre_exec(wait) };
        let spawn = std::thread::spawn(move || child.spawn());
        let mut pid = [0; 4];
        pid_from.read_exact(&mut pid)?;
        Ok(Self { pid: u32::from_ne_bytes(pid), go, spawn })
    }

    /// Its process id.
    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets it run its program.
    pub(crate) fn start(mut self) -> io::Result<Child> {
        self.go.write_all(&[1])?;
        self.spawn
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that starts the command failed")))
    }
}

/// The exit code that a shell would show.
pub(crate) fn exit_code(status: std::process::ExitStatus) -> u8 {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    code as u8
}

/// Passes a request to end on to the command.
pub(crate) fn terminate(child: &Child) {
    // SAFETY: takes no pointers; the child has not been waited for, so its id is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}
