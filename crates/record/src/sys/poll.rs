//! Waiting for the ring.
#![allow(unsafe_code)]

use std::time::Duration;

use libbpf_rs::RingBuffer;

/// Waits until there is something in the ring, at most so long. It takes nothing: libbpf's own wait would go on as long as
/// something comes.
pub(crate) fn wait_for(ring: &RingBuffer<'_>, at_most: Duration) {
    let mut event = libc::epoll_event { events: 0, u64: 0 };
    let milliseconds = i32::try_from(at_most.as_millis()).unwrap_or(i32::MAX);
    // SAFETY: the descriptor is open as long as the ring is, and one event is what there is room for. An interrupted wait is a
    // wait that ended.
    unsafe { libc::epoll_wait(ring.epoll_fd(), &raw mut event, 1, milliseconds) };
}
