//! The record that blazesym will read for an address, checked first.
//!
//! ```text
//! header │ addresses │ offsets of records │ files: count, (directory, name)… │ … │ strings │ … │ records
//!          ascending   4 bytes each         offsets of strings
//! record    size, name, parts: (kind, length, bytes)…, 0
//! inlined   count of ranges, (begin, size)…, has children, name, file and line of the call, children…, 0
//!           begin counts from that of the node around it; the root is the function itself
//! ```

use gimli::{EndianSlice, LittleEndian, Reader};

use super::{Broken, Guard};
use crate::image::{GSYM_HEADER_LEN, GsymHeader, Svma};

/// The longest string of a file that is read, bytes.
const MAX_STRING_LEN: usize = 64 << 10;
/// How deep calls may be inlined into each other. Real files have a few dozen.
pub(super) const MAX_NESTED: usize = 256;
/// Part kinds of a record; parts of other kinds are skipped.
const END: u32 = 0;
const LINES: u32 = 1;
const INLINED: u32 = 2;
/// Opcodes of a line program. All from the last one on advance address and line.
const END_OF_LINES: u8 = 0;
const SET_FILE: u8 = 1;
const ADVANCE_ADDRESS: u8 = 2;
const ADVANCE_LINE: u8 = 3;
const FIRST_SPECIAL: u8 = 4;

type Slice<'d> = EndianSlice<'d, LittleEndian>;

/// The tables that lead from an address to its record.
pub(super) struct Records<'d> {
    bytes: &'d [u8],
    /// Ascending; several records may begin at one address.
    starts: Vec<Svma>,
    offs: &'d [u8],
    /// The records of the last answer, which most next addresses have as well.
    last: Option<Checked>,
}

/// What is known of the records that begin at one address.
#[derive(Debug, Clone, Copy)]
pub(super) struct Checked {
    start: Svma,
    /// Bytes that blazesym reads, at most.
    pub(super) bytes: usize,
    /// All numbers fit, and calls lie beside each other or in each other, not too deep.
    pub(super) is_sound: bool,
}

impl<'d> Records<'d> {
    /// Finds the tables.
    ///
    /// # Errors  [`Broken`] if they are not all in the file, addresses do not ascend, or a string is too long
    pub(super) fn open(bytes: &'d [u8]) -> Result<Self, Broken> {
        let header = GsymHeader::parse(bytes).ok_or(Broken)?;
        let table = |off: usize, len: Option<usize>| bytes.get(off..off.checked_add(len?)?);
        let count = header.count as usize;
        let entries = table(GSYM_HEADER_LEN, count.checked_mul(header.address_len)).ok_or(Broken)?;
        let offs_off = (GSYM_HEADER_LEN + entries.len()).next_multiple_of(4);
        let offs = table(offs_off, count.checked_mul(4)).ok_or(Broken)?;
        let strings = table(header.strings_off as usize, Some(header.strings_len as usize)).ok_or(Broken)?;
        if strings.split(|byte| *byte == 0).any(|string| string.len() > MAX_STRING_LEN) {
            return Err(Broken);
        }
        let start = |entry: &[u8]| {
            let relative = EndianSlice::new(entry, LittleEndian).read_uint(header.address_len)?;
            header.base.0.checked_add(relative).map(Svma).ok_or(Broken)
        };
        let starts: Vec<Svma> =
            entries.chunks_exact(header.address_len).map(start).collect::<Result<_, Broken>>()?;
        // No function reaches over the last address, whatever its size.
        let end = starts.last().map_or(Some(0), |last| last.0.checked_add(u32::MAX.into()));
        if !starts.is_sorted() || end.is_none() {
            return Err(Broken);
        }
        Ok(Self { bytes, starts, offs, last: None })
    }

    /// Checks all records that begin next before an address; `None` if none does.
    ///
    /// # Errors  [`Broken`] if the guard has no steps left
    pub(super) fn check(&mut self, at: Svma, guard: &Guard) -> Result<Option<Checked>, Broken> {
        let end = self.starts.partition_point(|start| *start <= at);
        let Some(start) = end.checked_sub(1).map(|last| self.starts[last]) else { return Ok(None) };
        if let Some(last) = self.last.filter(|last| last.start == start) {
            return Ok(Some(last));
        }
        let begin = self.starts.partition_point(|other| *other < start);
        let mut checked = Checked { start, bytes: 4 * (end - begin), is_sound: true };
        for position in begin..end {
            let mut bytes = 0;
            checked.is_sound &= self.record(position, start, &mut bytes, guard).is_ok();
            checked.bytes = checked.bytes.saturating_add(bytes);
        }
        if guard.is_exhausted() {
            return Err(Broken);
        }
        self.last = Some(checked);
        Ok(self.last)
    }

    /// Checks one record, and counts the bytes of its parts.
    fn record(&self, position: usize, start: Svma, bytes: &mut usize, guard: &Guard) -> Result<(), Broken> {
        let off = EndianSlice::new(&self.offs[4 * position..], LittleEndian).read_u32()?;
        let mut rest = EndianSlice::new(self.bytes.get(off as usize..).ok_or(Broken)?, LittleEndian);
        let (_size, _name) = (rest.read_u32()?, rest.read_u32()?);
        let mut is_sound = Ok(());
        loop {
            let kind = rest.read_u32()?;
            if kind == END {
                return is_sound;
            }
            let len = rest.read_u32()? as usize;
            // Any number of addresses may lead to one record.
            guard.spend(len.saturating_add(8))?;
            *bytes = bytes.saturating_add(len).saturating_add(8);
            let part = rest.split(len)?;
            is_sound = is_sound.and(match kind {
                LINES => check_lines(part, start),
                INLINED => check_inlined(part, start),
                // Merged functions, call sites.
                _ => Ok(()),
            });
        }
    }
}

/// Runs a line program: no address or line may overflow.
fn check_lines(mut program: Slice<'_>, start: Svma) -> Result<(), Broken> {
    let (lowest, highest) = (program.read_sleb128()?, program.read_sleb128()?);
    let lines = highest.checked_sub(lowest).and_then(|range| range.checked_add(1)).filter(|range| *range > 0);
    let small = |line: Option<i64>| line.filter(|line| i32::try_from(*line).is_ok()).ok_or(Broken);
    let mut line = small(i64::try_from(program.read_uleb128()?).ok())?;
    let mut at = start.0;
    while !program.is_empty() {
        let (lines, bytes) = match program.read_u8()? {
            END_OF_LINES => break,
            SET_FILE => {
                program.read_uleb128()?;
                (0, 0)
            }
            ADVANCE_ADDRESS => (0, program.read_uleb128()?),
            ADVANCE_LINE => (program.read_sleb128()?, 0),
            special => {
                let (steps, lines) = (i64::from(special - FIRST_SPECIAL), lines.ok_or(Broken)?);
                (small(lowest.checked_add(steps % lines))?, (steps / lines) as u64)
            }
        };
        line = small(line.checked_add(lines))?;
        at = at.checked_add(bytes).ok_or(Broken)?;
    }
    Ok(())
}

/// A node of a tree of inlined calls whose children are being read.
struct Node {
    /// The ranges of its children count from there.
    base: u64,
    /// Begin and end of each range of its children.
    children: Vec<(u64, u64)>,
}

/// Walks a tree of inlined calls, without recursion: its ranges must fit, its nodes must not nest too deep, and no two calls
/// beside each other may hold one address, because blazesym takes the later one to be in the earlier. So no address has
/// more than [`MAX_NESTED`] calls.
fn check_inlined(mut tree: Slice<'_>, start: Svma) -> Result<(), Broken> {
    let mut open: Vec<Node> = Vec::new();
    loop {
        let ranges = tree.read_uleb128()?;
        if ranges == 0 {
            let mut children = open.pop().map(|node| node.children).unwrap_or_default();
            children.sort_unstable();
            if children.windows(2).any(|pair| pair[0].1 > pair[1].0) {
                return Err(Broken);
            }
        } else {
            let base = open.last().map_or(start.0, |node| node.base);
            let mut first = None;
            for _ in 0..ranges {
                let begin = base.checked_add(tree.read_uleb128()?).ok_or(Broken)?;
                let end = begin.checked_add(tree.read_uleb128()?).ok_or(Broken)?;
                first.get_or_insert(begin);
                if let Some(around) = open.last_mut().filter(|_| begin < end) {
                    around.children.push((begin, end));
                }
            }
            let has_children = tree.read_u8()? != 0;
            let (_name, _file, _line) = (tree.read_u32()?, tree.read_uleb128()?, tree.read_uleb128()?);
            if has_children {
                open.push(Node { base: first.unwrap_or(base), children: Vec::new() });
            }
        }
        if open.is_empty() {
            return Ok(());
        }
        if open.len() > MAX_NESTED {
            return Err(Broken);
        }
    }
}
