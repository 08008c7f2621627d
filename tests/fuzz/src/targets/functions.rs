//! Symbol tables, as the recorder reads them.

use icecore_record::lab::fuzz;

use super::{FREE_BYTES, image, stripped};
use crate::memory;

/// Finds functions all over a file.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + 64 * data.len(), || fuzz::functions(data));
}

/// Small libraries, with and without symbol tables.
pub fn seeds() -> Vec<Vec<u8>> {
    [image::seeds(), stripped::seeds()].concat()
}
