//! Lists the records of a perf.data file in the order of the file.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::FileExt as _;

use icecore_format::read::Damage;
use zstd::stream::raw::{Decoder, InBuffer, Operation as _, OutBuffer};

use super::bytes::Bytes;
use super::damage;
use crate::Error;

/// A record's header: type, misc, length.
const HEADER_LEN: usize = 8;
const TRACING_DATA: u32 = 66;
const AUXTRACE: u32 = 71;
const COMPRESSED: u32 = 81;
/// The record is padded, so its length precedes the compressed data.
const COMPRESSED_2: u32 = 83;
/// Bytes that are read at once.
const BUFFER_BYTES: usize = 1 << 20;
/// Bytes that are decompressed at once: one block of zstd.
const UNPACKED_AT_ONCE: usize = 128 << 10;
/// The largest accepted ratio of decompression.
const MAX_RATIO: u64 = icecore_format::limits::MAX_RATIO;

/// The position of a record, for reading it again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in super::super) struct At {
    /// The offset of its body in its file.
    off: u64,
    /// The file, a position in [`Records::files`].
    file: u16,
    len: u16,
    pub(in super::super) misc: u16,
}

impl At {
    /// Returns the offset of its body in its file, which may be one of decompressed data.
    pub(super) fn offset(self) -> u64 {
        self.off
    }
}

/// One record.
#[derive(Debug)]
pub(super) struct Record<'a> {
    pub(super) kind: u32,
    pub(super) body: &'a [u8],
    pub(super) at: At,
}

/// Reads records.
#[derive(Debug, Default)]
pub(super) struct Records {
    /// The files, and behind each that has compressed records an unnamed one with what they hold.
    files: Vec<File>,
}

impl Records {
    /// Reads a record again.
    ///
    /// # Errors
    /// If reading fails.
    pub(super) fn body<'b>(&self, at: At, buffer: &'b mut Vec<u8>) -> io::Result<&'b [u8]> {
        buffer.resize(usize::from(at.len), 0);
        self.files[usize::from(at.file)].read_exact_at(buffer, at.off)?;
        Ok(buffer)
    }

    /// Passes every record of a section of a file to `take`, up to the first one that is truncated or invalid.
    ///
    /// # Errors
    /// If reading fails, or `take` does.
    pub(super) fn walk(
        &mut self,
        whole: File,
        part: std::ops::Range<u64>,
        mut take: impl FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<Option<Damage>, Error> {
        let number = self.files.len() as u16;
        let mut file = BufReader::with_capacity(BUFFER_BYTES, &whole);
        file.seek(SeekFrom::Start(part.start))?;
        let (mut off, mut body, mut packed) = (part.start, Vec::new(), None);
        let wrong = loop {
            let left = part.end.saturating_sub(off);
            if left == 0 {
                break None;
            }
            let broken = |cause: String| Some(damage(off, cause));
            let mut header = [0; HEADER_LEN];
            if left < HEADER_LEN as u64 {
                break broken(format!("a record is truncated: {left} bytes are left"));
            }
            file.read_exact(&mut header)?;
            let (kind, misc, len) = decode(header);
            let Some(body_len) = usize::from(len).checked_sub(HEADER_LEN).filter(|_| u64::from(len) <= left)
            else {
                break broken(format!("a record of {len} bytes is invalid: {left} bytes are left"));
            };
            body.resize(body_len, 0);
            file.read_exact(&mut body)?;
            let mut next = off + u64::from(len);
            let at = At { off: off + HEADER_LEN as u64, file: number, len: body_len as u16, misc };
            match kind {
                COMPRESSED | COMPRESSED_2 => {
                    let packed = packed.get_or_insert_with(|| Unpacker::new(number + 1));
                    let done = match packed {
                        Ok(packed) => packed.take(kind, &body, &mut take)?,
                        Err(error) => Some(error.to_string()),
                    };
                    if let Some(cause) = done {
                        break broken(cause);
                    }
                }
                // The data of these records follows them.
                AUXTRACE | TRACING_DATA => {
                    let mut bytes = Bytes(&body);
                    let more = if kind == AUXTRACE {
                        bytes.u64()
                    } else {
                        bytes.u32().map(|len| u64::from(len).next_multiple_of(8))
                    };
                    let Some(end) =
                        more.and_then(|more| next.checked_add(more)).filter(|end| *end <= part.end)
                    else {
                        break broken("a record is truncated: its data ends after the records".to_owned());
                    };
                    next = end;
                    file.seek(SeekFrom::Start(next))?;
                    take(Record { kind, body: &body, at })?;
                }
                _ => take(Record { kind, body: &body, at })?,
            }
            off = next;
        };
        self.files.push(whole);
        self.files.extend(packed.and_then(Result::ok).map(|packed| packed.file));
        Ok(wrong)
    }
}

fn decode(header: [u8; HEADER_LEN]) -> (u32, u16, u16) {
    let [a, b, c, d, e, f, g, h] = header;
    (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([e, f]), u16::from_le_bytes([g, h]))
}

/// Decompresses the records of `perf record -z`: one zstd stream over all of them.
struct Unpacker {
    decoder: Decoder<'static>,
    file: File,
    /// The position of the file in [`Records::files`].
    number: u16,
    file_len: u64,
    packed_len: u64,
    /// The beginning of a record whose end is in the next compressed one.
    rest: Vec<u8>,
    out: Vec<u8>,
}

impl Unpacker {
    fn new(number: u16) -> Result<Self, Error> {
        let file = tempfile::tempfile().map_err(|source| Error::Temporary {
            what: "cannot make a file for what is decompressed; set TMPDIR to a folder with room",
            source,
        })?;
        let (decoder, out) = (Decoder::new()?, vec![0; UNPACKED_AT_ONCE]);
        Ok(Self { decoder, file, number, file_len: 0, packed_len: 0, rest: Vec::new(), out })
    }

    /// Decompresses one record; returns what is wrong with it.
    fn take(
        &mut self,
        kind: u32,
        body: &[u8],
        take: &mut impl FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<Option<String>, Error> {
        let mut bytes = Bytes(body);
        let packed = match kind {
            COMPRESSED_2 => bytes.u64().and_then(|len| bytes.take(usize::try_from(len).ok()?)),
            _ => Some(body),
        };
        let Some(packed) = packed else {
            return Ok(Some("compressed records are shorter than they claim".to_owned()));
        };
        self.packed_len += packed.len() as u64;
        let mut input = InBuffer::around(packed);
        loop {
            let mut out = OutBuffer::around(&mut self.out[..]);
            if let Err(error) = self.decoder.run(&mut input, &mut out) {
                return Ok(Some(format!("compressed records cannot be read: {error}")));
            }
            let len = out.pos();
            self.rest.extend_from_slice(&self.out[..len]);
            if self.file_len + self.rest.len() as u64 > self.packed_len.saturating_mul(MAX_RATIO) + (1 << 20)
            {
                return Ok(Some("compressed records claim an impossible length".to_owned()));
            }
            if let Some(cause) = self.hand_over(take)? {
                return Ok(Some(cause));
            }
            if len < self.out.len() && input.pos() == packed.len() {
                return Ok(None);
            }
        }
    }

    /// Passes on the whole records, and stores them for reading again.
    fn hand_over(
        &mut self,
        take: &mut impl FnMut(Record<'_>) -> Result<(), Error>,
    ) -> Result<Option<String>, Error> {
        let (mut off, mut wrong) = (0, None);
        while let Some(header) = self.rest[off..].first_chunk() {
            let (kind, misc, len) = decode(*header);
            let Some(body_len) = usize::from(len).checked_sub(HEADER_LEN) else {
                wrong = Some(format!("a compressed record of {len} bytes is invalid"));
                break;
            };
            let Some(body) = self.rest[off + HEADER_LEN..].get(..body_len) else { break };
            let at = At {
                off: self.file_len + (off + HEADER_LEN) as u64,
                file: self.number,
                len: body_len as u16,
                misc,
            };
            take(Record { kind, body, at })?;
            off += usize::from(len);
        }
        self.file.write_all(&self.rest[..off]).map_err(|source| Error::Temporary {
            what: "cannot keep what is decompressed; set TMPDIR to a folder with more room",
            source,
        })?;
        self.file_len += off as u64;
        self.rest.drain(..off);
        Ok(wrong)
    }
}
