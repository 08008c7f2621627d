//! A terminal for the command of another user, as sudo gives one (`use_pty`): the command never holds the terminal of the recorder, so it
//! can neither type into it (`TIOCSTI`) nor read from it after the recording.
//!
//! ```text
//! terminal of the recorder ──keys──► relay ──► master ═ slave: the controlling terminal of the command, in a session of its own
//!                          ◄─────────────────────┘
//! ```
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal as _, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, JoinHandle};

use super::rights::{self, Part};

/// The relay looks at least this often for a new size, for other settings of the terminals, and whether it is in the foreground, ms.
const LOOK_EVERY_MS: libc::c_int = 100;
/// `_IOW('T', 0x36, int)` of asm-generic/ioctls.h: sends a signal to the foreground of a slave.
const TIOCSIG: libc::c_ulong = 0x4004_5436;
/// The first descriptor that is none of the standard ones.
const FIRST_OTHER: libc::c_uint = 3;
/// uapi/linux/close_range.h
const CLOSE_RANGE_CLOEXEC: libc::c_uint = 4;

/// The terminal whose settings the relay changes, and those that it had.
static TAKEN: OnceLock<(RawFd, libc::termios)> = OnceLock::new();

/// Gives the terminal its settings back when a signal ends this process at once: if `ends` is true by then. It must be called before the
/// signal gets the handler that ends the process.
pub(crate) fn give_back_at(signal: libc::c_int, ends: Arc<AtomicBool>) -> io::Result<()> {
    let give_back = move || {
        if let (true, Some((terminal, settings))) = (ends.load(Ordering::Relaxed), TAKEN.get()) {
            set(*terminal, settings);
        }
    };
    // SAFETY: the function makes one system call, which may be made in a handler; it allocates nothing, and never panics.
    unsafe { signal_hook::low_level::register(signal, give_back).map(drop) }
}

/// The two ends of a new terminal.
#[derive(Debug)]
pub(super) struct Ends {
    master: File,
    /// The standard descriptors that are terminals, and that the slave replaces.
    replaced: [bool; 3],
    outer: Outer,
}

/// What the command needs of a new terminal; nothing where none of its standard descriptors is a terminal.
#[derive(Debug)]
pub(super) struct Slave(Option<(OwnedFd, [bool; 3])>);

/// The terminal of the recorder.
#[derive(Debug)]
struct Outer {
    /// Shows what the command writes.
    shows: File,
    /// Gives what is typed; `None` if the command reads something else.
    keys: Option<File>,
    /// Its settings before the recording.
    settings: libc::termios,
}

impl Ends {
    /// Opens a terminal with the settings and the size of the recorder's; `None` if no standard descriptor of the command is a terminal.
    pub(super) fn open(stdout_is_stderr: bool) -> io::Result<(Option<Self>, Slave)> {
        let stderr = io::stderr().is_terminal();
        let stdout = if stdout_is_stderr { stderr } else { io::stdout().is_terminal() };
        let replaced = [io::stdin().is_terminal(), stdout, stderr];
        let fds = [libc::STDIN_FILENO, if stdout_is_stderr { 2 } else { 1 }, libc::STDERR_FILENO];
        // What shows output may be a descriptor for input.
        let Some(shows) = [1, 2, 0].into_iter().find(|at| replaced[*at]).map(|at| fds[at]) else {
            return Ok((None, Slave(None)));
        };
        let settings = settings(shows)?;
        let mut ends: [RawFd; 2] = [0; 2];
        // SAFETY: the kernel has just made both descriptors, and nobody else owns them; the pointers are to a size and to settings.
        let (master, slave) = unsafe {
            let size = size(shows);
            let made = libc::openpty(
                &raw mut ends[0],
                &raw mut ends[1],
                std::ptr::null_mut(),
                &raw const settings,
                &raw const size,
            );
            if made != 0 {
                return Err(io::Error::last_os_error());
            }
            for end in ends {
                libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC);
            }
            libc::fcntl(ends[0], libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK);
            (File::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
        };
        let keys = replaced[0].then(|| duplicate(libc::STDIN_FILENO)).transpose()?;
        let outer = Outer { shows: duplicate(shows)?, keys, settings };
        Ok((Some(Self { master, replaced, outer }), Slave(Some((slave, replaced)))))
    }

    /// Passes on what is typed and what is shown, until [`Relay::end`].
    pub(super) fn relay(mut self) -> io::Result<Relay> {
        let master = self.master.try_clone()?;
        let _ = TAKEN.set((self.outer.shows.as_raw_fd(), self.outer.settings));
        let is_over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&is_over);
        let thread = Builder::new().name("icecore-relay".into()).spawn(move || {
            rights::keep(Part::Helper);
            if self.pass(&until) {
                set(self.outer.shows.as_raw_fd(), &self.outer.settings);
            }
        })?;
        Ok(Relay { master, is_over, thread: Some(thread) })
    }

    /// Returns true if it has changed the settings of the recorder's terminal.
    fn pass(&mut self, until: &AtomicBool) -> bool {
        let (mut bytes, mut typed, mut is_taken) = ([0; 4096], Vec::new(), false);
        let shows = self.outer.shows.as_raw_fd();
        loop {
            let is_last = until.load(Ordering::Relaxed);
            is_taken |= self.follow(shows);
            let keys = self.outer.keys.as_ref().filter(|_| typed.is_empty() && is_in_foreground(shows));
            let keys = keys.map_or(-1, |keys| keys.as_raw_fd());
            let writes = if typed.is_empty() { 0 } else { libc::POLLOUT };
            let events = libc::POLLIN | writes;
            let mut polled = [
                libc::pollfd { fd: self.master.as_raw_fd(), events, revents: 0 },
                libc::pollfd { fd: keys, events: libc::POLLIN, revents: 0 },
            ];
            // SAFETY: the pointer is to two entries; the kernel leaves out negative descriptors.
            unsafe { libc::poll(polled.as_mut_ptr(), 2, if is_last { 0 } else { LOOK_EVERY_MS }) };
            if polled[1].revents != 0
                && let Some(keys) = &mut self.outer.keys
            {
                match keys.read(&mut bytes) {
                    Ok(count @ 1..) => typed.extend_from_slice(&bytes[..count]),
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    _ => self.outer.keys = None,
                }
            }
            if let Ok(count) = self.master.write(&typed) {
                typed.drain(..count);
            }
            match self.master.read(&mut bytes) {
                Ok(count @ 1..) => {
                    let _ = self.outer.shows.write_all(&bytes[..count]);
                }
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    if is_last {
                        return is_taken;
                    }
                }
                // No process has the slave open.
                _ => return is_taken,
            }
        }
    }

    /// Lets the terminal of the recorder do what that of the command does: its size, and which keys are signals; all other keys go to the
    /// command as they are. Returns true if the terminal of the recorder has these settings now.
    fn follow(&self, outer: RawFd) -> bool {
        let master = self.master.as_raw_fd();
        let now = size(outer);
        let known = size(master);
        if (known.ws_row, known.ws_col) != (now.ws_row, now.ws_col) {
            // SAFETY: the request reads a size.
            unsafe { libc::ioctl(master, libc::TIOCSWINSZ, &raw const now) };
        }
        let (Ok(inner), true) = (settings(master), self.replaced[0] && is_in_foreground(outer)) else {
            return false;
        };
        let mut wanted = self.outer.settings;
        wanted.c_iflag &= !(libc::ICRNL | libc::INLCR | libc::IGNCR | libc::IXON | libc::ISTRIP);
        wanted.c_lflag &= !(libc::ICANON | libc::ECHO | libc::IEXTEN | libc::ISIG);
        // Ctrl-C is for the recorder, which passes it on; it must not stop, or leave the terminal like this.
        wanted.c_lflag |= inner.c_lflag & libc::ISIG;
        wanted.c_cc[libc::VQUIT] = 0;
        wanted.c_cc[libc::VSUSP] = 0;
        wanted.c_cc[libc::VMIN] = 1;
        wanted.c_cc[libc::VTIME] = 0;
        wanted.c_oflag = wanted.c_oflag & !libc::OPOST | inner.c_oflag & libc::OPOST;
        let is_known = |known: libc::termios| {
            let flags = |of: &libc::termios| (of.c_iflag, of.c_oflag, of.c_lflag, of.c_cc);
            flags(&known) == flags(&wanted)
        };
        settings(outer).is_ok_and(|known| is_known(known) || set(outer, &wanted))
    }
}

impl Slave {
    /// Makes the caller the first process of a session, whose terminal this is, and closes at the exec what it has inherited beside the standard
    /// descriptors. It is safe between fork and exec.
    pub(super) fn take(&self) -> io::Result<()> {
        // SAFETY: plain system calls.
        unsafe {
            if libc::setsid() < 0 {
                return Err(io::Error::last_os_error());
            }
            if let Some((slave, replaced)) = &self.0 {
                if libc::ioctl(slave.as_raw_fd(), libc::TIOCSCTTY, 0) < 0 {
                    return Err(io::Error::last_os_error());
                }
                for (fd, _) in (0..).zip(replaced).filter(|(_, is_replaced)| **is_replaced) {
                    libc::dup2(slave.as_raw_fd(), fd);
                }
            }
            // Since 5.11.
            if libc::syscall(libc::SYS_close_range, FIRST_OTHER, libc::c_uint::MAX, CLOSE_RANGE_CLOEXEC) < 0 {
                for fd in FIRST_OTHER as libc::c_int..libc::getdtablesize() {
                    libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC);
                }
            }
        }
        Ok(())
    }
}

/// A thread that passes on what is typed and what is shown.
#[derive(Debug)]
pub(crate) struct Relay {
    master: File,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Does to the command what Ctrl-C does at its terminal.
    pub(crate) fn interrupt(&self) {
        // SAFETY: the request takes a number.
        unsafe { libc::ioctl(self.master.as_raw_fd(), TIOCSIG, libc::SIGINT) };
    }
}

impl Drop for Relay {
    /// Shows what the command has written, and gives the terminal of the recorder its settings back.
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn duplicate(fd: RawFd) -> io::Result<File> {
    // SAFETY: the kernel makes a new descriptor, which nobody else owns.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, FIRST_OTHER) };
    // SAFETY: as above.
    if copy < 0 { Err(io::Error::last_os_error()) } else { Ok(unsafe { File::from_raw_fd(copy) }) }
}

fn settings(fd: RawFd) -> io::Result<libc::termios> {
    // SAFETY: all-zero settings are a valid value, which the call fills.
    unsafe {
        let mut settings = std::mem::zeroed();
        if libc::tcgetattr(fd, &raw mut settings) < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(settings)
    }
}

fn set(fd: RawFd, settings: &libc::termios) -> bool {
    // SAFETY: the call reads settings.
    unsafe { libc::tcsetattr(fd, libc::TCSADRAIN, settings) == 0 }
}

fn size(fd: RawFd) -> libc::winsize {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes a size.
    unsafe { libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) };
    size
}

/// Returns true if this process is in the foreground of its terminal: only then may it read from it and change its settings.
fn is_in_foreground(terminal: RawFd) -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::tcgetpgrp(terminal) == libc::getpgrp() }
}
