//! The index (a table of all blocks) and the tail, which says where the index is. Both are hand-encoded.
//!
//! The payload of the index is transposed: byte 0 of every row, then byte 1 of every row, and so on. Most of these
//! planes hardly change from row to row, so zstd leaves 18 bytes of the 64.

use crate::block::{BlockHeader, Codec, Processes};
use crate::bytes::field;
use crate::error::Error;
use crate::kind::Kind;
use crate::limits;

/// The version of the index payload.
pub const VERSION: u16 = 1;
/// Length of one index row in bytes.
pub const ROW_LEN: usize = 64;
/// Length of the tail in bytes.
pub const TAIL_LEN: usize = 32;
/// The last eight bytes of a closed recording.
pub const TAIL_MAGIC: [u8; 8] = *b"\r\nICETIP";

/// One block: where it is, and its header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Offset of the block header, bytes from the start of the file.
    pub off: u64,
    /// The block header, as it stands there.
    pub header: BlockHeader,
}

impl Entry {
    /// Encodes an index row.
    ///
    /// | offset | size | field |
    /// |---|---|---|
    /// | 0 | 8 | offset of the block |
    /// | 8 | 2 | kind |
    /// | 10 | 2 | payload version |
    /// | 12 | 1 | codec |
    /// | 13 | 3 | zero |
    /// | 16 | 4 | items |
    /// | 20 | 4 | stored length |
    /// | 24 | 4 | raw length |
    /// | 28 | 4 | CRC-32 of the stored payload |
    /// | 32 | 8 | earliest time, ns |
    /// | 40 | 8 | latest time, ns |
    /// | 48 | 8 | sequence number |
    /// | 56 | 8 | processes |
    pub fn encode(&self) -> [u8; ROW_LEN] {
        let mut out = [0; ROW_LEN];
        let h = &self.header;
        out[0..8].copy_from_slice(&self.off.to_le_bytes());
        out[8..10].copy_from_slice(&h.kind.0.to_le_bytes());
        out[10..12].copy_from_slice(&h.version.to_le_bytes());
        out[12] = h.codec.number();
        out[16..20].copy_from_slice(&h.items.to_le_bytes());
        out[20..24].copy_from_slice(&h.stored_len.to_le_bytes());
        out[24..28].copy_from_slice(&h.raw_len.to_le_bytes());
        out[28..32].copy_from_slice(&h.payload_crc.to_le_bytes());
        out[32..40].copy_from_slice(&h.first_ns.to_le_bytes());
        out[40..48].copy_from_slice(&h.last_ns.to_le_bytes());
        out[48..56].copy_from_slice(&h.sequence.to_le_bytes());
        out[56..64].copy_from_slice(&h.processes.0.to_le_bytes());
        out
    }

    fn decode(row: &[u8; ROW_LEN]) -> Option<Self> {
        Some(Self {
            off: u64::from_le_bytes(field(row, 0)),
            header: BlockHeader {
                kind: Kind(u16::from_le_bytes(field(row, 8))),
                version: u16::from_le_bytes(field(row, 10)),
                codec: Codec::from_number(row[12])?,
                items: u32::from_le_bytes(field(row, 16)),
                stored_len: u32::from_le_bytes(field(row, 20)),
                raw_len: u32::from_le_bytes(field(row, 24)),
                payload_crc: u32::from_le_bytes(field(row, 28)),
                first_ns: u64::from_le_bytes(field(row, 32)),
                last_ns: u64::from_le_bytes(field(row, 40)),
                sequence: u64::from_le_bytes(field(row, 48)),
                processes: Processes(u64::from_le_bytes(field(row, 56))),
            },
        })
    }
}

/// Encodes the payload of the index: the rows, transposed.
pub fn encode_rows(entries: &[Entry]) -> Vec<u8> {
    let mut planes = vec![0; entries.len() * ROW_LEN];
    for (number, entry) in entries.iter().enumerate() {
        for (plane, byte) in entry.encode().into_iter().enumerate() {
            planes[plane * entries.len() + number] = byte;
        }
    }
    planes
}

/// Checks the header of an index block at `index_off`, before anything is allocated for the index.
///
/// # Errors
/// [`Error::Malformed`] if it is no index, or claims more rows than blocks fit before it.
pub fn check_header(header: &BlockHeader, index_off: u64) -> Result<(), Error> {
    let malformed = |cause: String| Error::Malformed { what: "index", off: index_off, cause };
    let BlockHeader { kind, version, items, raw_len, .. } = *header;
    if kind != Kind::INDEX || version != VERSION {
        return Err(malformed(format!("a block of kind {}, version {version} is no index", kind.name())));
    }
    if u64::from(raw_len) != u64::from(items) * ROW_LEN as u64 {
        return Err(malformed(format!("{raw_len} bytes are not {items} rows")));
    }
    let room = index_off.saturating_sub(crate::header::LEN as u64) / crate::block::LEN as u64;
    if u64::from(items) > room.min(u64::from(limits::MAX_BLOCKS)) {
        return Err(malformed(format!("{items} blocks do not fit before it")));
    }
    Ok(())
}

/// Decodes the payload of an index block that begins at `index_off`.
///
/// # Errors
/// [`Error::Malformed`] if a row points outside the blocks before the index, rows overlap, or one is out of order.
pub fn decode_rows(planes: &[u8], index_off: u64) -> Result<Vec<Entry>, Error> {
    let malformed = |cause: String| Error::Malformed { what: "index", off: index_off, cause };
    if !planes.len().is_multiple_of(ROW_LEN) {
        return Err(malformed(format!("{} bytes are no whole number of rows", planes.len())));
    }
    let rows = planes.len() / ROW_LEN;
    let mut free_from = crate::header::LEN as u64;
    let mut entries = Vec::with_capacity(rows);
    for number in 0..rows {
        let row = std::array::from_fn(|plane| planes[plane * rows + number]);
        let entry = Entry::decode(&row).ok_or_else(|| malformed(format!("row {number}: codec")))?;
        if entry.off < free_from
            || !entry.off.is_multiple_of(limits::ALIGN)
            || entry.header.end(entry.off) > index_off
        {
            return Err(malformed(format!("row {number}: a block at byte {} cannot be", entry.off)));
        }
        if entry.header.sequence != number as u64 {
            return Err(malformed(format!("row {number}: sequence {}", entry.header.sequence)));
        }
        free_from = entry.header.next(entry.off);
        entries.push(entry);
    }
    Ok(entries)
}

/// The last 32 bytes of a closed recording.
///
/// | offset | size | field |
/// |---|---|---|
/// | 0 | 8 | offset of the index block |
/// | 8 | 8 | length of the file, tail included |
/// | 16 | 4 | number of rows in the index |
/// | 20 | 4 | CRC-32 of bytes 0..20, started from the recording's seed |
/// | 24 | 8 | magic |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tail {
    /// Offset of the index block.
    pub index_off: u64,
    /// Length of the whole file in bytes.
    pub file_len: u64,
    /// Rows in the index.
    pub rows: u32,
}

impl Tail {
    /// Encodes the tail; `seed` is [`crate::header::FileHeader::seed`].
    pub fn encode(&self, seed: u32) -> [u8; TAIL_LEN] {
        let mut out = [0; TAIL_LEN];
        out[0..8].copy_from_slice(&self.index_off.to_le_bytes());
        out[8..16].copy_from_slice(&self.file_len.to_le_bytes());
        out[16..20].copy_from_slice(&self.rows.to_le_bytes());
        let mut hasher = crc32fast::Hasher::new_with_initial(seed);
        hasher.update(&out[..20]);
        out[20..24].copy_from_slice(&hasher.finalize().to_le_bytes());
        out[24..32].copy_from_slice(&TAIL_MAGIC);
        out
    }

    /// Decodes the tail of a whole file.
    ///
    /// # Errors
    /// [`Error::Malformed`] or [`Error::Checksum`] if the file does not end with one, or has another length.
    pub fn decode(file: &[u8], seed: u32) -> Result<Self, Error> {
        Self::decode_at(file, (file.len() as u64).saturating_sub(TAIL_LEN as u64), seed)
    }

    /// Decodes a tail that begins at `off`, and ignores the bytes after it.
    pub(crate) fn decode_at(file: &[u8], off: u64, seed: u32) -> Result<Self, Error> {
        let malformed = |cause: String| Error::Malformed { what: "tail", off, cause };
        let bytes = usize::try_from(off)
            .ok()
            .and_then(|start| file.get(start..start.checked_add(TAIL_LEN)?))
            .ok_or_else(|| malformed("the file ends inside it".into()))?;
        if bytes[24..] != TAIL_MAGIC {
            return Err(malformed(format!("ends with {:02x?}", &bytes[24..])));
        }
        let tail = Self {
            index_off: u64::from_le_bytes(field(bytes, 0)),
            file_len: u64::from_le_bytes(field(bytes, 8)),
            rows: u32::from_le_bytes(field(bytes, 16)),
        };
        let found = u32::from_le_bytes(field(bytes, 20));
        let computed = u32::from_le_bytes(field(&tail.encode(seed), 20));
        if found != computed {
            return Err(Error::Checksum { what: "tail", off, found, computed });
        }
        let len = off.saturating_add(TAIL_LEN as u64);
        if tail.file_len != len {
            return Err(malformed(format!("it ends a file of {} bytes, not of {len}", tail.file_len)));
        }
        Ok(tail)
    }
}
