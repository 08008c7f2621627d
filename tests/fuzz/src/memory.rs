//! Counts the memory in use, so that a target can promise how much an input may cost.
//!
//! Uses `unsafe`: an allocator cannot be written without.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

/// No input may make a single execution hold more, bytes. Beyond it nothing is allocated: the process aborts
/// before the machine suffers.
const HARD_LIMIT: usize = 3 << 30;

struct Counting;

// SAFETY: every request goes to the system's allocator unchanged; null is an answer that callers expect.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !grow(layout.size()) {
            return std::ptr::null_mut();
        }
        // SAFETY: the caller's promises are handed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: the caller's promises are handed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

fn grow(by_bytes: usize) -> bool {
    let now = IN_USE.fetch_add(by_bytes, Relaxed) + by_bytes;
    PEAK.fetch_max(now, Relaxed);
    if now > HARD_LIMIT {
        IN_USE.fetch_sub(by_bytes, Relaxed);
    }
    now <= HARD_LIMIT
}

/// Does something, and panics if it held more than so many bytes at one moment.
pub fn within<T>(limit_bytes: usize, work: impl FnOnce() -> T) -> T {
    let before = IN_USE.load(Relaxed);
    PEAK.store(before, Relaxed);
    let done = work();
    let peak = PEAK.load(Relaxed).saturating_sub(before);
    assert!(peak <= limit_bytes, "{peak} bytes of memory were held, {limit_bytes} are allowed");
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_held_and_given_back_counts() {
        // Large against what other tests hold meanwhile; nothing is touched.
        let hold = |len: usize| drop(std::hint::black_box(Vec::<u8>::with_capacity(len)));
        within(512 << 20, || hold(256 << 20));
        let beyond = std::panic::catch_unwind(|| within(512 << 20, || hold(768 << 20)));
        assert!(beyond.is_err());
    }
}
