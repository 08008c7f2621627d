//! The bytes in front of return addresses in code that was made at run time, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload};
use crate::Error;
use crate::block::Kind;

/// What lay in front of a return address in the memory of a process, as long as it was read and found to be the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallSite<B = Vec<u8>> {
    /// Process id.
    pub tgid: u32,
    /// The address behind these bytes (AVMA).
    pub address: u64,
    /// When they had been read for the first time, ns `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// When they were read for the last time; `first_ns` if that was the only time.
    pub last_ns: u64,
    /// Up to 8 bytes; fewer if the memory in front of them cannot be read.
    pub bytes: B,
}

impl CallSite<&[u8]> {
    /// Copies the bytes.
    pub fn to_owned(self) -> CallSite {
        let Self { tgid, address, first_ns, last_ns, bytes } = self;
        CallSite { tgid, address, first_ns, last_ns, bytes: bytes.to_vec() }
    }
}

/// Bytes in front of return addresses.
#[derive(Debug, Default, Archive, Serialize)]
pub struct CallSitesV1 {
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// Addresses, as differences from the row before; signs folded.
    pub address: Packed,
    /// Times of the first reading, as differences from the row before; signs folded.
    pub first_ns: Packed,
    /// Times of the last reading minus those of the first.
    pub lasted_ns: Packed,
    /// All bytes, those of one row behind those of the other.
    pub bytes: Vec<u8>,
    /// How many bytes each row has.
    pub lens: Packed,
}

payload!(
    CallSitesV1, ArchivedCallSitesV1, Kind::CALL_SITES, 1,
    count address, same tgid, same first_ns, same lasted_ns, same lens, other bytes
);

impl CallSitesV1 {
    /// Builds the columns.
    pub fn from_rows<B: AsRef<[u8]>>(rows: &[CallSite<B>]) -> Self {
        Self {
            tgid: Packed::steps(rows.iter().map(|row| u64::from(row.tgid))),
            address: Packed::steps(rows.iter().map(|row| row.address)),
            first_ns: Packed::steps(rows.iter().map(|row| row.first_ns)),
            lasted_ns: rows.iter().map(|row| row.last_ns.saturating_sub(row.first_ns)).collect(),
            bytes: rows.iter().flat_map(|row| row.bytes.as_ref()).copied().collect(),
            lens: rows.iter().map(|row| row.bytes.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedCallSitesV1 {
    /// Lists the rows in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if there are fewer bytes than the rows say.
    pub fn rows(&self) -> Result<Vec<CallSite<&[u8]>>, Error> {
        let bytes = items(Kind::CALL_SITES, &self.bytes, &self.lens)?;
        let [tgid, address, first_ns] = [&self.tgid, &self.address, &self.first_ns].map(|it| it.sums());
        let lasted_ns = self.lasted_ns.values();
        let row = |(i, bytes): (usize, _)| CallSite {
            tgid: narrow(tgid[i]),
            address: address[i],
            first_ns: first_ns[i],
            last_ns: first_ns[i].saturating_add(lasted_ns[i]),
            bytes,
        };
        Ok(bytes.into_iter().enumerate().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_come_back_as_they_were() -> Result<(), Error> {
        let row = |tgid, address, first_ns, last_ns, bytes: &'static [u8]| CallSite {
            tgid,
            address,
            first_ns,
            last_ns,
            bytes,
        };
        let rows = [
            row(7, 0x7f00_0000_1000, 5_000_000_000, 6_000_000_000, b"\x90\x90\x90\xe8\x10\0\0\0"),
            row(7, 0x1000, 4, 4, b""),
            row(3, u64::MAX, 9, 9, b"\xff\xd0"),
        ];
        let bytes = CallSitesV1::from_rows(&rows).to_bytes()?;
        assert_eq!(CallSitesV1::view(&bytes)?.rows()?, rows);
        Ok(())
    }

    #[test]
    fn more_bytes_than_there_are_is_an_error() -> Result<(), Error> {
        let row = CallSite { bytes: vec![0xff, 0xd0], ..CallSite::default() };
        let sites = CallSitesV1 { lens: [3_u64].into_iter().collect(), ..CallSitesV1::from_rows(&[row]) };
        assert!(CallSitesV1::view(&sites.to_bytes()?)?.rows().is_err());
        Ok(())
    }
}
