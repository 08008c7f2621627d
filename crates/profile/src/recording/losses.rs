//! What is missing.

use std::collections::BTreeMap;

use icecore_format::records::Cause;

use super::load::Tables;

/// Counts samples that were lost while recording, or from the file since then.
pub fn lost(tables: &Tables) -> u64 {
    let samples = tables.losses.iter().filter(|loss| loss.cause.is_sample());
    samples.fold(0, |sum, loss| sum.saturating_add(loss.count))
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
