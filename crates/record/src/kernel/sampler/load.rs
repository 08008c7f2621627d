//! Loads the BPF programs with the settings of a recording.

use std::cell::Cell;
use std::hash::{BuildHasher as _, RandomState};
use std::mem::MaybeUninit;
use std::path::Path;

use anyhow::{Context as _, bail};
use libbpf_rs::skel::{OpenSkel as _, SkelBuilder as _};
use libbpf_rs::{ErrorKind, OpenObject, PrintCallback, PrintLevel, ProgramType};

use super::lists::MAX_TRUSTED;
use super::{Sampler, Walker};
use crate::kernel::skeleton::IcecoreSkelBuilder;
use crate::kernel::skeleton::types::{copy_mode, target_mode};
use crate::settings::{Options, Target, Unwind};
use crate::sys::{perf, usage};

/// The kernel wakes user space at the latest when this many bytes wait.
const MAX_WAKEUP_BYTES: u64 = 1 << 20;
/// The number of stack pages on the list of sent pages: 256 MiB of stacks, 5 MiB of memory.
const MAX_SENT_PAGES: u32 = 64 << 10;
/// The number of processes and threads that can be followed at one time, if the kernel allows as many: 8 MiB of its memory.
const MAX_TARGETS: u32 = 128 << 10;

impl<'obj> Sampler<'obj> {
    /// Loads the programs and attaches none. If the kernel has no `bpf_loop`, or its verifier refuses the program that uses it, the
    /// kernel's own walk takes user stacks. `print` receives the messages of libbpf.
    ///
    /// # Errors
    /// If the kernel has no BTF, or privileges are missing; the message says what to do.
    pub(crate) fn load(
        storage: &'obj mut [MaybeUninit<OpenObject>; 2],
        options: &Options,
        print: Option<PrintCallback>,
    ) -> anyhow::Result<Self> {
        check_btf()?;
        libbpf_rs::set_print(print.map(|print| (PrintLevel::Info, print)));
        let [first, second] = storage;
        if !ProgramType::PerfEvent.is_helper_supported(libbpf_sys::BPF_FUNC_loop).unwrap_or(false) {
            return Self::load_with(first, options, Walker::Helper("this kernel has no bpf_loop (5.17)"));
        }
        match Self::load_with(first, options, Walker::Loop) {
            Err(error) if is_refused(&error) => {
                let why =
                    "the verifier of this kernel refuses the program that walks user stacks (-v shows why)";
                Self::load_with(second, options, Walker::Helper(why)).map_err(|_| error)
            }
            loaded => loaded,
        }
    }

    fn load_with(
        storage: &'obj mut MaybeUninit<OpenObject>,
        options: &Options,
        walker: Walker,
    ) -> anyhow::Result<Self> {
        let has_loop = walker == Walker::Loop;
        let mut open =
            IcecoreSkelBuilder::default().open(storage).context("cannot open the sampling programs")?;
        open.progs.sample_by_loop.set_autoload(has_loop);
        open.progs.sample_by_helper.set_autoload(!has_loop);
        let has_cgroups = Path::new("/proc/self/cgroup").exists();
        open.progs.on_mkdir_cgroup.set_autoload(has_cgroups);
        open.maps.target_cgroups.set_autocreate(has_cgroups)?;

        let rodata = open.maps.rodata_data.as_deref_mut().context("bug: the programs have no settings")?;
        rodata.target_mode = match &options.target {
            Target::System => target_mode::TARGET_SYSTEM,
            Target::Processes(_) | Target::Command => target_mode::TARGET_PROCESSES,
            Target::Threads(_) => target_mode::TARGET_THREADS,
            Target::Cgroups(_) => target_mode::TARGET_CGROUPS,
        }
        .0;
        if let Target::Cgroups(cgroups) = &options.target {
            rodata.target_cgroup_count = u32::try_from(cgroups.len())?;
        }
        rodata.max_user_frames = options.max_depth;
        rodata.max_kernel_frames = rodata.max_kernel_frames.min(kernel_limit("perf_event_max_stack"));
        rodata.take_user = options.user;
        rodata.take_kernel = options.kernel;
        rodata.take_idle = options.idle;
        rodata.take_accounts = options.accounts();
        rodata.wakeup_bytes = (options.ring_bytes / 4).min(MAX_WAKEUP_BYTES);
        rodata.copy_mode = match options.unwind {
            Unwind::Fp => copy_mode::COPY_NOTHING,
            Unwind::Auto => copy_mode::COPY_UNTRUSTED,
            Unwind::Dwarf => copy_mode::COPY_ALWAYS,
        }
        .0;
        rodata.max_stack_bytes = options.stack_bytes;
        rodata.ring_half = options.ring_bytes / 2;
        rodata.ring_three_quarters = options.ring_bytes / 4 * 3;
        rodata.hash_seed = RandomState::new().hash_one(0_u64);

        let cpus = u32::try_from(libbpf_rs::num_possible_cpus()?)?;
        open.maps.scratches.set_max_entries(cpus)?;
        open.maps.ring.set_max_entries(u32::try_from(options.ring_bytes)?)?;
        if matches!(&options.target, Target::Processes(_) | Target::Threads(_) | Target::Command) {
            let most = kernel_limit("pid_max").min(MAX_TARGETS);
            open.maps.target_tgids.set_max_entries(most)?;
            open.maps.target_tids.set_max_entries(most)?;
        }
        if options.unwind != Unwind::Fp {
            open.maps.sent_pages.set_max_entries(MAX_SENT_PAGES)?;
        }
        if options.unwind == Unwind::Auto {
            open.maps.trusted_tgids.set_max_entries(MAX_TRUSTED as u32)?;
        }
        let skel = open.load().map_err(explain_load)?;
        Ok(Self {
            skel,
            walker,
            has_cgroups,
            links: Vec::new(),
            events: Vec::new(),
            live: Cell::new(None),
            _run_counter: usage::count_bpf_runs(),
        })
    }
}

/// Returns a limit of the kernel; the largest number if it cannot be read.
fn kernel_limit(name: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
    text.trim().parse().unwrap_or(u32::MAX)
}

fn check_btf() -> anyhow::Result<()> {
    const BTF: &str = "/sys/kernel/btf/vmlinux";
    if Path::new(BTF).exists() {
        return Ok(());
    }
    bail!(
        "cannot find `{BTF}`: this kernel has no type information; it needs CONFIG_DEBUG_INFO_BTF=y (distributions have it since 2020)"
    )
}

/// Returns true if the kernel refuses the content of a program. If privileges are missing, the error is EPERM instead.
fn is_refused(error: &anyhow::Error) -> bool {
    let refusals = [libc::EACCES, libc::EINVAL, libc::E2BIG].map(std::io::Error::from_raw_os_error);
    let text = error.root_cause().to_string();
    refusals.iter().any(|refusal| refusal.to_string() == text)
}

fn explain_load(error: libbpf_rs::Error) -> anyhow::Error {
    let kind = error.kind();
    let error = anyhow::Error::new(error);
    if kind == ErrorKind::PermissionDenied && !is_refused(&error) {
        error.context(format!(
            "cannot load the sampling programs: {} (kernel.perf_event_paranoid is {}, kernel.unprivileged_bpf_disabled is {})",
            perf::PRIVILEGES,
            perf::sysctl("perf_event_paranoid"),
            perf::sysctl("unprivileged_bpf_disabled"),
        ))
    } else if is_refused(&error) {
        error.context(
            "cannot load the sampling programs: the kernel's verifier, or a security module, refuses them (-v shows what the kernel says)",
        )
    } else if format!("{error:#}").contains("Too many open files") {
        error.context("cannot load the sampling programs: raise the limit with `ulimit -n`")
    } else {
        error.context("cannot load the sampling programs (-v shows what the kernel says)")
    }
}
