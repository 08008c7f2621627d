//! Names, inlined calls and lines against other readers of DWARF, and of the same code packed in every way.
//!
//! docs/SYMBOLIZING.md, "Differences", lists what may differ; anything else fails.

mod agreement;
mod go;
mod gsym;
mod packing;
mod programs;
mod stubs;
