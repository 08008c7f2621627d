//! Finds the ELF file behind a recorded image, and reads what its headers say.
//!
//! A recording is untrusted data, and so are the files it leads to: a path is opened without acting on what
//! lies there, the identity is compared *before* anything else is read, sizes are compared with a limit before
//! they are allocated. This room reads headers, notes and single sections; it knows nothing of symbols, DWARF
//! or unwind rules, and keeps no file in memory.

mod debug_file;
mod embedded;
#[cfg(test)]
pub(crate) mod fixture;
mod identify;
mod layout;
mod linked;
mod open;
mod present;
mod sections;

use std::path::PathBuf;

use icecore_format::records::ImageKind;

pub(crate) use debug_file::{debug_file, stand_in};
pub use embedded::EmbeddedFiles;
pub(crate) use identify::find;
pub(crate) use layout::{Layout, Section};
pub(crate) use linked::{package, split, supplement};
pub(crate) use open::ElfFile;
pub(crate) use sections::Sections;

/// An offset in a file, as a mapping of the recording has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileOff(pub u64);

/// An address as the ELF file has it (stated virtual memory address), before any relocation by a loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Svma(pub u64);

/// What the recording says of an image, with text resolved.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Identity {
    /// What backs the mapping.
    pub kind: ImageKind,
    /// Path as the process saw it; may end in ` (deleted)`.
    pub path: String,
    /// Build-id; empty if the recording has none.
    pub build_id: Vec<u8>,
    /// Size of the file in bytes; 0 if unknown.
    pub size_bytes: u64,
    /// Last modification, ns since 1970-01-01 UTC; 0 if unknown.
    pub modified_unix_ns: u64,
}

/// Where files are looked for, besides the recorded path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Search {
    /// Directories that hold `.build-id/xx/rest.debug`, or the image itself without `.debug`; tried in this order.
    pub debug_dirs: Vec<PathBuf>,
}

impl Default for Search {
    fn default() -> Self {
        Self { debug_dirs: vec![PathBuf::from("/usr/lib/debug")] }
    }
}
