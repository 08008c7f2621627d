//! What asked for a history, version 1.

use rkyv::{Archive, Deserialize, Serialize};

use super::open_sets::TriggerCause;
use super::payload;
use crate::kind::Kind;

/// Why the recorder wrote a history that it held in memory. In the last session of such a file, before its receipt.
#[derive(Debug, Clone, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct TriggerV1 {
    /// When, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The requested length of the history, ns.
    pub asked_ns: u64,
    /// What held and the values that made it hold, or who asked: one line for people.
    pub what: String,
    /// What kind of trigger it was.
    pub cause: TriggerCause,
    /// The history is shorter than requested because it has reached its limit of bytes.
    pub is_full: bool,
}

payload!(TriggerV1, ArchivedTriggerV1, Kind::TRIGGER, 1, one);
super::owned!(TriggerV1, ArchivedTriggerV1);
