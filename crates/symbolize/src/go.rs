//! Finds functions in the table that Go's runtime names its own stacks with, which stripping leaves: `.gopclntab`.
//!
//! Lines are in it as well, but not what was inlined: a line would be that of an inlined function, under the name of the
//! one around it. So they are not read.

use std::sync::Arc;

use icecore_elf::go;

use super::strings::Strings;
use crate::image::{ElfFile, Layout, Svma};

/// Finds the names of the functions around addresses; nothing if this is no program of Go.
pub(super) fn look_up(
    file: &ElfFile,
    layout: &Layout,
    at: &[Svma],
    strings: &Strings,
) -> Vec<Option<Arc<str>>> {
    let map = file.map().filter(|_| !at.is_empty());
    let table = map.as_ref().and_then(|map| go::open(file.readable(map), layout));
    at.iter().map(|at| Some(strings.name(table.as_ref()?.function(at.0)?.name))).collect()
}
