//! Weight over time: one lane for each event, and one for everything that is selected.

use super::Explorer;
use super::selected::Selected;
use icecore_profile::recording::spans::{Slices, Slicing};

/// Weight over time. Filters by time do not change it, so that what lies beside the range stays in sight.
#[derive(Debug, PartialEq, Eq)]
pub struct Lanes {
    /// How time is divided.
    pub slices: Slices,
    /// The end of the last slice, ns: it may be shorter than the others.
    pub end_ns: u64,
    /// The weight of the selected events in each slice; samples if their units differ.
    pub shown: Vec<u64>,
    /// The weight of each event that has samples in the selected rows, by its position.
    pub events: Vec<(u8, Vec<u64>)>,
}

impl Explorer<'_> {
    /// Adds up a stretch of time in at most `number` slices. A wait counts in all slices in which it lasted.
    ///
    /// # Cost
    /// O(moments + slices of all waits)
    pub fn lanes(&self, selected: &Selected, span_ns: (u64, u64), number: u32) -> Lanes {
        let slices = Slices::new(span_ns, Slicing::Number(number));
        let len = slices.number as usize;
        let events = self.owners.units.len();
        let (mut weights, mut counts) = (vec![vec![0u64; len]; events], vec![0u64; len]);
        let counts_samples = &*selected.unit == "samples";
        for moment in &self.profile.moments {
            let begin_ns = moment.time_ns.saturating_sub(moment.lasted_ns);
            let row = moment.row as usize;
            if begin_ns >= span_ns.1 || moment.time_ns < span_ns.0 || !selected.is_kept[row] {
                continue;
            }
            let event = self.event_of_row[row];
            let is_inside = moment.time_ns < span_ns.1;
            if counts_samples && is_inside && selected.filters.has_event(event) {
                counts[slices.of(moment.time_ns) as usize] += 1;
            }
            let Some(lane) = weights.get_mut(usize::from(event)) else { continue };
            if moment.lasted_ns == 0 {
                let sum = &mut lane[slices.of(moment.time_ns) as usize];
                *sum = if is_inside { sum.saturating_add(moment.weight) } else { *sum };
            } else {
                for (slice, weight) in slices.spread((begin_ns, moment.time_ns), moment.weight) {
                    lane[slice as usize] = lane[slice as usize].saturating_add(weight);
                }
            }
        }
        let mut shown = counts;
        if !counts_samples {
            let chosen = (0..=u8::MAX).zip(&weights).filter(|(event, _)| selected.filters.has_event(*event));
            for (sum, weight) in chosen.flat_map(|(_, lane)| lane.iter().enumerate()) {
                shown[sum] = shown[sum].saturating_add(*weight);
            }
        }
        let events = (0..=u8::MAX).zip(weights).filter(|(_, lane)| lane.iter().any(|weight| *weight > 0));
        Lanes { slices, end_ns: span_ns.1, shown, events: events.collect() }
    }
}

impl Lanes {
    /// Returns the begin of a slice, or the end of the one before it.
    pub fn begin_ns(&self, slice: u32) -> u64 {
        let len_ns = self.slices.len_ns.saturating_mul(u64::from(slice));
        self.slices.begin_ns.saturating_add(len_ns).min(self.end_ns)
    }
}
