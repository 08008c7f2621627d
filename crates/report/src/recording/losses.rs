//! What is missing.

use std::collections::BTreeMap;

use super::load::Tables;

/// Counts samples that were lost while recording, or from the file since then.
pub(crate) fn lost(tables: &Tables) -> u64 {
    let samples = tables.losses.iter().filter(|loss| loss.cause.is_sample());
    samples.fold(0, |sum, loss| sum.saturating_add(loss.count))
}

/// Adds up all losses by cause.
pub(crate) fn losses(tables: &Tables) -> BTreeMap<String, u64> {
    let mut by_cause: BTreeMap<String, u64> = BTreeMap::new();
    for loss in &tables.losses {
        let sum = by_cause.entry(loss.cause.name()).or_default();
        *sum = sum.saturating_add(loss.count);
    }
    by_cause
}
