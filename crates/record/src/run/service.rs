//! Tells the service manager how the recorder is: that it records, that it is alive, what it has recorded, that it ends.
//!
//! The manager names a socket in NOTIFY_SOCKET (sd_notify(3)). If the recorder runs a command, the socket is left to the command, which may be
//! the service.

use std::cell::Cell;
use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// How often the manager is told what was recorded.
const STATUS_EVERY: Duration = Duration::from_secs(10);

/// The way to the service manager.
#[derive(Debug, Default)]
pub(super) struct Service {
    socket: Option<UnixDatagram>,
    /// How often the manager is told that the recorder is alive; `None` if it does not ask.
    alive_every: Option<Duration>,
    alive_at: Cell<Option<Instant>>,
    status_at: Cell<Option<Instant>>,
}

impl Service {
    /// Finds the service manager, if there is one and no command runs. Later no thread may make a socket.
    pub(super) fn find(has_command: bool) -> Self {
        let name = std::env::var_os("NOTIFY_SOCKET").filter(|name| !has_command && !name.is_empty());
        let socket = name.and_then(|name| connected(&name));
        let pid = std::env::var("WATCHDOG_PID").ok();
        let is_own = pid.is_none_or(|pid| pid == std::process::id().to_string());
        let watchdog = std::env::var("WATCHDOG_USEC").ok().filter(|_| is_own);
        // Twice as often as it must be.
        let alive_every =
            watchdog.and_then(|usec| usec.parse().ok()).map(|usec| Duration::from_micros(usec) / 2);
        Self { socket, alive_every, ..Self::default() }
    }

    /// Says that the recording has begun.
    pub(super) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Says that the recorder is alive, and now and then what `status` returns.
    ///
    /// # Cost
    /// A look at the time.
    pub(super) fn alive(&self, status: impl FnOnce() -> String) {
        if self.socket.is_none() {
            return;
        }
        let now = Instant::now();
        let is_due = |at: &Cell<Option<Instant>>, every: Duration| {
            let is_due = at.get().is_none_or(|at| now.duration_since(at) >= every);
            at.set(if is_due { Some(now) } else { at.get() });
            is_due
        };
        if self.alive_every.is_some_and(|every| is_due(&self.alive_at, every)) {
            self.tell("WATCHDOG=1");
        }
        if is_due(&self.status_at, STATUS_EVERY) {
            self.tell(&format!("STATUS={}", status()));
        }
    }

    /// Says that the recording ends. What is left to do may take longer than the manager waits otherwise.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// The manager may be gone: the recording goes on.
    fn tell(&self, state: &str) {
        let _ = self.socket.as_ref().map(|socket| socket.send(state.as_bytes()));
    }
}

/// Opens a socket to a path, or to an abstract name, which begins with `@`.
fn connected(name: &OsStr) -> Option<UnixDatagram> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(name),
    };
    let socket = UnixDatagram::unbound().ok()?;
    socket.connect_addr(&address.ok()?).ok()?;
    socket.set_nonblocking(true).ok()?;
    Some(socket)
}
