//! The block header: 64 bytes before every payload, hand-encoded.

use crate::bytes::field;
use crate::error::Error;
pub use crate::kind::Kind;
use crate::limits;

/// Length of a block header in bytes.
pub const LEN: usize = 64;
/// The first four bytes of every block.
pub const MAGIC: [u8; 4] = *b"ICBK";

/// The processes that a payload concerns, hashed to 64 bits: bit `(tgid × 0x9E3779B1 mod 2³²) >> 26` is set for
/// each. A reader that wants one process skips blocks that cannot hold it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processes(pub u64);

impl Processes {
    /// No process.
    pub const NONE: Self = Self(0);
    /// Any process: nothing may be skipped.
    pub const ANY: Self = Self(u64::MAX);

    /// Adds a process.
    pub fn with(self, tgid: u32) -> Self {
        Self(self.0 | Self::bit(tgid))
    }

    /// Returns true if a process may be among them.
    pub fn may_hold(self, tgid: u32) -> bool {
        self.0 & Self::bit(tgid) != 0
    }

    fn bit(tgid: u32) -> u64 {
        1 << (tgid.wrapping_mul(0x9E37_79B1) >> 26)
    }
}

/// How a payload is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// As it is.
    Raw,
    /// One zstd frame.
    Zstd,
}

impl Codec {
    /// The number on disk.
    pub fn number(self) -> u8 {
        match self {
            Self::Raw => 0,
            Self::Zstd => 1,
        }
    }

    /// The codec of a number on disk.
    pub fn from_number(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::Raw),
            1 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Says what the payload after it holds, how long it is and what its checksum is.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 4 | magic |
/// | 4 | 2 | kind |
/// | 6 | 2 | payload version |
/// | 8 | 1 | codec: 0 raw, 1 zstd |
/// | 9 | 3 | zero |
/// | 12 | 4 | items in the payload |
/// | 16 | 8 | sequence number, 0 for the first block |
/// | 24 | 8 | earliest time in the payload, ns |
/// | 32 | 8 | latest time in the payload, ns |
/// | 40 | 4 | stored length, bytes |
/// | 44 | 4 | raw length, bytes |
/// | 48 | 4 | CRC-32 of the stored payload |
/// | 52 | 8 | processes in the payload, hashed: [`Processes`] |
/// | 60 | 4 | CRC-32 of bytes 0..60, started from the recording's seed |
///
/// # Source
/// docs/FORMAT.md §3
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// What the payload holds.
    pub kind: Kind,
    /// Version of the payload layout of this kind.
    pub version: u16,
    /// How the payload is stored.
    pub codec: Codec,
    /// Number of items in the payload: samples, strings, rows.
    pub items: u32,
    /// Position in the order of writing.
    pub sequence: u64,
    /// Earliest time in the payload, ns `CLOCK_MONOTONIC`; 0 for payloads without times.
    pub first_ns: u64,
    /// Latest time in the payload, ns `CLOCK_MONOTONIC`.
    pub last_ns: u64,
    /// Bytes of the payload in the file.
    pub stored_len: u32,
    /// Bytes of the payload after decompression.
    pub raw_len: u32,
    /// CRC-32 of the stored bytes.
    pub payload_crc: u32,
    /// The processes that the payload concerns.
    pub processes: Processes,
}

impl BlockHeader {
    /// Encodes the header; `seed` is [`crate::header::FileHeader::seed`].
    pub fn encode(&self, seed: u32) -> [u8; LEN] {
        let mut out = [0; LEN];
        out[0..4].copy_from_slice(&MAGIC);
        out[4..6].copy_from_slice(&self.kind.0.to_le_bytes());
        out[6..8].copy_from_slice(&self.version.to_le_bytes());
        out[8] = self.codec.number();
        out[12..16].copy_from_slice(&self.items.to_le_bytes());
        out[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        out[24..32].copy_from_slice(&self.first_ns.to_le_bytes());
        out[32..40].copy_from_slice(&self.last_ns.to_le_bytes());
        out[40..44].copy_from_slice(&self.stored_len.to_le_bytes());
        out[44..48].copy_from_slice(&self.raw_len.to_le_bytes());
        out[48..52].copy_from_slice(&self.payload_crc.to_le_bytes());
        out[52..60].copy_from_slice(&self.processes.0.to_le_bytes());
        let crc = checksum(seed, &out[..60]);
        out[60..64].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Decodes the header that begins at `off`, and checks it against the limits and the file's end.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Checksum`] with `off`.
    pub fn decode(file: &[u8], off: u64, seed: u32) -> Result<Self, Error> {
        let header = Self::decode_alone(file, off, seed)?;
        match header.missing(off, file.len() as u64) {
            0 => Ok(header),
            missing => {
                let cause = format!("the file ends {missing} bytes before its payload does");
                Err(Error::Malformed { what: "block header", off, cause })
            }
        }
    }

    /// Decodes the header that begins at `off`, whether or not its payload lies inside the file.
    pub(crate) fn decode_alone(file: &[u8], off: u64, seed: u32) -> Result<Self, Error> {
        let malformed = |cause: String| Error::Malformed { what: "block header", off, cause };
        let start = usize::try_from(off).map_err(|_| malformed("beyond the address space".into()))?;
        let bytes = start
            .checked_add(LEN)
            .and_then(|end| file.get(start..end))
            .ok_or_else(|| malformed("the file ends inside it".into()))?;
        if bytes[..4] != MAGIC {
            return Err(malformed(format!("begins with {:02x?}", &bytes[..4])));
        }
        let found = u32::from_le_bytes(field(bytes, 60));
        let computed = checksum(seed, &bytes[..60]);
        if found != computed {
            return Err(Error::Checksum { what: "block header", off, found, computed });
        }
        let codec = Codec::from_number(bytes[8])
            .ok_or_else(|| malformed(format!("codec {} is unknown", bytes[8])))?;
        let header = Self {
            kind: Kind(u16::from_le_bytes(field(bytes, 4))),
            version: u16::from_le_bytes(field(bytes, 6)),
            codec,
            items: u32::from_le_bytes(field(bytes, 12)),
            sequence: u64::from_le_bytes(field(bytes, 16)),
            first_ns: u64::from_le_bytes(field(bytes, 24)),
            last_ns: u64::from_le_bytes(field(bytes, 32)),
            stored_len: u32::from_le_bytes(field(bytes, 40)),
            raw_len: u32::from_le_bytes(field(bytes, 44)),
            payload_crc: u32::from_le_bytes(field(bytes, 48)),
            processes: Processes(u64::from_le_bytes(field(bytes, 52))),
        };
        header.check_lengths().map_err(malformed)?;
        Ok(header)
    }

    /// Counts the bytes by which the payload of a block at `off` exceeds a file of this length.
    pub(crate) fn missing(&self, off: u64, file_len: u64) -> u64 {
        self.end(off).saturating_sub(file_len)
    }

    /// Describes the block for messages: `block 5 (samples, 100 items)`.
    #[cfg(feature = "read")]
    pub(crate) fn called(&self) -> String {
        format!("block {} ({}, {} items)", self.sequence, self.kind.name(), self.items)
    }

    /// Offset of the payload of a block at `off`.
    pub fn payload_off(off: u64) -> u64 {
        off.saturating_add(LEN as u64)
    }

    /// Offset of the first byte after the stored payload of a block at `off`.
    pub fn end(&self, off: u64) -> u64 {
        Self::payload_off(off).saturating_add(u64::from(self.stored_len))
    }

    /// Offset at which the next block begins, if this one begins at `off`.
    pub fn next(&self, off: u64) -> u64 {
        self.end(off).checked_next_multiple_of(limits::ALIGN).unwrap_or(u64::MAX)
    }

    fn check_lengths(&self) -> Result<(), String> {
        let (stored, raw) = (u64::from(self.stored_len), u64::from(self.raw_len));
        let (max_stored, max_raw) = self.kind.max_lens();
        if self.stored_len > max_stored || self.raw_len > max_raw {
            return Err(format!("stored {stored} and raw {raw} bytes are beyond the limits"));
        }
        if self.codec == Codec::Raw && stored != raw {
            return Err(format!("stored raw, but {stored} bytes are not {raw}"));
        }
        // `index::check_header` compares the rows of an index with the number of blocks that fit into the file.
        let items = if self.kind == Kind::INDEX { 0 } else { u64::from(self.items) };
        if !limits::is_believed(stored, raw, items) {
            return Err(format!("{stored} bytes claim to hold {raw} bytes, {items} items"));
        }
        Ok(())
    }
}

fn checksum(seed: u32, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(seed);
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> BlockHeader {
        BlockHeader {
            kind: Kind::SAMPLES,
            version: 1,
            codec: Codec::Zstd,
            items: 3,
            sequence: 9,
            first_ns: 10,
            last_ns: 20,
            stored_len: 64,
            raw_len: 100,
            payload_crc: 0xdead_beef,
            processes: Processes::NONE.with(7),
        }
    }

    fn file(header: &BlockHeader) -> Vec<u8> {
        let mut bytes = header.encode(5).to_vec();
        bytes.resize(LEN + 64, 0);
        bytes
    }

    #[test]
    fn survives_a_round_trip() {
        let header = header();
        assert_eq!(BlockHeader::decode(&file(&header), 0, 5).expect("own bytes"), header);
        assert_eq!(header.next(0), 128);
    }

    #[test]
    fn every_flipped_bit_and_a_foreign_seed_are_noticed() {
        let good = file(&header());
        for bit in 0..LEN * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(BlockHeader::decode(&bytes, 0, 5).is_err(), "bit {bit}");
        }
        assert!(matches!(BlockHeader::decode(&good, 0, 6), Err(Error::Checksum { .. })));
    }

    #[test]
    fn lengths_beyond_the_limits_are_refused() {
        for (stored_len, raw_len, codec) in [
            (u32::MAX, 100, Codec::Zstd),
            (64, u32::MAX, Codec::Zstd),
            (64, 65, Codec::Raw),
            (16, limits::MAX_RAW_LEN, Codec::Zstd),
        ] {
            let bad = BlockHeader { stored_len, raw_len, codec, ..header() };
            assert!(matches!(BlockHeader::decode(&file(&bad), 0, 5), Err(Error::Malformed { .. })));
        }
    }

    #[test]
    fn a_payload_behind_the_end_of_the_file_is_torn() {
        let bytes = file(&header());
        assert!(BlockHeader::decode(&bytes[..bytes.len() - 1], 0, 5).is_err());
    }
}
