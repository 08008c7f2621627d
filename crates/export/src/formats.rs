//! The list of formats.

use crate::callgrind::Callgrind;
use crate::csv::{Csv, CsvSamples};
use crate::firefox::Firefox;
use crate::folded::Folded;
use crate::format::Format;
#[cfg(feature = "otlp")]
use crate::otlp::Otlp;
use crate::perf_script::PerfScript;
use crate::perfetto::Perfetto;
use crate::pprof::Pprof;
use crate::speedscope::Speedscope;

/// All formats, in the order in which they are listed.
pub const ALL: &[&dyn Format] = &[
    &Pprof,
    &Firefox,
    &Callgrind,
    &Csv,
    &CsvSamples,
    &Folded,
    #[cfg(feature = "otlp")]
    &Otlp,
    &PerfScript,
    &Perfetto,
    &Speedscope,
];

/// Finds a format by its name.
pub fn by_name(name: &str) -> Option<&'static dyn Format> {
    ALL.iter().copied().find(|format| format.name() == name)
}
