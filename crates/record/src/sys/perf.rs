//! Perf events: some run the sampler, others report mappings.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};

use libbpf_sys::perf_event_attr;

/// A counter of the processor or the kernel, as `perf_event_open` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counter {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `perf_event_attr.config`.
    pub config: u64,
    /// `perf_event_attr.precise_ip`: 0 to 3, the number of `p` that perf's users write after the name.
    pub precise: u8,
    /// Count in user mode.
    pub user: bool,
    /// Count in kernel mode.
    pub kernel: bool,
}

impl Counter {
    /// CPU cycles. They need a performance monitoring unit, and also count in code that runs with interrupts off.
    pub(crate) const CYCLES: Self =
        Self::new(libbpf_sys::PERF_TYPE_HARDWARE, libbpf_sys::PERF_COUNT_HW_CPU_CYCLES as u64);
    /// A timer on each CPU, which every machine has.
    pub(crate) const CPU_CLOCK: Self =
        Self::new(libbpf_sys::PERF_TYPE_SOFTWARE, libbpf_sys::PERF_COUNT_SW_CPU_CLOCK as u64);

    /// Returns a counter of user and kernel mode.
    pub const fn new(kind: u32, config: u64) -> Self {
        Self { kind, config, precise: 0, user: true, kernel: true }
    }

    /// Returns true if it is the timer of a CPU.
    pub(crate) fn is_cpu_clock(self) -> bool {
        (self.kind, self.config) == (Self::CPU_CLOCK.kind, Self::CPU_CLOCK.config)
    }
}

/// How often to sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Samples per second and CPU.
    Frequency(u64),
    /// Units of the event per sample.
    Period(u64),
}

/// Opens a counter that samples on one CPU; it does not run until a program is attached.
pub(crate) fn open_sampling(counter: Counter, rate: Rate, cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = empty(counter.kind, counter.config);
    match rate {
        Rate::Frequency(hz) => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = hz;
        }
        Rate::Period(units) => attr.__bindgen_anon_1.sample_period = units,
    }
    attr.set_disabled(1);
    attr.set_precise_ip(counter.precise.into());
    attr.set_exclude_user(u64::from(!counter.user));
    attr.set_exclude_kernel(u64::from(!counter.kernel));
    open(&attr, cpu)
}

/// Opens a tracepoint, by its number in tracefs; a program that is attached to it runs on all CPUs.
pub(crate) fn open_tracepoint(id: u64) -> io::Result<OwnedFd> {
    let mut attr = empty(libbpf_sys::PERF_TYPE_TRACEPOINT, id);
    attr.__bindgen_anon_1.sample_period = 1;
    attr.set_disabled(1);
    open(&attr, 0)
}

/// Opens a probe that tracefs defines, by its number, for a thread (0: the caller), and on request for the threads and processes that it
/// will make. The kernel makes the probe in their processes; it needs no event that runs.
pub(crate) fn open_probe_of(id: u64, tid: u32, inherits: bool) -> io::Result<OwnedFd> {
    let mut attr = empty(libbpf_sys::PERF_TYPE_TRACEPOINT, id);
    attr.__bindgen_anon_1.sample_period = 1;
    if inherits {
        set_inherited_in_place(&mut attr);
    }
    open_of_thread(attr, tid)
}

/// Returns true if inherited events stay with the threads that inherit them.
pub(crate) fn has_inherited_in_place() -> bool {
    let mut attr = empty(libbpf_sys::PERF_TYPE_SOFTWARE, u64::from(libbpf_sys::PERF_COUNT_SW_DUMMY));
    set_inherited_in_place(&mut attr);
    open_of_thread(attr, 0).is_ok()
}

/// Lets threads inherit an event. When two threads with the same inherited events follow each other on a CPU, the kernel swaps their
/// events, and later closes those of the wrong one; it swaps none that sample counts, which it lets threads inherit since 6.13.
fn set_inherited_in_place(attr: &mut perf_event_attr) {
    attr.set_inherit(1);
    attr.sample_type = u64::from(libbpf_sys::PERF_SAMPLE_READ | libbpf_sys::PERF_SAMPLE_TID);
}

fn open_of_thread(mut attr: perf_event_attr, tid: u32) -> io::Result<OwnedFd> {
    let any_cpu = -1;
    attr.set_disabled(1);
    open_of(&attr, tid as i32, any_cpu)
}

/// Stops an event.
pub(crate) fn disable(event: RawFd) {
    // SAFETY: the request has no argument; what is no perf event refuses it.
    unsafe {
        libc::ioctl(event, IOC_DISABLE, 0);
    }
}

/// Opens an event that samples nothing and reports executable mappings on one CPU. It asks for no build-ids: kernels from 5.12 on then mark the
/// reports to other listeners as if these had asked, too, and perf cannot read them.
pub(crate) fn open_mappings(cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = empty(libbpf_sys::PERF_TYPE_SOFTWARE, u64::from(libbpf_sys::PERF_COUNT_SW_DUMMY));
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_sample_id_all(1);
    attr.sample_type = u64::from(libbpf_sys::PERF_SAMPLE_TIME);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = u32::MAX;
    open(&attr, cpu)
}

fn empty(kind: u32, config: u64) -> perf_event_attr {
    perf_event_attr { type_: kind, size: size_of::<perf_event_attr>() as u32, config, ..Default::default() }
}

fn open(attr: &perf_event_attr, cpu: u32) -> io::Result<OwnedFd> {
    let any_process = -1;
    open_of(attr, any_process, cpu as i32)
}

fn open_of(attr: &perf_event_attr, tid: i32, cpu: i32) -> io::Result<OwnedFd> {
    let no_group = -1;
    // SAFETY: `attr` is a valid attribute of the size that it states; a non-negative result is a
    // descriptor that nobody else owns.
    unsafe {
        let fd = libc::syscall(
            libc::SYS_perf_event_open,
            std::ptr::from_ref(attr),
            tid,
            cpu,
            no_group,
            libc::c_ulong::from(libbpf_sys::PERF_FLAG_FD_CLOEXEC),
        );
        if fd < 0 { Err(io::Error::last_os_error()) } else { Ok(OwnedFd::from_raw_fd(fd as i32)) }
    }
}

/// `_IO('$', 1)` of uapi/linux/perf_event.h.
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// `_IOW('$', 4, __u64)` of uapi/linux/perf_event.h.
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;

/// Changes the period of a sampling event: the next sample comes a whole period from now.
pub(crate) fn set_period(event: RawFd, period: u64) {
    // SAFETY: the kernel reads eight bytes at the address; what is no perf event refuses the request.
    unsafe {
        libc::ioctl(event, IOC_PERIOD, &raw const period);
    }
}

/// How the user can get the privileges that recording needs.
pub(crate) const PRIVILEGES: &str = "run as root (sudo), or give the program its capabilities: \
     setcap cap_bpf,cap_perfmon,cap_sys_ptrace,cap_syslog+ep icecore-record";

/// Returns true if the recorder has the capabilities without which the kernel refuses events and programs: perfmon and bpf, or all that an
/// administrator has.
///
/// # Source
/// uapi/linux/capability.h; `CapEff` of proc_pid_status(5)
pub(crate) fn has_privileges() -> bool {
    let (administrator, perfmon_and_bpf) = (1_u64 << 21, 1_u64 << 38 | 1 << 39);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
    capabilities & administrator != 0 || capabilities & perfmon_and_bpf == perfmon_and_bpf
}

/// Reads a setting of the kernel, as text.
pub(crate) fn sysctl(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default().trim().to_owned()
}

/// Explains an error of `perf_event_open`, and what to do.
pub(crate) fn explain_open(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            format!(
                "needs CAP_PERFMON, or kernel.perf_event_paranoid ≤ 0; it is {}; {PRIVILEGES}",
                sysctl("perf_event_paranoid")
            )
        }
        Some(libc::EMFILE) => {
            "too many open files: raise the limit with `ulimit -n`, or record fewer CPUs with -C".to_owned()
        }
        Some(libc::EINVAL) => {
            format!(
                "the kernel refuses this rate; kernel.perf_event_max_sample_rate is {}",
                sysctl("perf_event_max_sample_rate")
            )
        }
        _ => "the kernel has no such event".to_owned(),
    }
}
