//! Provides the bytes of sections: mapped as they lie in the file, or decompressed once.
//!
//! The file is mapped, not read: `.debug_info` alone may have a gigabyte, of which the report reads little. If another program
//! truncates the file meanwhile, the operating system ends the report with SIGBUS. Linkers, compilers and package managers write
//! a new file instead. The length is compared once more after mapping. So the only danger left is a program that overwrites, in
//! these very seconds, the build that the recording is about.

use std::io::Read;
use std::ops::Range;

use memmap2::{Mmap, MmapOptions};
use object::Endianness;
use object::read::ReadRef;
use rayon::prelude::*;

use super::budget::{self, Held};
use super::{ElfFile, Layout, Present, Section};

/// The largest ratio that is accepted: zlib cannot do better, and zstd does not with debug information.
const MAX_RATIO: u64 = 1032;

/// The types of compression in ELF: zlib, zstd.
const ELFCOMPRESS: [(u32, Codec); 2] = [(1, Codec::Zlib), (2, Codec::Zstd)];
/// The beginning of `.zdebug_*`, before the length (big-endian, 8 bytes) and a zlib stream.
const ZDEBUG_MAGIC: &[u8] = b"ZLIB";

#[derive(Debug, Clone, Copy)]
enum Codec {
    Zlib,
    Zstd,
}

/// A mapped file whose missing bytes cannot be read.
#[derive(Debug, Clone, Copy)]
pub struct Readable<'a> {
    map: &'a [u8],
    present: Option<&'a Present>,
}

impl<'a> ReadRef<'a> for Readable<'a> {
    fn len(self) -> Result<u64, ()> {
        ReadRef::len(self.map)
    }

    fn read_bytes_at(self, off: u64, len: u64) -> Result<&'a [u8], ()> {
        let is_there = self.present.is_none_or(|present| present.has(off, len));
        if is_there { self.map.read_bytes_at(off, len) } else { Err(()) }
    }

    fn read_bytes_at_until(self, range: Range<u64>, delimiter: u8) -> Result<&'a [u8], ()> {
        let found = self.map.read_bytes_at_until(range.clone(), delimiter)?;
        self.read_bytes_at(range.start, found.len() as u64 + 1).map(|_| found)
    }
}

/// The sections of one file.
#[derive(Debug)]
pub struct Sections {
    map: Mmap,
    endian: Endianness,
    parts: Vec<(Vec<u8>, Bytes)>,
    /// The part of the budget that the decompressed sections take.
    _held: Held,
}

#[derive(Debug)]
enum Bytes {
    /// A range of the map.
    Mapped(Range<usize>),
    Decompressed(Vec<u8>),
}

impl ElfFile {
    /// Maps the whole file; `None` if it is empty, the system refuses, or the file has changed since it was opened.
    pub fn map(&self) -> Option<Mmap> {
        let len = usize::try_from(self.len).ok().filter(|len| *len > 0)?;
        let map = self.try_map(len);
        if map.is_none() {
            budget::refuse();
        }
        map
    }

    fn try_map(&self, len: usize) -> Option<Mmap> {
        // SAFETY: the map is only read. That nobody truncates the file meanwhile cannot be ensured; the consequence
        // (SIGBUS, no unsoundness beyond it) is documented at the head of this module.
        #[allow(unsafe_code)]
        let map = unsafe { MmapOptions::new().len(len).map(self.handle()).ok()? };
        (self.handle().metadata().ok()?.len() == self.len).then_some(map)
    }

    /// Returns the file for readers of headers and tables: its map, without the missing bytes of a file of pieces.
    pub fn readable<'a>(&'a self, map: &'a Mmap) -> Readable<'a> {
        Readable { map, present: self.present() }
    }
}

impl Sections {
    /// Opens the sections that `is_wanted` chooses by name; `.zdebug_x` goes by the name `.debug_x`. A section that is torn,
    /// claims too much, or does not decompress is empty. `None` if the file cannot be mapped, or the sections claim more than the
    /// rest of the budget.
    pub fn open(file: &ElfFile, layout: &Layout, is_wanted: impl Fn(&str) -> bool) -> Option<Self> {
        let map = file.map()?;
        let is_64 = layout.address_size == 8;
        let mut wanted = Vec::new();
        let mut claimed: u64 = 0;
        for section in layout.sections.iter().filter(|section| !section.is_nobits && section.len > 0) {
            let Ok(name) = std::str::from_utf8(&section.name) else { continue };
            let old = name.strip_prefix(".zdebug_").map(|rest| format!(".debug_{rest}"));
            if !is_wanted(old.as_deref().unwrap_or(name)) {
                continue;
            }
            let packed = Packed::of(&map, section, layout.endian, is_64, old.is_some());
            let Some(packed) = packed else { continue };
            claimed = claimed.saturating_add(packed.raw_len());
            wanted.push((old.unwrap_or_else(|| name.to_owned()).into_bytes(), packed));
        }
        let held = Held::take(claimed)?;
        let parts = wanted.into_par_iter().filter_map(|(name, packed)| Some((name, packed.open(&map)?)));
        let parts = parts.collect();
        Some(Self { map, endian: layout.endian, parts, _held: held })
    }

    /// Returns the whole file.
    pub fn file(&self) -> &[u8] {
        &self.map
    }

    /// Returns the bytes of a section; none if the file lacks it.
    pub fn bytes(&self, name: &str) -> &[u8] {
        match self.parts.iter().find(|part| part.0 == name.as_bytes()) {
            Some((_, Bytes::Mapped(range))) => &self.map[range.clone()],
            Some((_, Bytes::Decompressed(bytes))) => bytes,
            None => &[],
        }
    }

    /// Returns how many bytes the sections have together.
    pub(crate) fn len(&self) -> usize {
        let len = |part: &(Vec<u8>, Bytes)| match &part.1 {
            Bytes::Mapped(range) => range.len(),
            Bytes::Decompressed(bytes) => bytes.len(),
        };
        self.parts.iter().map(len).sum()
    }

    /// Returns the byte order of the file.
    pub(crate) fn endian(&self) -> Endianness {
        self.endian
    }
}

/// A section as it lies in the file, after its claims were checked.
enum Packed {
    Plain(Range<usize>),
    Compressed { codec: Codec, stream: Range<usize>, raw_len: usize },
}

impl Packed {
    fn of(map: &[u8], section: &Section, endian: Endianness, is_64: bool, is_old: bool) -> Option<Self> {
        let begin = usize::try_from(section.off.0).ok()?;
        let range = begin..begin.checked_add(usize::try_from(section.len).ok()?)?;
        let bytes = map.get(range.clone())?;
        let (codec, raw_len, header_len) = if section.compressed_from.is_some() {
            compression_header(bytes, endian, is_64)?
        } else if is_old {
            let raw_len = bytes.strip_prefix(ZDEBUG_MAGIC)?.first_chunk::<8>()?;
            (Codec::Zlib, u64::from_be_bytes(*raw_len), ZDEBUG_MAGIC.len() + 8)
        } else {
            return Some(Self::Plain(range));
        };
        if raw_len / MAX_RATIO > section.len {
            return None;
        }
        let raw_len = usize::try_from(raw_len).ok()?;
        Some(Self::Compressed { codec, stream: range.start + header_len..range.end, raw_len })
    }

    fn raw_len(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Compressed { raw_len, .. } => *raw_len as u64,
        }
    }

    fn open(self, map: &[u8]) -> Option<Bytes> {
        let (codec, stream, raw_len) = match self {
            Self::Plain(range) => return Some(Bytes::Mapped(range)),
            Self::Compressed { codec, stream, raw_len } => (codec, &map[stream], raw_len),
        };
        let mut raw = Vec::new();
        raw.try_reserve_exact(raw_len).ok()?;
        let limit = raw_len as u64;
        match codec {
            Codec::Zlib => {
                flate2::bufread::ZlibDecoder::new(stream).take(limit).read_to_end(&mut raw).ok()?
            }
            Codec::Zstd => {
                let stream = zstd::stream::read::Decoder::with_buffer(stream).ok()?;
                stream.take(limit).read_to_end(&mut raw).ok()?
            }
        };
        (raw.len() == raw_len).then_some(Bytes::Decompressed(raw))
    }
}

/// Reads `Elf64_Chdr` (type u32, reserved u32, size u64, alignment u64) or `Elf32_Chdr` (type, size, alignment: u32).
fn compression_header(bytes: &[u8], endian: Endianness, is_64: bool) -> Option<(Codec, u64, usize)> {
    let word = |off: usize| {
        let word = *bytes.get(off..)?.first_chunk::<4>()?;
        Some(if endian == Endianness::Little { u32::from_le_bytes(word) } else { u32::from_be_bytes(word) })
    };
    let (_, codec) = ELFCOMPRESS.into_iter().find(|(kind, _)| Some(*kind) == word(0))?;
    if !is_64 {
        return Some((codec, word(4)?.into(), 12)).filter(|_| bytes.len() >= 12);
    }
    let raw_len = *bytes.get(8..)?.first_chunk::<8>()?;
    let raw_len =
        if endian == Endianness::Little { u64::from_le_bytes(raw_len) } else { u64::from_be_bytes(raw_len) };
    Some((codec, raw_len, 24)).filter(|_| bytes.len() >= 24)
}
