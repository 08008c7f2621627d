//! Why there are no instructions.

use std::fmt;

use super::MAX_FUNCTION_BYTES;
use icecore_symbolize::Reason;

/// Why there are no instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NoCode {
    /// The file of the image is not available.
    Image(Reason),
    /// The recording has the file without its code, and no file with code is available.
    Sections,
    /// The file cannot be read any more.
    Unreadable,
    /// Code of this processor is not decoded.
    Processor,
    /// No symbol and no unwind table says where the function begins and ends.
    NoBounds,
    /// The function is longer than [`MAX_FUNCTION_BYTES`].
    TooLong,
}

impl NoCode {
    /// Returns the name in JSON; these names never change.
    pub fn code(self) -> &'static str {
        match self {
            Self::Image(reason) => reason.code(),
            Self::Sections => "no_code",
            Self::Unreadable => "unreadable",
            Self::Processor => "processor",
            Self::NoBounds => "no_bounds",
            Self::TooLong => "too_long",
        }
    }
}

impl fmt::Display for NoCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Image(reason) => write!(f, "{reason}"),
            Self::Sections => f.write_str("the files that were found have no code"),
            Self::Unreadable => f.write_str("its file cannot be read any more"),
            Self::Processor => f.write_str("code of this processor is not decoded"),
            Self::NoBounds => f.write_str("no symbol and no unwind table says where the function ends"),
            Self::TooLong => write!(f, "the function is longer than {} KiB", MAX_FUNCTION_BYTES >> 10),
        }
    }
}
