//! The bytes before return addresses in JIT code, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;

/// The bytes around one return address in the memory of a process. Every reading from `first_ns` to `last_ns` found the same bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallSite<B = Vec<u8>> {
    /// Process id.
    pub tgid: u32,
    /// The return address (AVMA): `front` ends there, `behind` begins there.
    pub address: u64,
    /// When the first reading had ended, ns `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// When the last reading began; `first_ns` if there was only one.
    pub last_ns: u64,
    /// Up to 8 bytes before the address; fewer if the memory before them cannot be read.
    pub front: B,
    /// Up to 8 bytes from the address on; none if a call may end at the address, or if they cannot be read.
    pub behind: B,
}

references!(CallSite<B> {
    tgid: process, address: plain, first_ns: time, last_ns: time, front: plain, behind: plain,
});

impl CallSite<&[u8]> {
    /// Copies the bytes.
    pub fn to_owned(self) -> CallSite {
        let Self { tgid, address, first_ns, last_ns, front, behind } = self;
        CallSite { tgid, address, first_ns, last_ns, front: front.to_vec(), behind: behind.to_vec() }
    }
}

/// The columns of [`CallSite`] rows.
#[derive(Debug, Default, Archive, Serialize)]
pub struct CallSitesV1 {
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// Addresses, as differences from the row before; signs folded.
    pub address: Packed,
    /// Ends of the first reading, as differences from the row before; signs folded.
    pub first_ns: Packed,
    /// `last_ns` minus `first_ns`.
    pub lasted_ns: Packed,
    /// The bytes before the addresses, row after row.
    pub front: Vec<u8>,
    /// How many of them each row has.
    pub front_lens: Packed,
    /// The bytes from the addresses on, row after row.
    pub behind: Vec<u8>,
    /// How many of them each row has.
    pub behind_lens: Packed,
}

payload!(
    CallSitesV1, ArchivedCallSitesV1, Kind::CALL_SITES, 1,
    count address, same tgid, same first_ns, same lasted_ns, same front_lens, same behind_lens,
    other front, other behind
);

impl CallSitesV1 {
    /// Builds the columns.
    pub fn from_rows<B: AsRef<[u8]>>(rows: &[CallSite<B>]) -> Self {
        Self {
            tgid: Packed::steps(rows.iter().map(|row| u64::from(row.tgid))),
            address: Packed::steps(rows.iter().map(|row| row.address)),
            first_ns: Packed::steps(rows.iter().map(|row| row.first_ns)),
            lasted_ns: rows.iter().map(|row| row.last_ns.saturating_sub(row.first_ns)).collect(),
            front: rows.iter().flat_map(|row| row.front.as_ref()).copied().collect(),
            front_lens: rows.iter().map(|row| row.front.as_ref().len() as u64).collect(),
            behind: rows.iter().flat_map(|row| row.behind.as_ref()).copied().collect(),
            behind_lens: rows.iter().map(|row| row.behind.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedCallSitesV1 {
    /// Lists the rows in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if there are fewer bytes than the rows say.
    pub fn rows(&self) -> Result<Vec<CallSite<&[u8]>>, Error> {
        let front = items(Kind::CALL_SITES, &self.front, &self.front_lens)?;
        let behind = items(Kind::CALL_SITES, &self.behind, &self.behind_lens)?;
        let [tgid, address, first_ns] = [&self.tgid, &self.address, &self.first_ns].map(|it| it.sums());
        let lasted_ns = self.lasted_ns.values();
        let row = |(i, (front, behind)): (usize, _)| CallSite {
            tgid: narrow(tgid[i]),
            address: address[i],
            first_ns: first_ns[i],
            last_ns: first_ns[i].saturating_add(lasted_ns[i]),
            front,
            behind,
        };
        Ok(front.into_iter().zip(behind).enumerate().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_come_back_as_they_were() -> Result<(), Error> {
        let row = |tgid, address, first_ns, last_ns, (front, behind): (&'static [u8], &'static [u8])| {
            CallSite { tgid, address, first_ns, last_ns, front, behind }
        };
        let rows = [
            row(7, 0x7f00_0000_1000, 5_000_000_000, 6_000_000_000, (b"\x90\x90\x90\xe8\x10\0\0\0", b"")),
            row(7, 0x1000, 4, 4, (b"", b"\x41\x85\x02")),
            row(3, u64::MAX, 9, 9, (b"\xff\xd0", b"\xc3")),
        ];
        let bytes = CallSitesV1::from_rows(&rows).to_bytes()?;
        assert_eq!(CallSitesV1::view(&bytes)?.rows()?, rows);
        Ok(())
    }

    #[test]
    fn more_bytes_than_there_are_is_an_error() -> Result<(), Error> {
        let rows = || CallSitesV1::from_rows(&[CallSite { front: vec![0xff, 0xd0], ..CallSite::default() }]);
        let three = || [3_u64].into_iter().collect();
        for sites in
            [CallSitesV1 { front_lens: three(), ..rows() }, CallSitesV1 { behind_lens: three(), ..rows() }]
        {
            assert!(CallSitesV1::view(&sites.to_bytes()?)?.rows().is_err());
        }
        Ok(())
    }
}
