//! Starts processes that do one piece of work of the recorder, and have nothing of it but a socket.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::rights;

/// The descriptor of the socket in the new process.
const SOCKET: i32 = 3;

/// Starts a process that does some work with its end of a socket, and then ends. The process is in a session of its own, where no Ctrl-C
/// reaches it; it has no other descriptors, and reads and writes nothing.
///
/// Before another thread exists, the work may do everything. Later, it may still allocate memory: the C library puts its locks in order.
///
/// # Errors
/// As the operating system says.
pub(crate) fn fork(name: &std::ffi::CStr, socket: OwnedFd, work: impl FnOnce(OwnedFd)) -> io::Result<u32> {
    // SAFETY: the new process has this thread alone; what it does then is the work of `apart`, and it never returns.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // A panic must not unwind into the caller's code, of which this is a copy.
            let _ = catch_unwind(AssertUnwindSafe(|| work(apart(name, &socket))));
            // SAFETY: ends the process without what the original does at its end.
            unsafe { libc::_exit(0) }
        }
        pid => Ok(pid.cast_unsigned()),
    }
}

/// Leaves everything of the original process behind, except for a socket, which is returned.
fn apart(name: &std::ffi::CStr, socket: &OwnedFd) -> OwnedFd {
    rights::hide();
    // SAFETY: plain system calls; the path and the name end with a zero. What fails leaves the process as it is, which does no harm. The
    // last value is the only owner of the socket.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, name.as_ptr());
        for signal in [libc::SIGINT, libc::SIGHUP, libc::SIGTERM, libc::SIGXFSZ] {
            libc::signal(signal, libc::SIG_DFL);
        }
        // The kernel frees processes that this one starts as soon as they end.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        (0..SOCKET).for_each(|standard| _ = libc::dup3(nothing, standard, 0));
        if socket.as_raw_fd() != SOCKET {
            libc::dup3(socket.as_raw_fd(), SOCKET, 0);
        }
        libc::syscall(libc::SYS_close_range, SOCKET + 1, u32::MAX, 0);
        OwnedFd::from_raw_fd(SOCKET)
    }
}

/// Acts as a user and a group when it opens files, as far as this thread may; as root again with 0.
pub(crate) fn open_as(uid: u32, gid: u32) {
    // SAFETY: plain system calls. Raw ones, because those of the C library are the same.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
}
