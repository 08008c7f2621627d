//! The reader: maps a file, finds its blocks by the index or by scanning, and opens payloads.
//!
//! The file is mapped, not copied. If another program cuts it short while it is mapped, the operating
//! system ends the reader with SIGBUS: do not read a recording while something truncates it. (The
//! recorder only appends.)

use std::fmt;
use std::fs::File;
use std::path::Path;

use rkyv::util::AlignedVec;

use crate::block::{BlockHeader, Codec, Kind};
use crate::header::{FileHeader, Mark};
use crate::index::{Entry, Tail, decode_rows};
use crate::records::Payload;
use crate::{Error, limits};

/// Something that is missing from a file, though the rest can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where, bytes from the start of the file.
    pub off: u64,
    /// Bytes that could not be used.
    pub len: u64,
    /// What is wrong, one sentence.
    pub cause: String,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at byte {}: {}", self.len, self.off, self.cause)
    }
}

/// A recording, opened.
#[derive(Debug)]
pub struct Recording {
    bytes: Bytes,
    header: FileHeader,
    closed: bool,
    entries: Vec<Entry>,
    damage: Vec<Damage>,
}

#[derive(Debug)]
enum Bytes {
    Map(memmap2::Mmap),
    Owned(AlignedVec<64>),
}

impl std::ops::Deref for Bytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match self {
            Self::Map(map) => map,
            Self::Owned(bytes) => bytes,
        }
    }
}

impl Recording {
    /// Opens a file. Only header, tail and index are read, unless the file was not closed.
    ///
    /// # Errors
    /// [`Error`] if the file cannot be read, is no recording, or needs a newer reader. A torn or
    /// damaged recording is no error: see [`Recording::damage`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        let kind = file.metadata()?;
        if !kind.is_file() {
            let cause = "not a regular file";
            return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, cause).into());
        }
        if kind.len() == 0 {
            return Err(Error::NoHeader { len: 0 });
        }
        // SAFETY: the map is only read. That nobody truncates the file meanwhile cannot be ensured; the
        // consequence (SIGBUS, no unsoundness beyond it) is documented at the head of this module.
        #[allow(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file)? };
        Self::from_storage(Bytes::Map(map))
    }

    /// Reads a recording from memory.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut owned = AlignedVec::new();
        owned.extend_from_slice(bytes);
        Self::from_storage(Bytes::Owned(owned))
    }

    fn from_storage(bytes: Bytes) -> Result<Self, Error> {
        let header = FileHeader::decode(&bytes)?;
        let tail = Tail::decode(&bytes, header.seed());
        let mut damage = Vec::new();
        let indexed = tail.and_then(|tail| match read_index(&bytes, &header, &tail) {
            Ok(entries) => Some(entries),
            Err(error) => {
                damage.push(Damage { off: tail.index_off, len: 0, cause: error.to_string() });
                None
            }
        });
        let entries = match indexed {
            Some(entries) => entries,
            None => scan(&bytes, &header, &mut damage),
        };
        let closed = header.mark == Mark::Closed && tail.is_some();
        Ok(Self { bytes, header, closed, entries, damage })
    }

    /// The file header.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Tells whether the recorder came to its end. If not, the last moments are missing.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Length of the file in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// All blocks, in the order of writing, the index left out.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// What could not be used when the file was opened.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// Checks and, if needed, decompresses the payload of a block.
    ///
    /// # Errors
    /// [`Error::Checksum`] or [`Error::Malformed`] with the offset of the payload.
    ///
    /// # Cost
    /// O(raw length); no copy if the payload is stored raw.
    pub fn payload(&self, entry: &Entry) -> Result<PayloadBytes<'_>, Error> {
        let off = BlockHeader::payload_off(entry.off);
        let header = &entry.header;
        let malformed = |cause: String| Error::Malformed { what: "block payload", off, cause };
        // The index has been checked against the file's end, so the slice exists; the block's own
        // header may still differ from the index if either was damaged.
        let at_block = BlockHeader::decode(&self.bytes, entry.off, self.header.seed())?;
        if at_block != *header {
            return Err(malformed("block header and index differ".into()));
        }
        let stored = &self.bytes[off as usize..header.end(entry.off) as usize];
        let computed = crc32fast::hash(stored);
        if computed != header.payload_crc {
            return Err(Error::Checksum { what: "block payload", off, found: header.payload_crc, computed });
        }
        match header.codec {
            Codec::Raw => Ok(PayloadBytes::Stored(stored)),
            Codec::Zstd => crate::codec::decompress(stored, header.raw_len)
                .map(PayloadBytes::Decompressed)
                .map_err(malformed),
        }
    }
}

/// The bytes of a payload: in the map, or decompressed.
#[derive(Debug)]
pub enum PayloadBytes<'a> {
    /// Stored raw.
    Stored(&'a [u8]),
    /// Decompressed.
    Decompressed(AlignedVec<16>),
}

impl PayloadBytes<'_> {
    /// Uses the bytes as a payload of type `P`, in place.
    ///
    /// # Errors
    /// [`Error::Payload`] if they are none.
    pub fn view<P: Payload>(&self) -> Result<&P::View, Error> {
        P::view(self.as_bytes())
    }

    /// The bytes themselves.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Decompressed(bytes) => bytes,
        }
    }
}

fn read_index(file: &[u8], header: &FileHeader, tail: &Tail) -> Result<Vec<Entry>, Error> {
    let off = tail.index_off;
    let malformed = |cause: String| Error::Malformed { what: "index", off, cause };
    let block = BlockHeader::decode(file, off, header.seed())?;
    if block.kind != Kind::INDEX || block.version != 1 || block.codec != Codec::Raw {
        return Err(malformed(format!("a block of kind {} is no index", block.kind.name())));
    }
    let payload = &file[BlockHeader::payload_off(off) as usize..block.end(off) as usize];
    let computed = crc32fast::hash(payload);
    if computed != block.payload_crc {
        return Err(Error::Checksum { what: "index", off, found: block.payload_crc, computed });
    }
    let entries = decode_rows(payload, off)?;
    if entries.len() != tail.rows as usize {
        return Err(malformed(format!("{} rows, the tail says {}", entries.len(), tail.rows)));
    }
    Ok(entries)
}

/// Finds the blocks of a file without an index: from one whole block to the next, and over damaged
/// stretches 64 bytes at a time.
fn scan(file: &[u8], header: &FileHeader, damage: &mut Vec<Damage>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut off = crate::header::LEN as u64;
    let mut bad: Option<Damage> = None;
    let len = file.len() as u64;
    while off < len {
        match whole_block(file, off, header.seed()) {
            Ok(block) => {
                damage.extend(bad.take());
                if block.kind != Kind::INDEX && entries.len() < limits::MAX_BLOCKS as usize {
                    entries.push(Entry { off, header: block });
                }
                off = block.next(off);
            }
            // What is left of a tail is no loss.
            Err(_) if bad.is_none() && len - off == crate::index::TAIL_LEN as u64 => break,
            Err(error) => {
                let step = limits::ALIGN.min(len - off);
                let damage = bad.get_or_insert_with(|| Damage { off, len: 0, cause: error.to_string() });
                damage.len += step;
                off += step;
            }
        }
    }
    damage.extend(bad);
    entries
}

fn whole_block(file: &[u8], off: u64, seed: u32) -> Result<BlockHeader, Error> {
    let header = BlockHeader::decode(file, off, seed)?;
    let stored = &file[BlockHeader::payload_off(off) as usize..header.end(off) as usize];
    let computed = crc32fast::hash(stored);
    if computed != header.payload_crc {
        let off = BlockHeader::payload_off(off);
        return Err(Error::Checksum { what: "block payload", off, found: header.payload_crc, computed });
    }
    Ok(header)
}
