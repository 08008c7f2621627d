//! What a recording cost, version 1.

use rkyv::{Archive, Deserialize, Serialize};

use super::open_sets::EndReason;
use super::payload;
use crate::kind::Kind;

/// The overhead receipt. The last block of a session; absent if the recorder was killed.
#[derive(Debug, Clone, Default, PartialEq, Archive, Serialize, Deserialize)]
pub struct ReceiptV1 {
    /// End of sampling, ns `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// Samples that were written.
    pub samples: u64,
    /// Samples that were lost, of all causes that lose samples.
    pub lost: u64,
    /// CPU time of the recorder in user mode, start to end, ns.
    pub user_cpu_ns: u64,
    /// CPU time of the recorder in kernel mode, start to end, ns.
    pub kernel_cpu_ns: u64,
    /// Largest resident set of the recorder, bytes (the ring included).
    pub peak_rss_bytes: u64,
    /// Runs of the programs that sample, also those that took no sample; 0 if the kernel did not count.
    pub bpf_runs: u64,
    /// CPU time of these runs, ns: paid by the sampled programs.
    pub bpf_ns: u64,
    /// Most bytes that waited in the ring when the recorder looked.
    pub ring_high_water_bytes: u64,
    /// Bytes of the file before this block.
    pub file_bytes: u64,
    /// Samples before this moment, ns after the start of the session, were cut off; `None` if none were.
    pub cut_from_ns: Option<u64>,
    /// Samples from this moment on, ns after the start of the session, were cut off; `None` if none were.
    pub cut_to_ns: Option<u64>,
    /// How many samples `cut` or `compact` kept, if these are fewer than were written.
    pub kept_samples: Option<u64>,
    /// Exit status of the command, as a shell has it; -1 if there was no command.
    pub exit_code: i32,
    /// Why recording ended.
    pub end_reason: EndReason,
}

payload!(ReceiptV1, ArchivedReceiptV1, Kind::RECEIPT, 1, one);
super::owned!(ReceiptV1, ArchivedReceiptV1);
