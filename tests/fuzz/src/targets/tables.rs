//! Unwind tables, as the recorder compiles them for the sampler.

use super::{FREE_BYTES, functions};
use crate::{memory, recorder};

/// Compiles the tables of a file.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + 64 * data.len(), || recorder::tables(data));
}

/// Small libraries, and programs of Go.
pub fn seeds() -> Vec<Vec<u8>> {
    functions::seeds()
}
