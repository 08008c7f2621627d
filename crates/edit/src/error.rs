//! Why a recording cannot be made.

use std::io;

/// Why a recording cannot be made of the inputs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A block of an input cannot be used, or the output cannot be written.
    #[error(transparent)]
    Format(#[from] icecore_format::Error),
    /// An input cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The folder for temporary files does not take what is decompressed.
    #[error("{what}")]
    Temporary {
        /// What failed, and the remedy.
        what: &'static str,
        /// The reason.
        source: io::Error,
    },
    /// An input cannot be used: what is wrong with it, and where.
    #[error("{0}")]
    Input(String),
    /// Two inputs are the same recording, by their UUID; the position of the earlier one.
    #[error("it is the same recording as input {}, by their UUID", .0 + 1)]
    Same(usize),
}

impl Error {
    pub(crate) fn input(what: impl Into<String>) -> Self {
        Self::Input(what.into())
    }
}
