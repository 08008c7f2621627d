//! How much of the time is sampled, and what the recorder may use.

use std::time::Duration;

/// The first part of each period is sampled, counted from the begin of sampling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duty {
    /// How long is sampled.
    pub on: Duration,
    /// How long a period is.
    pub every: Duration,
}

/// What the recorder may use; it samples less often or pauses to use no more.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// CPU time of its processes, and of its programs in the kernel: parts in a million of one CPU, over any ten seconds.
    pub cpu: Option<u64>,
    /// Resident memory, bytes.
    pub memory: Option<u64>,
    /// What it writes, bytes a second, over any ten seconds.
    pub disk: Option<u64>,
}

impl Budget {
    /// Returns true if it limits anything.
    pub(crate) fn is_limited(self) -> bool {
        self != Self::default()
    }
}
