//! What Go writes into its programs for its own stack traces, and what stripping leaves: names and stack depths of functions.
//! Recorder and report read it; there is one understanding of it.
//!
//! | room | what lives there |
//! |---|---|
//! | `open` | finds the table in a file |
//! | `table` | `.gopclntab`: functions by address, names, how deep the stack is |
//! | `rules` | the same as unwind tables, in the format of `.debug_frame` |
//!
//! What is read is hostile: every size is checked, every loop is bounded, nothing panics.

#[cfg(test)]
mod fixture;
mod open;
mod rules;
mod table;

pub use open::{Part, open};
pub use rules::{FDE_AT, Kind, MadeRule, SHARED_LEN, rule, shared};
pub use table::{Function, SECTIONS, Source, Table};
