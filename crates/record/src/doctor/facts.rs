//! What was found out about a machine, its kernel and a user: plain values, from which [`checks`](super::checks) concludes.

use std::path::PathBuf;

/// All facts.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// As `std::env::consts::ARCH` has it.
    pub(super) arch: String,
    /// The release of the kernel.
    pub(super) release: String,
    /// The kernel describes its types.
    pub(super) has_btf: bool,
    /// What happened to the programs; `None` if they were not tried, because a recording ends before it loads them.
    pub(super) programs: Option<Result<Programs, String>>,
    /// Whether the events of a recording opened on every CPU; `None` if they were not tried.
    pub(super) events: Option<Result<(), String>>,
    /// Whether this user may sample its own processes without programs; `None` if no recording does that here.
    pub(super) own: Option<Result<(), String>>,
    pub(super) counters: Counters,
    /// Probes whose threads can be preempted in them do not harm the kernel.
    pub(super) takes_preempted_probes: bool,
    /// The kernel can refuse system calls (CONFIG_SECCOMP_FILTER).
    pub(super) can_refuse_calls: bool,
    pub(super) rights: Rights,
    pub(super) settings: Settings,
    /// The kernel shows its addresses to this user.
    pub(super) shows_addresses: bool,
    /// The kernel counts the runs of programs for this user.
    pub(super) counts_runs: bool,
    /// The mode of the kernel's lockdown; `None` if it has none.
    pub(super) lockdown: Option<String>,
    pub(super) place: Place,
    pub(super) limits: Limits,
}

/// The sampling programs, loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Programs {
    /// Why the kernel walks the stacks itself; `None` if the programs do.
    pub(super) without_loop: Option<String>,
    /// Stacks are walked by unwind tables.
    pub(super) walks_tables: bool,
    pub(super) waits: Waits,
}

/// How waits are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waits {
    /// With whole user stacks.
    Whole,
    /// With copies of the innermost part of user stacks. Holds the reason.
    Copied(String),
    /// Without user stacks.
    Bare,
    /// Not at all. Holds the reason.
    Refused(String),
}

/// What the processor can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counters {
    /// Cycles.
    Cycles,
    /// Nothing: there is a timer.
    Timer,
    /// Unknown, because this user may open no event.
    Untold,
}

/// What this process may do.
#[derive(Debug, Clone)]
pub(super) struct Rights {
    /// The effective user is root.
    pub(super) is_root: bool,
    /// Effective capabilities, a bit each.
    pub(super) effective: u64,
    /// Those that a program can gain.
    pub(super) bounding: u64,
    /// No program gains rights by being run (`no_new_privs`).
    pub(super) gains_none: bool,
    /// A filter decides which system calls this process may make.
    pub(super) is_filtered: bool,
    /// The program of the recorder.
    pub(super) program: PathBuf,
    /// The file system of the program grants no rights (`nosuid`).
    pub(super) is_granted_nothing: bool,
}

/// Settings of the kernel; `None` where one does not exist or cannot be read.
#[derive(Debug, Clone, Default)]
pub(super) struct Settings {
    pub(super) perf_event_paranoid: Option<i64>,
    pub(super) unprivileged_bpf_disabled: Option<i64>,
    pub(super) kptr_restrict: Option<i64>,
    pub(super) bpf_stats_enabled: Option<i64>,
    pub(super) bpf_jit_enable: Option<i64>,
    /// They cannot be changed here.
    pub(super) are_read_only: bool,
}

/// Where this process runs.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// A mark that containers have.
    pub(super) container: Option<&'static str>,
    pub(super) is_first_pid_namespace: bool,
    pub(super) is_first_user_namespace: bool,
    pub(super) is_first_cgroup_namespace: bool,
    pub(super) tracefs: Tracefs,
    /// Where cgroup2 is mounted.
    pub(super) cgroup2: Option<PathBuf>,
    /// The kernel has cgroup2.
    pub(super) knows_cgroup2: bool,
    /// The kernel tells pressure.
    pub(super) has_pressure: bool,
}

/// What this process sees of tracefs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tracefs {
    /// Its tracepoints. Holds the folder.
    Readable(String),
    /// Its tracepoints: it is not mounted, and the recorder mounts it for itself.
    Own,
    /// Nothing, though it is mounted. Holds the cause.
    Closed(String),
    /// Nothing, because it is not mounted, and this user may not mount it.
    Unmounted,
}

/// What may be used up.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// How many more files may be open beside those of a recording; `None` if the recording was not tried.
    pub(super) spare_files: Option<usize>,
    /// The number of CPUs that are online.
    pub(super) cpus: usize,
    /// How many files this process may have open; `None` for any number.
    pub(super) most_files: Option<u64>,
    /// The kernel counts memory of programs as locked.
    pub(super) counts_locked: bool,
    /// How much memory may be locked, bytes; `None` for any amount.
    pub(super) max_locked_bytes: Option<u64>,
    /// This user may write into the current folder.
    pub(super) may_write: bool,
    /// How much room the current folder has, bytes; `None` if that is unknown.
    pub(super) free_bytes: Option<u64>,
}

/// Capabilities: names without `CAP_`, and numbers of uapi/linux/capability.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Capability(pub(super) &'static str, pub(super) u32);

impl Capability {
    pub(super) const DAC_READ_SEARCH: Self = Self("DAC_READ_SEARCH", 2);
    pub(super) const SYS_PTRACE: Self = Self("SYS_PTRACE", 19);
    pub(super) const SYS_ADMIN: Self = Self("SYS_ADMIN", 21);
    pub(super) const SYS_RESOURCE: Self = Self("SYS_RESOURCE", 24);
    pub(super) const SYSLOG: Self = Self("SYSLOG", 34);
    pub(super) const PERFMON: Self = Self("PERFMON", 38);
    pub(super) const BPF: Self = Self("BPF", 39);
    /// Those with which a recording lacks nothing for want of rights.
    pub(super) const WANTED: [Self; 5] =
        [Self::BPF, Self::PERFMON, Self::SYS_PTRACE, Self::SYSLOG, Self::DAC_READ_SEARCH];

    pub(super) const fn bit(self) -> u64 {
        1 << self.1
    }
}

impl Rights {
    pub(super) fn has(&self, capability: Capability) -> bool {
        self.effective & capability.bit() != 0
    }

    /// Returns true if it has CAP_BPF or CAP_PERFMON, or what was both of them before Linux 5.8.
    pub(super) fn has_or_admin(&self, capability: Capability) -> bool {
        self.has(capability) || self.has(Capability::SYS_ADMIN)
    }
}

impl Facts {
    /// Returns true if this process has the capabilities for programs and events.
    pub(super) fn has_privileges(&self) -> bool {
        let has =
            [Capability::BPF, Capability::PERFMON].iter().all(|wanted| self.rights.has_or_admin(*wanted));
        has && self.place.is_first_user_namespace
    }

    /// Returns true if the kernel refused programs or events that were tried.
    pub(super) fn is_refused(&self) -> bool {
        matches!(self.programs, Some(Err(_))) || matches!(self.events, Some(Err(_)))
    }

    /// Returns true if the processes of this user can be recorded, though the machine cannot.
    pub(super) fn can_record_own(&self) -> bool {
        matches!(self.own, Some(Ok(())))
    }

    /// Returns true if the kernel took programs and events.
    pub(super) fn can_record(&self) -> bool {
        matches!((&self.programs, &self.events), (Some(Ok(_)), Some(Ok(()))))
    }
}
