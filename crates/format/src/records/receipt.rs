//! What a recording cost, version 1.

use rkyv::{Archive, Deserialize, Serialize};

use super::payload;
use crate::kind::Kind;

/// The overhead receipt. The last block of a session; absent if the recorder was killed.
#[derive(Debug, Clone, Default, PartialEq, Archive, Serialize, Deserialize)]
pub struct ReceiptV1 {
    /// End of sampling, ns `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// Why recording ended: `duration`, `signal`, `command`, `targets gone`, or an error's text. Behind that what was taken off
    /// since: `cut --from 5 s`, `cut --to 8 s`, after the start of the session.
    pub ended_by: Vec<String>,
    /// Exit status of the command, as a shell has it; -1 if there was no command.
    pub exit_code: i32,
    /// Samples in the file.
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
}

payload!(ReceiptV1, ArchivedReceiptV1, Kind::RECEIPT, 1, count ended_by);
super::owned!(ReceiptV1, ArchivedReceiptV1);
