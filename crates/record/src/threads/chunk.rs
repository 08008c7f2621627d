//! Chunks, which the main thread passes on to the tracker.

use std::sync::mpsc::SyncSender;

use icecore_format::records::{Loss, RateChange, ReceiptV1};

use super::closing::Turned;
use super::store::ToWriter;
use crate::foreign::Process;
use crate::kernel::census::Reading;

/// Raw bytes on their way from the main thread to the tracker.
#[derive(Debug, Clone, Default)]
pub struct Chunk {
    /// Records of the ring, each after its length (u32).
    pub ring: Vec<u8>,
    /// Records of the mapping queues.
    pub reports: Vec<u8>,
    /// Mapping reports from before now may be missing.
    pub lacks_reports: bool,
    pub losses: Vec<Loss>,
    /// Processes that existed before the recording.
    pub found: Vec<Process>,
    /// Changes of the sampling rate.
    pub rates: Vec<RateChange>,
    /// Memory is to be given back.
    pub shrinks: bool,
    /// The first block of the file is written, so that batches may follow.
    pub has_file: bool,
    /// When sampling began, ns `CLOCK_MONOTONIC`.
    pub began_ns: Option<u64>,
    /// The recorder goes on after a pause.
    pub again: Option<Again>,
    /// Counters were read; records of the ring have those of processes.
    pub readings: Vec<Reading>,
    /// All events before this moment are in this chunk or in an earlier one, ns `CLOCK_MONOTONIC`.
    pub complete_until_ns: u64,
    /// The file ends, and another one begins.
    pub turn: Option<Turn>,
}

/// What is known when the recorder goes on after a pause.
#[derive(Debug, Clone)]
pub struct Again {
    /// All events from now on are reported, ns `CLOCK_MONOTONIC`.
    pub(crate) since_ns: u64,
    /// The processes that are there.
    pub(crate) tgids: Vec<u32>,
}

/// What ends a file and begins the next one.
#[derive(Debug, Clone)]
pub struct Turn {
    /// Samples from after this moment are in the next file, ns `CLOCK_MONOTONIC`.
    pub(crate) at_ns: u64,
    /// What the recorder used for the old file, and why that ends.
    pub(crate) spent: ReceiptV1,
    /// The way to the writer of the next file.
    pub(crate) next: SyncSender<ToWriter>,
    pub(crate) turned: Turned,
}

impl Chunk {
    /// Returns the records of the ring.
    pub fn records(&self) -> impl Iterator<Item = &[u8]> {
        let mut bytes = &self.ring[..];
        std::iter::from_fn(move || {
            let (len, rest) = bytes.split_first_chunk()?;
            let (record, rest) = rest.split_at_checked(u32::from_ne_bytes(*len) as usize)?;
            bytes = rest;
            Some(record)
        })
    }
}
