//! The terminal on stderr.
#![allow(unsafe_code)]

/// The width of a terminal that does not know its own, columns.
const USUAL: u16 = 80;

/// Returns the width of the terminal on stderr, columns; `None` if another job is in its foreground, which a line in place would
/// disturb, or if there is no terminal.
pub(crate) fn width() -> Option<u16> {
    let mut size = libc::winsize { ws_row: 0, ws_col: 0, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: the request writes a winsize; the other calls take no pointers. A terminal that does not control this process has no
    // foreground group for it (-1), and no other job of its either.
    unsafe {
        let foreground = libc::tcgetpgrp(libc::STDERR_FILENO);
        let is_ours = foreground < 0 || foreground == libc::getpgrp();
        let has_size = libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) == 0;
        (is_ours && has_size).then_some(if size.ws_col == 0 { USUAL } else { size.ws_col })
    }
}
