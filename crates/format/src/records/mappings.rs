//! Executable mappings, version 1.

use rkyv::{Archive, Serialize};

use super::payload;
use crate::block::Kind;

/// How the recorder learnt of a mapping; the numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin(pub u8);

impl Origin {
    /// It was there when the recorder looked into `/proc`.
    pub const SCAN: Self = Self(1);
    /// The kernel reported it when it was made.
    pub const EVENT: Self = Self(2);
}

/// One executable mapping. It stays until its process runs another program or ends, or a later
/// mapping of the process covers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// Since when, ns `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Process id.
    pub tgid: u32,
    /// First address (AVMA).
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Offset of `start` in the file, bytes.
    pub file_off: u64,
    /// The image, an image id.
    pub image: u32,
    /// How it became known.
    pub origin: Origin,
}

/// Mappings, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct MappingsV1 {
    /// Earliest time, ns.
    pub first_ns: u64,
    /// Latest time, ns.
    pub last_ns: u64,
    /// Times, ns after `first_ns`.
    pub after_ns: Vec<u64>,
    /// Process ids.
    pub tgid: Vec<u32>,
    /// First addresses.
    pub start: Vec<u64>,
    /// Lengths in bytes.
    pub len: Vec<u64>,
    /// Offsets in the file.
    pub file_off: Vec<u64>,
    /// Image ids.
    pub image: Vec<u32>,
    /// Numbers of [`Origin`].
    pub origin: Vec<u8>,
}

payload!(
    MappingsV1, ArchivedMappingsV1, Kind::MAPPINGS, 1,
    count after_ns, same tgid, same start, same len, same file_off, same image, same origin,
    span first_ns last_ns
);

impl MappingsV1 {
    /// Builds the columns; `rows` are ordered by time.
    pub fn from_rows(rows: &[Mapping]) -> Self {
        let first_ns = rows.first().map_or(0, |r| r.time_ns);
        Self {
            first_ns,
            last_ns: rows.last().map_or(0, |r| r.time_ns),
            after_ns: rows.iter().map(|r| r.time_ns.saturating_sub(first_ns)).collect(),
            tgid: rows.iter().map(|r| r.tgid).collect(),
            start: rows.iter().map(|r| r.start).collect(),
            len: rows.iter().map(|r| r.len).collect(),
            file_off: rows.iter().map(|r| r.file_off).collect(),
            image: rows.iter().map(|r| r.image).collect(),
            origin: rows.iter().map(|r| r.origin.0).collect(),
        }
    }
}

impl ArchivedMappingsV1 {
    /// Lists the mappings in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Mapping> + '_ {
        let first_ns = self.first_ns.to_native();
        (0..self.after_ns.len()).map(move |i| Mapping {
            time_ns: first_ns.saturating_add(self.after_ns[i].to_native()),
            tgid: self.tgid[i].to_native(),
            start: self.start[i].to_native(),
            len: self.len[i].to_native(),
            file_off: self.file_off[i].to_native(),
            image: self.image[i].to_native(),
            origin: Origin(self.origin[i]),
        })
    }
}
