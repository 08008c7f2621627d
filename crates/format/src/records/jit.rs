//! Code that processes made at run time, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload};
use crate::Error;
use crate::block::Kind;

/// One piece of code that a process made at run time and that was hit, as the process told it.
///
/// Of rows that hold an address at a moment the last in the order of writing counts: code is made where other code was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JitCode<N = Vec<u8>> {
    /// Process id.
    pub tgid: u32,
    /// First address (AVMA).
    pub start: u64,
    /// Address behind the last byte.
    pub end: u64,
    /// Since when, ns `CLOCK_MONOTONIC`; 0 if it may have been there from the beginning of all times.
    pub since_ns: u64,
    /// Until when; 0 if nobody told its end.
    pub until_ns: u64,
    /// Name as the process told it; any bytes but zero.
    pub name: N,
}

impl JitCode<&[u8]> {
    /// Copies the name.
    pub fn to_owned(self) -> JitCode {
        let Self { tgid, start, end, since_ns, until_ns, name } = self;
        JitCode { tgid, start, end, since_ns, until_ns, name: name.to_vec() }
    }
}

/// Code made at run time. Names are kept here and not among the strings, as in [`SymbolsV1`](super::SymbolsV1).
#[derive(Debug, Default, Archive, Serialize)]
pub struct JitV1 {
    /// Process ids, as differences from the row before; signs folded.
    pub tgid: Packed,
    /// First addresses, as differences from the row before; signs folded.
    pub start: Packed,
    /// Lengths in bytes.
    pub len: Packed,
    /// Times since when, as differences from the row before; signs folded.
    pub since_ns: Packed,
    /// How long it was there, ns; 0 if nobody told its end.
    pub lasted_ns: Packed,
    /// Names, one behind the other.
    pub names: Vec<u8>,
    /// Lengths of the names in bytes.
    pub name_lens: Packed,
}

payload!(
    JitV1, ArchivedJitV1, Kind::JIT, 1,
    count start, same tgid, same len, same since_ns, same lasted_ns, same name_lens, other names
);

impl JitV1 {
    /// Builds the columns. What ended when it began, or before, is written as if it had lasted a nanosecond.
    pub fn from_rows<N: AsRef<[u8]>>(rows: &[JitCode<N>]) -> Self {
        let lasted_ns = |row: &JitCode<N>| match row.until_ns {
            0 => 0,
            until_ns => until_ns.saturating_sub(row.since_ns).max(1),
        };
        Self {
            tgid: Packed::steps(rows.iter().map(|row| u64::from(row.tgid))),
            start: Packed::steps(rows.iter().map(|row| row.start)),
            len: rows.iter().map(|row| row.end.saturating_sub(row.start)).collect(),
            since_ns: Packed::steps(rows.iter().map(|row| row.since_ns)),
            lasted_ns: rows.iter().map(lasted_ns).collect(),
            names: rows.iter().flat_map(|row| row.name.as_ref()).copied().collect(),
            name_lens: rows.iter().map(|row| row.name.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedJitV1 {
    /// Lists the rows in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if a name lies outside of the arena.
    pub fn rows(&self) -> Result<Vec<JitCode<&[u8]>>, Error> {
        let names = items(Kind::JIT, &self.names, &self.name_lens)?;
        let [tgid, start, since_ns] = [&self.tgid, &self.start, &self.since_ns].map(|column| column.sums());
        let [len, lasted_ns] = [&self.len, &self.lasted_ns].map(|column| column.values());
        let row = |(i, name): (usize, _)| JitCode {
            tgid: narrow(tgid[i]),
            start: start[i],
            end: start[i].saturating_add(len[i]),
            since_ns: since_ns[i],
            until_ns: if lasted_ns[i] == 0 { 0 } else { since_ns[i].saturating_add(lasted_ns[i]) },
            name,
        };
        Ok(names.into_iter().enumerate().map(row).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Payload as _;

    #[test]
    fn rows_come_back_as_they_were() -> Result<(), Error> {
        let row = |tgid, start, since_ns, until_ns, name: &'static [u8]| JitCode {
            tgid,
            start,
            end: start + 0x40,
            since_ns,
            until_ns,
            name,
        };
        let rows = [
            row(7, 0x7f00_0000_1000, 0, 0, b"JS:~f /a b.js:1:2"),
            row(7, 0x1000, 5_000_000_000, 6_000_000_000, b""),
            row(3, u64::MAX - 0x40, 4, 0, b"\xff"),
            row(3, 0, 0, 9, b"x"),
        ];
        let bytes = JitV1::from_rows(&rows).to_bytes()?;
        assert_eq!(JitV1::view(&bytes)?.rows()?, rows);
        let ended_before_it_began = JitV1::from_rows(&[row(7, 0x1000, 100, 50, b"f")]).to_bytes()?;
        assert_eq!(JitV1::view(&ended_before_it_began)?.rows()?[0].until_ns, 101);
        Ok(())
    }
}
