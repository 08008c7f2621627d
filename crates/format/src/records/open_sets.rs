//! What a session says of itself as numbers: how it was recorded, why it ended, what its events mean.
//!
//! Every set is open: later versions add numbers. 0 stands for what a writer does not know, and a reader treats numbers that it does
//! not know in the same way: it concludes nothing from them.

use rkyv::{Archive, Deserialize, Serialize};

use crate::numbers::numbers;

numbers! {
    /// Which program made a recording.
    #[derive(Default, Archive, Serialize, Deserialize)]
    Maker(u16), others "maker",
    /// Unknown.
    UNKNOWN = 0,
    /// `icecore-record`.
    RECORDER = 1 "icecore-record",
    /// `perf record`; its file was imported.
    PERF = 2,
    /// A program that writes pprof; its profile was imported.
    PPROF = 3,
    /// A program that writes folded stacks; they were imported.
    FOLDED = 4,
    /// A program that writes profiles of the Firefox Profiler; one was imported.
    FIREFOX = 5,
    /// `simpleperf report-sample`; its file was imported.
    SIMPLEPERF = 6,
}

impl Maker {
    /// Returns true if what was imported has sums of samples, and not each of them.
    pub fn is_aggregated(self) -> bool {
        [Self::PPROF, Self::FOLDED].contains(&self)
    }

    /// Returns true if another program than ours is known to have recorded.
    pub fn is_foreign(self) -> bool {
        (Self::PERF..=Self::SIMPLEPERF).contains(&self)
    }
}

numbers! {
    /// Whom a session samples.
    #[derive(Default, Archive, Serialize, Deserialize)]
    TargetKind(u16), others "target",
    /// Unknown.
    UNKNOWN = 0,
    /// The whole machine.
    SYSTEM = 1,
    /// Processes, and the children that they fork.
    PROCESSES = 2,
    /// Threads, and no other threads of their processes.
    THREADS = 3,
    /// Tasks in cgroups and those below them.
    CGROUPS = 4,
    /// A command that the recorder ran, and its children.
    COMMAND = 5,
}

numbers! {
    /// Whether CPUs were excluded.
    #[derive(Default, Archive, Serialize, Deserialize)]
    CpuScope(u16), others "cpu_scope",
    /// Unknown.
    UNKNOWN = 0,
    /// All CPUs that were online are sampled.
    ALL = 1,
    /// Some CPUs that were online are not sampled.
    SOME = 2,
}

numbers! {
    /// How the recorder was to take user stacks; what the kernel could not do is a [`MissingFeature`].
    #[derive(Default, Archive, Serialize, Deserialize)]
    UnwindMode(u16), others "unwind",
    /// Unknown.
    UNKNOWN = 0,
    /// Walks along frame pointers, without copies.
    FRAME_POINTERS = 1 "fp",
    /// Walks by unwind tables, and copies of the stack where there are none.
    AUTO = 2,
    /// Walks along frame pointers, and copies of the stack where these cannot be trusted.
    COPY = 3,
    /// A copy of each stack.
    DWARF = 4,
}

numbers! {
    /// What of the executable files that were hit was to go into the recording.
    #[derive(Default, Archive, Serialize, Deserialize)]
    EmbedMode(u16), others "embed",
    /// Unknown.
    UNKNOWN = 0,
    /// Nothing.
    NONE = 1,
    /// Names of the functions that were hit.
    HITS = 2,
    /// Also symbol tables and unwind tables.
    SECTIONS = 3,
    /// Also the files as a whole.
    ALL = 4,
}

numbers! {
    /// What the recorder would have used, and its kernel or its privileges did not give.
    #[derive(Default, Archive, Serialize, Deserialize)]
    MissingFeature(u16), others "feature",
    /// Unknown; never written.
    UNKNOWN = 0,
    /// Programs of the kernel cannot loop (`bpf_loop`, Linux 5.17): the kernel walks user stacks itself, 127 frames at most, does not
    /// say how its walks end, and copies no stacks.
    LOOP = 1,
    /// Threads run no programs after they have waited (task work, Linux 6.18): of user stacks of waits at most 2 KiB are copied.
    TASK_WORK = 2,
    /// The sampler cannot walk user stacks by unwind tables (Linux 6.1, x86-64).
    TABLE_WALKS = 3,
    /// The kernel shows no addresses of its functions to the recorder (`kernel.kptr_restrict`, CAP_SYSLOG).
    KERNEL_ADDRESSES = 4,
    /// The kernel runs no programs for the recorder, which has no privileges: perf events sample threads of its own user, in user mode alone.
    /// There are no samples of the kernel, waits, probes, counters of processes, or functions of interpreters.
    PROGRAMS = 5,
}

numbers! {
    /// Why a session ended.
    #[derive(Default, Archive, Serialize, Deserialize)]
    EndReason(u16), others "reason",
    /// Unknown.
    UNKNOWN = 0,
    /// The requested time was over.
    DURATION = 1,
    /// A signal asked the recorder to end.
    SIGNAL = 2,
    /// The command ended.
    COMMAND = 3,
    /// All targets ended.
    TARGETS_GONE = 4 "targets gone",
    /// The disk or pipe took no more.
    WRITE_FAILED = 5 "write failed",
    /// The recorder did not end the session: a repair wrote the receipt.
    REPAIRED = 6,
    /// Another program recorded the session, and its file does not say why it ended.
    IMPORTED = 7,
    /// The recorder has gone on in another session, of this file or another one, without a gap.
    ROTATED = 8,
    /// A trigger asked for the history (`--flight`); the recorder has gone on in memory, without a gap.
    TRIGGERED = 9,
}

numbers! {
    /// Why the recorder samples more or less often.
    #[derive(Default, Archive, Serialize, Deserialize)]
    RateCause(u16), others "cause",
    /// Unknown.
    UNKNOWN = 0,
    /// `icecore-record ctl rate`, `stop` or `start`.
    CONTROL = 1,
    /// A part of each period is sampled (`--duty`).
    DUTY = 2,
    /// The recorder keeps its budget of CPU time.
    CPU = 3 "CPU budget",
    /// The recorder keeps its budget of memory.
    MEMORY = 4 "memory budget",
    /// The recorder keeps its budget of bytes written.
    DISK = 5 "disk budget",
}

numbers! {
    /// What asked for a history.
    #[derive(Default, Archive, Serialize, Deserialize)]
    TriggerCause(u16), others "trigger",
    /// Unknown.
    UNKNOWN = 0,
    /// SIGUSR1 to the recorder.
    SIGNAL = 1,
    /// `icecore-record ctl snapshot`.
    CONTROL = 2,
    /// A condition of `--when`.
    CONDITION = 3,
    /// A signal ended the command.
    COMMAND = 4,
}

numbers! {
    /// What a sample of an event stands for.
    #[derive(Default, Archive, Serialize, Deserialize)]
    EventMeaning(u16), others "meaning",
    /// Unknown.
    UNKNOWN = 0,
    /// CPU time, in ns.
    CPU_TIME = 1,
    /// Cycles of a CPU.
    CYCLES = 2,
    /// Time in which a thread slept or was blocked, in ns.
    OFF_CPU = 3,
    /// Time in which a thread was ready and had no CPU, in ns.
    RUN_DELAY = 4,
    /// The end of a wait: the stack is that of who ended it, the weight the length of the wait, in ns.
    WAKER = 5,
    /// The time that a function took, with all that it called and waited for, in ns.
    DURATION = 6,
    /// Something that happened: a page fault, a call of a function, a number of bytes.
    OCCURRENCE = 7,
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
