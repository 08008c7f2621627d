//! A row of a comparison.

use icecore_profile::named::pipeline::Report;

/// What a row of a comparison is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// Functions.
    Function,
    /// Source lines.
    Line,
    /// Images.
    Image,
    /// Processes by name.
    Process,
    /// Threads by name.
    Thread,
    /// Whole stacks.
    Stack,
}

/// A row as it is shown to people.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// Name of a function, thread or process, or path of an image; for a stack its functions, root first, separated by `;`.
    pub name: String,
    /// Path of the image.
    pub image: Option<String>,
    /// Source file.
    pub file: Option<String>,
    /// Line in the source file.
    pub line: Option<u32>,
}

/// A recording and its side: 0 before, 1 after.
pub type Sided<'a> = (&'a Report<'a>, usize);
