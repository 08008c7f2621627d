//! Namespaces of processes.

use std::fmt::Display;
use std::os::unix::fs::MetadataExt as _;

/// Returns the inode number of a process's mount namespace; `None` if the process has ended, or the recorder may not look at it.
///
/// # Source
/// namespaces(7): two processes are in one namespace if device and inode of their links are equal; all lie on one device
pub(crate) fn mount(who: impl Display) -> Option<u64> {
    std::fs::metadata(format!("/proc/{who}/ns/mnt")).ok().map(|meta| meta.ino())
}

/// Returns true if the time namespace of a process is that of its children, or if the kernel has none.
///
/// # Source  time_namespaces(7)
pub(crate) fn is_time_of_children(tgid: u32) -> bool {
    let of = |name: &str| std::fs::metadata(format!("/proc/{tgid}/ns/{name}")).ok().map(|meta| meta.ino());
    of("time") == of("time_for_children")
}
