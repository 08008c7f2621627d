//! What a session says of itself as numbers: how it was recorded, why it ended, what its events mean.
//!
//! Every set is open: later versions add numbers. 0 stands for what a writer does not know, and a reader treats numbers that it does
//! not know in the same way: it concludes nothing from them.

use rkyv::{Archive, Deserialize, Serialize};

/// Defines a number on disk, with a name for each value.
macro_rules! open_set {
    (
        $(#[$doc:meta])*
        $set:ident, others $prefix:literal,
        $($(#[$of:meta])* $value:ident = $number:literal $name:literal,)+
    ) => {
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Archive, Serialize, Deserialize,
        )]
        pub struct $set(pub u16);

        impl $set {
            $($(#[$of])* pub const $value: Self = Self($number);)+

            /// Name in lower case, or the number of one that this build does not know.
            pub fn name(self) -> String {
                match self {
                    $(Self::$value => $name.into(),)+
                    Self(other) => format!(concat!($prefix, "_{}"), other),
                }
            }
        }
    };
}

open_set! {
    /// Which program made a recording.
    Maker, others "maker",
    /// Unknown.
    UNKNOWN = 0 "unknown",
    /// `icecore-record`.
    RECORDER = 1 "icecore-record",
    /// `perf record`; its file was imported.
    PERF = 2 "perf",
}

open_set! {
    /// Whom a session samples.
    TargetKind, others "target",
    /// Unknown.
    UNKNOWN = 0 "unknown",
    /// The whole machine.
    SYSTEM = 1 "system",
    /// Processes, and the children that they fork.
    PROCESSES = 2 "processes",
    /// Threads, and no other threads of their processes.
    THREADS = 3 "threads",
    /// Tasks in cgroups and those below them.
    CGROUPS = 4 "cgroups",
    /// A command that the recorder ran, and its children.
    COMMAND = 5 "command",
}

open_set! {
    /// Whether CPUs were excluded.
    CpuScope, others "cpu_scope",
    /// Unknown.
    UNKNOWN = 0 "unknown",
    /// All CPUs that were online are sampled.
    ALL = 1 "all",
    /// Some CPUs that were online are not sampled.
    SOME = 2 "some",
}

open_set! {
    /// How the recorder was to take user stacks; what the kernel could not do is a [`MissingFeature`].
    UnwindMode, others "unwind",
    /// Unknown.
    UNKNOWN = 0 "unknown",
    /// Walks along frame pointers, without copies.
    FRAME_POINTERS = 1 "fp",
    /// Walks by unwind tables, and copies of the stack where there are none.
    AUTO = 2 "auto",
    /// Walks along frame pointers, and copies of the stack where these cannot be trusted.
    COPY = 3 "copy",
    /// A copy of each stack.
    DWARF = 4 "dwarf",
}

open_set! {
    /// What of the executable files that were hit was to go into the recording.
    EmbedMode, others "embed",
    /// Unknown.
    UNKNOWN = 0 "unknown",
    /// Nothing.
    NONE = 1 "none",
    /// Names of the functions that were hit.
    HITS = 2 "hits",
    /// Also symbol tables and unwind tables.
    SECTIONS = 3 "sections",
    /// Also the files as a whole.
    ALL = 4 "all",
}

open_set! {
    /// What the recorder would have used, and its kernel or its privileges did not give.
    MissingFeature, others "feature",
    /// Unknown; never written.
    UNKNOWN = 0 "unknown",
    /// Programs of the kernel cannot loop (`bpf_loop`, Linux 5.17): the kernel walks user stacks itself, 127 frames at most, does not
    /// say how its walks end, and copies no stacks.
    LOOP = 1 "loop",
    /// Threads run no programs after they have waited (task work, Linux 6.18): of user stacks of waits at most 2 KiB are copied.
    TASK_WORK = 2 "task_work",
    /// The sampler cannot walk user stacks by unwind tables (Linux 6.1, x86-64).
    TABLE_WALKS = 3 "table_walks",
    /// The kernel shows no addresses of its functions to the recorder (`kernel.kptr_restrict`, CAP_SYSLOG).
    KERNEL_ADDRESSES = 4 "kernel_addresses",
}

open_set! {
    /// Why a session ended.
    EndReason, others "reason",
    /// Unknown.
    UNKNOWN = 0 "unknown",
    /// The requested time was over.
    DURATION = 1 "duration",
    /// A signal asked the recorder to end.
    SIGNAL = 2 "signal",
    /// The command ended.
    COMMAND = 3 "command",
    /// All targets ended.
    TARGETS_GONE = 4 "targets gone",
    /// The disk or pipe took no more.
    WRITE_FAILED = 5 "write failed",
    /// The recorder did not end the session: a repair wrote the receipt.
    REPAIRED = 6 "repaired",
    /// Another program recorded the session, and its file does not say why it ended.
    IMPORTED = 7 "imported",
}

open_set! {
    /// What a sample of an event stands for.
    EventMeaning, others "meaning",
    /// Unknown.
    UNKNOWN = 0 "unknown",
    /// CPU time, in ns.
    CPU_TIME = 1 "cpu_time",
    /// Cycles of a CPU.
    CYCLES = 2 "cycles",
    /// Time in which a thread slept or was blocked, in ns.
    OFF_CPU = 3 "off_cpu",
    /// Time in which a thread was ready and had no CPU, in ns.
    RUN_DELAY = 4 "run_delay",
    /// The end of a wait: the stack is that of who ended it, the weight the length of the wait, in ns.
    WAKER = 5 "waker",
    /// The time that a function took, with all that it called and waited for, in ns.
    DURATION = 6 "duration",
    /// Something that happened: a page fault, a call of a function, a number of bytes.
    OCCURRENCE = 7 "occurrence",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_a_later_version_is_named_by_its_number() {
        assert_eq!(UnwindMode::AUTO.name(), "auto");
        assert_eq!(UnwindMode(900).name(), "unwind_900");
        assert_eq!(EndReason::default().name(), "unknown");
    }
}
