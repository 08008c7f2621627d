//! Addresses of the two kinds that are known without a process.

/// An offset in a file, as a mapping has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOff(pub u64);

/// An address as the ELF file has it (stated virtual memory address), before any relocation by a loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Svma(pub u64);
