//! Words that several commands take.

use clap::ValueEnum;

use crate::profile::tree::Root;

/// Which weight of a function counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function itself.
    #[value(name = "self")]
    Own,
    /// Time in the function and in what it calls.
    Total,
}

/// What a stack counts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Weight {
    /// One per sample.
    Samples,
    /// The period of the sample, in the event's unit.
    Period,
}

/// Whose stacks are taken together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Owner {
    /// Those of a process.
    Process,
    /// Those of a thread.
    Thread,
}

words!(Root { Process: "process", Thread: "thread", None: "none" });
