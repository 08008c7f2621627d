//! Inputs as files, in memory where there is a file system for that.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};

/// Lends bytes as a file without a name, of which nothing is left behind whatever happens.
pub(crate) fn as_file<T>(bytes: &[u8], work: impl FnOnce(&Path) -> T) -> T {
    let mut file: File = tempfile::tempfile_in(folder()).expect("a temporary file");
    file.write_all(bytes).expect("room for one input");
    work(Path::new(&format!("/proc/self/fd/{}", file.as_raw_fd())))
}

/// Where temporary files cost least.
pub(crate) fn folder() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}
