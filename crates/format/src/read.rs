//! The reader: maps a file, finds its blocks by the index or by scanning, and opens payloads.
//!
//! | room | what lives there |
//! |---|---|
//! | `scan` | from block to block where the index does not help |
//! | `order` | the order of writing; what is missing in it |
//! | `damage` | sentences about what is missing |
//! | [`growing`] | a file that is being written, block by block |
//!
//! The file is mapped, not copied. If another program cuts it short while it is mapped, the operating
//! system ends the reader with SIGBUS: do not read a recording while something truncates it. (The
//! recorder only appends.)

mod damage;
pub mod growing;
mod order;
mod scan;

use std::fs::File;
use std::path::Path;

use rkyv::util::AlignedVec;

use crate::block::{BlockHeader, Codec};
use crate::error::Error;
use crate::header::{EndMark, FileHeader};
use crate::index::{self, Entry, Tail};
use crate::records::{Block, Layout, Payload};
pub use damage::Damage;
use damage::Findings;
use order::Ordered;

/// A recording, opened.
#[derive(Debug)]
pub struct Recording {
    bytes: Bytes,
    header: FileHeader,
    closed: bool,
    entries: Vec<Entry>,
    index: Option<Entry>,
    lost: Vec<Entry>,
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
    /// Opens a file. Only the headers, the tail and the index are read, unless they do not fit each other.
    ///
    /// # Errors
    /// [`Error`] if the file cannot be read, is no recording, or needs a newer reader. A torn or
    /// damaged recording is no error: see [`Recording::damage`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::from_file(&File::open(path)?)
    }

    /// Maps an open file, as [`Recording::open`] does. It may be closed or unlinked afterwards.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_file(file: &File) -> Result<Self, Error> {
        Self::map(file, Trust::Compared)
    }

    /// Maps an open file and believes a whole index: no block is touched before it is read, however many there
    /// are. Blocks that differ from the index are then errors of [`Recording::payload`], and what
    /// [`Recording::from_file`] could have made of them is not tried.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn by_index(file: &File) -> Result<Self, Error> {
        Self::map(file, Trust::Index)
    }

    fn map(file: &File, trust: Trust) -> Result<Self, Error> {
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
        let map = unsafe { memmap2::Mmap::map(file)? };
        Self::from_storage(Bytes::Map(map), trust)
    }

    /// Reads a recording from memory.
    ///
    /// # Errors
    /// As [`Recording::open`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut owned = AlignedVec::new();
        owned.extend_from_slice(bytes);
        Self::from_storage(Bytes::Owned(owned), Trust::Compared)
    }

    fn from_storage(bytes: Bytes, trust: Trust) -> Result<Self, Error> {
        let header = FileHeader::decode(&bytes)?;
        let Blocks { entries, index, lost, has_end, damage } = Blocks::find(&bytes, &header, trust);
        let closed = has_end && header.mark != EndMark::Open;
        Ok(Self { bytes, header, closed, entries, index, lost, damage })
    }

    /// The file header.
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// Returns true if the recorder closed the file. If not, its last moments are missing.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Length of the file in bytes.
    pub fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The file itself, as it is.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All blocks but the index, in the order of writing.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The block of the index; `None` if the blocks were found by scanning.
    pub fn index(&self) -> Option<&Entry> {
        self.index.as_ref()
    }

    /// Blocks whose header or row in the index tells what they were, and that could not be used when the file was
    /// opened. A damaged payload is found then only if the file was scanned.
    pub fn lost(&self) -> &[Entry] {
        &self.lost
    }

    /// What could not be used when the file was opened: at most [`crate::limits::MAX_DAMAGE`] places, then the number of
    /// the others.
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
        let stored = self.stored(entry)?;
        decoded(stored, BlockHeader::payload_off(entry.off), &entry.header)
    }

    /// Decodes a block and copies what it holds; `None` if this build does not know its kind and version.
    ///
    /// # Errors
    /// As [`Recording::payload`] and [`Block::decode`].
    pub fn block<B, T>(&self, entry: &Entry, text: impl Fn(&[u8]) -> T) -> Result<Option<Block<B, T>>, Error>
    where
        B: for<'a> From<&'a [u8]>,
    {
        let layout = Layout::of(&entry.header);
        if let Some(block) = layout.and_then(Block::closed) {
            return Ok(Some(block));
        }
        let payload = self.payload(entry)?;
        layout.map(|layout| Block::decode(layout, payload.as_bytes(), text)).transpose()
    }

    /// Checks the payload of a block and returns it as it stands in the file.
    ///
    /// # Errors
    /// [`Error::Checksum`] or [`Error::Malformed`] with the offset of the payload.
    pub fn stored(&self, entry: &Entry) -> Result<&[u8], Error> {
        // The index may not have been compared with the blocks, and the entry may be one of another file.
        let header = BlockHeader::decode(&self.bytes, entry.off, self.header.seed())?;
        if header != entry.header {
            let cause = "block header and index differ".to_owned();
            return Err(Error::Malformed {
                what: "block payload",
                off: BlockHeader::payload_off(entry.off),
                cause,
            });
        }
        stored(&self.bytes, entry.off, &header)
    }

    /// The bytes between the payload of a block and the next multiple of 8. They are zeros in an intact file.
    pub fn padding(&self, entry: &Entry) -> &[u8] {
        let clip = |off: u64| off.min(self.len_bytes()) as usize;
        &self.bytes[clip(entry.header.end(entry.off))..clip(entry.header.next(entry.off))]
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

/// How far a whole index is believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// Every block's header is compared with its row.
    Compared,
    /// Entirely.
    Index,
}

/// The blocks of a file, and what is missing.
struct Blocks {
    entries: Vec<Entry>,
    /// The index that was used.
    index: Option<Entry>,
    /// Blocks of which the header or a row of the index is known, and which cannot be used.
    lost: Vec<Entry>,
    /// A tail ends the recording.
    has_end: bool,
    damage: Vec<Damage>,
}

impl Blocks {
    fn find(file: &[u8], header: &FileHeader, trust: Trust) -> Self {
        let seed = header.seed();
        let tail = Tail::decode(file, seed);
        let mut found = Findings::default();
        let (known, refused) = match tail.as_ref().map(|tail| read_index(file, seed, tail)) {
            Ok(Ok((index, rows))) if trust == Trust::Index || fit(file, seed, &rows) => {
                let (lost, damage) = (Vec::new(), Vec::new());
                return Self { entries: rows, index: Some(index), lost, has_end: true, damage };
            }
            Ok(Ok((_, rows))) => (rows, None),
            Ok(Err(error)) => (Vec::new(), Some(error)),
            Err(_) => (Vec::new(), None),
        };
        let (end, blocks) = match &tail {
            Ok(tail) => (tail.file_len - index::TAIL_LEN as u64, Some(u64::from(tail.rows))),
            Err(_) => (file.len() as u64, None),
        };
        let walked = scan::walk(file, end, seed, &known, &mut found);
        let Ordered { entries, lost } = order::order(walked.seen, blocks, &known, end, &mut found);
        let has_end = tail.is_ok() || walked.has_end;
        match (&tail, refused) {
            (Ok(tail), Some(error)) => {
                found.add(tail.index_off, 0, format!("the index is not used: {error}"))
            }
            (Err(error), _) if !has_end && header.mark == EndMark::Closed => {
                let cause = format!("it was closed once, and its end is gone or damaged: {error}");
                found.add(file.len() as u64, 0, cause);
            }
            (Ok(tail), None) if found.is_empty() => {
                found.add(tail.index_off, 0, "the index is not used: blocks differ from their rows".into());
            }
            _ => {}
        }
        Self { entries, index: None, lost, has_end, damage: found.into_list() }
    }
}

fn read_index(file: &[u8], seed: u32, tail: &Tail) -> Result<(Entry, Vec<Entry>), Error> {
    let off = tail.index_off;
    let malformed = |cause: String| Error::Malformed { what: "index", off, cause };
    let block = BlockHeader::decode(file, off, seed)?;
    index::check_header(&block, off)?;
    if block.next(off) != tail.file_len - index::TAIL_LEN as u64 || block.items != tail.rows {
        return Err(malformed(format!("{} rows, which are not those of the tail", block.items)));
    }
    let planes = decoded(stored(file, off, &block)?, BlockHeader::payload_off(off), &block)?;
    Ok((Entry { off, header: block }, index::decode_rows(planes.as_bytes(), off)?))
}

/// Returns true if the blocks are where the index says.
fn fit(file: &[u8], seed: u32, rows: &[Entry]) -> bool {
    rows.iter().all(|row| BlockHeader::decode(file, row.off, seed).is_ok_and(|header| header == row.header))
}

/// Checks the payload of a block that lies inside the file.
fn stored<'a>(file: &'a [u8], off: u64, header: &BlockHeader) -> Result<&'a [u8], Error> {
    let at = BlockHeader::payload_off(off);
    let stored = &file[at as usize..header.end(off) as usize];
    let computed = crc32fast::hash(stored);
    if computed != header.payload_crc {
        return Err(Error::Checksum { what: "block payload", off: at, found: header.payload_crc, computed });
    }
    Ok(stored)
}

/// Decompresses a payload at `at`, if needed.
fn decoded<'a>(stored: &'a [u8], at: u64, header: &BlockHeader) -> Result<PayloadBytes<'a>, Error> {
    match header.codec {
        Codec::Raw => Ok(PayloadBytes::Stored(stored)),
        Codec::Zstd => crate::codec::decompress(stored, header.raw_len)
            .map(PayloadBytes::Decompressed)
            .map_err(|cause| Error::Malformed { what: "block payload", off: at, cause }),
    }
}
