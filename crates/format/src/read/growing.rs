//! Reads a recording that is being written, block by block, as they come. It copies what it reads: a map of a file that somebody cuts
//! short would end the program.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rkyv::util::AlignedVec;

use super::{PayloadBytes, decoded};
use crate::block::{self, BlockHeader, Kind};
use crate::error::Error;
use crate::header::{self, FileHeader};
use crate::index::Entry;
use crate::records::{Block, Layout};

/// How often a block that cannot be used is looked at again before that is an error: its writer may not have written all of it, or cut it
/// off and write again.
const LOOKS: u32 = 3;

/// A recording that is being written, and how far it was read.
#[derive(Debug)]
pub struct Growing {
    file: File,
    seed: u32,
    /// Where the next block begins.
    off: u64,
    /// Where the payload of the last block ends. The bytes from there to the next block may not be written yet.
    end: u64,
    /// How often the next block could not be used.
    looks: u32,
    has_end: bool,
}

impl Growing {
    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::NoHeader`] if it has no whole header yet; else as [`super::Recording::open`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path)?;
        if !file.metadata()?.is_file() {
            let cause = "not a regular file: a pipe cannot be followed";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, cause).into());
        }
        let mut head = [0; header::LEN];
        let len = read_up_to(&file, &mut head, 0)?;
        if len == 0 {
            return Err(Error::NoHeader { len: 0 });
        }
        let seed = FileHeader::decode(&head[..len])?.seed();
        let end = header::LEN as u64;
        Ok(Self { file, seed, off: end, end, looks: 0, has_end: false })
    }

    /// Returns the next block; `None` if no further one is whole yet, or the index ends the recording.
    ///
    /// # Errors
    /// If the file has become shorter than what was read of it; if what comes next is no block, and does not become one.
    ///
    /// # Cost
    /// Two system calls; no payload is read.
    pub fn next_block(&mut self) -> Result<Option<Entry>, Error> {
        if self.has_end {
            return Ok(None);
        }
        let (off, len) = (self.off, self.file.metadata()?.len());
        if len < self.end {
            let cause = format!("it has become shorter than the {} bytes that were read of it", self.end);
            return Err(Error::Malformed { what: "recording", off: len, cause });
        }
        if len < off.saturating_add(block::LEN as u64) {
            return Ok(None);
        }
        let mut bytes = [0; block::LEN];
        self.file.read_exact_at(&mut bytes, off)?;
        let header = match BlockHeader::decode_alone(&bytes, 0, self.seed) {
            Ok(header) => header,
            Err(_) if self.looks < LOOKS => {
                self.looks += 1;
                return Ok(None);
            }
            Err(error) => {
                let cause = format!("{error}; `verify` and `repair` read what follows");
                return Err(Error::Malformed { what: "block", off, cause });
            }
        };
        if header.missing(off, len) > 0 {
            return Ok(None);
        }
        self.looks = 0;
        (self.off, self.end) = (header.next(off), header.end(off));
        self.has_end = header.kind == Kind::INDEX;
        Ok(Some(Entry { off, header }))
    }

    /// Reads, checks and, if needed, decompresses the payload of a block.
    ///
    /// # Errors
    /// [`Error::Checksum`] or [`Error::Malformed`] with the offset of the payload; else as the file system says.
    pub fn payload(&self, entry: &Entry) -> Result<PayloadBytes<'static>, Error> {
        let (header, off) = (&entry.header, BlockHeader::payload_off(entry.off));
        let mut stored = AlignedVec::<16>::with_capacity(header.stored_len as usize);
        stored.resize(header.stored_len as usize, 0);
        self.file.read_exact_at(&mut stored, off)?;
        let computed = crc32fast::hash(&stored);
        if computed != header.payload_crc {
            return Err(Error::Checksum { what: "block payload", off, found: header.payload_crc, computed });
        }
        match decoded(&stored, off, header)? {
            PayloadBytes::Decompressed(bytes) => Ok(PayloadBytes::Decompressed(bytes)),
            PayloadBytes::Stored(_) => Ok(PayloadBytes::Decompressed(stored)),
        }
    }

    /// Decodes a block, as [`super::Recording::block`] does.
    ///
    /// # Errors
    /// As [`Growing::payload`] and [`Block::decode`].
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

    /// Returns true if nobody holds the lock that a recorder holds on the file that it writes; false if somebody does, or the file system
    /// has no locks.
    pub fn is_abandoned(&self) -> bool {
        let is_free = self.file.try_lock_shared().is_ok();
        // The lock must not outlive this look; closing the file would give it back, too.
        let _ = self.file.unlock();
        is_free
    }

    /// Returns true if a path leads to this very file.
    pub fn is_at(&self, path: &Path) -> bool {
        let identity = |meta: std::fs::Metadata| (meta.dev(), meta.ino());
        let own = self.file.metadata().map(identity);
        path.metadata().map(identity).is_ok_and(|there| own.is_ok_and(|own| own == there))
    }
}

/// Fills a buffer as far as the file has bytes; returns how many it has.
fn read_up_to(file: &File, buffer: &mut [u8], off: u64) -> io::Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], off + len as u64) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write as _;

    /// The bytes of a block whose payload nobody decodes.
    fn block(kind: Kind, sequence: u64, payload: &[u8], seed: u32) -> Vec<u8> {
        let len = payload.len() as u32;
        let header = BlockHeader {
            kind,
            version: 1,
            codec: crate::block::Codec::Raw,
            items: 1,
            sequence,
            first_ns: 0,
            last_ns: 0,
            stored_len: len,
            raw_len: len,
            payload_crc: crc32fast::hash(payload),
            processes: crate::block::Processes::NONE,
        };
        let mut bytes = [&header.encode(seed)[..], payload].concat();
        bytes.resize(header.next(0) as usize, 0);
        bytes
    }

    fn file_header() -> FileHeader {
        FileHeader { mark: header::EndMark::Open, incompatible: 0, compatible: 0, uuid: [7; 16] }
    }

    #[test]
    fn a_block_is_there_once_its_last_byte_is() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x");
        let header = file_header();
        let blocks = [b"first".as_slice(), &[9; 100]];
        let blocks = [0, 1].map(|at| block(Kind::STRINGS, at as u64, blocks[at], header.seed()));
        let whole = [&header.encode()[..], &blocks[0], &blocks[1]].concat();
        let ends = [header::LEN + block::LEN + 5, header::LEN + blocks[0].len() + block::LEN + 100];
        fs::write(&path, &whole[..10]).expect("room");
        assert!(matches!(Growing::open(&path), Err(Error::NoHeader { len: 10 })));
        fs::write(&path, &whole[..header::LEN]).expect("room");
        let mut growing = Growing::open(&path).expect("a header");
        let mut file = fs::File::options().append(true).open(&path).expect("ours");
        let mut seen = 0;
        for (at, byte) in whole.iter().enumerate().skip(header::LEN) {
            file.write_all(&[*byte]).expect("room");
            let len = at + 1;
            if let Some(entry) = growing.next_block().expect("no error") {
                assert_eq!(len, ends[seen], "block {seen}");
                let payload = growing.payload(&entry).expect("whole");
                assert_eq!(payload.as_bytes().len(), [5, 100][seen]);
                seen += 1;
            }
        }
        assert_eq!(seen, 2);
        file.set_len(100).expect("ours");
        let text = growing.next_block().expect_err("it shrank").to_string();
        assert!(text.contains("has become shorter than"), "{text}");
    }

    #[test]
    fn what_becomes_no_block_is_an_error_in_the_end() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("x");
        fs::write(&path, [&file_header().encode()[..], &[0xab; 200]].concat()).expect("room");
        let mut growing = Growing::open(&path).expect("a header");
        for _ in 0..LOOKS {
            assert!(matches!(growing.next_block(), Ok(None)));
        }
        let text = growing.next_block().expect_err("no block").to_string();
        assert!(text.starts_with("block at byte 64: block header at byte 0: begins with [ab"), "{text}");
        assert!(growing.is_at(&path) && !growing.is_at(dir.path()));
        let recorder = File::open(&path).expect("it is there");
        recorder.lock().expect("nobody has it");
        assert!(!growing.is_abandoned(), "a recorder has its lock");
        drop(recorder);
        assert!(growing.is_abandoned() && growing.is_abandoned());
    }
}
