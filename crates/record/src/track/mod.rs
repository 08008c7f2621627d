//! Turns events into rows. Pure: nothing here reads a file, a clock or the kernel, and all of it is tested from bytes.

pub(crate) mod account;
pub mod batch;
pub(crate) mod conditions;
mod counters;
pub(crate) mod floods;
pub(crate) mod followed;
mod intern;
pub mod jit;
mod snapshots;
pub(crate) mod spaces;
mod stacks;
mod tally;
pub(crate) mod tracker;
