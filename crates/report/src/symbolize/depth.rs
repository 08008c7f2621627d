//! Refuses DWARF whose entries are nested so deep that a recursive reader runs out of stack.
//!
//! blazesym descends into inlined functions by recursion, about 500 bytes a level, and a stack overflow ends
//! the process: no `catch_unwind` sees it. A level costs a hostile file one byte. So the nesting is measured
//! first, without recursion. Compressed sections cannot be measured here and are let through; that hole closes
//! when DWARF is read by a pass of our own.

use gimli::{Abbreviations, DebugAbbrev, DebugInfo, EndianSlice, RunTimeEndian};
use object::Endianness;

use crate::image::{ElfFile, FileOff, Layout};

/// The deepest nesting that is read: real programs stay below 100, and a thread of 2 MiB bears 4,000.
const MAX_DEPTH: isize = 1000;

/// Reports whether the entries of all units are nested reasonably.
///
/// # Cost    one pass over `.debug_info`, one unit in memory at a time
pub(super) fn is_bounded(file: &ElfFile, layout: &Layout) -> bool {
    let (Some(info), Some(abbrev)) = (layout.section(".debug_info"), layout.section(".debug_abbrev")) else {
        return false;
    };
    if info.compressed_from.is_some() || abbrev.compressed_from.is_some() {
        return true;
    }
    let Some(abbrev) = file.section_bytes(abbrev) else { return false };
    let endian = match layout.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let mut units = Units { abbrev: DebugAbbrev::new(&abbrev, endian), endian, last: None };
    let mut rest = info.off.0..info.off.0.saturating_add(info.len);
    while let Some(len) = unit_len(file, rest.start, endian).filter(|&len| len <= rest.end - rest.start) {
        let Some(unit) = file.bytes(FileOff(rest.start), len) else { return false };
        if units.depth(&unit).is_some_and(|depth| depth > MAX_DEPTH) {
            return false;
        }
        rest.start += len;
        if rest.is_empty() {
            break;
        }
    }
    true
}

/// Reads the length of a unit, its own length field included; `None` at the end and at nonsense, where every
/// reader must stop.
fn unit_len(file: &ElfFile, off: u64, endian: RunTimeEndian) -> Option<u64> {
    let word = |off, len| {
        let bytes = file.bytes(FileOff(off), len)?;
        let fold = |word: u64, &byte: &u8| word << 8 | u64::from(byte);
        Some(match endian {
            RunTimeEndian::Little => bytes.iter().rev().fold(0, fold),
            RunTimeEndian::Big => bytes.iter().fold(0, fold),
        })
    };
    match word(off, 4)? {
        0xffff_ffff => word(off.checked_add(4)?, 8)?.checked_add(12),
        short => Some(short + 4),
    }
}

struct Units<'b> {
    abbrev: DebugAbbrev<EndianSlice<'b, RunTimeEndian>>,
    endian: RunTimeEndian,
    /// Where the last unit had its abbreviations: neighbours often share them.
    last: Option<(usize, Abbreviations)>,
}

impl Units<'_> {
    /// Measures the deepest entry of a unit, up to where it breaks; `None` if it does not even begin.
    fn depth(&mut self, unit: &[u8]) -> Option<isize> {
        let header = DebugInfo::new(unit, self.endian).units().next().ok()??;
        let off = header.debug_abbrev_offset();
        if self.last.as_ref().is_none_or(|last| last.0 != off.0) {
            self.last = Some((off.0, header.abbreviations(&self.abbrev).ok()?));
        }
        let (_, abbreviations) = self.last.as_ref()?;
        let mut entries = header.entries_raw(abbreviations, None).ok()?;
        let mut depth = 0;
        while !entries.is_empty() && depth <= MAX_DEPTH {
            let Ok(abbrev) = entries.read_abbreviation() else { break };
            depth = depth.max(entries.next_depth());
            if abbrev.is_some_and(|abbrev| entries.skip_attributes(abbrev.attributes()).is_err()) {
                break;
            }
        }
        Some(depth)
    }
}
