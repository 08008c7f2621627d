//! A file that is to be removed also when a signal ends this process at once.
#![allow(unsafe_code)]

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The file, and whether it is there.
static FILE: OnceLock<CString> = OnceLock::new();
static IS_THERE: AtomicBool = AtomicBool::new(false);

/// Names the file; the first one counts.
pub(crate) fn remember(path: &Path) {
    // A path that the kernel has just taken has no zero byte.
    if let Ok(path) = CString::new(path.as_os_str().as_bytes()) {
        let is_it = *FILE.get_or_init(|| path.clone()) == path;
        IS_THERE.store(is_it, Ordering::Relaxed);
    }
}

/// Forgets the file: somebody else removes it.
pub(crate) fn forget() {
    IS_THERE.store(false, Ordering::Relaxed);
}

/// Removes the file when a signal ends this process at once: if `ends` is true by then. It must be called before the signal gets the handler
/// that ends the process.
pub(crate) fn remove_at(signal: libc::c_int, ends: Arc<AtomicBool>) -> io::Result<()> {
    let remove = move || {
        if let (true, true, Some(path)) =
            (ends.load(Ordering::Relaxed), IS_THERE.load(Ordering::Relaxed), FILE.get())
        {
            // SAFETY: the path ends with a zero byte and is never freed.
            unsafe { libc::unlink(path.as_ptr()) };
        }
    };
    // SAFETY: the function makes one system call, which may be made in a handler; it allocates nothing, and never panics.
    unsafe { signal_hook::low_level::register(signal, remove).map(drop) }
}
