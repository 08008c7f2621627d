//! Words that several commands take as values of options.

use clap::ValueEnum;

use crate::profile::tree::Root;

/// The weight of a function that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Time in the function itself.
    #[value(name = "self")]
    Own,
    /// Time in the function and in what it calls.
    Total,
}

/// The weight of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Weight {
    /// One per sample.
    Samples,
    /// The period of the sample, in the event's unit.
    Period,
}

/// The owners by which stacks are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Owner {
    /// Those of a process.
    Process,
    /// Those of a thread.
    Thread,
}

words!(Root { Process: "process", Thread: "thread", None: "none" });
