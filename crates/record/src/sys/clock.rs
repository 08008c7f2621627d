//! The two clocks of a recording, that of the samples and that of the calendar, and CPU time.
#![allow(unsafe_code)]

/// Returns nanoseconds of `CLOCK_MONOTONIC`, the clock of `bpf_ktime_get_ns`.
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Returns nanoseconds since 1970-01-01 UTC.
pub(crate) fn unix_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Returns the CPU time of the calling thread, ns.
pub(crate) fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Returns the CPU time of this process, ns.
pub(crate) fn own_cpu_ns() -> u64 {
    read(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// Returns the CPU time of a process, ns; 0 if there is none.
///
/// # Source
/// clock_getcpuclockid(3); `MAKE_PROCESS_CPUCLOCK` of Linux `include/linux/posix-timers_types.h`
pub(crate) fn process_cpu_ns(pid: u32) -> u64 {
    read(!(pid.cast_signed()) << 3 | 2)
}

/// Reads the processor's time stamp counter, and `CLOCK_MONOTONIC` at the same moment; `None` on machines without one.
pub(crate) fn counter_and_ns() -> Option<(u64, u64)> {
    let reading = || {
        let before = counter()?;
        let ns = monotonic_ns();
        let after = counter()?;
        Some((after.checked_sub(before)?, before + (after - before) / 2, ns))
    };
    // Of several readings, the one that nothing interrupted.
    let (_, counter, ns) = (0..8).filter_map(|_| reading()).min()?;
    Some((counter, ns))
}

#[cfg(target_arch = "x86_64")]
fn counter() -> Option<u64> {
    // SAFETY: every processor of x86-64 has this instruction, and Linux allows it to user space.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn counter() -> Option<u64> {
    None
}

fn read(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec to write to; it stays 0 if there is no such clock.
    unsafe { libc::clock_gettime(clock, &mut time) };
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}
