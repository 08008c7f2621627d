//! Reads recordings offline: names every address, and shows where time went.
//!
//! | room | what lives there |
//! |---|---|
//! | [`cli`], [`usage`] | what was typed, and what is said if it makes no sense |
//! | [`input`] | files and directories that were typed |
//! | [`run`](mod@run) | one command line: pipeline, then view |
//! | [`pipeline`] | the way from a file to everything that a view may show |
//! | [`load`] | a recording as tables; what is damaged, counted |
//! | [`timeline`] | address spaces, replayed to any moment |
//! | [`filter`], [`hits`] | samples, filtered and made distinct |
//! | [`locate`], [`kernel`] | addresses as places in images and in the kernel |
//! | [`image`], [`symbolize`](mod@symbolize), [`names`] | places as functions and source lines |
//! | [`profile`], [`tree`] | named stacks; stacks merged into trees |
//! | [`views`] | what is printed |
//! | [`term`] | text for people: tables, quantities, progress |
//!
//! Data flows down that list. Every stage is a function of its input, keeps no state and gives the same
//! bytes for any number of threads.

pub mod cli;
pub mod filter;
pub mod hits;
pub mod image;
pub mod input;
pub mod kernel;
pub mod load;
pub mod locate;
pub mod names;
pub mod pipeline;
pub mod profile;
pub mod run;
pub mod symbolize;
pub mod term;
pub mod timeline;
pub mod tree;
pub mod usage;
pub mod views;

pub use run::{Streams, run};
