//! Decodes the mapping queues of perf events.

use icecore_elf::{Avma, FileOff};

use super::{u16_at, u32_at, u64_at, until_nul};

/// A report of the mapping queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report<'a> {
    Mapping(NewMapping<'a>),
    /// The number of reports that did not fit into the queue.
    Lost(u64),
}

/// An executable mapping that a process made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewMapping<'a> {
    pub(crate) time_ns: u64,
    pub(crate) tgid: u32,
    pub(crate) start: Avma,
    pub(crate) len: u64,
    pub(crate) file_off: FileOff,
    pub(crate) file: Inode,
    /// Path as the process sees it.
    pub path: &'a [u8],
}

/// The mapped file, as the kernel knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inode {
    pub(crate) major: u32,
    pub(crate) minor: u32,
    /// 0 for memory that is in no file.
    pub(crate) inode: u64,
}

/// Length of `struct perf_event_header`.
const PERF_HEAD: usize = 8;
/// `sample_id` of the mapping events: the time alone.
const SAMPLE_ID: usize = 8;

/// Cuts the bytes of a mapping queue into reports. Records of other types are skipped; the first record that
/// does not decode ends the list.
///
/// ```text
///  0 u32 type   4 u16 misc   6 u16 size
///  8 u32 pid   12 u32 tid   16 u64 addr   24 u64 len   32 u64 pgoff
/// 40 u32 major 44 u32 minor 48 u64 inode  56 u64 generation
/// 64 u32 prot  68 u32 flags 72 path, NUL-padded to 8     … u64 time
/// ```
///
/// # Source
/// uapi/linux/perf_event.h `PERF_RECORD_MMAP2`, `PERF_RECORD_LOST`
pub fn reports(mut bytes: &[u8]) -> impl Iterator<Item = Report<'_>> {
    std::iter::from_fn(move || {
        let size = usize::from(u16_at(bytes, 6)?);
        let (record, rest) = bytes.split_at_checked(size).filter(|_| size >= PERF_HEAD)?;
        bytes = rest;
        Some(report(record))
    })
    .flatten()
}

fn report(record: &[u8]) -> Option<Report<'_>> {
    match u32_at(record, 0)? {
        libbpf_sys::PERF_RECORD_MMAP2 => mapping(record).map(Report::Mapping),
        libbpf_sys::PERF_RECORD_LOST => u64_at(record, 16).map(Report::Lost),
        _ => None,
    }
}

fn mapping(record: &[u8]) -> Option<NewMapping<'_>> {
    // Another listener has asked for build-ids, and the kernel says by mistake that this report has one. It has none (see `open_mappings`).
    let file = Inode { major: u32_at(record, 40)?, minor: u32_at(record, 44)?, inode: u64_at(record, 48)? };
    let time_off = record.len().checked_sub(SAMPLE_ID)?;
    let executable = u32_at(record, 64)? & libc::PROT_EXEC as u32 != 0;
    let mapping = NewMapping {
        time_ns: u64_at(record, time_off)?,
        tgid: u32_at(record, 8)?,
        start: Avma(u64_at(record, 16)?),
        len: u64_at(record, 24)?,
        file_off: FileOff(u64_at(record, 32)?),
        file,
        path: until_nul(record.get(72..time_off)?),
    };
    executable.then_some(mapping)
}
