//! Recordings in the formats of other tools. An opened report goes in, a file that another tool reads comes out.
//!
//! | room | what lives there |
//! |---|---|
//! | [`kept`] | what a recording has, and a format may keep or lose |
//! | [`exported`] | a report as all formats write it: stacks of code with their inlined functions, samples, events |
//! | `identity` | numbers that identify what was exported |
//! | `wire` | messages of protocol buffers, one after the other |
//! | [`modules`] | images as Breakpad and the Firefox Profiler name them |
//! | [`mod@format`] | what a format is |
//! | one for each format | its file |
//! | [`formats`] | the list of them |
//!
//! Every format writes the same samples: those of the report, with its filters. Frames of inlined functions stay frames, so sums of functions are
//! those of `top --by inlined`. docs/EXPORT.md says what each format keeps.

pub mod callgrind;
pub mod csv;
pub mod exported;
pub mod firefox;
pub mod folded;
pub mod format;
pub mod formats;
mod identity;
pub mod kept;
pub mod modules;
#[cfg(feature = "otlp")]
pub mod otlp;
pub mod perf_script;
pub mod perfetto;
pub mod pprof;
pub mod speedscope;
mod wire;

pub use exported::{Exported, needs};
pub use format::{Format, write_zipped};
pub use formats::{ALL, by_name};
