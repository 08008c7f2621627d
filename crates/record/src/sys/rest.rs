//! Work that can wait does, while the recorder has used most of its budget.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

static NEEDED: (Mutex<bool>, Condvar) = (Mutex::new(false), Condvar::new());
/// The same, for a look that costs nothing.
static IS_NEEDED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// This thread does such work.
    static MAY: Cell<bool> = const { Cell::new(false) };
    /// This thread does such work and cannot rest, because others wait for it; and whether it had to end.
    static ENDS: Cell<Option<bool>> = const { Cell::new(None) };
    /// How long this thread has rested.
    static RESTED: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// Lets all work wait that can, or go on.
pub(crate) fn need(is_needed: bool) {
    if IS_NEEDED.swap(is_needed, Ordering::Relaxed) == is_needed {
        return;
    }
    *NEEDED.0.lock().unwrap_or_else(PoisonError::into_inner) = is_needed;
    NEEDED.1.notify_all();
}

/// Lets all work go on when this value goes, whatever has happened.
#[derive(Debug)]
pub(crate) struct UntilHere;

impl Drop for UntilHere {
    fn drop(&mut self) {
        need(false);
    }
}

/// Returns true if work that can wait is to.
pub(crate) fn is_needed() -> bool {
    IS_NEEDED.load(Ordering::Relaxed)
}

/// Lets this thread rest: nothing that must go on waits for it.
pub(crate) fn may() {
    MAY.set(true);
}

/// Waits as long as work that can wait is to, if this thread may. It is called often while files are read.
pub(crate) fn rest() {
    if !is_needed() || !MAY.get() {
        return;
    }
    let begun = Instant::now();
    let mut needed = NEEDED.0.lock().unwrap_or_else(PoisonError::into_inner);
    while *needed {
        needed = NEEDED.1.wait(needed).unwrap_or_else(PoisonError::into_inner);
    }
    RESTED.set(RESTED.get() + begun.elapsed());
}

/// Does work that can wait in a thread for which others wait. Returns `None` if the work had to end before it was done, or did not begin: what it has
/// read is not all.
pub(crate) fn unless_needed<T>(work: impl FnOnce() -> T) -> Option<T> {
    if is_needed() {
        return None;
    }
    ENDS.set(Some(false));
    let done = work();
    (ENDS.take() == Some(false)).then_some(done)
}

/// Returns true if the work of this thread must end now, or had to. It is called often while files are read.
pub(crate) fn must_end() -> bool {
    let ends = ENDS.get().is_some_and(|ended| ended || is_needed());
    if ends {
        ENDS.set(Some(true));
    }
    ends
}

/// Returns the time without what this thread has rested: for limits of how long something may take.
pub(crate) fn now() -> Instant {
    let now = Instant::now();
    now.checked_sub(RESTED.get()).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_rests_until_it_need_not_and_its_limits_do_not_pass_meanwhile() {
        let ends = || {
            unless_needed(|| {
                (0..2)
                    .map(|n| {
                        need(n == 1);
                        must_end()
                    })
                    .collect::<Vec<_>>()
            })
        };
        assert_eq!((ends(), must_end()), (None, false), "it ended in the middle");
        assert_eq!(ends(), None, "it did not begin");
        // This thread may not.
        rest();
        let rested = std::thread::spawn(|| {
            let (begun, limit) = (Instant::now(), now() + Duration::from_millis(100));
            may();
            rest();
            (begun.elapsed(), now() < limit)
        });
        std::thread::sleep(Duration::from_millis(300));
        need(false);
        assert_eq!(unless_needed(must_end), Some(false));
        let (lasted, is_in_time) = rested.join().expect("it rests");
        assert!(lasted >= Duration::from_millis(100) && is_in_time, "{lasted:?}");
    }
}
