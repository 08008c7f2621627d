//! How both programs print: numbers with their units, and text that others wrote.
//!
//! | room | what lives there |
//! |---|---|
//! | [`clean`] | text of others without characters that steer a terminal |
//! | [`door`] | the writer through which everything goes to a terminal |
//! | [`path`] | paths as text, and as words of a shell's command line |
//! | [`quantity`] | numbers, bytes, durations, shares |
//!
//! Names of files, threads and cgroups are chosen by whoever runs a program; the text of a recording by whoever wrote
//! it. Nothing of that may reach a terminal as a command to it.

pub mod clean;
pub mod door;
pub mod path;
pub mod quantity;
