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
}

/// The state of a file when names were taken from it: after a change, its answers may differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp {
    /// Its path on this machine.
    pub path: String,
    /// Length, bytes.
    pub len: u64,
    /// Last modification, ns since 1970-01-01 UTC.
    pub modified_unix_ns: u64,
}
