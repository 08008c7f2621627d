//! Requests and answers.

use std::sync::Arc;

use super::Reason;
use crate::identity::Identity;
use crate::image::{FileOff, Svma};

/// One image, and the offsets in it that want a name.
#[derive(Debug, Clone, Copy)]
pub struct Wanted<'a> {
    /// The image.
    pub image: &'a Identity,
    /// Sorted, distinct, and already the address to look up: return addresses have had 1 subtracted.
    pub offsets: &'a [FileOff],
}

/// The name of one offset, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// Innermost first; each but the last is inlined into the one after it. Never empty.
    Named(Vec<Function>),
    /// There is no name.
    Unnamed {
        /// Why.
        reason: Reason,
        /// First address of the function around it, if unwind tables tell, so that the samples of a stripped
        /// image still group by function.
        start: Option<Svma>,
        /// The address itself, if the image could be opened and maps the offset.
        at: Option<Svma>,
    },
}

/// A function, and the place in its source that the address stands for: the sampled line in the innermost one,
/// the line of the inlined call in those around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Demangled.
    pub name: Arc<str>,
    /// Directory and file, as the compiler wrote them.
    pub file: Option<Arc<str>>,
    /// Counted from 1.
    pub line: Option<u32>,
}
