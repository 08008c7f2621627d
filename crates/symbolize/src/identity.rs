//! What tells images and files apart.

/// The kind of memory that backs a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A file.
    File,
    /// Anonymous memory: JIT code.
    Anonymous,
    /// The vDSO: code that the kernel maps into every process.
    Vdso,
    /// Anything else without a file: `[vsyscall]`, `[uprobes]`.
    Special,
}

/// A file on its machine. A path may lead to another file later, and two files may have one size and one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Inode {
    /// The device of the file system, as stat(2) shows it.
    pub device: u64,
    /// The inode.
    pub number: u64,
}

/// The recording's description of an image, with its texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// The kind of its memory.
    pub kind: Kind,
    /// Its path as the process saw it; may end in ` (deleted)`.
    pub path: String,
    /// Build-id; empty if the recording has none.
    pub build_id: Vec<u8>,
    /// Size of the file in bytes; 0 if unknown.
    pub size_bytes: u64,
    /// Last modification, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
    /// Which file it was on the recorded machine; `None` if that is unknown.
    pub inode: Option<Inode>,
    /// The recording has another file of the same path, size and time, so that these three prove nothing.
    pub has_double: bool,
}

/// The state of a file when names were taken from it: after a change, its answers may differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Its path on this machine.
    pub path: String,
    /// Length, bytes.
    pub len: u64,
    /// Which file it is; `None` if it has no path.
    pub inode: Option<Inode>,
    /// Last change of its contents or its names, ns since 1970-01-01 UTC; 0 if it has no path. Unlike the time of the last
    /// modification, no program can set it.
    pub changed_unix_ns: u64,
}
