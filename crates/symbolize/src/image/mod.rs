//! Finds the ELF file of a recorded image, and reads its headers.
//!
//! A recording is untrusted data, and so are the files to which it leads. This room opens a path without effects on what lies
//! there, compares the identity *before* it reads anything else, and compares sizes with a limit before it allocates. It reads
//! headers and notes, and provides the bytes of sections; it knows nothing about symbols, DWARF or unwind tables.

mod attempts;
pub(crate) mod budget;
mod debug_search;
mod door;
mod files;
mod finder;
#[cfg(any(test, feature = "fixture"))]
#[doc(hidden)]
pub mod fixture;
mod gsym;
mod gsym_search;
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

pub use crate::identity::{Identity, Inode, Kind, Stamp};
pub use attempts::{Attempt, Evidence, FileSource, Outcome};
pub use budget::refusals;
pub use door::{Door, READER, answer_requests};
pub(crate) use files::Gsym;
pub use files::{Files, FoundFile, FoundState, Knowledge, Looked};
pub use finder::{Carried, Finder};
pub(crate) use gsym::{HEADER_LEN as GSYM_HEADER_LEN, Header as GsymHeader};
pub use icecore_elf::{FileOff, Layout, Section, Svma};
pub use identify::{DELETED, TRUSTED};
pub use open::{ElfFile, supports_sysroot};
pub(crate) use places::download;
pub use present::Present;
pub use search::{PathMap, Search};
pub use sections::{Readable, Sections};
pub(crate) use split::units;
pub use tree::Symbols;

/// Writes a build-id in hexadecimal.
pub fn hex(build_id: &[u8]) -> String {
    build_id.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // a String takes everything
        hex
    })
}
