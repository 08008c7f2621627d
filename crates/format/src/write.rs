//! The streaming writer: blocks are appended, then index and tail.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

use crate::block::{self, BlockHeader, Codec, Kind};
use crate::codec::Compressor;
use crate::header::{FileHeader, Mark};
use crate::index::{Entry, Tail};
use crate::records::Payload;
use crate::{Error, limits};

/// Payloads up to this many bytes are stored raw, ready to be used in place.
const RAW_UP_TO: usize = 64;

/// Appends blocks to a file. Every block that [`Writer::append`] accepted is readable whatever happens
/// afterwards; index and tail only make opening fast.
#[derive(Debug)]
pub struct Writer {
    file: File,
    header: FileHeader,
    compressor: CompressorBox,
    entries: Vec<Entry>,
    end: u64,
}

struct CompressorBox(Compressor);

impl std::fmt::Debug for CompressorBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compressor")
    }
}

impl Writer {
    /// Begins a recording in an empty file; `uuid` is random.
    ///
    /// # Errors
    /// [`Error::Io`] if the header cannot be written.
    pub fn create(mut file: File, uuid: [u8; 16]) -> Result<Self, Error> {
        let header = FileHeader { mark: Mark::Open, incompatible: 0, compatible: 0, uuid };
        file.write_all(&header.encode())?;
        let end = crate::header::LEN as u64;
        Ok(Self { file, header, compressor: CompressorBox(Compressor::new()?), entries: Vec::new(), end })
    }

    /// Appends one block and returns the bytes that it takes in the file.
    ///
    /// # Errors
    /// [`Error::Io`] if the file does not take it: what was written of it is cut off again, the blocks
    /// in front of it stay, and the writer can go on. [`Error::TooLarge`] beyond the limits.
    pub fn append<P: Payload>(&mut self, payload: &P) -> Result<u64, Error> {
        let raw = payload.to_bytes()?;
        let items = u32::try_from(payload.items()).unwrap_or(u32::MAX);
        self.append_bytes(P::KIND, P::VERSION, items, payload.span_ns(), &raw)
    }

    /// Tells how many bytes the file has so far.
    pub fn len_bytes(&self) -> u64 {
        self.end
    }

    /// Writes index and tail, syncs, and marks the file closed. Returns its length in bytes.
    ///
    /// # Errors
    /// [`Error::Io`]; the file then stays open-marked, and its blocks are readable.
    pub fn finish(mut self) -> Result<u64, Error> {
        let index_off = self.end;
        let rows: Vec<u8> = self.entries.iter().flat_map(Entry::encode).collect();
        let count = self.entries.len() as u32;
        let done = self.append_bytes(Kind::INDEX, 1, count, (0, 0), &rows).and_then(|_| {
            let file_len = self.end + crate::index::TAIL_LEN as u64;
            let tail = Tail { index_off, file_len, rows: count };
            self.file.write_all(&tail.encode(self.header.seed()))?;
            self.file.sync_data()?;
            let closed = FileHeader { mark: Mark::Closed, ..self.header };
            self.file.write_all_at(&closed.encode(), 0)?;
            self.file.sync_data()?;
            Ok(file_len)
        });
        if done.is_err() {
            self.cut_back_to(index_off);
        }
        done
    }

    fn append_bytes(
        &mut self,
        kind: Kind,
        version: u16,
        items: u32,
        span: (u64, u64),
        raw: &[u8],
    ) -> Result<u64, Error> {
        let check = |len: usize, limit: u32| match u32::try_from(len) {
            Ok(len) if len <= limit => Ok(len),
            _ => Err(Error::TooLarge { kind, len: len as u64, limit: u64::from(limit) }),
        };
        let (max_raw, max_stored) = match kind {
            Kind::INDEX => (limits::MAX_INDEX_LEN, limits::MAX_INDEX_LEN),
            _ => (limits::MAX_RAW_LEN, limits::MAX_STORED_LEN),
        };
        let raw_len = check(raw.len(), max_raw)?;
        let compressed;
        let (codec, stored) = if kind == Kind::INDEX || raw.len() <= RAW_UP_TO {
            (Codec::Raw, raw)
        } else {
            compressed = self.compressor.0.compress(raw)?;
            if compressed.len() < raw.len() { (Codec::Zstd, &compressed[..]) } else { (Codec::Raw, raw) }
        };
        let header = BlockHeader {
            kind,
            version,
            codec,
            items,
            sequence: self.entries.len() as u64,
            first_ns: span.0,
            last_ns: span.1,
            stored_len: check(stored.len(), max_stored)?,
            raw_len,
            payload_crc: crc32fast::hash(stored),
        };
        let off = self.end;
        let next = header.next(off);
        let mut bytes = Vec::with_capacity((next - off) as usize);
        bytes.extend_from_slice(&header.encode(self.header.seed()));
        bytes.extend_from_slice(stored);
        bytes.resize((next - off) as usize, 0);
        debug_assert!(bytes.len() >= block::LEN);
        if let Err(error) = self.file.write_all(&bytes) {
            self.cut_back_to(off);
            return Err(error.into());
        }
        self.entries.push(Entry { off, header });
        self.end = next;
        Ok(next - off)
    }

    /// Cuts off a torn block. If that fails as well, the reader finds it by its checksum.
    fn cut_back_to(&mut self, end: u64) {
        self.end = end;
        let cut = self.file.set_len(end).and_then(|()| self.file.seek(SeekFrom::Start(end)));
        drop(cut);
    }
}
