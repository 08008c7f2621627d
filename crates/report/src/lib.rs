//! Reads recordings offline: names every address, and shows where time went.
//!
//! | room | what lives there |
//! |---|---|
//! | `base` | files that are written, progress, words of other profilers |
//! | [`input`] | files and pipes that were typed |
//! | [`cli`] | options that several commands share, and the arguments of commands that are no view |
//! | [`views`] | what is printed |
//! | [`serve`] | a page on loopback, and the answers to what it and the Firefox Profiler ask |
//! | [`run`](mod@run) | the list of commands; one command line: pipeline, then view |
//!
//! A room uses rooms above it in this list, and none below: docs/ARCHITECTURE.md, "Rooms". Data flows down the list. Every stage is a
//! function of its input, keeps no state and gives the same bytes for any number of threads.

mod base;
pub mod cli;
pub mod input;
pub mod run;
pub mod serve;
pub mod views;

pub use run::{Streams, run};
