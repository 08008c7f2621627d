//! Keeps the rows of waits whose samples are kept.

use std::collections::BTreeSet;

use icecore_format::records::{Sample, Wait};

/// The samples of waits that are kept, by time, task and event, under the numbers of their session.
#[derive(Debug, Default)]
pub(super) struct KeptWaits {
    /// All that rows name.
    known: BTreeSet<(u64, u32, u8)>,
    kept: BTreeSet<(u64, u32, u8)>,
}

impl KeptWaits {
    pub(super) fn new(rows: &[Wait]) -> Self {
        Self { known: rows.iter().map(key).collect(), kept: BTreeSet::new() }
    }

    /// Notes samples that are kept.
    pub(super) fn add(&mut self, samples: &[Sample]) {
        if self.known.is_empty() {
            return;
        }
        let keys = samples.iter().map(|sample| (sample.time_ns, sample.task, sample.event));
        self.kept.extend(keys.filter(|key| self.known.contains(key)));
    }

    /// Returns true if the sample of a row is kept.
    pub(super) fn has(&self, row: &Wait) -> bool {
        self.kept.contains(&key(row))
    }
}

fn key(row: &Wait) -> (u64, u32, u8) {
    (row.time_ns, row.task, row.event)
}
