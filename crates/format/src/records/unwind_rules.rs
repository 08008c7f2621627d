//! Unwind tables of the code that stacks hold, version 1.

use rkyv::{Archive, Serialize};

use super::packed::{Packed, narrow};
use super::{items, payload, references};
use crate::error::Error;
use crate::kind::Kind;

/// One entry of the `.eh_frame` of an image: rules of a function (FDE), or what several of them share (CIE);
/// or an entry of `.debug_frame` that was made of Go's tables (crate `icecore-elf`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnwindRule<B = Vec<u8>> {
    /// The image, an image id.
    pub image: u32,
    /// Where the entry lies in memory, as the image has it (SVMA): pointers in it count from there. From
    /// `icecore_elf::go::FDE_AT` on, it was made.
    pub at: u64,
    /// Offset in the file of the first byte of the function; 0 if several share the entry.
    pub start: u64,
    /// What is added to an offset in the file to get the address (SVMA) of this code; 0 if several share the entry.
    pub bias: u64,
    /// The entry as it stands in the file, from its length on.
    pub bytes: B,
}

references!(UnwindRule<B> { image: id(Images), at: plain, start: plain, bias: plain, bytes: plain });

impl<'a> UnwindRule<&'a [u8]> {
    /// Converts the bytes.
    pub fn convert<B: From<&'a [u8]>>(self) -> UnwindRule<B> {
        let Self { image, at, start, bias, bytes } = self;
        UnwindRule { image, at, start, bias, bytes: bytes.into() }
    }
}

/// Unwind tables, each written once.
#[derive(Debug, Default, Archive, Serialize)]
pub struct UnwindRulesV1 {
    /// Images, as differences from the row before; signs folded.
    pub image: Packed,
    /// Addresses of the entries, as differences from the row before; signs folded.
    pub at: Packed,
    /// First offsets of functions, as differences from the row before; signs folded.
    pub start: Packed,
    /// Biases, as differences from the row before; signs folded.
    pub bias: Packed,
    /// Entries, one after the other.
    pub bytes: Vec<u8>,
    /// Lengths of the entries in bytes.
    pub lens: Packed,
}

payload!(
    UnwindRulesV1, ArchivedUnwindRulesV1, Kind::UNWIND_RULES, 1,
    count at, same image, same start, same bias, same lens, other bytes
);

impl UnwindRulesV1 {
    /// Builds the columns.
    pub fn from_rows<B: AsRef<[u8]>>(rows: &[UnwindRule<B>]) -> Self {
        Self {
            image: Packed::steps(rows.iter().map(|row| u64::from(row.image))),
            at: Packed::steps(rows.iter().map(|row| row.at)),
            start: Packed::steps(rows.iter().map(|row| row.start)),
            bias: Packed::steps(rows.iter().map(|row| row.bias)),
            bytes: rows.iter().flat_map(|row| row.bytes.as_ref()).copied().collect(),
            lens: rows.iter().map(|row| row.bytes.as_ref().len() as u64).collect(),
        }
    }
}

impl ArchivedUnwindRulesV1 {
    /// Lists the entries in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if an entry lies outside of the arena.
    pub fn rows(&self) -> Result<Vec<UnwindRule<&[u8]>>, Error> {
        let bytes = items(Kind::UNWIND_RULES, &self.bytes, &self.lens)?;
        let [image, at, start, bias] =
            [&self.image, &self.at, &self.start, &self.bias].map(|column| column.sums());
        let row = |(i, bytes)| UnwindRule {
            image: narrow(image[i]),
            at: at[i],
            start: start[i],
            bias: bias[i],
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
    fn rows_come_back_as_they_were() {
        let rows = [
            UnwindRule {
                image: 3,
                at: 0x2000,
                start: 0x700,
                bias: 0x1000,
                bytes: vec![8, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8],
            },
            UnwindRule { image: 3, at: 0x1ff0, start: 0, bias: u64::MAX, bytes: vec![] },
        ];
        let bytes = UnwindRulesV1::from_rows(&rows).to_bytes().expect("sound");
        let view = UnwindRulesV1::view(&bytes).expect("sound");
        let back: Vec<UnwindRule> =
            view.rows().expect("sound").into_iter().map(UnwindRule::convert).collect();
        assert_eq!(back, rows);
    }
}
