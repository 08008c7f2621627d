//! The file header: 64 bytes at offset 0, hand-encoded.

use crate::bytes::field;
use crate::error::Error;
use crate::limits;

/// Length of the header in bytes.
pub const LEN: usize = limits::HEADER_LEN;
/// The first eight bytes of every recording. The last two change if a program translates line ends.
pub const MAGIC: [u8; 8] = *b"ICECOR\r\n";
/// The version of the envelope (header, block header, index, tail). It never changes meaning.
pub const VERSION: u32 = limits::ENVELOPE_VERSION;
/// Incompatible features that this build understands; the first release has none.
pub const KNOWN_INCOMPATIBLE: u64 = 0;

/// Whether the recorder came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndMark {
    /// The recorder is still writing, or was stopped before it could close the file.
    Open,
    /// Index and tail were written and synced before this mark.
    Closed,
    /// Written to something that cannot be rewritten, such as a pipe: it is complete if it ends with a tail.
    Streamed,
}

impl EndMark {
    /// The number on disk.
    pub fn number(self) -> u32 {
        match self {
            Self::Open => 1,
            Self::Closed => 2,
            Self::Streamed => 3,
        }
    }

    /// The mark of a number on disk.
    pub fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Open),
            2 => Some(Self::Closed),
            3 => Some(Self::Streamed),
            _ => None,
        }
    }
}

/// Identifies the recording and says which features a reader needs.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 8 | magic |
/// | 8 | 4 | envelope version |
/// | 12 | 4 | mark: 1 open, 2 closed, 3 streamed |
/// | 16 | 8 | incompatible feature bits |
/// | 24 | 8 | compatible feature bits |
/// | 32 | 16 | UUID of the recording |
/// | 48 | 12 | zero |
/// | 60 | 4 | CRC-32 of bytes 0..60 |
///
/// # Source
/// docs/FORMAT.md §2
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// Open, closed or streamed.
    pub mark: EndMark,
    /// Features without which the file would be misread.
    pub incompatible: u64,
    /// Features that a reader may ignore.
    pub compatible: u64,
    /// Random identity of the recording; seeds the checksum of every block header.
    pub uuid: [u8; 16],
}

impl FileHeader {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.mark.number().to_le_bytes());
        out[16..24].copy_from_slice(&self.incompatible.to_le_bytes());
        out[24..32].copy_from_slice(&self.compatible.to_le_bytes());
        out[32..48].copy_from_slice(&self.uuid);
        let crc = crc32fast::hash(&out[..60]);
        out[60..64].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes and checks the header.
    ///
    /// # Errors
    /// [`Error::NotARecording`], [`Error::NoHeader`], [`Error::Version`], [`Error::Checksum`],
    /// [`Error::Features`] in this order of precedence.
    pub fn decode(file: &[u8]) -> Result<Self, Error> {
        let shown = &file[..file.len().min(MAGIC.len())];
        if file.is_empty() || !MAGIC.starts_with(shown) {
            return Err(Error::NotARecording { found: shown.to_vec() });
        }
        let Some(bytes) = file.get(..LEN) else {
            return Err(Error::NoHeader { len: file.len() as u64 });
        };
        let version = u32::from_le_bytes(field(bytes, 8));
        if version != VERSION {
            return Err(Error::Version { found: version });
        }
        let found = u32::from_le_bytes(field(bytes, 60));
        let computed = crc32fast::hash(&bytes[..60]);
        if found != computed {
            return Err(Error::Checksum { what: "file header", off: 0, found, computed });
        }
        let incompatible = u64::from_le_bytes(field(bytes, 16));
        let unknown = incompatible & !KNOWN_INCOMPATIBLE;
        if unknown != 0 {
            return Err(Error::Features { bits: unknown });
        }
        let number = u32::from_le_bytes(field(bytes, 12));
        let mark = EndMark::from_number(number).ok_or_else(|| {
            let cause = format!("mark {number} at byte 12 is not open (1), closed (2) or streamed (3)");
            Error::Malformed { what: "file header", off: 0, cause }
        })?;
        Ok(Self {
            mark,
            incompatible,
            compatible: u64::from_le_bytes(field(bytes, 24)),
            uuid: field(bytes, 32),
        })
    }

    /// The value that block-header checksums start from, so that a block of another recording,
    /// embedded or left over on the disk, is never taken for one of this file.
    pub fn seed(&self) -> u32 {
        crc32fast::hash(&self.uuid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: FileHeader =
        FileHeader { mark: EndMark::Open, incompatible: 0, compatible: 5, uuid: [7; 16] };

    #[test]
    fn survives_a_round_trip() {
        for mark in [EndMark::Open, EndMark::Closed, EndMark::Streamed] {
            let header = FileHeader { mark, ..HEADER };
            assert_eq!(FileHeader::decode(&header.encode()).expect("own bytes"), header);
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        for bit in 0..LEN * 8 {
            let mut bytes = HEADER.encode();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(FileHeader::decode(&bytes).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn unknown_incompatible_feature_is_refused_by_its_bits() {
        let bytes = FileHeader { incompatible: 0x10, ..HEADER }.encode();
        assert!(matches!(FileHeader::decode(&bytes), Err(Error::Features { bits: 0x10 })));
    }

    #[test]
    fn a_newer_envelope_and_a_foreign_file_are_told_apart() {
        let mut bytes = HEADER.encode();
        bytes[8] = 9;
        assert!(matches!(FileHeader::decode(&bytes), Err(Error::Version { found: 9 })));
        assert!(matches!(FileHeader::decode(b"PERFILE2"), Err(Error::NotARecording { .. })));
        assert!(matches!(FileHeader::decode(b"ICEC"), Err(Error::NoHeader { len: 4 })));
        assert!(matches!(FileHeader::decode(b""), Err(Error::NotARecording { .. })));
    }
}
