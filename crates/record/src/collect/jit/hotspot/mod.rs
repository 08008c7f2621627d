//! Names and frames of code that HotSpot, the virtual machine of OpenJDK, has made, in memory of the process: no flag and no agent is
//! needed, because its library says where its structures are.
//!
//! | room | what lives there |
//! |---|---|
//! | `structs` | what the library says |
//! | `cache` | the code cache: the piece of code at an address |
//! | `methods` | names, source files and lines of methods |
//! | `scopes` | which methods are inlined where in a compiled one |
//! | `compressed` | numbers as HotSpot compresses them |
//! | `inlined` | the methods and lines at addresses that were hit |
//! | `interpreted` | the methods that the interpreter runs |
//! | `frame` | how the frame of a caller is found |
//! | `flow` | where a compiled method has its frame |
//! | `frames` | where the frame of a piece of code is, as unwind tables |

mod cache;
mod compressed;
mod flow;
mod frame;
mod frames;
mod inlined;
mod interpreted;
mod methods;
mod scopes;
mod structs;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::time::Instant;

use icecore_elf::Avma;

use super::registered::Registered;
use crate::foreign::memory::Memory;
use crate::proc::maps;
use crate::track::jit::Interpreter;
use cache::{Cache, Kind, Window};
use flow::MAX_CODE;
use frame::SHARED;
use frames::{BEFORE, FROM, Frames, Hit};
use icecore_format::records::Language;
use icecore_jit::Piece;
use icecore_jit::Requested;
use inlined::{Fresh, Known, Lines};
use interpreted::Interpreted;
pub(super) use interpreted::Runs;
use structs::{Reader, Structs};

/// The most pieces of code of a process that are read; a large server has 20,000.
const MAX_PIECES: usize = 64 << 10;
/// How often a process is asked that does not answer: it may not have begun yet, or is no virtual machine.
const MAX_TRIES: u32 = 32;
/// How long code is taken to be where it was seen, ns.
const SURE_NS: u64 = 100_000_000;
/// After this time without a replacement, code is taken to stay until the process ends, ns.
const QUIET_NS: u64 = 2_000_000_000;
/// How many of them that lie before a new one are looked at.
const NEIGHBOURS: usize = 64;

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
    /// When code was last found to be replaced.
    replaced_ns: Option<u64>,
    /// Addresses at which no code was found.
    missed: BTreeSet<Avma>,
    /// Addresses whose lines were not read yet.
    unread: Vec<Avma>,
    known: Known,
    interpreted: Interpreted,
    interpreter: Option<Interpreter>,
}

/// A piece of code that was hit.
#[derive(Debug)]
struct Found {
    piece: cache::Piece,
    kind: Kind,
    name: Vec<u8>,
    since_ns: u64,
    /// When it was last seen.
    seen_ns: u64,
    /// It was replaced, at some moment after that.
    is_gone: bool,
    frames: Frames,
    /// Once its debug information was read.
    lines: Option<Lines>,
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
        if self.tries >= MAX_TRIES {
            return Vec::new();
        }
        if self.cache.is_none() {
            self.cache = cache(memory);
        }
        let heaps = self.cache.as_mut().and_then(|cache| cache.heaps(memory));
        let Some(heaps) = heaps.filter(|heaps| !heaps.is_empty()) else {
            // It may not have begun.
            self.tries += 1;
            return hits.of(Avma(0), Avma(u64::MAX)).to_vec();
        };
        self.tries = 0;
        self.known.begin(now_ns);
        let (mut left, mut missed) = (Vec::new(), BTreeSet::new());
        for heap in &heaps {
            for address in hits.of(Avma(heap.memory.start), Avma(heap.memory.end)) {
                if Instant::now() >= until {
                    left.push(*address);
                } else if self.find(memory, heap, address.0, now_ns).is_none()
                    && !self.missed.contains(address)
                {
                    missed.insert(*address);
                }
            }
        }
        self.read_lines(memory, &heaps, until);
        self.read_interpreted(memory, now_ns, until);
        // Code may be there, and its block not marked yet: such an address is looked up once more.
        left.extend(&missed);
        self.missed = missed;
        left
    }

    fn find(&mut self, memory: &Memory<'_>, heap: &cache::Segments, address: u64, now_ns: u64) -> Option<()> {
        let cache = self.cache.as_ref()?;
        let known = self.found.range_mut(..=address).next_back().and_then(|it| it.1.last_mut());
        if let Some(known) = known.filter(|it| it.is_there(address, now_ns)) {
            known.hit(memory, cache, address);
            self.unread.push(Avma(address));
            return Some(());
        }
        let piece = cache.find(memory, heap, address)?;
        let at_its_place = self.found.entry(piece.code.start).or_default();
        let is_new = at_its_place.last().is_none_or(|it| it.piece != piece || it.is_gone);
        let whole = piece.code.clone();
        if is_new {
            (self.pieces < MAX_PIECES).then_some(())?;
            let (kind, name) = cache.describe(memory, &piece)?;
            let is_followed = kind == Kind::Method && piece.code.end - piece.code.start <= MAX_CODE;
            let code = if is_followed { code(memory, &piece.code) } else { Vec::new() };
            let frames = Frames::new(kind, &piece, &code);
            // Elsewhere its frames are made otherwise.
            if kind == Kind::Interpreter && cfg!(target_arch = "x86_64") {
                self.interpreter = Some(cache.interpreter(piece.code.clone()));
                self.interpreted.is_changed = true;
            }
            self.pieces += 1;
            for before in at_its_place.iter_mut() {
                before.is_gone = true;
                self.replaced_ns = Some(now_ns);
            }
            let (since_ns, seen_ns, is_gone) = (now_ns, now_ns, false);
            at_its_place.push(Found { piece, kind, name, since_ns, seen_ns, is_gone, frames, lines: None });
        }
        let last = at_its_place.last_mut()?;
        last.seen_ns = now_ns;
        last.hit(memory, cache, address);
        self.unread.push(Avma(address));
        if is_new {
            self.replace(&whole);
        }
        Some(())
    }

    /// Returns true if lines were not read yet.
    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty() || self.interpreted.has_unread()
    }

    /// Returns the interpreter if it, or a method that it runs, was found since the last call.
    pub(super) fn take_interpreter(&mut self) -> Option<Interpreter> {
        let interpreter = self.interpreter.as_ref().filter(|_| self.interpreted.is_changed)?;
        self.interpreted.is_changed = false;
        Some(Interpreter { methods: self.interpreted.ranges(), ..interpreter.clone() })
    }

    /// Reads until a time which methods the interpreter runs.
    pub(super) fn read_interpreted(&mut self, memory: &Memory<'_>, now_ns: u64, until: Instant) {
        if let Some(methods) = self.cache.as_ref().and_then(|cache| cache.methods.as_ref()) {
            self.interpreted.read(Reader::any(memory), methods, now_ns, until);
        }
    }

    /// Notes a frame of the interpreter.
    pub(super) fn runs(&mut self, runs: Runs) {
        self.interpreted.note(runs);
    }

    /// Reads lines and inlined methods until a time, of the code at the highest addresses first. Names and frames of all code come before.
    fn read_lines(&mut self, memory: &Memory<'_>, heaps: &[cache::Segments], until: Instant) {
        let Some(cache) = &self.cache else { return };
        self.unread.sort_unstable();
        while let Some(address) = self.unread.last()
            && Instant::now() < until
        {
            let before = self.found.range_mut(..=address.0).next_back().and_then(|it| it.1.last_mut());
            let found = before.filter(|it| !it.is_gone && it.piece.code.contains(&address.0));
            let from = found.as_ref().map_or(*address, |it| Avma(it.piece.code.start));
            let from = self.unread.partition_point(|address| *address < from);
            let addresses = self.unread.split_off(from);
            let left = found
                .map_or(0, |it| it.read_lines(memory, (cache, heaps), &mut self.known, &addresses, until));
            self.unread.extend(&addresses[..left]);
        }
    }

    /// Ends what lay where a new piece lies, and began elsewhere.
    fn replace(&mut self, by: &Range<u64>) {
        for (start, found) in self.found.range_mut(..by.end).rev().take(NEIGHBOURS) {
            let is_under = |it: &&mut Found| *start != by.start && it.piece.code.end > by.start;
            found.iter_mut().filter(is_under).for_each(|it| it.is_gone = true);
        }
    }

    /// Looks until a time whether the code that was found is still there, and the next time at the rest; returns where it is not.
    pub(super) fn check(&mut self, memory: &Memory<'_>, now_ns: u64, until: Instant) -> Vec<Range<u64>> {
        let Some(cache) = &self.cache else { return Vec::new() };
        if let Some(methods) = &cache.methods {
            self.interpreted.check(Reader::there(memory), methods, now_ns, until);
        }
        let mut gone = Vec::new();
        // Blocks lie side by side, so many are read at once.
        let mut window = Window::default();
        let from = std::mem::take(&mut self.checked);
        for (start, found) in self.found.range_mut(from..) {
            if Instant::now() >= until {
                self.checked = *start;
                break;
            }
            let Some(last) = found.last_mut().filter(|it| !it.is_gone) else { continue };
            match cache.has(&mut window, memory, &last.piece) {
                Some(true) => last.seen_ns = now_ns,
                Some(false) => {
                    last.is_gone = true;
                    self.replaced_ns = Some(now_ns);
                    gone.push(last.piece.code.clone());
                }
                // The process ends.
                None => break,
            }
        }
        gone
    }

    /// Looks until a time whether all methods are still there that the interpreter ran.
    pub(super) fn check_interpreted(&mut self, memory: &Memory<'_>, now_ns: u64, until: Instant) {
        if let Some(methods) = self.cache.as_ref().and_then(|cache| cache.methods.as_ref()) {
            self.interpreted.check_all(Reader::there(memory), methods, now_ns, until);
        }
    }

    /// Lists what was hit, as a report reads it: of two that lay at one place, the later one comes last.
    pub(super) fn pieces(&self) -> Vec<Piece> {
        // Where code was replaced shortly before, none is taken to be there after it was last seen.
        let last_ns = self.found.values().flatten().map(|it| it.seen_ns).max().unwrap_or(0);
        let is_replaced = self.replaced_ns.is_some_and(|at| at + QUIET_NS > last_ns);
        let piece = |it: &Found| {
            let code = &it.piece.code;
            let ends = it.is_gone || is_replaced && it.kind == Kind::Method;
            Piece {
                start: Avma(code.start),
                end: Avma(code.end),
                since_ns: it.since_ns,
                until_ns: if ends { it.seen_ns.max(it.since_ns + 1) } else { 0 },
                name: it.name.clone(),
                rules: it.tables(code),
                lines: it.lines.as_ref().map(Lines::lines).unwrap_or_default(),
                language: if it.kind == Kind::Method { Language::JAVA } else { Language::UNKNOWN },
            }
        };
        let code = self.found.values().flatten().map(piece);
        let mut pieces: Vec<Piece> = code.chain(self.interpreted.pieces()).collect();
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
    /// Returns true if it is known to be at an address: it was seen just now, or never goes.
    fn is_there(&self, address: u64, now_ns: u64) -> bool {
        let is_sure = match self.kind {
            Kind::Interpreter | Kind::Stubs => true,
            Kind::Method | Kind::Frameless | Kind::Other => now_ns - self.seen_ns < SURE_NS,
        };
        !self.is_gone && self.piece.code.contains(&address) && is_sure
    }

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
            return Some(());
        }
        let is_looked_at = self.kind == Kind::Interpreter;
        let (back, ahead) = if is_looked_at { (BEFORE, FROM) } else { (0, 0) };
        let around =
            whole.start.max(address.saturating_sub(back))..whole.end.min(address + ahead).max(address);
        let bytes = if is_looked_at { code(memory, &around) } else { Vec::new() };
        let (before, from) = bytes.split_at_checked((address - around.start) as usize).unwrap_or_default();
        self.frames.hit(self.kind, &Hit { off, before, from });
        Some(())
    }

    /// Reads lines and inlined methods at addresses that were hit, from the last on, until a time; returns how many are left.
    fn read_lines(
        &mut self,
        memory: &Memory<'_>,
        (cache, heaps): (&Cache, &[cache::Segments]),
        known: &mut Known,
        addresses: &[Avma],
        until: Instant,
    ) -> usize {
        let Some(methods) = cache.methods.as_ref().filter(|_| self.kind == Kind::Method) else { return 0 };
        let new = self.lines.is_none().then(|| Lines::new(cache.scopes(memory, heaps, &self.piece), known));
        let Some(lines) = new.as_ref().or(self.lines.as_ref()) else { return 0 };
        let (mut fresh, mut left) = (Fresh::default(), addresses.len());
        for address in addresses.iter().rev() {
            left -= 1;
            let off = address.0.saturating_sub(self.piece.code.start);
            lines.read(Reader::any(memory), methods, known, (self.piece.method, off), &mut fresh);
            if Instant::now() >= until {
                break;
            }
        }
        // Other code may have come to all these places meanwhile.
        if (new.is_some() || !fresh.is_empty()) && cache.is_there(memory, &self.piece) {
            let lines = self.lines.get_or_insert_with(|| new.unwrap_or_default());
            lines.take(fresh);
        }
        left
    }
}

/// Reads code.
fn code(memory: &Memory<'_>, range: &Range<u64>) -> Vec<u8> {
    memory.read_up_to(range.start, (range.end - range.start) as usize)
}

/// Finds the code cache of a process, if it is a virtual machine.
fn cache(memory: &Memory<'_>) -> Option<Cache> {
    let base = library(&memory.maps().ok()?)?;
    Cache::new(Reader::there(memory), &Structs::read(memory, base)?)
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
