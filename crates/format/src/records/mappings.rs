//! Executable mappings, version 1.

use std::collections::HashMap;

use rkyv::{Archive, Serialize};

use super::packed::{Packed, fold, narrow, unfold};
use super::{payload, references};
use crate::kind::Kind;

/// How the recorder learnt of a mapping; the numbers are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin(pub u8);

impl Origin {
    /// It was there when the recorder looked into `/proc`.
    pub const SCAN: Self = Self(1);
    /// The kernel reported it when it was made.
    pub const EVENT: Self = Self(2);
    /// The memory is mapped from no file, but its bytes were those of the image when the recorder compared them: a program that has
    /// moved its code, as onto huge pages. It counts from the beginning of that memory.
    pub const MOVED: Self = Self(3);
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
    /// The mount namespace of the process, by the number of its inode: what the path of the image is a path in. 0 if
    /// unknown.
    pub mount_ns: u64,
}

references!(Mapping {
    time_ns: time,
    tgid: process,
    start: plain,
    len: plain,
    file_off: plain,
    image: id(Images),
    origin: plain,
    mount_ns: plain,
});

/// Mappings, ordered by time.
#[derive(Debug, Default, Archive, Serialize)]
pub struct MappingsV1 {
    /// Earliest time, ns.
    pub first_ns: u64,
    /// Latest time, ns.
    pub last_ns: u64,
    /// Times, as differences from the row before (the first: from `first_ns`), ns.
    pub after_ns: Packed,
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// First addresses, as differences from the row before *of the same process* (its first in the block: from
    /// 0); signs folded.
    pub start: Packed,
    /// Lengths in bytes.
    pub len: Packed,
    /// Offsets in the file.
    pub file_off: Packed,
    /// Image ids.
    pub image: Packed,
    /// Numbers of [`Origin`].
    pub origin: Packed,
    /// Mount namespaces: 0 if unknown, else 1 + the difference from `first_mount_ns`, its sign folded.
    pub mount_ns: Packed,
    /// The first mount namespace that is known; 0 if none is.
    pub first_mount_ns: u64,
}

payload!(
    MappingsV1, ArchivedMappingsV1, Kind::MAPPINGS, 1,
    count after_ns, same tgid, same start, same len, same file_off, same image, same origin, same mount_ns,
    span first_ns last_ns
);

impl MappingsV1 {
    /// Builds the columns; `rows` are ordered by time.
    pub fn from_rows(rows: &[Mapping]) -> Self {
        let first_ns = rows.first().map_or(0, |r| r.time_ns);
        let mut before_ns = first_ns;
        let after = |r: &Mapping| r.time_ns.saturating_sub(std::mem::replace(&mut before_ns, r.time_ns));
        let mut starts = HashMap::new();
        let start = |r: &Mapping| fold(r.start.wrapping_sub(starts.insert(r.tgid, r.start).unwrap_or(0)));
        let first_mount_ns = rows.iter().map(|r| r.mount_ns).find(|ns| *ns != 0).unwrap_or(0);
        let mount_ns = |r: &Mapping| match r.mount_ns {
            0 => 0,
            ns => fold(ns.wrapping_sub(first_mount_ns)).wrapping_add(1),
        };
        Self {
            first_ns,
            last_ns: rows.last().map_or(0, |r| r.time_ns),
            after_ns: rows.iter().map(after).collect(),
            tgid: Packed::steps(rows.iter().map(|r| u64::from(r.tgid))),
            start: rows.iter().map(start).collect(),
            len: rows.iter().map(|r| r.len).collect(),
            file_off: rows.iter().map(|r| r.file_off).collect(),
            image: rows.iter().map(|r| r.image).collect(),
            origin: rows.iter().map(|r| u64::from(r.origin.0)).collect(),
            mount_ns: rows.iter().map(mount_ns).collect(),
            first_mount_ns,
        }
    }
}

impl ArchivedMappingsV1 {
    /// Lists the mappings in the order of the block.
    pub fn rows(&self) -> impl Iterator<Item = Mapping> + '_ {
        let mut time_ns = self.first_ns.to_native();
        let mut starts: HashMap<u32, u64> = HashMap::new();
        let [after_ns, tgid, start] = [self.after_ns.values(), self.tgid.sums(), self.start.values()];
        let [len, file_off, origin] = [&self.len, &self.file_off, &self.origin].map(|column| column.values());
        let (mount_ns, first_mount_ns) = (self.mount_ns.values(), self.first_mount_ns.to_native());
        self.image.values_u32().enumerate().map(move |(i, image)| {
            time_ns = time_ns.saturating_add(after_ns[i]);
            let tgid = narrow(tgid[i]);
            let last = starts.entry(tgid).or_default();
            *last = last.wrapping_add(unfold(start[i]));
            Mapping {
                time_ns,
                tgid,
                start: *last,
                len: len[i],
                file_off: file_off[i],
                image,
                origin: Origin(origin[i] as u8),
                mount_ns: match mount_ns[i] {
                    0 => 0,
                    row => first_mount_ns.wrapping_add(unfold(row - 1)),
                },
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_survive_a_round_trip_with_the_mount_namespaces_that_are_known() {
        let row = |time_ns, tgid, start, mount_ns| {
            let (len, file_off, image, origin) = (0x1000, 0x4000, 3, Origin::EVENT);
            Mapping { time_ns, tgid, start, len, file_off, image, origin, mount_ns }
        };
        let (own, other) = (4_026_531_841, 4_026_532_207);
        let rows =
            [row(5, 7, 0x1000, 0), row(6, 8, 0x9000, other), row(6, 7, 0x3000, own), row(9, 9, 0, other)];
        for rows in [&rows[..], &rows[..1]] {
            let bytes = MappingsV1::from_rows(rows).to_bytes().expect("fits");
            assert_eq!(MappingsV1::view(&bytes).expect("own bytes").rows().collect::<Vec<_>>(), rows);
        }
    }

    #[test]
    fn one_mount_namespace_takes_one_plane_with_unknown_ones_among_it() {
        let row = |mount_ns| {
            let (time_ns, tgid, start, len, file_off, image, origin) = (5, 7, 0, 1, 0, 0, Origin::SCAN);
            Mapping { time_ns, tgid, start, len, file_off, image, origin, mount_ns }
        };
        let columns = MappingsV1::from_rows(&[row(0), row(4_026_531_841), row(4_026_531_841)]);
        assert_eq!(columns.mount_ns, [0_u64, 1, 1].into_iter().collect());
    }
}
