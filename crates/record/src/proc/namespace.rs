//! Namespaces of processes.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt as _;

/// The mount namespace of a process, by the number of its inode; `None` if it has ended, or may not be looked at.
///
/// # Source
/// namespaces(7): two processes are in one namespace if device and inode of their links are equal; all lie on one device
pub(crate) fn mount(who: impl Display) -> Option<u64> {
    std::fs::metadata(format!("/proc/{who}/ns/mnt")).ok().map(|meta| meta.ino())
}
