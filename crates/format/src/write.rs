//! The streaming writer: it appends blocks, then the index and the tail.

mod sink;
#[cfg(test)]
#[cfg(feature = "read")]
mod tests;

use std::fs::File;
use std::io::Write;

use crate::block::{BlockHeader, Codec, Processes};
use crate::codec::Compressor;
use crate::error::Error;
use crate::header::{EndMark, FileHeader};
use crate::index::{self, Entry, Tail};
use crate::kind::Kind;
use crate::limits;
use crate::records::Payload;
use sink::{Held, Sink, Stream};

/// Payloads up to this many bytes are stored raw, ready to be used in place.
const RAW_UP_TO: usize = 64;

/// Appends blocks to a file or a stream. Every block that [`Writer::append`] accepted is readable whatever happens
/// afterwards; index and tail only make opening fast.
///
/// # Cost
/// 64 bytes of memory per block until the index is written, and one block at a time.
pub struct Writer {
    sink: Box<dyn Sink>,
    header: FileHeader,
    compressor: Compressor,
    entries: Vec<Entry>,
    end: u64,
}

/// What the writer puts into the header of a block about its payload.
struct Label {
    kind: Kind,
    version: u16,
    items: u32,
    span_ns: (u64, u64),
    processes: Processes,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("header", &self.header).field("end", &self.end).finish_non_exhaustive()
    }
}

impl Writer {
    /// Begins a recording in an empty file, in which bytes can be written at any offset; `uuid` is random.
    ///
    /// # Errors
    /// [`Error::Io`] if the header cannot be written.
    pub fn create(file: File, uuid: [u8; 16]) -> Result<Self, Error> {
        Self::begin(Box::new(file), EndMark::Open, uuid)
    }

    /// Begins a recording in something that only takes bytes one after the other, such as a pipe; `uuid` is random.
    ///
    /// # Errors
    /// [`Error::Io`] if the header cannot be written.
    pub fn stream(to: impl Write + Send + 'static, uuid: [u8; 16]) -> Result<Self, Error> {
        Self::begin(Box::new(Stream(to)), EndMark::Streamed, uuid)
    }

    /// Begins a recording in memory, which [`Writer::append_all`] of another writer takes; `uuid` is random.
    ///
    /// # Errors
    /// [`Error::Io`] if the compressor does not begin.
    pub fn in_memory(uuid: [u8; 16]) -> Result<Self, Error> {
        Self::begin(Box::<Held>::default(), EndMark::Open, uuid)
    }

    fn begin(mut sink: Box<dyn Sink>, mark: EndMark, uuid: [u8; 16]) -> Result<Self, Error> {
        let header = FileHeader { mark, incompatible: 0, compatible: 0, uuid };
        let compressor = Compressor::new()?;
        sink.put(0, &header.encode()).map_err(|torn| torn.cause)?;
        Ok(Self { sink, header, compressor, entries: Vec::new(), end: crate::header::LEN as u64 })
    }

    /// Appends one block and returns the bytes that it takes in the file.
    ///
    /// # Errors
    /// [`Error::Io`] if not all of it was taken. The blocks before it stay, and the writer can go on: what was
    /// written of it is cut off again, or in a stream left behind for the reader to pass over.
    /// [`Error::TooLarge`] beyond the limits.
    pub fn append<P: Payload>(&mut self, payload: &P) -> Result<u64, Error> {
        self.check_room()?;
        let raw = payload.to_bytes()?;
        let label = Label {
            kind: P::KIND,
            version: P::VERSION,
            items: u32::try_from(payload.items()).unwrap_or(u32::MAX),
            span_ns: payload.span_ns(),
            processes: payload.processes(),
        };
        let (entry, len) = self.write_block(&label, &raw)?;
        self.entries.push(entry);
        Ok(len)
    }

    /// Appends a block of another file as it is stored there; only its sequence number changes.
    ///
    /// # Errors
    /// As [`Writer::append`]; [`Error::Payload`] if the header is not that of these bytes.
    pub fn append_stored(&mut self, header: &BlockHeader, stored: &[u8]) -> Result<u64, Error> {
        self.check_room()?;
        if stored.len() != header.stored_len as usize || crc32fast::hash(stored) != header.payload_crc {
            let cause = format!("{} bytes are not those that the header describes", stored.len());
            return Err(Error::Payload { kind: header.kind, cause });
        }
        let (entry, len) = self.put_block(*header, stored)?;
        self.entries.push(entry);
        Ok(len)
    }

    /// Appends all blocks of a recording in memory as they are stored there: its sessions follow those of this one.
    ///
    /// # Errors
    /// As [`Writer::append_stored`]. A recording that is not in memory has no blocks to append.
    pub fn append_all(&mut self, other: &Self) -> Result<(), Error> {
        let bytes = other.sink.bytes().unwrap_or_default();
        for Entry { off, header } in other.entries.iter().filter(|_| !bytes.is_empty()) {
            let begin = *off as usize + crate::block::LEN;
            self.append_stored(header, &bytes[begin..begin + header.stored_len as usize])?;
        }
        Ok(())
    }

    /// Returns an error if the index has no room for a row of another block.
    fn check_room(&self) -> Result<(), Error> {
        if self.entries.len() < limits::MAX_BLOCKS as usize {
            return Ok(());
        }
        let len = (self.entries.len() as u64 + 1) * index::ROW_LEN as u64;
        Err(Error::TooLarge { kind: Kind::INDEX, len, limit: u64::from(limits::MAX_INDEX_LEN) })
    }

    /// Counts the bytes that the file has so far.
    pub fn len_bytes(&self) -> u64 {
        self.end
    }

    /// Writes index and tail; syncs a file and marks it closed. Returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::Io`]; the recording then stays unclosed, and its blocks are readable.
    pub fn finish(mut self) -> Result<u64, Error> {
        let blocks_end = self.end;
        let done = self.write_end();
        if done.is_err() {
            self.sink.cut_back_to(blocks_end);
        }
        done
    }

    fn write_end(&mut self) -> Result<u64, Error> {
        let rows = self.entries.len() as u32;
        let label = Label {
            kind: Kind::INDEX,
            version: index::VERSION,
            items: rows,
            span_ns: (0, 0),
            processes: Processes::ANY,
        };
        let planes = index::encode_rows(&self.entries);
        let (at, _) = self.write_block(&label, &planes)?;
        let file_len = self.end + index::TAIL_LEN as u64;
        let tail = Tail { index_off: at.off, file_len, rows };
        self.put(&tail.encode(self.header.seed()))?;
        match self.header.mark {
            EndMark::Streamed => self.sink.sync()?,
            _ => {
                self.sink.sync()?;
                let closed = FileHeader { mark: EndMark::Closed, ..self.header };
                self.sink.put(0, &closed.encode()).map_err(|torn| torn.cause)?;
                self.sink.sync()?;
            }
        }
        Ok(file_len)
    }

    /// Compresses one payload and writes it after the last block.
    fn write_block(&mut self, label: &Label, raw: &[u8]) -> Result<(Entry, u64), Error> {
        let check = |len: usize, limit: u32| match u32::try_from(len) {
            Ok(len) if len <= limit => Ok(len),
            _ => Err(Error::TooLarge { kind: label.kind, len: len as u64, limit: u64::from(limit) }),
        };
        let (max_stored, max_raw) = label.kind.max_lens();
        let raw_len = check(raw.len(), max_raw)?;
        let items = if label.kind == Kind::INDEX { 0 } else { u64::from(label.items) };
        let compressed = shrunk(&mut self.compressor, raw, items)?;
        let (codec, stored) = match &compressed {
            Some(compressed) => (Codec::Zstd, &compressed[..]),
            None => (Codec::Raw, raw),
        };
        let header = BlockHeader {
            kind: label.kind,
            version: label.version,
            codec,
            items: label.items,
            sequence: 0,
            first_ns: label.span_ns.0,
            last_ns: label.span_ns.1,
            stored_len: check(stored.len(), max_stored)?,
            raw_len,
            payload_crc: crc32fast::hash(stored),
            processes: label.processes,
        };
        self.put_block(header, stored)
    }

    /// Writes one block after the last one; returns its offset and the bytes that it takes.
    fn put_block(&mut self, header: BlockHeader, stored: &[u8]) -> Result<(Entry, u64), Error> {
        let header = BlockHeader { sequence: self.entries.len() as u64, ..header };
        // A multiple of the alignment, unless a stream is torn.
        let start = self.end;
        let off = start.next_multiple_of(limits::ALIGN);
        let next = header.next(off);
        let mut bytes = Vec::with_capacity((next - start) as usize);
        bytes.resize((off - start) as usize, 0);
        bytes.extend_from_slice(&header.encode(self.header.seed()));
        bytes.extend_from_slice(stored);
        bytes.resize((next - start) as usize, 0);
        self.put(&bytes)?;
        Ok((Entry { off, header }, next - start))
    }

    /// Writes bytes after the last ones.
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match self.sink.put(self.end, bytes) {
            Ok(()) => {
                self.end += bytes.len() as u64;
                Ok(())
            }
            Err(torn) => {
                self.end += torn.stays;
                Err(torn.cause.into())
            }
        }
    }
}

/// Compresses a payload; `None` if it is stored as it is.
fn shrunk(compressor: &mut Compressor, raw: &[u8], items: u64) -> std::io::Result<Option<Vec<u8>>> {
    if raw.len() <= RAW_UP_TO {
        return Ok(None);
    }
    let compressed = compressor.compress(raw)?;
    // A reader refuses a payload that shrinks beyond its limits, so such a payload is stored raw.
    let shrinks = (1..raw.len()).contains(&compressed.len())
        && limits::is_believed(compressed.len() as u64, raw.len() as u64, items);
    Ok(shrinks.then_some(compressed))
}

/// Measures how many bytes a writer would store for given bytes.
pub struct Measure(Compressor);

impl std::fmt::Debug for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Measure").finish_non_exhaustive()
    }
}

impl Measure {
    /// Gets ready to compress.
    ///
    /// # Errors
    /// [`Error::Io`] if there is no memory for it.
    pub fn new() -> Result<Self, Error> {
        Ok(Self(Compressor::new()?))
    }

    /// Compresses bytes and throws the result away.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be compressed.
    pub fn stored_len(&mut self, raw: &[u8]) -> Result<usize, Error> {
        Ok(shrunk(&mut self.0, raw, 0)?.map_or(raw.len(), |compressed| compressed.len()))
    }
}
