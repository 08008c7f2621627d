//! Makes recordings of recordings, and of files of other tools.
//!
//! | room | what lives there |
//! |---|---|
//! | `error` | why a recording cannot be made |
//! | `blocks` | blocks that several edits write |
//! | `excerpt` | the common part of `cut` and `compact` |
//! | [`merge`] | joins several recordings: copies blocks unchanged |
//! | [`pack`] | adds what this machine knows about the code |
//! | [`cut`](mod@cut) | selects samples, and encodes the rows that they need |
//! | [`compact`](mod@compact) | unwinds stacks, and drops the memory from which they were unwound |
//! | [`import`](mod@import) | makes a recording from a file of `perf record`, or from a profile of another tool |
//! | [`repair`] | recovers the intact blocks of a damaged recording |
//!
//! A room uses rooms above it in this list, and none below. Every edit takes opened inputs, writes blocks into a writer of the caller,
//! and returns what it did as plain numbers. It never changes an input. Nothing here prints, names files or knows a command line.

mod blocks;
pub mod compact;
pub mod cut;
mod error;
mod excerpt;
pub mod import;
pub mod merge;
pub mod pack;
pub mod repair;

pub use error::Error;
