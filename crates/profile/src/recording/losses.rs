//! What is missing.

use std::collections::BTreeMap;

use icecore_format::read::Recording;
use icecore_format::records::{Cause, EventV1, Loss};
use icecore_text::quantity::ratio;
use rayon::prelude::*;

use super::events::ChosenEvents;
use super::load::{Tables, samples};

/// Samples that were lost while recording, or from the file since then.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Lost {
    /// Their number, of all events.
    pub samples: u64,
    /// Their share of all samples, of the file and lost.
    pub share: f64,
    /// What the chosen events lost of their weight, as a share of it. It differs from `share` if heavy samples are lost, or light ones,
    /// or those of other events.
    pub share_of_weight: f64,
    /// Those of known events.
    pub by_event: Vec<LostOfEvent>,
}

/// Samples of one event that were lost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LostOfEvent {
    /// The event, a position in [`super::load::parts::Parts::events`].
    pub event: u8,
    /// Their number.
    pub samples: u64,
    /// What they would have weighed, in the unit of the event, without those of which that is unknown.
    pub weight: u128,
    /// Those of which it is unknown.
    pub unweighed: u64,
    /// Their share of the weight of the event; unweighed ones count as a recorded sample does on average.
    pub share: f64,
}

/// The samples of an event in the file: their number, and their weight.
type Recorded = BTreeMap<u8, (u64, f64)>;

impl Lost {
    /// Adds up what is lost. If there is a loss, all blocks of samples are read: weights are not known otherwise.
    pub fn new(recording: &Recording, tables: &Tables, chosen: &ChosenEvents) -> Self {
        let lost: Vec<&Loss> = tables.losses.iter().filter(|loss| loss.cause.is_sample()).collect();
        let number = lost.iter().fold(0, |sum: u64, loss| sum.saturating_add(loss.count));
        if number == 0 {
            return Self::default();
        }
        let in_file: u64 = tables.sample_blocks.iter().map(|block| u64::from(block.header.items)).sum();
        let events = tables.parts.events();
        let recorded = recorded(recording, tables);
        let mut of_events = BTreeMap::<u8, LostOfEvent>::new();
        for loss in lost.iter().filter(|loss| usize::from(loss.event) < events.len()) {
            let none = LostOfEvent { event: loss.event, samples: 0, weight: 0, unweighed: 0, share: 0.0 };
            let sum = of_events.entry(loss.event).or_insert(none);
            sum.samples = sum.samples.saturating_add(loss.count);
            sum.weight += u128::from(loss.weight);
            sum.unweighed = sum.unweighed.saturating_add(if loss.weight == 0 { loss.count } else { 0 });
        }
        let known = of_events.values().fold(0, |sum: u64, of| sum.saturating_add(of.samples));
        let unknown = number.saturating_sub(known) as f64;
        let all = in_file.saturating_add(number) as f64;
        let by_event = of_events.into_values().map(|of| {
            let (weight, whole) = of.of_whole(&recorded);
            LostOfEvent { share: ratio(weight, whole), ..of }
        });
        let by_event: Vec<LostOfEvent> = by_event.collect();
        let of_known = share_of(chosen, events, &by_event, &recorded);
        Self {
            samples: number,
            share: ratio(number as f64, all),
            // Any sample may be one of those whose events are unknown.
            share_of_weight: 1.0 - (1.0 - of_known) * (1.0 - ratio(unknown, all)),
            by_event,
        }
    }
}

impl LostOfEvent {
    /// What was lost, and all of the event with it.
    fn of_whole(&self, recorded: &Recorded) -> (f64, f64) {
        let (samples, weight) = recorded.get(&self.event).copied().unwrap_or_default();
        let (known, lost) = (self.samples.saturating_sub(self.unweighed), self.weight as f64);
        let mean = match samples.saturating_add(known) {
            0 => 1.0,
            all => (weight + lost) / all as f64,
        };
        let lost = lost + self.unweighed as f64 * mean;
        (lost, weight + lost)
    }
}

/// The share that the chosen events lost. Weights of several units cannot be added, so that then each sample counts as one.
fn share_of(chosen: &ChosenEvents, events: &[EventV1], lost: &[LostOfEvent], recorded: &Recorded) -> f64 {
    let mut units: Vec<&str> = chosen.of(events).map(|(_, event)| &*event.unit).collect();
    units.dedup();
    let (mut missing, mut whole) = (0.0, 0.0);
    for (position, _) in chosen.of(events) {
        let of = lost.iter().find(|of| of.event == position);
        let (samples, weight) = recorded.get(&position).copied().unwrap_or_default();
        let (lost, all) = match of {
            Some(of) if units.len() > 1 => (of.samples as f64, samples.saturating_add(of.samples) as f64),
            Some(of) => of.of_whole(recorded),
            None if units.len() > 1 => (0.0, samples as f64),
            None => (0.0, weight),
        };
        missing += lost;
        whole += all;
    }
    ratio(missing, whole)
}

fn recorded(recording: &Recording, tables: &Tables) -> Recorded {
    let add = |mut sums: Recorded, (event, (samples, weight)): (u8, (u64, f64))| {
        let sum = sums.entry(event).or_default();
        *sum = (sum.0.saturating_add(samples), sum.1 + weight);
        sums
    };
    let of_block = |entry| {
        // Damaged blocks are told elsewhere.
        let rows = samples(recording, tables, entry).unwrap_or_default();
        rows.into_iter().map(|row| (row.event, (1, row.weight as f64))).fold(Recorded::new(), add)
    };
    let blocks = tables.sample_blocks.par_iter().map(of_block);
    blocks.reduce(Recorded::new, |sums, more| more.into_iter().fold(sums, add))
}

/// Adds up all losses by cause.
pub fn losses(tables: &Tables) -> BTreeMap<String, u64> {
    by_cause(tables, |_| true)
}

/// Adds up by cause what was lost besides samples: names, callers, mappings.
pub fn other_losses(tables: &Tables) -> BTreeMap<String, u64> {
    by_cause(tables, |cause| !cause.is_sample())
}

fn by_cause(tables: &Tables, which: impl Fn(Cause) -> bool) -> BTreeMap<String, u64> {
    let mut by_cause: BTreeMap<String, u64> = BTreeMap::new();
    for loss in tables.losses.iter().filter(|loss| which(loss.cause)) {
        let sum = by_cause.entry(loss.cause.name()).or_default();
        *sum = sum.saturating_add(loss.count);
    }
    by_cause
}
