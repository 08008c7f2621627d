//! Names and frames of code that HotSpot, the virtual machine of OpenJDK, has made, in memory of the process: no flag and no agent is
//! needed, because its library says where its structures are.
//!
//! | room | what lives there |
//! |---|---|
//! | `structs` | what the library says |
//! | `cache` | the code cache: the piece of code at an address |
//! | `frame` | how the frame of a caller is found |
//! | `flow` | where a compiled method has its frame |
//! | `frames` | where the frame of a piece of code is, as unwind tables |

mod cache;
mod flow;
mod frame;
mod frames;
mod structs;

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::time::Instant;

use icecore_elf::Avma;

use super::Requested;
use super::registered::Registered;
use crate::foreign::memory::Memory;
use crate::proc::maps;
use crate::track::jit::Piece;
use cache::{Cache, Kind};
use flow::MAX_CODE;
use frame::SHARED;
use frames::{BEFORE, FROM, Frames, Hit};
use structs::Structs;

/// The most pieces of code of a process that are read; a large server has 20,000.
const MAX_PIECES: usize = 64 << 10;
/// How often a library is asked that does not answer: it may not have begun yet.
const MAX_TRIES: u32 = 16;
/// How many of them are checked at one time.
const CHECKED: usize = 256;

/// The code of one virtual machine, as far as it was hit.
#[derive(Debug, Default)]
pub(super) struct HotSpot {
    tries: u32,
    cache: Option<Cache>,
    /// By the begin of the code: what was there, one after the other.
    found: BTreeMap<u64, Vec<Found>>,
    pieces: usize,
    /// Up to where it was checked whether it is still there.
    checked: u64,
}

/// A piece of code that was hit.
#[derive(Debug)]
struct Found {
    piece: cache::Piece,
    kind: Kind,
    name: Vec<u8>,
    since_ns: u64,
    /// When it was found to be gone; 0: it was not.
    until_ns: u64,
    frames: Frames,
}

impl HotSpot {
    /// Looks up addresses that were hit, ascending, until a time; returns those that are left. What lies elsewhere does not matter.
    pub(super) fn look_up(
        &mut self,
        memory: &Memory<'_>,
        now_ns: u64,
        hits: Requested<'_>,
        until: Instant,
    ) -> Vec<Avma> {
        let mut left = Vec::new();
        if self.cache.is_none() && self.tries < MAX_TRIES {
            self.tries += 1;
            self.cache = cache(memory);
        }
        let heaps = self.cache.as_ref().and_then(|cache| cache.heaps(memory));
        for heap in heaps.unwrap_or_default() {
            for address in hits.of(Avma(heap.memory.start), Avma(heap.memory.end)) {
                if Instant::now() < until {
                    self.find(memory, &heap, address.0, now_ns);
                } else {
                    left.push(*address);
                }
            }
        }
        left
    }

    fn find(&mut self, memory: &Memory<'_>, heap: &cache::Segments, address: u64, now_ns: u64) -> Option<()> {
        let cache = self.cache.as_ref()?;
        let piece = cache.find(memory, heap, address)?;
        let at_its_place = self.found.entry(piece.code.start).or_default();
        if at_its_place.last().is_none_or(|it| it.piece != piece || it.until_ns > 0) {
            (self.pieces < MAX_PIECES).then_some(())?;
            self.pieces += 1;
            let (kind, name) = cache.describe(memory, &piece)?;
            let is_followed = kind == Kind::Method && piece.code.end - piece.code.start <= MAX_CODE;
            let code = if is_followed { code(memory, &piece.code) } else { Vec::new() };
            let frames = Frames::new(kind, &piece, &code);
            at_its_place.push(Found { piece, kind, name, since_ns: now_ns, until_ns: 0, frames });
        }
        at_its_place.last_mut()?.hit(memory, cache, address)
    }

    /// Looks until a time whether the code that was found is still there, each time at other pieces; returns where it is not.
    pub(super) fn check(&mut self, memory: &Memory<'_>, now_ns: u64, until: Instant) -> Vec<Range<u64>> {
        let Some(cache) = &self.cache else { return Vec::new() };
        let mut gone = Vec::new();
        let behind = (Bound::Excluded(self.checked), Bound::Unbounded);
        let next = self.found.range(behind).map(|it| *it.0).take(CHECKED).collect::<Vec<u64>>();
        self.checked = next.last().copied().filter(|_| next.len() == CHECKED).unwrap_or(0);
        for start in next {
            let last = self.found.get_mut(&start).and_then(|it| it.last_mut());
            let Some(last) = last.filter(|it| it.until_ns == 0) else { continue };
            if Instant::now() < until && !cache.has(memory, &last.piece) {
                last.until_ns = now_ns;
                gone.push(last.piece.code.clone());
            }
        }
        gone
    }

    /// Lists what was hit, as a report reads it: of two that lay at one place, the later one comes last.
    pub(super) fn pieces(&self) -> Vec<Piece> {
        let piece = |it: &Found| {
            let code = &it.piece.code;
            Piece {
                start: Avma(code.start),
                end: Avma(code.end),
                since_ns: it.since_ns,
                until_ns: it.until_ns,
                name: it.name.clone(),
                rules: it.tables(code),
                ..Piece::default()
            }
        };
        let mut pieces: Vec<Piece> = self.found.values().flatten().map(piece).collect();
        pieces.sort_by_key(|piece| piece.since_ns);
        pieces
    }

    /// Writes the unwind tables of a piece of code that the process names otherwise; `None` if nothing is known of it.
    pub(super) fn tables(&self, code: &Range<u64>) -> Option<Vec<u8>> {
        let (_, found) = self.found.range(..=code.start).next_back()?;
        found.last().filter(|it| code.end <= it.piece.code.end).map(|it| it.tables(code))
    }
}

impl Found {
    /// Writes the unwind tables of it, as those of a part of its code.
    fn tables(&self, part: &Range<u64>) -> Vec<u8> {
        let code = &self.piece.code;
        let mut bytes = Vec::new();
        if cfg!(not(target_arch = "x86_64")) {
            return bytes;
        }
        for (range, own) in self.frames.tables(code.end - code.start) {
            let range = code.start + range.start..code.start + range.end;
            Registered::made(range, &SHARED, own).append(part, &mut bytes);
        }
        bytes
    }

    fn hit(&mut self, memory: &Memory<'_>, cache: &Cache, address: u64) -> Option<()> {
        let whole = self.piece.code.clone();
        let off = address.checked_sub(whole.start).filter(|_| address < whole.end)?;
        if cache.is_entry(address) {
            self.frames.called(off);
        } else if self.kind != Kind::Stubs {
            let around = whole.start.max(address.saturating_sub(BEFORE))..whole.end.min(address + FROM);
            let bytes = code(memory, &around);
            let (before, from) = bytes.split_at_checked((address - around.start) as usize)?;
            self.frames.hit(self.kind, &Hit { off, before, from });
        }
        Some(())
    }
}

/// Reads code.
fn code(memory: &Memory<'_>, range: &Range<u64>) -> Vec<u8> {
    memory.read_up_to(range.start, (range.end - range.start) as usize)
}

/// Finds the code cache of a process, if it is a virtual machine.
fn cache(memory: &Memory<'_>) -> Option<Cache> {
    let base = library(&memory.maps().ok()?)?;
    Cache::new(&Structs::read(memory, base)?, memory)
}

/// Finds where the library of a virtual machine is mapped.
fn library(maps: &[u8]) -> Option<u64> {
    let is_library = |line: &maps::MapsLine<'_>| {
        line.file_off == 0 && line.path.rsplit(|byte| *byte == b'/').next() == Some(b"libjvm.so")
    };
    maps::all(maps).find(is_library).map(|line| line.start)
}

#[cfg(test)]
mod tests;
