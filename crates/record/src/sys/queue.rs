//! The memory into which perf events write their records.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use super::perf;

/// The data of a queue of mapping reports, bytes: room for about 2,000 mappings between two drains.
const DATA_BYTES: usize = 256 << 10;
/// The largest mapping report: one with the longest path.
const MAX_RECORD_BYTES: usize = 8 << 10;

/// The result of draining a queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Drained {
    /// The share of the queue that was full, 0 to 1.
    pub(crate) fill: f64,
    /// A record may not have fitted. The kernel reports the loss only before the next record that fits.
    pub(crate) may_lack_some: bool,
}

/// One CPU's queue.
///
/// ```text
///  base        base + page                          base + page + data_bytes
///   | head tail | …old… [tail … unread … head) …free… |
/// ```
#[derive(Debug)]
pub struct Queue {
    base: *mut u8,
    page: usize,
    data_bytes: usize,
    event: OwnedFd,
}

impl Queue {
    /// Maps the queue of an event that reports mappings.
    pub(crate) fn map(event: OwnedFd) -> io::Result<Self> {
        Self::map_with(event, DATA_BYTES)
    }

    /// Maps the queue of an event, with so many bytes of data: pages whose number is a power of two.
    pub(crate) fn map_with(event: OwnedFd, data_bytes: usize) -> io::Result<Self> {
        let page = super::usage::page_bytes() as usize;
        // SAFETY: a new mapping, placed by the kernel; checked below.
        let base = unsafe {
            let access = libc::PROT_READ | libc::PROT_WRITE;
            let fd = event.as_raw_fd();
            libc::mmap(std::ptr::null_mut(), page + data_bytes, access, libc::MAP_SHARED, fd, 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), page, data_bytes, event })
    }

    /// Lets the event report, or not.
    pub(crate) fn listen(&self, listens: bool) {
        if listens {
            let _ = perf::enable(self.event.as_fd());
        } else {
            perf::disable(self.event.as_raw_fd());
        }
    }

    /// Returns the event.
    pub(crate) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Moves all unread records to the end of `out`, each whole, each beginning with its
    /// `perf_event_header`.
    pub(crate) fn drain(&self, out: &mut Vec<u8>) -> Drained {
        let control = self.base.cast::<libbpf_sys::perf_event_mmap_page>();
        // SAFETY: the first page is a perf_event_mmap_page as long as the mapping lives; the kernel
        // writes `data_head`, we alone write `data_tail`, and both are aligned u64.
        let (head, tail) = unsafe {
            (
                AtomicU64::from_ptr(&raw mut (*control).data_head),
                AtomicU64::from_ptr(&raw mut (*control).data_tail),
            )
        };
        let end = head.load(Ordering::Acquire);
        let start = tail.load(Ordering::Relaxed);
        let len = (end.wrapping_sub(start) as usize).min(self.data_bytes);
        let at = start as usize % self.data_bytes;
        let first = len.min(self.data_bytes - at);
        // SAFETY: both parts lie inside the data area, and the kernel does not write between tail and
        // head until the tail is moved below.
        unsafe {
            let data = self.base.add(self.page);
            out.extend_from_slice(std::slice::from_raw_parts(data.add(at), first));
            out.extend_from_slice(std::slice::from_raw_parts(data, len - first));
        }
        // Only this function frees room: if there was too little at any time since the last drain, there is too little now.
        let waiting = head.load(Ordering::Acquire).wrapping_sub(start) as usize;
        tail.store(end, Ordering::Release);
        Drained {
            fill: waiting as f64 / self.data_bytes as f64,
            may_lack_some: waiting + MAX_RECORD_BYTES > self.data_bytes,
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: `base` is the mapping made in `map`, of this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.base.cast(), self.page + self.data_bytes) };
    }
}
