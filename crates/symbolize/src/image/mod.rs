//! Finds the ELF file of a recorded image, and reads its headers.
//!
//! A recording is untrusted data, and so are the files to which it leads. This room opens a path without effects on what lies
//! there, compares the identity *before* it reads anything else, and compares sizes with a limit before it allocates. It reads
//! headers and notes, and provides the bytes of sections; it knows nothing about symbols, DWARF or unwind tables.

mod attempts;
pub(crate) mod budget;
mod debug_search;
mod files;
#[cfg(any(test, feature = "fixture"))]
#[doc(hidden)]
pub mod fixture;
mod gsym;
mod identify;
mod mini;
mod open;
mod places;
mod pointers;
mod present;
mod search;
mod sections;
mod split;
mod tree;

use std::fmt::Write;

pub use attempts::{Attempt, FileSource, Outcome};
pub use budget::refusals;
pub use files::{Carried, Finder, FoundState, Stamp};
pub use files::{Files, FoundFile, Knowledge, Looked};
pub(crate) use gsym::{Gsym, HEADER_LEN as GSYM_HEADER_LEN, Header as GsymHeader};
pub use icecore_elf::{FileOff, Layout, Section, Svma};
pub use identify::DELETED;
pub use open::{ElfFile, supports_sysroot};
pub(crate) use places::download;
pub use present::Present;
pub use search::{PathMap, Search};
pub use sections::{Readable, Sections};
pub(crate) use split::units;
pub use tree::Symbols;

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

/// Writes a build-id in hexadecimal.
pub fn hex(build_id: &[u8]) -> String {
    build_id.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // a String takes everything
        hex
    })
}
