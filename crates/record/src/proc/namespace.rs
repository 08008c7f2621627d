//! Namespaces of processes.

use std::fmt::Display;
use std::io;
use std::os::unix::fs::MetadataExt as _;

/// A kind of namespace of which the first one has a fixed inode number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Cgroup,
    Pid,
    User,
}

/// Returns true if this process is in the first namespace of a kind, which is the machine's own; also if the kernel has no such
/// namespaces.
///
/// # Errors
/// If `/proc` cannot be read.
/// # Source
/// Linux `include/linux/proc_ns.h`: `PROC_CGROUP_INIT_INO` and its neighbours, the same on every kernel
pub(crate) fn is_first(kind: Kind) -> io::Result<bool> {
    let (name, first) = match kind {
        Kind::Cgroup => ("cgroup", 0xEFFF_FFFB),
        Kind::Pid => ("pid", 0xEFFF_FFFC),
        Kind::User => ("user", 0xEFFF_FFFD),
    };
    match std::fs::metadata(format!("/proc/self/ns/{name}")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && kind != Kind::Pid => Ok(true),
        there => Ok(there?.ino() == first),
    }
}

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
