//! Decodes events of tasks and mappings: the kernel's records that are no samples.

use icecore_elf::{Avma, FileOff};

use super::attr::{Attr, field};
use super::bytes::Bytes;

/// Types of records.
pub(super) mod kind {
    pub(in super::super) const MMAP: u32 = 1;
    pub(in super::super) const LOST: u32 = 2;
    pub(in super::super) const COMM: u32 = 3;
    pub(in super::super) const EXIT: u32 = 4;
    pub(in super::super) const FORK: u32 = 7;
    pub(in super::super) const SAMPLE: u32 = 9;
    pub(in super::super) const MMAP2: u32 = 10;
    pub(in super::super) const LOST_SAMPLES: u32 = 13;
    pub(in super::super) const KSYMBOL: u32 = 17;
    pub(in super::super) const CALLCHAIN_DEFERRED: u32 = 22;
    /// Types from here on are perf's own.
    pub(in super::super) const FIRST_OF_PERF: u32 = 64;
}

/// The mapping is not executable.
const MISC_DATA: u16 = 1 << 13;
/// The new name is that of a new program.
const MISC_EXEC: u16 = 1 << 13;
/// The record has a build-id instead of device and inode.
const MISC_BUILD_ID: u16 = 1 << 14;
const PROT_EXEC: u32 = 4;
/// The name of the kernel's own mapping, followed by that of a symbol.
///
/// # Source   Linux `tools/perf/util/synthetic-events.c`, `perf_event__synthesize_kernel_mmap`
const KERNEL: &[u8] = b"[kernel.kallsyms]";
/// A kernel symbol was removed.
const UNREGISTERED: u16 = 1;

/// An executable mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Mapped {
    pub(in super::super) tgid: u32,
    pub(in super::super) start: Avma,
    pub(in super::super) len: u64,
    pub(in super::super) file_off: FileOff,
    pub(in super::super) path: Vec<u8>,
    /// The build-id; empty if unknown.
    pub(in super::super) build_id: Vec<u8>,
    pub(in super::super) dev: u64,
    pub(in super::super) inode: u64,
}

/// The recorded kernel: the address of one of its symbols.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in super::super) struct Kernel {
    pub(in super::super) symbol: Vec<u8>,
    pub(in super::super) address: Avma,
    /// The build-id; empty if unknown.
    pub(in super::super) build_id: Vec<u8>,
}

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum Event {
    Mapped(Mapped),
    Kernel(Kernel),
    /// A thread got this name; with `is_exec` it runs a new program.
    Named {
        tgid: u32,
        tid: u32,
        comm: Vec<u8>,
        is_exec: bool,
    },
    Forked {
        tgid: u32,
        tid: u32,
        creator: u32,
        creator_tid: u32,
    },
    Exited {
        tgid: u32,
        tid: u32,
    },
    /// Records were lost; with `is_samples` they are known to be samples.
    Lost {
        count: u64,
        cpu: Option<u32>,
        is_samples: bool,
    },
    /// Code that was loaded into the kernel.
    KernelCode {
        start: Avma,
        len: u32,
        name: Vec<u8>,
    },
}

impl Event {
    /// Decodes the body of a record; `Ok(None)` if the record is not needed.
    ///
    /// # Errors
    /// If it is too short.
    pub(super) fn decode(kind: u32, misc: u16, body: &[u8], attr: &Attr) -> Result<Option<Self>, TooShort> {
        Self::of(kind, misc, body, attr).ok_or(TooShort)
    }

    fn of(kind: u32, misc: u16, body: &[u8], attr: &Attr) -> Option<Option<Self>> {
        let (fields, tail) = body.split_at_checked(body.len().checked_sub(tail_len(attr))?)?;
        let mut bytes = Bytes(fields);
        Some(match kind {
            kind::MMAP | kind::MMAP2 => mapped(kind, misc, &mut bytes)?,
            kind::COMM => {
                let (tgid, tid) = (bytes.u32()?, bytes.u32()?);
                let comm = bytes.text().to_vec();
                Some(Self::Named { tgid, tid, comm, is_exec: misc & MISC_EXEC != 0 })
            }
            kind::FORK => {
                let [tgid, creator, tid, creator_tid] = four(&mut bytes)?;
                Some(Self::Forked { tgid, tid, creator, creator_tid })
            }
            kind::EXIT => {
                let [tgid, _, tid, _] = four(&mut bytes)?;
                Some(Self::Exited { tgid, tid })
            }
            kind::LOST => {
                bytes.u64()?;
                Some(Self::Lost { count: bytes.u64()?, cpu: cpu(tail, attr), is_samples: false })
            }
            kind::LOST_SAMPLES => {
                Some(Self::Lost { count: bytes.u64()?, cpu: cpu(tail, attr), is_samples: true })
            }
            kind::KSYMBOL => {
                let (start, len) = (Avma(bytes.u64()?), bytes.u32()?);
                bytes.u16()?;
                let is_gone = bytes.u16()? & UNREGISTERED != 0;
                let name = bytes.text().to_vec();
                (!is_gone).then_some(Self::KernelCode { start, len, name })
            }
            _ => None,
        })
    }
}

/// A record is too short for its type.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooShort;

fn four(bytes: &mut Bytes<'_>) -> Option<[u32; 4]> {
    Some([bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?])
}

/// Decodes a mapping, if it is executable and of user space, or the kernel's own.
fn mapped(kind: u32, misc: u16, bytes: &mut Bytes<'_>) -> Option<Option<Event>> {
    let (tgid, _tid) = (bytes.u32()?, bytes.u32()?);
    let (start, len, file_off) = (bytes.u64()?, bytes.u64()?, bytes.u64()?);
    let mut mapped =
        Mapped { tgid, start: Avma(start), len, file_off: FileOff(file_off), ..Mapped::default() };
    let mut is_code = misc & MISC_DATA == 0;
    if kind == kind::MMAP2 {
        let mut identity = Bytes(bytes.take(24)?);
        match build_id(identity.0).filter(|_| misc & MISC_BUILD_ID != 0) {
            Some(build_id) => mapped.build_id = build_id.to_vec(),
            None => {
                let (major, minor) = (u64::from(identity.u32()?), u64::from(identity.u32()?));
                mapped.dev = device(major, minor);
                mapped.inode = identity.u64()?;
            }
        }
        is_code = bytes.u32()? & PROT_EXEC != 0;
        bytes.u32()?;
    }
    mapped.path = bytes.text().to_vec();
    // The kernel's own mappings have the process −1; perf names the symbol by which it knows the kernel's address.
    if tgid == u32::MAX {
        let Some(symbol) = mapped.path.strip_prefix(KERNEL) else { return Some(None) };
        let symbol = symbol.to_vec();
        return Some(Some(Event::Kernel(Kernel {
            symbol,
            address: Avma(file_off),
            build_id: mapped.build_id,
        })));
    }
    Some((is_code && len > 0).then_some(Event::Mapped(mapped)))
}

/// Returns the build-id of an identity; `None` if it is a device and an inode: kernels set the flag on these, too, if another recorder
/// requests build-ids at the same time. A build-id has 1 to 20 bytes, and all others are zero.
///
/// ```text
/// build-id    len  0  0  0 │ 20 bytes, zero behind the build-id
/// inode       major number │ minor number, inode, generation
/// ```
///
/// The major number of a disk can be such a length (7 to 11). Its minor number is less than 256, so three zeros betray it.
///
/// # Source   uapi/linux/perf_event.h `PERF_RECORD_MISC_MMAP_BUILD_ID`
fn build_id(identity: &[u8]) -> Option<&[u8]> {
    let ([len, 0, 0, 0], bytes) = identity.split_first_chunk()? else { return None };
    let (build_id, rest) = bytes.split_at_checked(usize::from(*len))?;
    let is_one = !build_id.is_empty() && rest.iter().all(|byte| *byte == 0);
    let is_disk = (4..=12).contains(len) && build_id[1..4] == [0; 3];
    (is_one && !is_disk).then_some(build_id)
}

/// Returns a device number in the form of `stat`.
fn device(major: u64, minor: u64) -> u64 {
    (major & 0xfff) << 8 | (major & !0xfff) << 32 | minor & 0xff | (minor & !0xff) << 12
}

/// The fields at the end of every record that is no sample, in their order.
const TAIL: [u64; 6] = [field::TID, field::TIME, field::ID, field::STREAM_ID, field::CPU, field::IDENTIFIER];

/// Returns the length of these fields.
fn tail_len(attr: &Attr) -> usize {
    if attr.tells_all() { 8 * TAIL.iter().filter(|field| attr.has_field(**field)).count() } else { 0 }
}

/// Returns one of these fields.
fn in_tail(tail: &[u8], attr: &Attr, wanted: u64) -> Option<u64> {
    let fields = TAIL.iter().filter(|field| attr.has_field(**field));
    let position = fields.into_iter().position(|field| *field == wanted)?;
    Bytes(tail.get(8 * position..)?).u64()
}

fn cpu(tail: &[u8], attr: &Attr) -> Option<u32> {
    in_tail(tail, attr, field::CPU).map(|cpu| cpu as u32)
}

/// The fields at the beginning of a sample, in their order.
const HEAD: [u64; 8] = [
    field::IDENTIFIER,
    field::IP,
    field::TID,
    field::TIME,
    field::ADDR,
    field::ID,
    field::STREAM_ID,
    field::CPU,
];

/// Returns one of the fields that most records have; `None` if it is missing.
pub(super) fn common(kind: u32, body: &[u8], attr: &Attr, wanted: u64) -> Option<u64> {
    if kind != kind::SAMPLE {
        let at = body.len().checked_sub(tail_len(attr)).filter(|_| attr.tells_all())?;
        return in_tail(&body[at..], attr, wanted);
    }
    let fields = HEAD.iter().filter(|field| attr.has_field(**field));
    let position = fields.into_iter().position(|field| *field == wanted)?;
    Bytes(body.get(8 * position..)?).u64()
}

/// Names a type of record that is not imported; `None` for types that only help perf to read its file.
pub(super) fn unwanted(kind: u32) -> Option<&'static str> {
    Some(match kind {
        kind::MMAP..=kind::EXIT
        | kind::FORK
        | kind::SAMPLE
        | kind::MMAP2
        | kind::LOST_SAMPLES
        | kind::KSYMBOL
        | kind::CALLCHAIN_DEFERRED => {
            return None;
        }
        5 => "throttle",
        6 => "unthrottle",
        8 => "read",
        11 => "aux",
        12 => "itrace_start",
        14 | 15 => "switch",
        16 => "namespaces",
        18 => "bpf_event",
        19 => "cgroup",
        20 => "text_poke",
        21 => "aux_output_hw_id",
        0..64 => "unknown",
        71 | 72 => "auxtrace",
        75..=77 => "stat",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{attr_with_tail, mmap2};
    use super::*;

    #[test]
    fn mappings_of_code_are_kept_and_others_are_not() {
        let attr = attr_with_tail();
        let map = |kind, misc, body: &[u8]| Event::decode(kind, misc, body, &attr);
        let body = mmap2(7, 0x40_0000, 0x1000, 0x2000, b"/bin/x", PROT_EXEC);
        let Ok(Some(Event::Mapped(mapped))) = map(kind::MMAP2, 0, &body) else { panic!("it is code") };
        assert_eq!(
            (mapped.tgid, mapped.start.0, mapped.len, mapped.file_off.0),
            (7, 0x40_0000, 0x1000, 0x2000)
        );
        assert_eq!((mapped.dev, mapped.inode, &mapped.path[..]), (device(8, 1), 99, &b"/bin/x"[..]));
        assert_eq!(map(kind::MMAP2, 0, &mmap2(7, 1, 1, 0, b"/x", 1)), Ok(None));
        assert_eq!(map(kind::MMAP2, 0, &mmap2(u32::MAX, 1, 1, 0, b"[kernel]", 4)), Ok(None));
        for len in 0..72 {
            assert_eq!(map(kind::MMAP2, 0, &body[..len]), Err(TooShort), "{len}");
        }
    }

    /// Decodes a mapping whose record says that it has a build-id.
    fn identified(identity: [u8; 24]) -> Mapped {
        let mut body = mmap2(7, 0x40_0000, 0x1000, 0, b"/bin/x", PROT_EXEC);
        body[32..56].copy_from_slice(&identity);
        match Event::decode(kind::MMAP2, MISC_BUILD_ID, &body, &attr_with_tail()) {
            Ok(Some(Event::Mapped(mapped))) => mapped,
            other => panic!("it is code: {other:?}"),
        }
    }

    #[test]
    fn a_build_id_is_believed_only_if_it_is_one() {
        for len in [1, 8, 16, 20] {
            let mut identity = [0; 24];
            identity[0] = len;
            identity[4..4 + usize::from(len)].fill(0xab);
            let mapped = identified(identity);
            assert_eq!((mapped.build_id, mapped.dev, mapped.inode), (vec![0xab; usize::from(len)], 0, 0));
            for (at, byte) in [(0, 21), (0, 0), (0, 255), (1, 1), (3, 1)] {
                let mut identity = identity;
                identity[at] = byte;
                assert_eq!(identified(identity).build_id, [0; 0], "byte {at} is {byte}");
            }
        }
    }

    #[test]
    fn a_device_and_an_inode_with_the_flag_of_a_build_id_are_what_they_are() {
        let of = |major: u32, minor: u32, inode: u64, generation: u64| {
            let mut identity = [0; 24];
            identity[..4].copy_from_slice(&major.to_le_bytes());
            identity[4..8].copy_from_slice(&minor.to_le_bytes());
            identity[8..16].copy_from_slice(&inode.to_le_bytes());
            identity[16..].copy_from_slice(&generation.to_le_bytes());
            let mapped = identified(identity);
            assert_eq!((mapped.dev, mapped.inode), (device(major.into(), minor.into()), inode), "{mapped:?}");
            assert!(mapped.build_id.is_empty());
        };
        of(254, 0, 99, 7);
        of(259, 5, 1 << 40, 0);
        of(0, 31, 99, 0);
        of(8, 1, 99, 7);
        // Nothing is behind the first 8 bytes, as of a file system without generations.
        of(8, 1, 99, 0);
    }

    #[test]
    fn devices_are_numbered_as_stat_does() {
        assert_eq!(device(8, 1), 0x801);
        assert_eq!(device(0x1fff, 0x12345), 0x1000_123f_ff45);
    }
}
