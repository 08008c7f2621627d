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
    /// Demangled, with the scopes around it as far as they are known.
    pub name: Arc<str>,
    /// What tells it apart from other functions of this name.
    pub origin: Arc<Origin>,
    /// Directory and file, as the compiler wrote them.
    pub file: Option<Arc<str>>,
    /// Counted from 1.
    pub line: Option<u32>,
    /// The name of the function that is called here, demangled, if the debug information names it. Code can have several names
    /// (`--icf`).
    pub calls: Option<Arc<str>>,
}

/// What tells a function of an image apart from others of the same name. Names are no identities: a program may have any number of
/// local functions, closures and instances of one name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Its entry in the debug information. Two entries of one unit describe two functions.
    pub entry: Option<EntryId>,
    /// The name by which the compiler distinguishes it, as the debug information has it: mangled, if there is such a name; without
    /// debug information the name of the symbol, if that has a version.
    pub symbol: Option<Arc<str>>,
    /// The source file and the line that declare it.
    pub declared: Option<(Arc<str>, u32)>,
    /// Its first address, also for the parts that the compiler split from it. `None` if it is only inlined.
    pub start: Option<Svma>,
    /// The source file of a local function by the symbol table, mostly without its folder.
    pub file: Option<Arc<str>>,
    /// Other names of the same code, demangled.
    pub aliases: Vec<Arc<str>>,
}

/// The place of an entry in the debug information of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryId {
    /// The number of its unit; from 2³¹ on those of the supplementary file.
    pub unit: u32,
    /// Its offset in the unit.
    pub off: u64,
}

impl Function {
    /// Makes a function of which only the name is known.
    pub fn new(name: Arc<str>) -> Self {
        Self { name, origin: Arc::default(), file: None, line: None, calls: None }
    }
}
