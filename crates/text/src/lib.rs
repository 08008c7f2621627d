//! How both programs print: numbers with their units, pages and tables, and text that others wrote.
//!
//! | room | what lives there |
//! |---|---|
//! | [`chart`], [`csv`], `table` | bars of text, comma-separated values, columns |
//! | [`clean`] | text of others without characters that steer a terminal |
//! | [`door`] | the writer through which everything goes to a terminal |
//! | [`fit`] | texts cut to a number of columns |
//! | [`glob`], [`near`] | patterns with wildcards; what a misspelt word may be meant for |
//! | [`name`] | names of functions cut to a number of columns |
//! | `page` | lines for people, with or without color |
//! | [`path`] | paths as text, and as words of a shell's command line |
//! | [`quantity`] | numbers, bytes, durations, shares |
//! | [`shorten`] | names and stacks that are too long to be shown |
//!
//! Any user can choose names of files, threads and cgroups, and anybody can write a recording. A terminal must not take such text
//! as commands.

pub mod chart;
pub mod clean;
pub mod csv;
pub mod door;
pub mod fit;
pub mod glob;
pub mod name;
pub mod near;
mod page;
pub mod path;
pub mod quantity;
pub mod shorten;
mod table;

pub use page::{Page, Style};
pub use table::{Align, Table};
