//! Unwind tables, as the recorder compiles them for the sampler.

use super::{FREE_BYTES, functions};
use crate::{memory, recorder};

/// Four bytes for each 256 of the code that a file claims to have, a GiB at most, three times while they are put into chunks.
const POSITIONS_BYTES: usize = 3 * (4 << 30 >> 8);

/// Compiles the tables of a file.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + POSITIONS_BYTES + 64 * data.len(), || recorder::tables(data));
}

/// Small libraries, and programs of Go.
pub fn seeds() -> Vec<Vec<u8>> {
    functions::seeds()
}
