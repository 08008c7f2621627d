//! What a recorder and a report both read of programs, so that there is one understanding of it.
//!
//! | module | what lives there |
//! |---|---|
//! | [`Layout`], [`build_id()`] | segments, sections, and who the file is |
//! | [`SymbolTable`] | the function around an address, by the name that people know |
//! | [`Beginnings`] | where functions begin of which no symbol tells the end |
//! | [`readable`], [`demangled`] | names of C++, Rust, D and OCaml as people write them |
//! | [`static_probes()`] | the instructions that authors named for tracers |
//! | [`plt`] | which function a PLT stub calls |
//! | [`go`] | what Go writes into its programs: names of functions, and how deep their stacks are |
//! | [`EhFrameHdr`], [`Entries`] | where functions begin, and their unwind tables |
//! | [`cfi`] | the unwind tables of all functions, one after the other |
//! | [`frame_pointers`] | whether code keeps frame pointers |
//! | [`walk_rows`] | unwind tables in the form that a walk in the kernel can use |
//! | [`calls`] | which bytes are call instructions |
//! | [`Machine`] | machines, their registers by DWARF's numbers |
//! | [`FileOff`], [`Svma`], [`Avma`] | offsets in files, addresses as files have them, addresses in processes |
//! | [`Capped`] | bounds what a file may make its reader hold |
//!
//! What is read is hostile: every size is checked, every loop is bounded, nothing panics; what cannot be read is `None`. It knows no
//! recording and opens no file: callers bring bytes, or what reads them ([`ReadRef`](object::read::ReadRef)).
//!
//! # Example
//! The function that this program begins with:
//! ```
//! use icecore_elf::{Beginnings, Layout, SymbolTable};
//!
//! let file = std::fs::read(std::env::current_exe()?)?;
//! let layout = Layout::read(&file[..]).expect("an ELF file");
//! let around = SymbolTable::Static.around(&file[..], &[layout.entry], Beginnings::UNKNOWN).expect("a symbol table");
//! let function = around[0].as_ref().expect("code lies at the entry");
//! assert_eq!((function.start, &*function.name), (layout.entry, &b"_start"[..]));
//! # Ok::<(), std::io::Error>(())
//! ```
//! The recorder keeps a word of the stack as a return address only if a call may stand before it:
//! ```
//! use icecore_elf::calls::x86_64;
//!
//! // call 0x1005: the five bytes before the return address 0x1005, and where they lead from there
//! let before = x86_64::before(&[0xe8, 0x00, 0x00, 0x00, 0x00], 0x1005);
//! assert_eq!(before.direct, Some(0x1005));
//! // nop; nop: no call
//! assert!(!x86_64::before(&[0x90, 0x90], 0x1005).is_some());
//! ```

mod address;
mod beginnings;
mod build_id;
pub mod calls;
mod capped;
pub mod cfi;
mod eh_frame_hdr;
#[cfg(test)]
mod fixture;
pub mod frame_pointers;
pub mod go;
mod layout;
mod machine;
mod mangled;
pub mod plt;
mod relocations;
mod static_probes;
mod symbols;
pub mod walk_rows;

pub use address::{Avma, FileOff, Svma};
pub use beginnings::{Beginnings, Referred, referred};
pub use build_id::{build_id, build_id_of_notes};
pub use capped::Capped;
pub use cfi::MAX_ENTRY_BYTES;
pub use eh_frame_hdr::{EhFrameHdr, Entries, eh_frame_at};
pub use layout::{Layout, Section};
pub use machine::Machine;
pub use mangled::{demangled, is_legacy_rust, readable, without_parameters};
pub use object::Endianness;
pub use static_probes::{StaticProbe, static_probes};
pub use symbols::{MAX_ALIASES, Symbol, SymbolTable, part_of, unversioned};
