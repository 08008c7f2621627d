//! Describes samples that were lost, by event.

use serde::Serialize;

use icecore_profile::recording::load::Tables;
use icecore_profile::recording::losses::{Lost, LostOfEvent};
use icecore_profile::stacks::hits::{shift, unit_of_weights};
use icecore_text::quantity::{count, percent, weight};

/// The lost samples of one event.
#[derive(Debug, Serialize)]
pub(crate) struct LostRow {
    event: String,
    unit: String,
    samples: u64,
    /// What they would have weighed.
    weight: u64,
    /// Those of which that is not known; they are not in `weight`.
    unweighed: u64,
    /// The share of the weight of the event.
    share: f64,
}

impl LostRow {
    /// Lists events that lost samples.
    pub(crate) fn list(tables: &Tables, lost: &Lost) -> Vec<Self> {
        let row = |of: &LostOfEvent| {
            let event = tables.parts.events().get(usize::from(of.event));
            let LostOfEvent { samples, weight, unweighed, share, .. } = *of;
            let shift = shift(weight);
            Self {
                event: event.map_or_else(|| "?".to_owned(), |event| event.name.clone()),
                unit: event.map_or_else(String::new, |event| unit_of_weights(shift, &event.unit)),
                samples,
                weight: (weight >> shift) as u64,
                unweighed,
                share,
            }
        };
        lost.by_event.iter().map(row).collect()
    }

    /// Describes it for people.
    fn text(&self) -> String {
        let unweighed = match self.unweighed {
            0 => String::new(),
            some => format!(", {} of unknown weight", count(some)),
        };
        format!(
            "{} {} in {}{unweighed} ({})",
            self.event,
            weight(self.weight, &self.unit),
            count(self.samples),
            percent(self.share)
        )
    }
}

/// Describes what events lost if that says more than the number of lost samples.
pub(crate) fn by_event(rows: &[LostRow], share_of_samples: f64) -> Option<String> {
    let says_more = rows.len() > 1 || rows.iter().any(|row| percent(row.share) != percent(share_of_samples));
    let rows: Vec<String> = rows.iter().map(LostRow::text).collect();
    says_more.then(|| rows.join(", "))
}
