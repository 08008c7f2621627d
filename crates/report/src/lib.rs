//! Reads recordings offline: names every address, and shows where time went.
//!
//! | room | what lives there |
//! |---|---|
//! | [`base`] | what every room stands on: hash tables, files that are written, text for people |
//! | [`recording`] | a recording as tables: opened, checked, filtered; address spaces and cgroups at any moment |
//! | [`stacks`] | samples as stacks of locations: counted, unwound, checked against the code |
//! | [`profile`] | stacks with names; the pipeline from a file to a profile |
//! | [`analysis`] | what profiles say: over time, against each other, of themselves |
//! | [`listing`] | the source and the instructions of functions, and how often samples hit them |
//! | [`cli`] | options that several commands share, and the arguments of commands that are no view |
//! | [`views`] | what is printed |
//! | [`serve`] | a page on loopback, and the answers to what it and the Firefox Profiler ask |
//! | [`edit`] | recordings made of recordings |
//! | [`run`](mod@run) | the list of commands; one command line: pipeline, then view |
//!
//! A room uses rooms above it in this list, and none below: docs/ARCHITECTURE.md, "Rooms". Data flows down the list. Every stage is a
//! function of its input, keeps no state and gives the same bytes for any number of threads.

pub mod analysis;
pub mod base;
pub mod cli;
pub mod edit;
pub mod listing;
pub mod profile;
pub mod recording;
pub mod run;
pub mod serve;
pub mod stacks;
pub mod views;

pub use run::{Streams, run};
