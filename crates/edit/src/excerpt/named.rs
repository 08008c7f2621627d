//! Knows which samples are kept, so that rows that name others are left out.

use std::collections::BTreeSet;

use icecore_format::records::Sample;

/// Time, task and event of a sample, under the numbers of its session: by these, rows of waits and fields name it.
type SampleName = (u64, u32, u8);

/// The samples that rows name and that are kept.
#[derive(Debug, Default)]
pub(super) struct KeptSamples {
    /// All that rows name.
    known: BTreeSet<SampleName>,
    kept: BTreeSet<SampleName>,
}

impl KeptSamples {
    /// Knows the samples that rows name.
    pub(super) fn of(named: impl Iterator<Item = SampleName>) -> Self {
        Self { known: named.collect(), kept: BTreeSet::new() }
    }

    /// Notes samples that are kept.
    pub(super) fn add(&mut self, samples: &[Sample]) {
        if self.known.is_empty() {
            return;
        }
        let names = samples.iter().map(|sample| (sample.time_ns, sample.task, sample.event));
        self.kept.extend(names.filter(|name| self.known.contains(name)));
    }

    /// Returns true if a sample is kept.
    pub(super) fn has(&self, name: SampleName) -> bool {
        self.kept.contains(&name)
    }
}
