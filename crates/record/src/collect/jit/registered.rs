//! Finds the unwind tables that a program has given to `__register_frame` for code that it made, in its memory.
//!
//! ```text
//! libgcc_s, libunwind: variables ─► words that point to memory ─► … ─► entries of .eh_frame that cover a hit
//! ```
//!
//! No symbol names these variables, and no file states what they point to (lists in old versions, a tree since GCC 13, an array in
//! LLVM's library). So each word that leads to memory is followed, a few steps far. What it leads to is taken only if it is a
//! description of code that was hit, in memory of no file: the unwinder would use this description as well.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;

use icecore_elf::Avma;
use icecore_elf::cfi::{MAX_CIE_BYTES, MAX_ENTRY_BYTES};
use rustc_hash::FxHashSet;

use crate::foreign::memory::Memory;
use crate::proc::maps;
use icecore_jit::Requested;
use icecore_jit::{u32_at, u64_at};

/// The most bytes of variables that are looked at, and of what a word points to.
const MAX_VARIABLES: u64 = 256 << 10;
const POINTEE: usize = 256;
/// How far words are followed, and how many at most.
const MAX_STEPS: u32 = 5;
const MAX_POINTEES: usize = 1024;
/// The most bytes of entries that are read from one place, and the most descriptions of a process.
const MAX_TABLE: usize = 1 << 20;
const MAX_FOUND: usize = 64 << 10;
/// The bytes before the version in a common part: its length, and 0.
const VERSION_AT: usize = 8;

/// The description of a piece of code.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Registered {
    pub(super) code: Range<u64>,
    /// What entries share: the version; the factors and the register of the return address; whether it is a signal's; the instructions.
    version: u8,
    factors: Vec<u8>,
    is_signal: bool,
    shared: Vec<u8>,
    /// The instructions of this one.
    own: Vec<u8>,
}

impl fmt::Debug for Registered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x?}", self.code)
    }
}

/// The encodings of addresses that are read.
///
/// # Source
/// Linux Standard Base, "DWARF Exception Header Encoding"
const RELATIVE: u8 = 0x10;
const RELATIVE_4_BYTES: u8 = 0x1b;

/// Finds the descriptions of code in which an address lies, or that ends there, ascending by their code. Of descriptions that
/// contradict each other there is none.
pub(super) fn find(memory: &Memory<'_>, hits: Requested<'_>) -> Vec<Registered> {
    let text = memory.maps().unwrap_or_default();
    let (mut found, mut seen) = (Vec::new(), FxHashSet::default());
    let mut waiting: VecDeque<(u64, u32)> = VecDeque::new();
    for Range { start, end } in variables(&text) {
        let bytes = memory.read_up_to(start, (end - start).min(MAX_VARIABLES) as usize);
        waiting.extend(words(&bytes).map(|word| (word, 1)));
    }
    let is_mapped = is_mapped(&text);
    let mut pointees = 0;
    while let Some((at, steps)) = waiting.pop_front()
        && found.len() < MAX_FOUND
        && pointees < MAX_POINTEES
    {
        if at % 4 != 0 || !is_mapped(at) || !seen.insert(at) {
            continue;
        }
        pointees += 1;
        let before = found.len();
        entries(memory, at, hits, &mut found);
        if found.len() == before && steps < MAX_STEPS && at % 8 == 0 {
            let bytes = memory.read_up_to(at, POINTEE);
            waiting.extend(words(&bytes).map(|word| (word, steps + 1)));
        }
    }
    found.sort_by_key(|it: &Registered| (it.code.start, it.code.end));
    found.dedup();
    let contradict = |a: &Registered, b: &Registered| a.code.end > b.code.start;
    let is_alone = |at: usize| {
        let (before, after) = (at.checked_sub(1).map(|at| &found[at]), found.get(at + 1));
        !before.is_some_and(|before| contradict(before, &found[at]))
            && !after.is_some_and(|after| contradict(&found[at], after))
    };
    (0..found.len()).filter(|at| is_alone(*at)).map(|at| found[at].clone()).collect()
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).filter(|word| *word >= 4096)
}

/// Lists where the variables of unwinders are: writable mappings of their libraries, or of the program, and what follows without a file.
fn variables(maps: &[u8]) -> Vec<Range<u64>> {
    let lines: Vec<_> = maps::all(maps).collect();
    let name = |path: &[u8]| path.rsplit(|byte| *byte == b'/').next().unwrap_or(path).to_vec();
    let is_library =
        |path: &[u8]| [&b"libgcc_s.so"[..], b"libunwind.so"].iter().any(|own| name(path).starts_with(own));
    // A program that is linked statically has the unwinder in itself. It is mapped first.
    let program = lines.iter().find(|line| line.inode != 0).map(|line| line.path.to_vec());
    let of = |is_it: &dyn Fn(&[u8]) -> bool| -> Vec<Range<u64>> {
        let own = lines
            .iter()
            .enumerate()
            .filter(|(_, line)| line.is_writable && line.inode != 0 && is_it(&line.path));
        let with_rest = own.map(|(at, line)| {
            let rest = lines
                .get(at + 1)
                .filter(|rest| rest.start == line.end && rest.path.is_empty() && rest.is_writable);
            line.start..rest.map_or(line.end, |rest| rest.end)
        });
        with_rest.collect()
    };
    let libraries = of(&is_library);
    if libraries.is_empty() { of(&|path| program.as_deref() == Some(path)) } else { libraries }
}

/// Returns what tells whether memory is mapped.
fn is_mapped(maps: &[u8]) -> impl Fn(u64) -> bool {
    let ranges: Vec<Range<u64>> = maps::all(maps).map(|line| line.start..line.end).collect();
    move |at| {
        ranges[..ranges.partition_point(|range| range.start <= at)]
            .last()
            .is_some_and(|range| range.contains(&at))
    }
}

/// Reads the entries at an address, if there are some: those that follow a common part, or one description.
fn entries(memory: &Memory<'_>, at: u64, hits: Requested<'_>, found: &mut Vec<Registered>) {
    let mut head = [0; 12];
    if !memory.read(at, &mut head) {
        return;
    }
    let (len, id) = (u32_at(&head, 0), u32_at(&head, 4));
    match id {
        0 if (8..=MAX_CIE_BYTES).contains(&len) && [1, 3].contains(&head[VERSION_AT]) => {
            let bytes = memory.read_up_to(at, MAX_TABLE);
            found.extend(all(&bytes, at).filter(|it| is_hit(it, hits)).take(MAX_FOUND));
        }
        back if (16..=MAX_ENTRY_BYTES).contains(&len) && u64::from(back) <= MAX_TABLE as u64 => {
            let Some(before) = (back as usize).checked_sub(4) else { return };
            let Some(shared_at) = at.checked_sub(before as u64) else { return };
            let bytes = memory.read_up_to(shared_at, before + 4 + len as usize);
            found.extend(description(&bytes, shared_at, before).filter(|it| is_hit(it, hits)));
        }
        _ => {}
    }
}

fn is_hit(it: &Registered, hits: Requested<'_>) -> bool {
    !hits.within(Avma(it.code.start), Avma(it.code.end.saturating_add(1))).is_empty()
}

/// Reads the descriptions among entries that lie at an address, up to their end.
fn all(bytes: &[u8], at: u64) -> impl Iterator<Item = Registered> + '_ {
    let mut next = 0;
    let offsets = std::iter::from_fn(move || {
        let off = next;
        let len = bytes
            .get(off..off + 4)
            .map(|len| u32_at(len, 0))
            .filter(|len| *len > 0 && *len <= MAX_ENTRY_BYTES)?;
        next = off + 4 + len as usize;
        Some(off)
    });
    offsets.filter_map(move |off| description(bytes, at, off))
}

/// Reads the description at an offset in entries that lie at an address; `None` if it is none, or of an unknown form.
fn description(bytes: &[u8], at: u64, off: usize) -> Option<Registered> {
    let own = entry(bytes, off)?;
    let back = Some(u32_at(own.get(..4)?, 0)).filter(|back| *back > 0)?;
    let shared = entry(bytes, (off + 4).checked_sub(back as usize)?)?;
    let mut rest = Rest(shared.get(4..).filter(|_| shared[..4] == [0; 4])?);
    let version = rest.byte().filter(|version| [1, 3].contains(version))?;
    let text = rest.until_zero()?;
    let before = rest.0;
    rest.leb()?;
    rest.leb()?;
    if version == 1 { rest.byte().map(u64::from) } else { rest.leb() }?;
    let factors = before[..before.len() - rest.0.len()].to_vec();
    let (mut encoding, has_data) = (0, text.first() == Some(&b'z'));
    if has_data {
        let mut data = Rest(rest.counted()?);
        for letter in &text[1..] {
            match letter {
                b'R' => encoding = data.byte()?,
                b'L' => _ = data.byte()?,
                b'P' => {
                    let form = data.byte()?;
                    data.address(form, 0)?;
                }
                b'S' | b'B' => {}
                _ => return None,
            }
        }
    } else if !text.is_empty() {
        return None;
    }
    let shared = rest.0.to_vec();
    let mut rest = Rest(&own[4..]);
    let begin = rest.address(encoding, at.wrapping_add(off as u64 + 8))?;
    let len = rest.address(encoding & 0xf, 0)?;
    if has_data {
        rest.counted()?;
    }
    let code = begin..begin.checked_add(len).filter(|_| (1..=u64::from(u32::MAX)).contains(&len))?;
    Some(Registered { code, version, factors, is_signal: text.contains(&b'S'), shared, own: rest.0.to_vec() })
}

/// Returns the bytes of an entry behind its length.
fn entry(bytes: &[u8], off: usize) -> Option<&[u8]> {
    let len = u32_at(bytes.get(off..off.checked_add(4)?)?, 0);
    bytes.get(off + 4..off.checked_add(4 + len as usize)?).filter(|entry| entry.len() >= 4)
}

/// The bytes of an entry that were not read yet.
struct Rest<'d>(&'d [u8]);

impl<'d> Rest<'d> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    /// Reads a number of any length; signs do not matter here.
    fn leb(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn until_zero(&mut self) -> Option<&'d [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0)?;
        let text = &self.0[..len];
        self.0 = &self.0[len + 1..];
        Some(text)
    }

    fn counted(&mut self) -> Option<&'d [u8]> {
        let len = usize::try_from(self.leb()?).ok()?;
        let (counted, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(counted)
    }

    /// Reads an address in an encoding; `at` is where it lies.
    fn address(&mut self, encoding: u8, at: u64) -> Option<u64> {
        let len = match encoding & 0xf {
            0 | 4 | 0xc => 8,
            3 | 0xb => 4,
            _ => return None,
        };
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        let value = match encoding & 0xf {
            3 => u64::from(u32_at(bytes, 0)),
            0xb => i64::from(u32_at(bytes, 0).cast_signed()).cast_unsigned(),
            _ => u64_at(bytes, 0),
        };
        match encoding & 0xf0 {
            0 => Some(value),
            RELATIVE => Some(value.wrapping_add(at)),
            _ => None,
        }
    }
}

impl Registered {
    /// Returns true if it describes all of a piece of code.
    pub(super) fn covers(&self, piece: &Range<u64>) -> bool {
        self.code.start <= piece.start && piece.end <= self.code.end
    }

    /// Makes the description of code whose frames are known otherwise. The return address is in column 16, and there are no other factors
    /// than 1 and −8.
    pub(super) fn made(code: Range<u64>, shared: &[u8], own: Vec<u8>) -> Self {
        let factors = vec![1, 0x78, 16];
        Self { code, version: 1, factors, is_signal: false, shared: shared.to_vec(), own }
    }

    /// Writes the entries for a piece of code which it covers: they lie behind the piece, at a multiple of 8.
    pub(super) fn entries(&self, piece: &Range<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append(piece, &mut bytes);
        bytes
    }

    /// Adds its entries to others of a piece of code.
    pub(super) fn append(&self, piece: &Range<u64>, bytes: &mut Vec<u8>) {
        let at = (piece.end - piece.start).next_multiple_of(8);
        let text: &[u8] = if self.is_signal { b"zRS\0" } else { b"zR\0" };
        let shared =
            [&[0; 4], &[self.version][..], text, &self.factors, &[1, RELATIVE_4_BYTES], &self.shared];
        let shared_at = bytes.len();
        push(bytes, &shared.concat());
        let begin_at = bytes.len() as u64 + 8;
        let back = (bytes.len() - shared_at) as u32 + 4;
        let begin = self.code.start.wrapping_sub(piece.start).wrapping_sub(at + begin_at) as u32;
        let len = (self.code.end - self.code.start) as u32;
        let own = [&back.to_le_bytes(), &begin.to_le_bytes(), &len.to_le_bytes(), &[0][..], &self.own];
        push(bytes, &own.concat());
    }
}

/// Adds an entry, filled up to a multiple of 4 with instructions that do nothing.
fn push(bytes: &mut Vec<u8>, entry: &[u8]) {
    let len = entry.len().next_multiple_of(4);
    bytes.extend((len as u32).to_le_bytes());
    bytes.extend(entry);
    bytes.resize(bytes.len() + len - entry.len(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::Door;

    /// A common part and descriptions, in the encoding; they lie at 0x1000.
    fn table(encoding: u8, codes: &[Range<u64>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let shared = [&[0, 0, 0, 0, 1][..], b"zR\0", &[1, 0x78, 16, 1, encoding, 0x0c, 7, 8, 0x90, 1]];
        push(&mut bytes, &shared.concat());
        for code in codes {
            let back = (bytes.len() as u32 + 4).to_le_bytes();
            let at = 0x1000 + bytes.len() as u64 + 8;
            let (begin, len) = (code.start, code.end - code.start);
            let numbers = match encoding {
                0 => [begin.to_le_bytes(), len.to_le_bytes()].concat(),
                RELATIVE_4_BYTES => {
                    [(begin.wrapping_sub(at) as u32).to_le_bytes(), (len as u32).to_le_bytes()].concat()
                }
                _ => [begin.wrapping_sub(at).to_le_bytes(), len.to_le_bytes()].concat(),
            };
            push(&mut bytes, &[&back[..], &numbers, &[0, 0x41, 0x0e, 16]].concat());
        }
        bytes.extend([0; 4]);
        bytes
    }

    #[test]
    fn descriptions_are_read_in_each_encoding_and_written_behind_their_code() {
        let codes = [0x5000..0x5021, 0x9000..0x9100];
        for encoding in [0, RELATIVE_4_BYTES, 0x1c, RELATIVE] {
            let bytes = table(encoding, &codes);
            let found: Vec<Registered> = all(&bytes, 0x1000).collect();
            assert_eq!(found.iter().map(|it| it.code.clone()).collect::<Vec<_>>(), codes, "{encoding:#x}");
            assert_eq!((&found[0].own[..3], found[0].version), (&[0x41, 0x0e, 16][..], 1));
            // Behind a part of the code that it covers, it still describes all of it.
            let piece = 0x5010..0x5021;
            assert!(found[0].covers(&piece) && !found[0].covers(&(0x5010..0x5022)));
            let written = found[0].entries(&piece);
            let again: Vec<Registered> = all(&written, 0x5010 + 0x18).collect();
            assert_eq!(again.len(), 1);
            assert_eq!((&again[0].code, &again[0].factors), (&codes[0], &found[0].factors));
        }
    }

    #[test]
    fn descriptions_are_found_in_memory_whatever_lies_there() {
        let door = Door::of_test();
        let memory = Memory::of(std::process::id(), &door);
        let codes = [0x5000..0x5021, 0x9000..0x9100];
        let bytes = table(0, &codes);
        let found_at = |at: usize, bytes: &[u8], hit: u64| {
            let mut found = Vec::new();
            entries(&memory, bytes.as_ptr() as u64 + at as u64, Requested::new(&[Avma(hit)]), &mut found);
            found.into_iter().map(|it| it.code).collect::<Vec<_>>()
        };
        assert_eq!(found_at(0, &bytes, 0x5021), codes[..1]);
        assert_eq!(found_at(0, &bytes, 0x9000), codes[1..]);
        assert_eq!(found_at(0, &bytes, 0x5022), codes[..0]);
        // What LLVM's library keeps are descriptions, each for itself.
        let second = 24 + 28;
        assert_eq!(found_at(second, &bytes, 0x9050), codes[1..]);
        assert_eq!(found_at(second, &bytes, 0x5000), codes[..0]);
        for back in (0..64).chain([u32::MAX, 1 << 20]) {
            let mut broken = bytes.clone();
            broken[second + 4..second + 8].copy_from_slice(&back.to_le_bytes());
            assert!(found_at(second, &broken, 0x9050).len() <= 1);
        }
        assert_eq!(found_at(0, &[0xff; 64], 0), codes[..0]);
        let mut found = Vec::new();
        for at in [0, 8, u64::MAX - 3] {
            entries(&memory, at, Requested::new(&[Avma(0)]), &mut found);
        }
        assert!(found.is_empty());
    }

    #[test]
    fn whatever_bytes_are_there_nothing_breaks() {
        let codes = [0x5000..0x5021, 0x9000..0x9100];
        let bytes = table(RELATIVE_4_BYTES, &codes[..1]);
        for at in 0..bytes.len() {
            for byte in 0..=255 {
                let mut broken = bytes.clone();
                broken[at] = byte;
                assert!(all(&broken, 0x1000).count() <= 2);
            }
            assert!(all(&bytes[..at], 0x1000).count() <= 1);
            assert!(description(&bytes, u64::MAX, at).is_none_or(|it| !it.code.is_empty()));
        }
    }
}
