//! Perf maps and jitdump files, as the recorder reads them.

use super::FREE_BYTES;
use crate::{memory, recorder};

/// Reads bytes as both, and looks for code all over the address space.
pub fn run(data: &[u8]) {
    memory::within(FREE_BYTES + 64 * data.len(), || recorder::jit(data));
}

/// Lines as several runtimes write them, and a dump in which code moves.
pub fn seeds() -> Vec<Vec<u8>> {
    let map =
        b"1000 40 JS:*f /a b.js:1:2\n0x2000 0x80 py::g:/x.py\n2000 40 Lcom/example/A;::b\n8000 7fc0 c\xff\n";
    vec![map.to_vec(), recorder::jitdump()]
}
