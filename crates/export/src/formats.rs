//! The list of formats.

use crate::firefox::Firefox;
use crate::format::Format;
use crate::pprof::Pprof;

/// All formats, in the order in which they are listed.
pub const ALL: &[&dyn Format] = &[&Pprof, &Firefox];

/// Finds a format by its name.
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    ALL.iter().copied().find(|format| format.name() == name)
}
