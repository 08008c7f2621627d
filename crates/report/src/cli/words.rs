//! Words that several commands take as values of options.

use std::path::PathBuf;

use clap::ValueEnum;

use icecore_profile::named::tree::Root;

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

/// Parses a share of the total in percent.
///
/// # Errors
/// If it is no number from 0 to 100.
pub fn share_percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("must lie between 0 and 100".to_owned()),
    }
}

/// Parses the path of a folder, and makes it absolute.
///
/// # Errors
/// If there is no such folder.
pub fn folder(text: &str) -> Result<PathBuf, String> {
    let path = std::fs::canonicalize(text).map_err(|error| error.to_string())?;
    if path.is_dir() { Ok(path) } else { Err("this is no folder".to_owned()) }
}

words!(root: Root { Process: "process", Thread: "thread", Field: "field", None: "none" });
