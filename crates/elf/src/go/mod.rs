//! Reads the table that Go writes into its programs for its own stack traces, and that stripping leaves: names and stack depths
//! of functions. Recorder and report both use this reader.
//!
//! | room | what lives there |
//! |---|---|
//! | `open` | finds the table in a file |
//! | `table` | `.gopclntab`: functions by address, names, stack depths |
//! | `rules` | makes unwind tables of it, in the format of `.debug_frame` |
//!
//! The table may be hostile: the reader checks every size and bounds every loop, and nothing panics.

#[cfg(test)]
mod fixture;
mod open;
mod pclntab;
mod rules;

pub use open::{Loaded, Part, open};
pub use pclntab::{Function, Pclntab, SECTIONS, SectionBytes};
pub use rules::{FDE_AT, Kind, MadeRule, SHARED_LEN, rule, shared};
