//! The methods that the interpreter runs.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use icecore_elf::Avma;

use super::methods::{Method, Methods};
use super::structs::Reader;
use icecore_format::records::Language;
use icecore_jit::{Line, Piece};

/// The most methods of a process.
const MAX_METHODS: usize = 32 << 10;
/// The most frames that wait.
const MAX_UNREAD: usize = 64 << 10;

/// How many methods are looked at anew each time.
const CHECKED_AT_ONCE: usize = 8;

/// A frame of the interpreter, if that is what it is: the addresses of its method and of its instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Runs {
    pub(in super::super) method: u64,
    pub(in super::super) instruction: u64,
}

/// The methods of a process that were seen in the interpreter.
#[derive(Debug, Default)]
pub(super) struct Interpreted {
    unread: VecDeque<Runs>,
    /// By the first address of their instructions, one after the other.
    found: BTreeMap<u64, Vec<Bytecodes>>,
    methods: usize,
    /// Up to where it was checked whether methods are still there.
    checked: u64,
    /// Methods came or went.
    pub(super) is_changed: bool,
}

/// The instructions of a method.
#[derive(Debug)]
struct Bytecodes {
    at: u64,
    range: Range<u64>,
    method: Method,
    identity: [u64; 5],
    since_ns: u64,
    /// When it was last seen.
    seen_ns: u64,
    is_gone: bool,
}

impl Interpreted {
    pub(super) fn note(&mut self, runs: Runs) {
        if self.unread.len() < MAX_UNREAD {
            self.unread.push_back(runs);
        }
    }

    pub(super) fn has_unread(&self) -> bool {
        !self.unread.is_empty()
    }

    /// Reads methods until a time.
    pub(super) fn read(&mut self, memory: Reader<'_>, of: &Methods, now_ns: u64, until: Instant) {
        while let Some(runs) = self.unread.front().copied()
            && Instant::now() < until
        {
            self.unread.pop_front();
            self.read_one(memory, of, now_ns, runs);
        }
    }

    fn read_one(&mut self, memory: Reader<'_>, of: &Methods, now_ns: u64, runs: Runs) -> Option<()> {
        let Runs { method: at, instruction } = runs;
        let known = self.found.range(..=instruction).next_back().and_then(|it| it.1.last());
        if known.is_some_and(|it| it.at == at && !it.is_gone && it.range.contains(&instruction)) {
            return Some(());
        }
        (self.methods < MAX_METHODS).then_some(())?;
        // A native method has no instructions: its address stands for them.
        let range = if instruction == at { at..at.checked_add(1)? } else { of.instructions(memory, at)? };
        range.contains(&instruction).then_some(())?;
        let identity = of.identity(memory, at)?;
        let method = of.read(memory, at)?;
        // It is still there after that.
        (of.identity(memory, at)? == identity).then_some(())?;
        self.methods += 1;
        self.is_changed = true;
        let before = self.found.entry(range.start).or_default();
        let since_ns = if before.is_empty() { 0 } else { now_ns };
        before.iter_mut().for_each(|it| it.is_gone = true);
        let (seen_ns, is_gone) = (now_ns, false);
        before.push(Bytecodes { at, range, method, identity, since_ns, seen_ns, is_gone });
        Some(())
    }

    /// Looks until a time whether some methods are still there, and the next time at others.
    pub(super) fn check(&mut self, memory: Reader<'_>, of: &Methods, now_ns: u64, until: Instant) {
        self.check_some(memory, of, now_ns, until, CHECKED_AT_ONCE);
    }

    /// Looks until a time whether all methods are still there.
    pub(super) fn check_all(&mut self, memory: Reader<'_>, of: &Methods, now_ns: u64, until: Instant) {
        self.checked = 0;
        self.check_some(memory, of, now_ns, until, usize::MAX);
    }

    fn check_some(&mut self, memory: Reader<'_>, of: &Methods, now_ns: u64, until: Instant, most: usize) {
        let from = std::mem::take(&mut self.checked);
        for (position, (start, found)) in self.found.range_mut(from..).enumerate() {
            if position >= most || Instant::now() >= until {
                self.checked = *start;
                break;
            }
            let Some(last) = found.last_mut().filter(|it| !it.is_gone) else { continue };
            match of.identity(memory, last.at) {
                Some(identity) if identity == last.identity => last.seen_ns = now_ns,
                Some(_) => (last.is_gone, self.is_changed) = (true, true),
                // The process ends, or the memory is free.
                None => {}
            }
        }
    }

    /// Lists where the instructions of the methods are that are still there, ascending; of two that overlap, the first.
    pub(super) fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges: Vec<Range<u64>> = Vec::new();
        let last = self.found.values().filter_map(|found| found.last().filter(|it| !it.is_gone));
        for Bytecodes { range, .. } in last {
            if ranges.last().is_none_or(|before| before.end <= range.start) {
                ranges.push(range.clone());
            }
        }
        ranges
    }

    /// Lists the methods as functions that an interpreter runs.
    pub(super) fn pieces(&self) -> impl Iterator<Item = Piece> + '_ {
        let piece = |it: &Bytecodes| {
            let file: Arc<[u8]> = Arc::clone(&it.method.file);
            let line = |(off, line)| Line { off, file: Arc::clone(&file), line, ..Line::default() };
            Piece {
                start: Avma(it.range.start),
                end: Avma(it.range.end),
                since_ns: it.since_ns,
                until_ns: if it.is_gone { it.seen_ns.max(it.since_ns + 1) } else { 0 },
                name: it.method.name.to_vec(),
                lines: it.method.lines().map(line).collect(),
                language: Language::JAVA,
                ..Piece::default()
            }
        };
        self.found.values().flatten().map(piece)
    }
}
