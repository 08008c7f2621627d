//! Waits for records in the ring.
#![allow(unsafe_code)]

use std::os::fd::RawFd;
use std::time::Duration;

use libbpf_rs::RingBuffer;

/// Waits until the ring holds a record, at most for `at_most`. It takes no records, unlike the wait of libbpf, which goes on while
/// records arrive.
pub(crate) fn wait_for(ring: &RingBuffer<'_>, at_most: Duration) {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let milliseconds = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the descriptor is open as long as the ring is, and there is room for the one event that is requested. An
    // interruption ends the wait.
    unsafe { libc::epoll_wait(ring.epoll_fd(), &raw mut event, 1, milliseconds) };
}

/// Waits until one of several queues of perf events has enough records, at most for `at_most`. A queue whose threads have all ended is always
/// ready: its descriptor is replaced by -1, for which nobody waits.
pub(crate) fn wait_for_any(events: &mut [RawFd], at_most: Duration) {
    let polled = |fd: &RawFd| libc::pollfd { fd: *fd, events: libc::POLLIN, revents: 0 };
    let mut all: Vec<libc::pollfd> = events.iter().map(polled).collect();
    let milliseconds = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the kernel writes to the elements of `all`, whose number it is told. An interruption ends the wait.
    unsafe { libc::poll(all.as_mut_ptr(), all.len() as libc::nfds_t, milliseconds) };
    for (event, polled) in events.iter_mut().zip(all) {
        if polled.revents & (libc::POLLHUP | libc::POLLERR | libc::POLLNVAL) != 0 {
            *event = -1;
        }
    }
}
