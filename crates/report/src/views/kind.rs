//! What the color of a function shows.

use icecore_format::records::Language;
use icecore_profile::named::names::{Function, Side};

/// What a function is, as colors show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It has no name.
    Unnamed,
    /// A function of the kernel.
    Kernel,
    Python,
    Java,
    Php,
    JavaScript,
    /// Other code of user mode.
    User,
}

impl Kind {
    /// Returns the kind of a function.
    pub(crate) fn of(function: &Function) -> Self {
        match (function.reason, function.side, function.language) {
            (Some(_), _, _) => Self::Unnamed,
            (None, Side::Kernel, _) => Self::Kernel,
            (_, _, Language::PYTHON) => Self::Python,
            (_, _, Language::JAVA) => Self::Java,
            (_, _, Language::PHP) => Self::Php,
            (_, _, Language::JAVASCRIPT) => Self::JavaScript,
            (None, Side::User, _) => Self::User,
        }
    }
}
