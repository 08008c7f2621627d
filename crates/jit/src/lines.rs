//! Reads the source lines of JIT code from the debug records of jitdump files.

use std::sync::Arc;

use icecore_elf::Avma;
use rustc_hash::FxHashSet;

use super::Line;
use super::read_at::{ReadAt, u32_at, u64_at};
use super::{MAX_NAME_BYTES, Requested};

/// The longest debug record that is read, bytes: some hundred thousand lines.
const MAX_RECORD_BYTES: u64 = 4 << 20;
/// The most bytes that are read of all debug records of a file, which takes about a second.
const MAX_FILE_BYTES: u64 = 256 << 20;
/// The bytes of a record before its entries: kind, length, time, address of the code, number of entries.
const HEAD_LEN: u64 = 32;
/// The bytes of an entry's address, line and discriminator; the name of its file follows, up to a zero.
const ENTRY_LEN: usize = 16;
/// The file name of an entry that has the same file as the previous one.
const SAME_FILE: &[u8] = b"\xff";
/// V8 writes the addresses that the code would have after the ELF header that `perf inject` puts before it.
const V8_SHIFT: u64 = 0x40;

/// The location of the debug record of a piece of code.
#[derive(Debug, Clone, Copy)]
pub(super) struct Debug {
    off: u64,
    len: u64,
    /// The address of the code at the time of the record.
    code: Avma,
}

/// Reads the debug records of one file.
#[derive(Debug)]
pub(super) struct LineReader {
    /// The smallest distance of a first entry from the beginning of its code.
    least: u64,
    left_bytes: u64,
    files: FxHashSet<Arc<[u8]>>,
}

/// The code whose lines are requested.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeRange<'a> {
    pub(super) start: Avma,
    pub(super) end: Avma,
    pub(super) asked: &'a Requested<'a>,
}

impl LineReader {
    pub(super) fn new() -> Self {
        Self { least: u64::MAX, left_bytes: MAX_FILE_BYTES, files: FxHashSet::default() }
    }

    /// Notes a debug record by its first bytes, up to the address of its first entry.
    pub(super) fn note(&mut self, head: &[u8], off: u64, len: u64) -> Debug {
        let [code, first] = [16, 32].map(|at| u64_at(head, at));
        if let Some(behind) = first.checked_sub(code) {
            self.least = self.least.min(behind);
        }
        Debug { off, len, code: Avma(code) }
    }

    /// Reads the lines of a piece of code that contain requested addresses. A malformed record gives no lines at all: V8 can
    /// write bytes that are no name of a file.
    pub(super) fn lines<S: ReadAt + ?Sized>(
        &mut self,
        file: &S,
        debug: Debug,
        wanted: CodeRange<'_>,
    ) -> Vec<Line> {
        let Some(len) = debug.len.checked_sub(HEAD_LEN).filter(|len| *len <= MAX_RECORD_BYTES) else {
            return Vec::new();
        };
        let Some(left_bytes) = self.left_bytes.checked_sub(len) else { return Vec::new() };
        self.left_bytes = left_bytes;
        let mut bytes = vec![0; (HEAD_LEN + len) as usize];
        if file.read(debug.off, &mut bytes) < bytes.len() {
            return Vec::new();
        }
        let shift = if self.least == V8_SHIFT { V8_SHIFT } else { 0 };
        let begin = debug.code.wrapping_add(shift);
        let len = wanted.end.0 - wanted.start.0;
        let Some(mut entries) = entries(&bytes, begin, len) else { return Vec::new() };
        // The second of two entries at one address counts.
        entries.sort_by_key(|entry| entry.off);
        let mut lines: Vec<Line> = Vec::new();
        for address in wanted.asked.of(wanted.start, wanted.end) {
            let off = address.0 - wanted.start.0;
            let after = entries.partition_point(|entry| entry.off <= off);
            let Some(entry) = after.checked_sub(1).map(|at| &entries[at]) else { continue };
            if lines.last().is_none_or(|last| last.off < entry.off) {
                let (off, file, line) = (entry.off, self.file(entry.file), entry.line);
                lines.push(Line { off, file, line, ..Line::default() });
            }
        }
        lines
    }

    /// Returns the one shared copy of a file's name.
    fn file(&mut self, name: &[u8]) -> Arc<[u8]> {
        let name = &name[..name.len().min(MAX_NAME_BYTES)];
        if let Some(known) = self.files.get(name) {
            return Arc::clone(known);
        }
        let new: Arc<[u8]> = name.into();
        self.files.insert(Arc::clone(&new));
        new
    }
}

/// An entry of a debug record.
#[derive(Debug)]
struct Entry<'a> {
    off: u64,
    file: &'a [u8],
    line: u32,
}

/// Reads all entries of a record; `None` if one is incomplete, or lies outside of its code.
fn entries(bytes: &[u8], begin: Avma, len: u64) -> Option<Vec<Entry<'_>>> {
    let count = u64_at(bytes, 24);
    let mut rest = &bytes[HEAD_LEN as usize..];
    let mut entries: Vec<Entry<'_>> = Vec::new();
    for _ in 0..count {
        let (head, behind) = rest.split_at_checked(ENTRY_LEN)?;
        let name_len = behind.iter().position(|byte| *byte == 0)?;
        let off = u64_at(head, 0).checked_sub(begin.0).filter(|off| *off <= len)?;
        let file = match &behind[..name_len] {
            SAME_FILE => entries.last()?.file,
            name => name,
        };
        entries.push(Entry { off, file, line: i32::try_from(u32_at(head, 8)).map_or(0, i32::cast_unsigned) });
        rest = &behind[name_len + 1..];
    }
    Some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a debug record of code at 0x1000.
    fn record(entries: &[(u64, i32, &[u8])]) -> Vec<u8> {
        let entry = |(address, line, file): &(u64, i32, &[u8])| {
            [&address.to_ne_bytes()[..], &line.to_ne_bytes(), &[0; 4], file, b"\0"].concat()
        };
        let count = (entries.len() as u64).to_ne_bytes();
        let entries: Vec<u8> = entries.iter().flat_map(entry).collect();
        let len = (HEAD_LEN as u32 + entries.len() as u32).to_ne_bytes();
        [&2_u32.to_ne_bytes()[..], &len, &[0; 8], &0x1000_u64.to_ne_bytes(), &count, &entries].concat()
    }

    /// Returns the lines of 0x100 bytes of code at 0x1000, or at the address to which it moved.
    fn lines(record: &[u8], start: u64, asked: &[u64]) -> Vec<(u64, String, u32)> {
        let mut reader = LineReader::new();
        let mut head = record.to_vec();
        head.resize(record.len().max(64), 0);
        let debug = reader.note(&head, 0, record.len() as u64);
        let asked: Vec<Avma> = asked.iter().copied().map(Avma).collect();
        let (start, end) = (Avma(start), Avma(start + 0x100));
        let wanted = CodeRange { start, end, asked: &Requested::new(&asked) };
        let text = |line: Line| (line.off, String::from_utf8_lossy(&line.file).into_owned(), line.line);
        reader.lines(record, debug, wanted).into_iter().map(text).collect()
    }

    fn row(off: u64, file: &str, line: u32) -> (u64, String, u32) {
        (off, file.to_owned(), line)
    }

    #[test]
    fn only_lines_that_were_hit_are_told_and_they_move_with_their_code() {
        let record =
            record(&[(0x1000, 7, b"/a.x"), (0x1010, 8, b"\xff"), (0x1020, 9, b"/b.x"), (0x1030, -1, b"")]);
        assert_eq!(
            lines(&record, 0x1000, &[0x1004, 0x1008, 0x1025]),
            [row(0, "/a.x", 7), row(0x20, "/b.x", 9)]
        );
        assert_eq!(lines(&record, 0x8000, &[0x8010, 0x8030]), [row(0x10, "/a.x", 8), row(0x30, "", 0)]);
        assert_eq!(lines(&record, 0x1000, &[0x2000]), []);
    }

    #[test]
    fn entries_need_not_ascend_and_the_second_at_one_address_counts() {
        let record = record(&[(0x1020, 9, b"/a"), (0x1004, 7, b"/a"), (0x1004, 8, b"/a")]);
        assert_eq!(lines(&record, 0x1000, &[0x1003, 0x1005]), [row(4, "/a", 8)]);
    }

    #[test]
    fn addresses_behind_an_elf_header_that_is_not_there_are_those_of_v8() {
        let record = record(&[(0x1040, 1, b"/a"), (0x1048, 2, b"/a"), (0x1140, 3, b"/a")]);
        assert_eq!(lines(&record, 0x1000, &[0x1000, 0x1009]), [row(0, "/a", 1), row(8, "/a", 2)]);
    }

    #[test]
    fn a_record_that_is_not_sound_tells_nothing() {
        let good = record(&[(0x1000, 7, b"/a"), (0x1010, 8, b"/a")]);
        assert_eq!(lines(&good, 0x1000, &[0x1000, 0x1010]).len(), 2);
        let outside = record(&[(0x1000, 7, b"/a"), (0x1101, 8, b"/a")]);
        let before = record(&[(0x1000, 7, b"/a"), (0xfff, 8, b"/a")]);
        let nothing_in_front = record(&[(0x1000, 7, b"\xff")]);
        let mut too_many = good.clone();
        too_many[24] = 3;
        for bad in [&outside, &before, &nothing_in_front, &too_many, &good[..good.len() - 1].to_vec()] {
            assert_eq!(lines(bad, 0x1000, &[0x1000, 0x1010]), []);
        }
    }
}
