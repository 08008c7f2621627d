//! Pieces of the files of images, version 1.

use rkyv::{Archive, Serialize};

use super::packed::Packed;
use super::{items, payload};
use crate::block::Processes;
use crate::error::Error;
use crate::kind::Kind;
use crate::limits;

/// A stretch of the file of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Piece<B = Vec<u8>> {
    /// Offset of its first byte in the file.
    pub off: u64,
    /// The bytes.
    pub bytes: B,
}

/// Pieces of the file of one image: its symbol tables, its unwind tables, or all of it. What no block of an image has is
/// unknown, not zero. The header of a block names the image as it would a process, so that a reader finds the
/// blocks of an image without opening others.
#[derive(Debug, Default, Archive, Serialize)]
pub struct ImagePartsV1 {
    /// Length of the whole file, bytes.
    pub file_bytes: u64,
    /// The image, an image id.
    pub image: u32,
    /// First offsets, as differences from the row before; signs folded.
    pub off: Packed,
    /// Bytes of each piece.
    pub lens: Packed,
    /// All bytes, one piece after the other.
    pub bytes: Vec<u8>,
}

payload!(
    ImagePartsV1, ArchivedImagePartsV1, Kind::IMAGE_PARTS, 1,
    count off, same lens, other bytes, of image
);

impl ImagePartsV1 {
    /// Builds the columns. Pieces ascend, do not overlap, and have at most [`limits::MAX_PIECES_LEN`] bytes together.
    pub fn from_rows<B: AsRef<[u8]>>(image: u32, file_bytes: u64, rows: &[Piece<B>]) -> Self {
        let mut bytes = Vec::with_capacity(rows.iter().map(|row| row.bytes.as_ref().len()).sum());
        rows.iter().for_each(|row| bytes.extend_from_slice(row.bytes.as_ref()));
        Self {
            file_bytes,
            image,
            off: Packed::steps(rows.iter().map(|row| row.off)),
            lens: rows.iter().map(|row| row.bytes.as_ref().len() as u64).collect(),
            bytes,
        }
    }

    /// What the header of a block says if it holds pieces of an image.
    pub fn label(image: u32) -> Processes {
        Processes::NONE.with(image)
    }
}

impl ArchivedImagePartsV1 {
    /// Lists the pieces in the order of the block.
    ///
    /// # Errors
    /// [`Error::Payload`] if they have more bytes than a block may have, overlap, do not ascend, or lie outside of the
    /// file or the arena.
    pub fn rows<'a>(&'a self) -> Result<Vec<Piece<&'a [u8]>>, Error> {
        let wrong = |cause: String| Error::Payload { kind: Kind::IMAGE_PARTS, cause };
        if self.bytes.len() > limits::MAX_PIECES_LEN {
            let (len, limit) = (self.bytes.len(), limits::MAX_PIECES_LEN);
            return Err(wrong(format!("pieces of {len} bytes: the limit is {limit}")));
        }
        let pieces = items(Kind::IMAGE_PARTS, &self.bytes, &self.lens)?;
        let file_bytes = self.file_bytes.to_native();
        let mut free = 0;
        let piece = |(off, bytes): (u64, &'a [u8])| {
            let end = off.checked_add(bytes.len() as u64).filter(|end| off >= free && *end <= file_bytes);
            free = end.ok_or_else(|| {
                let len = bytes.len();
                wrong(format!("a piece of {len} bytes at {off} is not between {free} and {file_bytes}"))
            })?;
            Ok(Piece { off, bytes })
        };
        self.off.sums().into_iter().zip(pieces).map(piece).collect()
    }
}
