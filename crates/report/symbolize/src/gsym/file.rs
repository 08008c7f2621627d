//! The tables of a file, and the records that they lead to.
//!
//! ```text
//! header │ addresses │ offsets of records │ files: count, (directory, name)… │ … │ strings │ … │ records
//!          sorted      4 bytes each         offsets of strings
//! ```

use gimli::{EndianSlice, Reader, RunTimeEndian};
use object::Endianness;

use super::{Broken, Guard, Slice};
use crate::image::{GSYM_HEADER_LEN, GsymHeader, Svma};

/// The longest string that is read, bytes.
const MAX_STRING_LEN: usize = 64 << 10;
/// What ends the parts of a record, and the parts that are read.
const END: u32 = 0;
const LINES: u32 = 1;
const INLINED: u32 = 2;

/// A file, its tables found.
pub(super) struct File<'d> {
    header: GsymHeader,
    count: usize,
    bytes: &'d [u8],
    addresses: &'d [u8],
    records: &'d [u8],
    files: &'d [u8],
    strings: &'d [u8],
    endian: RunTimeEndian,
}

/// A function.
pub(super) struct Record<'d> {
    pub(super) start: Svma,
    /// It has a size; without one it may reach up to the next.
    pub(super) is_sized: bool,
    /// Where it ends, or the next one begins.
    pub(super) until: Svma,
    /// Offset of its name.
    pub(super) name: u32,
    parts: Slice<'d>,
}

/// What a record may have.
#[derive(Default)]
pub(super) struct Parts<'d> {
    pub(super) lines: Option<Slice<'d>>,
    pub(super) inlined: Option<Slice<'d>>,
}

impl<'d> File<'d> {
    /// Finds the tables; `None` if they are not all in the file.
    pub(super) fn open(bytes: &'d [u8]) -> Option<Self> {
        let header = GsymHeader::parse(bytes)?;
        let endian = match header.endian {
            Endianness::Little => RunTimeEndian::Little,
            Endianness::Big => RunTimeEndian::Big,
        };
        let count = usize::try_from(header.count).ok()?;
        let table = |off: usize, len: usize| bytes.get(off..off.checked_add(len)?);
        let addresses = table(GSYM_HEADER_LEN, count.checked_mul(header.address_len)?)?;
        let records_off = (GSYM_HEADER_LEN + addresses.len()).checked_next_multiple_of(4)?;
        let records = table(records_off, count.checked_mul(4)?)?;
        let files_off = records_off + records.len();
        let file_count = EndianSlice::new(table(files_off, 4)?, endian).read_u32().ok()?;
        let files = table(files_off + 4, usize::try_from(file_count).ok()?.checked_mul(8)?)?;
        let strings_off = usize::try_from(header.strings_off).ok()?;
        let strings = table(strings_off, usize::try_from(header.strings_len).ok()?)?;
        Some(Self { header, count, bytes, addresses, records, files, strings, endian })
    }

    /// Finds the record around an address: of those that begin next before it, the first that covers it.
    pub(super) fn find(&self, at: Svma, guard: &Guard) -> Result<Option<Record<'d>>, Broken> {
        let behind = self.begin_behind(at);
        let Some(last) = behind.checked_sub(1) else { return Ok(None) };
        let start = self.address(last).ok_or(Broken)?;
        let next = self.address(behind).filter(|_| behind < self.count);
        let mut found = None;
        for position in (0..=last).rev().take_while(|position| self.address(*position) == Some(start)) {
            guard.spend(1)?;
            let record = self.record(position, start, next)?;
            if !record.is_sized || at < record.until {
                found = Some(record);
            }
        }
        Ok(found)
    }

    /// Counts the records that begin at an address or before.
    fn begin_behind(&self, at: Svma) -> usize {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.address(middle).is_some_and(|begin| begin <= at) {
                low = middle + 1
            } else {
                high = middle
            }
        }
        low
    }

    fn address(&self, position: usize) -> Option<Svma> {
        let len = self.header.address_len;
        let mut entry = self.slice(self.addresses.get(position * len..)?.get(..len)?);
        let relative = entry.read_uint(len).ok()?;
        self.header.base.0.checked_add(relative).map(Svma)
    }

    fn record(&self, position: usize, start: Svma, next: Option<Svma>) -> Result<Record<'d>, Broken> {
        let off = self.slice(self.records.get(position * 4..).ok_or(Broken)?).read_u32()?;
        let mut parts = self.slice(self.bytes.get(off as usize..).ok_or(Broken)?);
        let (size, name) = (parts.read_u32()?, parts.read_u32()?);
        let is_sized = size > 0;
        let end = if is_sized { start.0.saturating_add(size.into()) } else { u64::MAX };
        let until = Svma(next.map_or(end, |next| next.0.min(end)));
        Ok(Record { start, is_sized, until, name, parts })
    }

    /// A string without the zero behind it.
    pub(super) fn string(&self, off: u32) -> Option<&'d [u8]> {
        let rest = self.strings.get(off as usize..)?;
        let len = rest.iter().take(MAX_STRING_LEN).position(|byte| *byte == 0)?;
        Some(&rest[..len])
    }

    /// The path of a file; empty if it has none.
    pub(super) fn path(&self, number: u64) -> Option<Vec<u8>> {
        let at = usize::try_from(number).ok()?.checked_mul(8)?;
        let mut entry = self.slice(self.files.get(at..)?);
        let directory = self.string(entry.read_u32().ok()?)?;
        let name = self.string(entry.read_u32().ok()?)?;
        let between: &[u8] = if directory.is_empty() || directory.ends_with(b"/") { b"" } else { b"/" };
        Some([directory, between, name].concat())
    }

    fn slice(&self, bytes: &'d [u8]) -> Slice<'d> {
        EndianSlice::new(bytes, self.endian)
    }
}

impl<'d> Record<'d> {
    /// Finds its parts: kind, length, bytes; of several of a kind the first.
    pub(super) fn parts(&self, guard: &Guard) -> Result<Parts<'d>, Broken> {
        let (mut rest, mut parts) = (self.parts, Parts::default());
        loop {
            let kind = rest.read_u32()?;
            if kind == END {
                return Ok(parts);
            }
            let len = rest.read_u32()? as usize;
            // Any number of addresses may lead to one record.
            guard.spend(len.saturating_add(8))?;
            let part = rest.split(len)?;
            match kind {
                LINES => parts.lines = parts.lines.or(Some(part)),
                INLINED => parts.inlined = parts.inlined.or(Some(part)),
                // Merged functions, call sites.
                _ => {}
            }
        }
    }
}
