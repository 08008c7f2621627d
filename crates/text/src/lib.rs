//! How both programs print: numbers with their units, and text that others wrote.
//!
//! | room | what lives there |
//! |---|---|
//! | [`clean`] | text of others without characters that steer a terminal |
//! | [`door`] | the writer through which everything goes to a terminal |
//! | [`glob`] | patterns with wildcards |
//! | [`path`] | paths as text, and as words of a shell's command line |
//! | [`quantity`] | numbers, bytes, durations, shares |
//!
//! Any user can choose names of files, threads and cgroups, and anybody can write a recording. A terminal must not take such text
//! as commands.

pub mod clean;
pub mod door;
pub mod glob;
pub mod path;
pub mod quantity;
