//! What Go writes into its programs for its own stack traces, and what stripping leaves: names and stack depths of functions.
//! Recorder and report read it; there is one understanding of it.
//!
//! | room | what lives there |
//! |---|---|
//! | `table` | `.gopclntab`: functions by address, names, how deep the stack is |
//! | `rules` | the same as unwind tables, in the format of `.debug_frame` |
//!
//! What is read is hostile: every size is checked, every loop is bounded, nothing panics.

#[cfg(test)]
mod fixture;
mod rules;
mod table;

pub use rules::{FDE_AT, Kind, MadeRule, SHARED_LEN, rule, shared};
pub use table::{Function, MAX_BEGINNINGS, SECTIONS, Source, Table, Where, beginnings};
