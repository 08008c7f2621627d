//! Waits for records in the ring.
#![allow(unsafe_code)]

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
