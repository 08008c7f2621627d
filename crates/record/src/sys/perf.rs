//! Perf events: some run the sampler, others report mappings.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};

use icecore_format::records::RateChange;
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

    /// Returns true if it is a timer: the kernel turns its frequency into a period, ns, once and for all.
    pub(crate) fn is_timer(self) -> bool {
        let timers = [libbpf_sys::PERF_COUNT_SW_CPU_CLOCK, libbpf_sys::PERF_COUNT_SW_TASK_CLOCK];
        self.kind == libbpf_sys::PERF_TYPE_SOFTWARE && timers.iter().any(|it| u64::from(*it) == self.config)
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

impl Rate {
    /// Returns the period of a timer, ns.
    pub(crate) fn of_timer(self) -> Self {
        match self {
            Self::Frequency(hz) => Self::Period(1_000_000_000 / hz.max(1)),
            Self::Period(_) => self,
        }
    }

    /// Returns what a share of the rate is, in parts of [`RateChange::WHOLE`], as [`set_period`] takes it.
    pub(crate) fn at(self, share: u32) -> u64 {
        let (share, whole) = (u64::from(share.max(1)), u64::from(RateChange::WHOLE));
        match self {
            Self::Frequency(hz) => (hz.saturating_mul(share) / whole).max(1),
            Self::Period(units) => units.saturating_mul(whole) / share,
        }
    }
}

/// Opens a counter that samples on one CPU; it does not run until a program is attached.
pub(crate) fn open_sampling(counter: Counter, rate: Rate, cpu: u32) -> io::Result<OwnedFd> {
    let mut attr = empty(counter.kind, counter.config);
    set_rate(&mut attr, rate);
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

/// A thread of the recorder's own user on one CPU, whose events the kernel writes into memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnThread {
    /// 0 for the caller.
    pub(crate) tid: u32,
    pub(crate) cpu: u32,
    /// Threads and processes that it makes have the event, too.
    pub(crate) inherits: bool,
    /// The kernel wakes the recorder when this much waits, bytes.
    pub(crate) wakeup_bytes: u32,
}

/// What comes with every record of an event of [`OwnThread`]: a sample has these fields in its head, other records have them at their end.
const OF_OWN: u32 = libbpf_sys::PERF_SAMPLE_IDENTIFIER
    | libbpf_sys::PERF_SAMPLE_TID
    | libbpf_sys::PERF_SAMPLE_TIME
    | libbpf_sys::PERF_SAMPLE_CPU;

/// Opens an event that samples a thread in user mode, and needs no privileges. It does not run yet. A sample has its stack as far as frame
/// pointers lead, and if `copied` is given, these registers and so many bytes of the stack.
pub(crate) fn open_own_sampling(
    counter: Counter,
    rate: Rate,
    thread: OwnThread,
    copied: Option<(u64, u32)>,
) -> io::Result<OwnedFd> {
    let mut attr = empty(counter.kind, counter.config);
    set_rate(&mut attr, rate);
    attr.set_disabled(1);
    attr.set_precise_ip(counter.precise.into());
    attr.sample_type = u64::from(
        OF_OWN
            | libbpf_sys::PERF_SAMPLE_IP
            | libbpf_sys::PERF_SAMPLE_PERIOD
            | libbpf_sys::PERF_SAMPLE_CALLCHAIN,
    );
    if let Some((registers, bytes)) = copied {
        attr.sample_type |= u64::from(libbpf_sys::PERF_SAMPLE_REGS_USER | libbpf_sys::PERF_SAMPLE_STACK_USER);
        attr.sample_regs_user = registers;
        attr.sample_stack_user = bytes;
    }
    open_own(attr, thread)
}

/// Opens an event that reports what a thread does: new threads and processes, programs, names, executable mappings, ends. It runs at once, and
/// needs no privileges.
pub(crate) fn open_own_tasks(thread: OwnThread) -> io::Result<OwnedFd> {
    let mut attr = empty(libbpf_sys::PERF_TYPE_SOFTWARE, u64::from(libbpf_sys::PERF_COUNT_SW_DUMMY));
    attr.set_mmap(1);
    attr.set_mmap2(1);
    attr.set_comm(1);
    attr.set_comm_exec(1);
    attr.set_task(1);
    attr.sample_type = u64::from(OF_OWN);
    open_own(attr, thread)
}

/// Returns an error if this user may not even sample threads of its own.
pub(crate) fn check_own() -> io::Result<()> {
    let any_cpu = u32::MAX;
    open_own_tasks(OwnThread { tid: 0, cpu: any_cpu, inherits: false, wakeup_bytes: 0 }).map(drop)
}

fn open_own(mut attr: perf_event_attr, thread: OwnThread) -> io::Result<OwnedFd> {
    attr.set_exclude_kernel(1);
    attr.set_exclude_hv(1);
    attr.set_exclude_callchain_kernel(1);
    attr.set_inherit(u64::from(thread.inherits));
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = thread.wakeup_bytes;
    attr.read_format = u64::from(libbpf_sys::PERF_FORMAT_LOST);
    match open_of(&attr, thread.tid as i32, thread.cpu as i32) {
        // Linux before 6.0 does not count for each event what was lost.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
            attr.read_format = 0;
            open_of(&attr, thread.tid as i32, thread.cpu as i32)
        }
        opened => opened,
    }
}

/// Starts an event, and those that inherited it.
pub(crate) fn enable(event: impl AsRawFd) -> io::Result<()> {
    // SAFETY: the request has no argument; what is no perf event refuses it.
    succeeded(unsafe { libc::ioctl(event.as_raw_fd(), IOC_ENABLE, 0) })
}

/// Lets an event write into the memory of another one of the same CPU.
pub(crate) fn write_into(event: BorrowedFd<'_>, memory_of: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: both are descriptors that are open; what is no perf event refuses the request.
    succeeded(unsafe { libc::ioctl(event.as_raw_fd(), IOC_SET_OUTPUT, memory_of.as_raw_fd()) })
}

/// Returns the number by which records name an event.
pub(crate) fn id(event: BorrowedFd<'_>) -> io::Result<u64> {
    let mut id = 0_u64;
    // SAFETY: the kernel writes eight bytes at the address; what is no perf event refuses the request.
    succeeded(unsafe { libc::ioctl(event.as_raw_fd(), IOC_ID, &raw mut id) })?;
    Ok(id)
}

/// Reads what an event of [`OwnThread`] has counted, with those that inherited it; and how many of its records found no room, `None` before
/// Linux 6.0.
pub(crate) fn counted(event: BorrowedFd<'_>) -> io::Result<(u64, Option<u64>)> {
    let mut values = [0_u64; 2];
    // SAFETY: the kernel writes at most as many bytes as there are.
    let read = unsafe { libc::read(event.as_raw_fd(), values.as_mut_ptr().cast(), size_of_val(&values)) };
    match read {
        ..8 => Err(io::Error::last_os_error()),
        8..16 => Ok((values[0], None)),
        _ => Ok((values[0], Some(values[1]))),
    }
}

fn succeeded(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_rate(attr: &mut perf_event_attr, rate: Rate) {
    match rate {
        Rate::Frequency(hz) => {
            attr.set_freq(1);
            attr.__bindgen_anon_1.sample_freq = hz;
        }
        Rate::Period(units) => attr.__bindgen_anon_1.sample_period = units,
    }
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

/// `_IO('$', 0)` of uapi/linux/perf_event.h.
const IOC_ENABLE: libc::c_ulong = 0x2400;
/// `_IO('$', 5)` of uapi/linux/perf_event.h.
const IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
/// `_IOR('$', 7, __u64 *)` of uapi/linux/perf_event.h.
const IOC_ID: libc::c_ulong = 0x8008_2407;
/// `_IO('$', 1)` of uapi/linux/perf_event.h.
const IOC_DISABLE: libc::c_ulong = 0x2401;
/// `_IOW('$', 4, __u64)` of uapi/linux/perf_event.h.
const IOC_PERIOD: libc::c_ulong = 0x4008_2404;

/// Changes the period of a sampling event, or its frequency if it was opened with one: the next sample comes a whole period from now.
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
