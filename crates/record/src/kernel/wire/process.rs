//! Decodes the counters of processes.

use std::mem::offset_of;

use super::{u32_at, u64_at};
use crate::skeleton::types::{process_has, process_record};

/// Counters of a process, over all its threads, also those that have ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Process {
    pub time_ns: u64,
    /// When the process began.
    pub(crate) start_ns: u64,
    pub tgid: u32,
    pub(crate) threads: u32,
    /// Id of its cgroup in the hierarchy of cgroup2; 0 if there is none.
    pub(crate) cgroup_id: u64,
    /// Its last thread ends.
    pub(crate) has_ended: bool,
    /// Resident memory, bytes.
    pub(crate) memory: Option<u64>,
    /// The most resident memory that there was at one time, bytes.
    pub(crate) peak: Option<u64>,
    /// CPU time; without `sums` only that of some threads.
    pub(crate) cpu_ns: u64,
    /// `None` if not all threads were added up.
    pub(crate) sums: Option<Sums>,
    /// Bytes to and from disks.
    pub(crate) disk: Option<Bytes>,
    /// Bytes of system calls.
    pub(crate) calls: Option<Bytes>,
}

/// What all threads of a process did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) user_ns: u64,
    pub(crate) system_ns: u64,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    /// Voluntary ones, too.
    pub(crate) switches: u64,
    pub(crate) involuntary_switches: u64,
}

/// What all threads of a process read and wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub(crate) read: u64,
    pub(crate) written: u64,
}

impl Process {
    /// Identifies the process: ids are reused.
    pub(crate) fn key(&self) -> (u32, u64) {
        (self.tgid, self.start_ns)
    }
}

pub(super) fn process(bytes: &[u8]) -> Option<Process> {
    let at = |off| u64_at(bytes, off);
    let has = u32_at(bytes, offset_of!(process_record, has))?;
    let has = |bit: process_has| has & bit.0 != 0;
    let has_sums = has(process_has::PROCESS_HAS_SUMS);
    let involuntary_switches = at(offset_of!(process_record, involuntary_switches))?;
    let sums = Sums {
        user_ns: at(offset_of!(process_record, user_ns))?,
        system_ns: at(offset_of!(process_record, system_ns))?,
        minor_faults: at(offset_of!(process_record, minor_faults))?,
        major_faults: at(offset_of!(process_record, major_faults))?,
        switches: at(offset_of!(process_record, voluntary_switches))?.wrapping_add(involuntary_switches),
        involuntary_switches,
    };
    let disk = Bytes {
        read: at(offset_of!(process_record, disk_read))?,
        written: at(offset_of!(process_record, disk_written))?,
    };
    let calls = Bytes {
        read: at(offset_of!(process_record, calls_read))?,
        written: at(offset_of!(process_record, calls_written))?,
    };
    let (memory, peak) = (at(offset_of!(process_record, memory))?, at(offset_of!(process_record, peak))?);
    Some(Process {
        time_ns: at(offset_of!(process_record, time_ns))?,
        start_ns: at(offset_of!(process_record, start_ns))?,
        tgid: u32_at(bytes, offset_of!(process_record, tgid))?,
        threads: u32_at(bytes, offset_of!(process_record, threads))?,
        cgroup_id: at(offset_of!(process_record, cgroup_id))?,
        has_ended: has(process_has::PROCESS_HAS_ENDED),
        memory: has(process_has::PROCESS_HAS_MEMORY).then_some(memory),
        peak: has(process_has::PROCESS_HAS_PEAK).then_some(peak),
        cpu_ns: at(offset_of!(process_record, cpu_ns))?,
        sums: has_sums.then_some(sums),
        disk: (has_sums && has(process_has::PROCESS_HAS_DISK)).then_some(disk),
        calls: (has_sums && has(process_has::PROCESS_HAS_CALLS)).then_some(calls),
    })
}
