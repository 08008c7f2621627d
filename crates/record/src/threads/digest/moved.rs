//! Code that a program has moved: it runs in memory that is mapped from no file, at the addresses at which the file was mapped. Programs
//! do so for huge pages.
//!
//! ```text
//! before   [ r--  file ][ r-x  file           ][ rw-  file ]
//! after    [ r--  file ][ r-x  no file        ][ rw-  file ]
//!                          └─ compared with what the file has for these addresses, page by page
//! ```
//!
//! Only equal bytes prove it, so the code is compared while the process lives: 2 MiB around each address that was hit.

use std::collections::VecDeque;
use std::ops::Range;

use icecore_elf::{Avma, FileOff, Layout};
use icecore_format::records::{ImageKind, Mapping, Origin};
use object::read::ReadCache;
use rustc_hash::FxHashSet;

use super::Digest;
use crate::foreign::memory::Memory;
use crate::foreign::{Door, ForeignFile};
use crate::machine::identity::{Identities, Identity, MapFile};
use crate::proc::maps;
use crate::track::tracker::Note;

/// What is compared at once, bytes.
const STRETCH: u64 = 2 << 20;
const PAGE: usize = 4096;
/// How many stretches are compared each time: about a millisecond each.
const AT_A_TIME: usize = 4;
/// The number of addresses that may wait, and of stretches that are remembered before all are forgotten.
const MAX_WAITING: usize = 4096;
const REMEMBERED: usize = 64 << 10;

/// What was compared, and what will be.
#[derive(Debug, Default)]
pub(super) struct MovedCode {
    waiting: VecDeque<(u32, Avma)>,
    /// By process, begin, and since when the memory has been there.
    compared: FxHashSet<(u32, u64, u64)>,
}

/// Memory that has the bytes of a file.
#[derive(Debug, PartialEq, Eq)]
struct Equal {
    memory: Range<u64>,
    file_off: FileOff,
}

impl Digest {
    /// Notes mappings of the files whose code runs in memory without a file.
    pub(super) fn prove_moved(&mut self, notes: &[Note]) {
        let hits = notes.iter().filter_map(|note| match note {
            Note::Hit { tgid, address, .. } => Some((*tgid, *address)),
            _ => None,
        });
        let room = MAX_WAITING.saturating_sub(self.moved.waiting.len());
        self.moved.waiting.extend(hits.take(room));
        let mut left = AT_A_TIME;
        while left > 0
            && let Some((tgid, address)) = self.moved.waiting.pop_front()
        {
            let region = self.tracker.space(tgid).and_then(|space| space.in_no_file(address));
            let Some((region, since_ns)) = region else { continue };
            let begin = address.0 - address.0 % STRETCH;
            if self.moved.compared.len() >= REMEMBERED {
                self.moved.compared.clear();
            }
            if !self.moved.compared.insert((tgid, begin, since_ns)) {
                continue;
            }
            left -= 1;
            let memory = region.start.0.max(begin)..region.end.0.min(begin.saturating_add(STRETCH));
            let found = compare(tgid, &memory, &mut self.identities, &self.door);
            for (identity, place, Equal { memory, file_off: FileOff(file_off) }) in found {
                let (start, len) = (memory.start, memory.end - memory.start);
                let (image, origin, mount_ns) = (0, Origin::MOVED, 0);
                let row = Mapping { time_ns: since_ns, tgid, start, len, file_off, image, origin, mount_ns };
                self.mapped(row, &identity, place);
            }
        }
    }
}

/// Compares memory of a process with the files that it has mapped below and above.
fn compare(
    tgid: u32,
    memory: &Range<u64>,
    identities: &mut Identities,
    door: &Door,
) -> Vec<(Identity, MapFile, Equal)> {
    let text = Memory::of(tgid, door).maps().unwrap_or_default();
    let lines: Vec<_> = maps::all(&text).collect();
    let after = lines.partition_point(|line| line.end <= memory.start);
    let is_file = |line: &&maps::MapsLine<'_>| line.inode != 0;
    let neighbours = [lines[..after].iter().rev().find(is_file), lines[after..].iter().find(is_file)];
    let mut found = Vec::new();
    for line in neighbours.into_iter().flatten() {
        let identity = identities.of_maps_line(tgid, line);
        let place = MapFile { tgid, start: Avma(line.start), end: Avma(line.end) };
        let Some(file) = place.open(&identity, door).filter(|_| identity.kind == ImageKind::FILE) else {
            continue;
        };
        let Some(layout) = Layout::read(&ReadCache::new(file.read(door))) else { continue };
        for (range, off) in layout.code_beside((line.start, FileOff(line.file_off)), memory) {
            let equal = equal(Memory::of(tgid, door), &file, &range, off, door).unwrap_or_default();
            found.extend(equal.into_iter().map(|equal| (identity.clone(), place, equal)));
        }
        if !found.is_empty() {
            break;
        }
    }
    found
}

/// Finds the pages of a range of memory that are equal to what a file has from an offset on; `None` if one of both cannot be read.
fn equal(
    memory: Memory<'_>,
    file: &ForeignFile,
    range: &Range<u64>,
    off: FileOff,
    door: &Door,
) -> Option<Vec<Equal>> {
    let len = usize::try_from(range.end - range.start).ok()?;
    let mut there = vec![0; len];
    file.read(door).read_exact_at(&mut there, off.0).ok()?;
    let here = memory.bring(range.start, len)?;
    Some(equal_pages(&here, &there, range.start, off))
}

/// The same of bytes: runs of pages, of which the first and the last may be cut by the range.
fn equal_pages(here: &[u8], there: &[u8], start: u64, off: FileOff) -> Vec<Equal> {
    let mut found: Vec<Equal> = Vec::new();
    let mut from = 0;
    while from < here.len() {
        let to_end = PAGE - (start as usize).wrapping_add(from) % PAGE;
        let to = (from + to_end).min(here.len());
        if here[from..to] == there[from..to] {
            let memory = start + from as u64..start + to as u64;
            match found.last_mut().filter(|last| last.memory.end == memory.start) {
                Some(last) => last.memory.end = memory.end,
                None => found.push(Equal { memory, file_off: FileOff(off.0 + from as u64) }),
            }
        }
        from = to;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_differ_are_left_out() {
        let there: Vec<u8> = (0..5 * PAGE).map(|at| (at / 7) as u8).collect();
        let mut here = there.clone();
        let run = |start, end, off| Equal { memory: start..end, file_off: FileOff(off) };
        // The range begins in the midst of a page.
        assert_eq!(equal_pages(&here, &there, 0x10800, FileOff(0x800)), [run(0x10800, 0x15800, 0x800)]);
        here[0x1000] ^= 1;
        let around = [run(0x10800, 0x11000, 0x800), run(0x12000, 0x15800, 0x2000)];
        assert_eq!(equal_pages(&here, &there, 0x10800, FileOff(0x800)), around);
        assert_eq!(equal_pages(&[0; PAGE], &[1; PAGE], 0x1000, FileOff(0)), []);
    }
}
