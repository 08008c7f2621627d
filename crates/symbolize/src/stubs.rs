//! Names the stubs by which code calls functions of other files: `memcpy@plt`, as objdump does.

use std::sync::Arc;

use icecore_elf::plt;

use super::strings::Strings;
use crate::image::{ElfFile, Layout, Svma};

/// Finds the names of the stubs around addresses, which ascend.
pub(super) fn look_up(
    file: &ElfFile,
    layout: &Layout,
    at: &[Svma],
    strings: &Strings,
) -> Vec<Option<Arc<str>>> {
    let Some(map) = file.map().filter(|_| !at.is_empty()) else { return vec![None; at.len()] };
    let stubs = plt::around(file.readable(&map), layout, at).into_iter();
    stubs.map(|stub| Some(format!("{}{}", strings.name(&stub?.name), plt::SUFFIX).into())).collect()
}
