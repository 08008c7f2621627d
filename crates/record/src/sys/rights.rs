//! What processes and threads of the recorder may still do once they need less: their capabilities, and their system calls.
//!
//! SECURITY.md has the table, and says what it is worth.

mod calls;

use std::io;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, SecureComputingMode, capabilities, remove_capability_from_bounding_set,
    set_capabilities, set_no_new_privs, set_secure_computing_mode,
};

/// A part of the recorder that gives up what it does not need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The process that starts readers.
    Keeper,
    /// A process that opens and reads files and memory of others.
    Reader,
    /// The main thread, after sampling has begun.
    Main,
    Tracker,
    Writer,
    /// The thread that makes the files of a recording that rotates, and their writers.
    Files,
    /// The writer of such a file, which also collects the names that belong into it.
    Closer,
    /// The thread that writes a history which was held in memory: it makes a file, and does what a closer does.
    Saver,
    /// The thread that asks another program to ship files, and removes those that have arrived.
    Shipper,
    /// The thread that compiles unwind tables, and gives them to the sampler.
    Tables,
    /// The thread that looks for frame pointers in files.
    Judge,
    /// The thread that reads the names of JIT code.
    Jit,
    /// A thread that only uses what is open already.
    Helper,
}

/// What was a part of CAP_SYS_ADMIN before Linux 5.8 or 5.9. The kernel still accepts that instead.
const PARTS_OF_ADMIN: CapabilitySet =
    CapabilitySet::BPF.union(CapabilitySet::PERFMON).union(CapabilitySet::CHECKPOINT_RESTORE);

/// What a reader needs: it looks into folders and processes of every user, follows the kernel's links to what they have mapped, and opens some
/// files as another user.
const OF_READER: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID);

impl Part {
    /// Returns the capabilities that it uses, and those that it has for others.
    fn capabilities(self) -> (CapabilitySet, CapabilitySet) {
        let none = CapabilitySet::empty();
        let used = match self {
            Self::Keeper => return (none, OF_READER),
            Self::Reader => OF_READER,
            // It ends a command of another user, and saves a recording in a folder of another user.
            Self::Main => CapabilitySet::BPF | CapabilitySet::KILL | CapabilitySet::DAC_OVERRIDE,
            // It reads the mappings of processes, and the names of kernel functions.
            Self::Tracker => CapabilitySet::BPF | CapabilitySet::SYS_PTRACE | CapabilitySet::SYSLOG,
            // It makes files in folders of other users, and gives them to the user who called sudo. A closer has its rights from it.
            Self::Files => {
                return (CapabilitySet::DAC_OVERRIDE | CapabilitySet::CHOWN, Self::Closer.capabilities().0);
            }
            Self::Saver => Self::Files.capabilities().0 | Self::Closer.capabilities().0,
            // Files may lie in a folder of another user.
            Self::Shipper => CapabilitySet::DAC_OVERRIDE,
            // It reads what programs with JIT code wrote.
            Self::Closer => CapabilitySet::SYS_PTRACE,
            Self::Tables => CapabilitySet::BPF,
            // It finds the folder of a process whose main thread has ended.
            Self::Judge => CapabilitySet::SYS_PTRACE,
            Self::Writer | Self::Jit | Self::Helper => none,
        };
        (used, none)
    }
}

/// Gives up what a part of the recorder does not need, for this thread and for what it starts, for good. What the kernel cannot take away
/// stays.
///
/// # Source
/// capabilities(7), seccomp(2)
pub(crate) fn keep(part: Part) {
    gain_none();
    let mut all = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    // Without CAP_SETPCAP this fails at once. It matters only to programs that this thread runs: none.
    let _ = all.try_for_each(remove_capability_from_bounding_set);
    let (used, for_others) = part.capabilities();
    if let Ok(has) = capabilities(None) {
        let kept = |wanted: CapabilitySet| {
            let lacks = (wanted & PARTS_OF_ADMIN).difference(has.permitted);
            let admin = if lacks.is_empty() { CapabilitySet::empty() } else { CapabilitySet::SYS_ADMIN };
            has.permitted & (wanted | admin)
        };
        let (effective, permitted) = (kept(used), kept(used | for_others));
        let inheritable = CapabilitySet::empty();
        let _ = set_capabilities(None, CapabilitySets { effective, permitted, inheritable });
    }
    let _ = calls::limit(part);
}

/// Gives up all capabilities, for this thread and for the programs that it runs, for good.
pub(crate) fn keep_none() -> io::Result<()> {
    set_no_new_privs(true)?;
    let none = CapabilitySet::empty();
    Ok(set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?)
}

/// Lets no program that this thread runs have more privileges than it has itself.
pub(crate) fn gain_none() {
    let _ = set_no_new_privs(true);
}

/// Keeps other processes of the same user from looking into this one, and the kernel from storing its memory when it ends.
pub(crate) fn hide() {
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
}

/// Returns true if the kernel can refuse system calls (CONFIG_SECCOMP_FILTER).
pub(crate) fn can_refuse() -> bool {
    // This names no filter, which is an error of its own where filters are known.
    set_secure_computing_mode(SecureComputingMode::Filter) == Err(Errno::FAULT)
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    use rustix::process::{Pid, WaitOptions, WaitStatus, getppid, waitpid};

    use super::*;
    use crate::sys::fork::fork;

    /// Returns how a process ends that does some work.
    fn end(work: impl FnOnce(OwnedFd)) -> WaitStatus {
        let (_, socket) = UnixStream::pair().expect("sockets");
        let pid = fork(c"test", socket.into(), work).expect("a process");
        let pid = Pid::from_raw(pid.cast_signed()).expect("its id");
        waitpid(Some(pid), WaitOptions::empty()).expect("ours").expect("it has ended").1
    }

    #[test]
    fn a_reader_that_makes_another_system_call_ends() {
        assert!(can_refuse(), "tests need a kernel with CONFIG_SECCOMP_FILTER");
        let reads = end(|_| keep(Part::Reader));
        assert_eq!(reads.exit_status(), Some(0), "{reads:?}");
        let asks = end(|_| {
            keep(Part::Reader);
            let _ = getppid();
        });
        assert_eq!(asks.terminating_signal(), Some(libc::SIGSYS), "{asks:?}");
    }

    #[test]
    fn a_reader_opens_nothing_for_writing() {
        let writes = end(|_| {
            keep(Part::Reader);
            let _ = std::fs::OpenOptions::new().append(true).open("/dev/null");
        });
        assert_eq!(writes.terminating_signal(), Some(libc::SIGSYS), "{writes:?}");
    }
}
