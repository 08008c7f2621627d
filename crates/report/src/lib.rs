//! Reads recordings offline: names every address, and shows where time went.
//!
//! | room | what lives there |
//! |---|---|
//! | [`cli`], [`usage`] | what was typed, and what is said if it makes no sense |
//! | [`input`] | files and directories that were typed |
//! | [`run`](mod@run) | one command line: pipeline, then view |
//! | [`pipeline`] | the way from a file to everything that a view may show |
//! | [`load`] | a recording as tables; what is damaged, counted |
//! | [`spaces`], [`spans`], [`cgroups`], [`mounts`] | address spaces and cgroups, replayed to any moment; when sessions ran; whose paths recorded paths are |
//! | [`mend`](mod@mend), [`unwind`] | stacks of programs without frame pointers, made whole |
//! | `calls` | which calls stand in the code, and which stacks cannot be for that |
//! | [`filter`], [`hits`] | samples, filtered and made distinct |
//! | [`unwind`](mod@unwind) | registers and stack memory as stacks |
//! | [`locate`], [`kernel`], [`embedded`] | addresses as places in images and in the kernel; names that the recording has |
//! | [`debuginfod`] | files that are missing, downloaded if the user asked for it |
//! | [`image`], [`symbolize`](mod@symbolize), [`names`] | places as functions and source lines |
//! | [`cache`], `found` | what earlier reports found out: on this machine, and in the recording |
//! | [`profile`], [`tree`] | named stacks; stacks merged into trees |
//! | [`same`] | which functions of two builds are the same |
//! | [`compare`](mod@compare) | rates of two sides, their noise, and what is more than that |
//! | [`activity`] | what was spent when |
//! | [`changes`](mod@changes) | where a series of values goes over to another level |
//! | [`depths`] | how deep stacks are, and what recurs in them |
//! | [`trend`] | shares over many recordings |
//! | [`views`] | what is printed |
//! | [`verify`](mod@verify), [`repair`] | everything in a file checked; a whole file made of what is whole |
//! | [`edit`] | recordings made of recordings: several in one, a piece of one |
//! | `output` | files that are written |
//! | [`term`] | text for people: tables, quantities, progress |
//!
//! Data flows down that list. Every stage is a function of its input, keeps no state and gives the same
//! bytes for any number of threads.

pub mod account;
pub mod activity;
mod asked;
pub mod cache;
mod calls;
pub mod cgroups;
pub mod changes;
pub mod cli;
pub mod compare;
mod counted;
pub mod debuginfod;
pub mod depths;
pub mod edit;
pub mod embedded;
pub mod filter;
mod found;
pub mod hits;
pub mod image;
pub mod input;
pub mod kernel;
pub mod load;
pub mod locate;
mod map;
pub mod mend;
pub mod mounts;
pub mod names;
mod output;
pub mod pipeline;
pub mod profile;
pub mod repair;
pub mod run;
pub mod same;
mod shorten;
pub mod spaces;
pub mod spans;
pub mod symbolize;
pub mod term;
pub mod tree;
pub mod trend;
pub mod unwind;
pub mod usage;
pub mod verify;
pub mod views;

pub use run::{Streams, run};
