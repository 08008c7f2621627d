//! Where, when and how a recording was made, version 1.

use rkyv::{Archive, Deserialize, Serialize};

use super::open_sets::{CpuScope, EmbedMode, EventMeaning, Maker, MissingFeature, TargetKind, UnwindMode};
use super::payload;
use crate::kind::Kind;

/// One recording session. The first block of every file and of every further session in it.
///
/// Texts are for people: a reader decides nothing from `recorder`, `command_line`, `labels` and `notes`.
#[derive(Debug, Clone, Default, PartialEq, Archive, Serialize, Deserialize)]
pub struct SessionV1 {
    /// Version of icecore-record, or name and version of another recorder.
    pub recorder: String,
    /// Command line of the recorder, one entry per argument.
    pub command_line: Vec<String>,
    /// Host name (`uname -n`).
    pub host: String,
    /// Kernel release (`uname -r`).
    pub kernel_release: String,
    /// Kernel version (`uname -v`).
    pub kernel_version: String,
    /// Machine (`uname -m`): decides how addresses are read.
    pub arch: String,
    /// `/proc/sys/kernel/random/boot_id`, as text; empty if it could not be read.
    pub boot_id: String,
    /// Build-id of the running kernel; empty if it could not be read.
    pub kernel_build_id: Vec<u8>,
    /// Start of sampling, ns `CLOCK_MONOTONIC`: the zero of every relative time.
    pub start_ns: u64,
    /// The same moment, ns since 1970-01-01 UTC.
    pub start_unix_ns: u64,
    /// The mount namespace of the recorder, by the number of its inode: in it, recorded paths are those of the machine.
    /// 0 if it could not be read.
    pub mount_ns: u64,
    /// Size of the ring between kernel and recorder, bytes.
    pub ring_bytes: u64,
    /// CPUs that were sampled.
    pub cpus: Vec<u32>,
    /// The events; a sample names one by its position here.
    pub events: Vec<EventV1>,
    /// Free text by the user, `--label key=value`.
    pub labels: Vec<LabelV1>,
    /// What the recorder decided by itself and why, one sentence each.
    pub notes: Vec<String>,
    /// The sampled processes or threads, if `target` is one of these.
    pub target_ids: Vec<u32>,
    /// The paths of the sampled cgroups, if `target` is these.
    pub target_cgroups: Vec<String>,
    /// What the recorder would have used, and did not get.
    pub missing_features: Vec<MissingFeature>,
    /// Size of a page, bytes.
    pub page_bytes: u32,
    /// The most user frames of one stack; 0 if unknown.
    pub max_depth: u32,
    /// The most of a stack that is copied, bytes; 0 if unknown, or if nothing was to be copied.
    pub stack_bytes: u32,
    /// Which program recorded.
    pub maker: Maker,
    /// Whom it sampled.
    pub target: TargetKind,
    /// Whether `cpus` are all that were online.
    pub cpu_scope: CpuScope,
    /// How it was to take user stacks.
    pub unwind: UnwindMode,
    /// What it was to embed of files.
    pub embed: EmbedMode,
    /// User-mode samples were taken. If neither these nor those of kernel mode were, it is unknown which.
    pub user: bool,
    /// Kernel-mode samples were taken.
    pub kernel: bool,
    /// Samples of the idle task were taken.
    pub idle: bool,
}

/// One sampling event.
#[derive(Debug, Clone, Default, PartialEq, Archive, Serialize, Deserialize)]
pub struct EventV1 {
    /// Name as perf has it: `cpu-clock`, `cycles`.
    pub name: String,
    /// Unit of a sample's weight: `ns`, `cycles`.
    pub unit: String,
    /// Requested samples per second and CPU; 0 if a fixed period was requested.
    pub frequency_hz: u64,
    /// Requested period in units; 0 if a frequency was requested.
    pub period: u64,
    /// What a sample stands for.
    pub meaning: EventMeaning,
}

/// One `key=value` given by the user.
#[derive(Debug, Clone, Default, PartialEq, Archive, Serialize, Deserialize)]
pub struct LabelV1 {
    /// Left of the `=`.
    pub key: String,
    /// Right of the `=`.
    pub value: String,
}

payload!(SessionV1, ArchivedSessionV1, Kind::SESSION, 1, count events);
super::owned!(SessionV1, ArchivedSessionV1);

impl SessionV1 {
    /// Returns true if the recorder lacked a feature.
    pub fn lacks(&self, feature: MissingFeature) -> bool {
        self.missing_features.contains(&feature)
    }
}
