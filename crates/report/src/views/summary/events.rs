//! Sums up the samples of each event.

use serde::Serialize;

use icecore_profile::recording::load::Tables;
use icecore_profile::stacks::hits::{SampleFacts, SeenEvent};
use icecore_text::quantity::{things, weight};

/// One event and its samples.
#[derive(Debug, Serialize)]
pub(super) struct EventSum {
    pub(super) event: String,
    pub(super) unit: String,
    pub(super) samples: u64,
    pub(super) weight: u64,
}

/// Lists events with their samples.
pub(super) fn sums(tables: &Tables, facts: &SampleFacts, seen: &[SeenEvent]) -> Vec<EventSum> {
    let events = tables.parts.events();
    let row = |seen: &SeenEvent| {
        let event = events.get(usize::from(seen.event));
        EventSum {
            event: event.map_or_else(|| "?".to_owned(), |event| event.name.clone()),
            unit: event.map_or_else(String::new, |event| facts.unit_of_weights(&event.unit)),
            samples: seen.samples,
            weight: seen.weight,
        }
    };
    seen.iter().map(row).collect()
}

impl EventSum {
    /// Describes it for people.
    pub(super) fn text(&self) -> String {
        let samples = things(self.samples, "sample");
        format!("{} {} in {samples}", self.event, weight(self.weight, &self.unit))
    }
}
