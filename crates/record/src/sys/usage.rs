//! Measures and limits the resources that the recorder itself uses.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::time::Duration;

/// CPU time and memory of this process so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) user_cpu_ns: u64,
    pub(crate) kernel_cpu_ns: u64,
    pub(crate) peak_rss_bytes: u64,
}

/// Reads the usage of this process, all threads.
pub(crate) fn own() -> Usage {
    // SAFETY: an all-zero rusage is a valid value, and getrusage only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1_000;
    Usage {
        user_cpu_ns: ns(usage.ru_utime),
        kernel_cpu_ns: ns(usage.ru_stime),
        peak_rss_bytes: peak_rss_kib().unwrap_or(usage.ru_maxrss as u64) * 1024,
    }
}

/// Returns the CPU time of all processes that this one has waited for, and of those that these have waited for.
pub(crate) fn of_children() -> Duration {
    // SAFETY: an all-zero rusage is a valid value, and getrusage only writes to it.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &mut usage);
        usage
    };
    let of = |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    of(usage.ru_utime) + of(usage.ru_stime)
}

/// Returns the largest resident size since this program was started. `getrusage` also counts what ran in this process before: perhaps
/// the copy of a large parent.
fn peak_rss_kib() -> Option<u64> {
    let status = std::fs::read("/proc/self/status").ok()?;
    let text = String::from_utf8_lossy(&status);
    let value = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    value.trim().strip_suffix(" kB")?.parse().ok()
}

/// Returns the resident memory of this process, bytes.
pub(crate) fn rss_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * u64::from(page_bytes())
}

/// Gives memory that is not in use back to the kernel.
pub(crate) fn give_back_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes no pointers.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Returns the size of a memory page, bytes.
pub(crate) fn page_bytes() -> u32 {
    // SAFETY: takes no pointers.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u32 }
}

/// The number of files that must be open at one time while the recorder looks at processes and their files.
pub(crate) const FILES_NEEDED: usize = 64;

/// Returns how many files this process may have open.
pub(crate) fn max_files() -> usize {
    file_limit().map_or(0, |limit| usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// Returns how many more files this process may open.
pub(crate) fn spare_files() -> usize {
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    max_files().saturating_sub(open)
}

/// The limit of open files with which this process was started.
static FILE_LIMIT: OnceLock<libc::rlimit> = OnceLock::new();

/// Raises the limit of open files as far as this process may.
pub(crate) fn raise_max_files() {
    let Some(limit) = file_limit() else { return };
    let _ = FILE_LIMIT.set(limit);
    let raised = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
    // SAFETY: setrlimit only reads it.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) };
}

/// Restores the original limit of open files, since some programs try to close every descriptor up to the limit. It is safe between
/// fork and exec.
pub(crate) fn restore_max_files() {
    if let Some(limit) = FILE_LIMIT.get() {
        // SAFETY: setrlimit only reads it.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, limit) };
    }
}

fn file_limit() -> Option<libc::rlimit> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit only writes to it.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    (result == 0).then_some(limit)
}

/// Runs of a BPF program, and their CPU time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct BpfRuns {
    pub(crate) count: u64,
    pub(crate) ns: u64,
    /// Runs that the kernel left out because another program ran on the CPU. It does not count them for perf events.
    pub(crate) missed: u64,
}

impl std::iter::Sum for BpfRuns {
    fn sum<I: Iterator<Item = Self>>(runs: I) -> Self {
        runs.fold(Self::default(), |sum, one| Self {
            count: sum.count + one.count,
            ns: sum.ns + one.ns,
            missed: sum.missed + one.missed,
        })
    }
}

/// Makes the kernel count the runs of BPF programs while the returned descriptor is open; `None`
/// where it does not (before 5.8).
pub(crate) fn count_bpf_runs() -> Option<OwnedFd> {
    // SAFETY: takes no pointers; a non-negative result is a descriptor that nobody else owns.
    unsafe {
        let fd = libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME);
        (fd >= 0).then(|| OwnedFd::from_raw_fd(fd))
    }
}

/// Reads the runs of one program.
pub(crate) fn bpf_runs(program: RawFd) -> BpfRuns {
    // SAFETY: an all-zero bpf_prog_info asks for no arrays, and `len` is its size.
    unsafe {
        let mut info: libbpf_sys::bpf_prog_info = std::mem::zeroed();
        let mut len = size_of_val(&info) as u32;
        if libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &mut info, &mut len) != 0 {
            return BpfRuns::default();
        }
        BpfRuns { count: info.run_cnt, ns: info.run_time_ns, missed: info.recursion_misses }
    }
}

/// Makes the allocator keep freed memory. The threads pass on buffers of similar sizes, and for each new one the kernel would have
/// to clear memory again.
pub(crate) fn keep_freed_memory() {
    #[cfg(target_env = "gnu")]
    for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
        // SAFETY: takes no pointers; that it may fail is harmless.
        unsafe { libc::mallopt(parameter, KEPT_BYTES) };
    }
}

/// The most memory that each arena keeps, and the largest piece that it keeps, bytes.
const KEPT_BYTES: libc::c_int = 16 << 20;

/// Lowers the priority of the calling thread below that of the recorded programs.
pub(crate) fn lower_priority() {
    be_nice(5);
}

/// Lowers the priority of the calling thread to a tenth of a busy neighbour's CPU time, and no further: it must finish on a machine
/// without idle CPUs, too.
pub(crate) fn background_priority() {
    be_nice(10);
}

fn be_nice(nice: i32) {
    // SAFETY: takes no pointers. With `who` 0, Linux changes the calling thread alone. That it may
    // fail is harmless.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_was_touched_counts_as_peak() {
        let touched = vec![1u8; 64 << 20];
        assert_eq!(touched[(64 << 20) - 1], 1);
        drop(touched);
        let kib = peak_rss_kib().expect("the kernel tells");
        assert!(kib >= 64 << 10, "{kib}");
        assert!(own().peak_rss_bytes >= kib * 1024);
    }
}
