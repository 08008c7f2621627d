//! What the main thread passes on to the tracker.

use icecore_format::records::Loss;

use crate::proc::scan::Process;

/// Raw bytes on their way from the main thread to the tracker.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chunk {
    /// Records of the ring, each behind its length (u32).
    pub(crate) ring: Vec<u8>,
    /// Records of the mapping queues.
    pub(crate) reports: Vec<u8>,
    /// Reports of mappings made up to now may be missing.
    pub(crate) lacks_reports: bool,
    pub(crate) losses: Vec<Loss>,
    /// Processes that were there before.
    pub(crate) found: Vec<Process>,
    /// Sampling has begun, ns `CLOCK_MONOTONIC`.
    pub(crate) began_ns: Option<u64>,
    /// Everything that happened before this moment is in this chunk or in one before it, ns
    /// `CLOCK_MONOTONIC`.
    pub(crate) complete_until_ns: u64,
}

impl Chunk {
    /// The records of the ring.
    pub(crate) fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut bytes = &self.ring[..];
        std::iter::from_fn(move || {
            let (len, rest) = bytes.split_first_chunk()?;
            let (record, rest) = rest.split_at_checked(u32::from_ne_bytes(*len) as usize)?;
            bytes = rest;
            Some(record)
        })
    }
}
