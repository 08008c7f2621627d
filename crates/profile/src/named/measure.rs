//! What the weights of a profile add up to.

use crate::recording::events::Meaning;
use crate::stacks::hits::{Hits, Selection};

/// What the weights of a profile add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Measure {
    /// Unit of the weights: `ns`, `cycles`; `samples` if every sample counts as one.
    pub unit: String,
    /// The weights are CPU time. Time in ns can also be that of threads that wait.
    pub is_cpu_time: bool,
    /// Samples weigh very differently, so that their number says little: waits, sizes, samples of several events that are added.
    pub is_uneven: bool,
}

impl Measure {
    /// Finds out what the counted samples add up to; without samples, what those of the first requested event would.
    pub(super) fn new(selection: Selection<'_>, hits: &Hits) -> Self {
        let parts = &selection.tables.parts;
        let (events, seen) = (parts.events(), &hits.seen);
        let first = || selection.events.of(events).map(|(position, _)| position).next();
        let shown: Vec<u8> = match seen.events[..] {
            [] => first().into_iter().collect(),
            _ => seen.events.iter().map(|seen| seen.event).collect(),
        };
        let of = |event: &u8| events.get(usize::from(*event));
        let unit = match seen.events[..] {
            [] => shown.first().and_then(of).map(|event| &*event.unit),
            _ => seen.unit(events),
        };
        let unit = seen.unit_of_weights(unit.filter(|unit| !unit.is_empty()).unwrap_or("samples"));
        let has_waits = shown.iter().filter_map(of).any(|event| Meaning::of(event).is_of_waiting());
        Self {
            is_cpu_time: unit == "ns" && !shown.is_empty() && parts.are_clocks(&shown),
            is_uneven: has_waits || shown.len() > 1 && !seen.is_mixed(events) || unit == "bytes",
            unit,
        }
    }

    /// Returns true if the weights are times, of CPUs or of threads.
    pub fn is_time(&self) -> bool {
        self.unit == "ns"
    }
}
