//! Why a view cannot be shown.

use std::io;

use crate::base::output::WriteError;

/// Why a view cannot be shown.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The samples, or the options, make no such view.
    #[error("{0}")]
    Refused(String),
    /// The output cannot be written.
    #[error(transparent)]
    Output(#[from] io::Error),
    /// JSON cannot be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A file cannot be written.
    #[error(transparent)]
    File(#[from] WriteError),
}

impl Error {
    /// What the system said, if the output cannot be written. A file's cause is the error's source.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Output(error) => Some(error.kind()),
            Self::Json(error) => error.io_error_kind(),
            Self::Refused(_) | Self::File(_) => None,
        }
    }
}

/// The outcome of showing a view.
pub type Result<T, E = Error> = std::result::Result<T, E>;
