//! What is known of frames in code of HotSpot, as unwind tables.
//!
//! ```text
//! compiled method     begin            push %rbp       sub $n, %rsp                      add, pop %rbp     ret
//! CFA                 rsp + 8          rsp + 16        rsp + 8 × words of the frame      rsp + 16          rsp + 8
//! ```
//!
//! The interpreter has its frame at rbp. Where nothing is certain there is no table: then the unwinder guesses, and says so.
//!
//! # Source
//! OpenJDK `src/hotspot/cpu/x86/macroAssembler_x86.cpp`, `verified_entry`; `c1_MacroAssembler_x86.cpp`, `build_frame`;
//! `templateInterpreterGenerator_x86.cpp`, `generate_fixed_frame`

use std::collections::BTreeMap;
use std::ops::Range;

use super::cache::{Kind, Piece};

/// Registers by their numbers in DWARF.
const RBP: u8 = 6;
const RSP: u8 = 7;
/// Instructions of unwind tables.
const ADVANCE: u8 = 0x04;
const CFA: u8 = 0x0c;
const OFFSET: u8 = 0x80;
const RESTORE: u8 = 0xc0;
const CFA_EXPRESSION: u8 = 0x0f;
const EXPRESSION: u8 = 0x10;
/// What expressions are made of: rbp and a number, and what lies at an address.
const AT_RBP: u8 = 0x76;
const DEREF: u8 = 0x06;

/// What entries of these tables share: at the begin, the CFA is rsp + 8, and the return address below it.
pub(super) const SHARED: [u8; 5] = [CFA, RSP, 8, OFFSET | 16, 1];

/// The bytes before an address that are looked at, and those from it on: up to the frame of the interpreter.
pub(super) const BEFORE: u64 = 8;
pub(super) const FROM: u64 = 192;
/// The most bytes from the begin of a method to its frame.
pub(super) const MAX_PROLOGUE: u64 = 256;

/// How a frame is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Frame {
    /// The CFA is this many bytes above rsp; the caller's rbp is in rbp.
    Bare(u64),
    /// The same, and the caller's rbp is saved below the return address.
    Pushed(u64),
    /// At rbp, as a frame pointer has it.
    AtRbp,
    /// Of the interpreter, at rbp. Its caller's stack pointer lies below that: what the caller passed may have been moved, and room made for
    /// local variables.
    Interpreted,
}

impl Frame {
    /// The instructions that state it, after what entries share.
    fn instructions(self) -> Vec<u8> {
        let cfa = |register: u8, mut offset: u64| {
            let mut bytes = vec![CFA, register];
            while offset > 0x7f {
                bytes.push(offset as u8 | 0x80);
                offset >>= 7;
            }
            bytes.push(offset as u8);
            bytes
        };
        match self {
            Self::Bare(off) => [cfa(RSP, off), vec![RESTORE | RBP]].concat(),
            Self::Pushed(off) => [cfa(RSP, off), vec![OFFSET | RBP, 2]].concat(),
            Self::AtRbp => [cfa(RBP, 16), vec![OFFSET | RBP, 2]].concat(),
            Self::Interpreted => {
                let at_rbp = |off: u8| [AT_RBP, off];
                let [saved, returns] = [at_rbp(0), at_rbp(8)].map(|[op, off]| [2, op, off]);
                let rule = |register: u8, rule: [u8; 3]| [&[EXPRESSION, register][..], &rule].concat();
                let cfa = [CFA_EXPRESSION, 3, AT_RBP, 0x78, DEREF].to_vec();
                [cfa, rule(RBP, saved), rule(16, returns)].concat()
            }
        }
    }
}

/// The code of a piece around a hit.
pub(super) struct Hit<'a> {
    /// Where it is, from the begin of the code.
    pub(super) off: u64,
    /// The bytes before it, and from it on.
    pub(super) before: &'a [u8],
    pub(super) from: &'a [u8],
}

/// The frames of a piece of code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Frames {
    /// From these offsets on; `None`: unknown.
    regular: Vec<(u64, Option<Frame>)>,
    /// At single addresses that were hit, where code gives its frame back.
    single: BTreeMap<u64, Option<Frame>>,
}

impl Frames {
    /// Finds the frames of a piece, given the first bytes of its code.
    pub(super) fn new(kind: Kind, piece: &Piece, begin: &[u8]) -> Self {
        let words = u64::try_from(piece.frame_words).unwrap_or(0);
        let complete = u64::try_from(piece.frame_complete).ok();
        let all = |frame| Self { regular: vec![(0, frame)], single: BTreeMap::new() };
        match kind {
            // What calls a method by its handle jumps there.
            Kind::Method if words == 0 => all(Some(Frame::Bare(8))),
            Kind::Method if words >= 2 => {
                Self { regular: of_method(begin, words, complete), single: BTreeMap::new() }
            }
            Kind::Other if words >= 2 => all(Some(Frame::Pushed(8 * words))),
            Kind::Interpreter => all(Some(Frame::Interpreted)),
            Kind::Frameless => all(Some(Frame::Bare(8))),
            _ => all(None),
        }
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> &[(u64, Option<Frame>)] {
        &self.regular
    }

    /// Looks at an address that was hit: code may give its frame back there, or not have it yet.
    pub(super) fn hit(&mut self, kind: Kind, hit: &Hit<'_>) {
        let frame = match (kind, hit.from) {
            (Kind::Method, [0x5d, ..]) => Some(Frame::Pushed(16)),
            (Kind::Method, from) if is_behind_frame(from) => Some(Frame::Bare(8)),
            (Kind::Interpreter, _) if !has_frame(hit) => None,
            // A caller has its frame; here it may be making it. A call is looked up one byte earlier.
            (Kind::Other, _) => None,
            _ => return,
        };
        self.single.insert(hit.off, frame);
    }

    /// Notes that code which has its frame at rbp has called from before an address.
    pub(super) fn called(&mut self, off: u64) {
        self.single.extend([off.saturating_sub(1), off].map(|off| (off, Some(Frame::AtRbp))));
    }

    /// Lists from where on which frame is known.
    pub(super) fn marks(&self) -> BTreeMap<u64, Option<Frame>> {
        let regular = |off: u64| self.regular.iter().rev().find(|it| it.0 <= off).and_then(|it| it.1);
        let mut marks: BTreeMap<u64, Option<Frame>> = self.regular.iter().copied().collect();
        marks.extend(self.single.keys().map(|off| (off + 1, regular(off + 1))));
        marks.extend(&self.single);
        marks
    }

    /// Lists the stretches of the code, of `len` bytes, whose frames are known, with the instructions of their tables.
    pub(super) fn tables(&self, len: u64) -> Vec<(Range<u64>, Vec<u8>)> {
        let marks = self.marks();
        let mut tables: Vec<(Range<u64>, Vec<u8>)> = Vec::new();
        let ends = marks.keys().skip(1).copied().chain([len]);
        for ((off, frame), end) in marks.iter().zip(ends).filter(|((off, _), _)| **off < len) {
            let Some(frame) = frame else { continue };
            let end = end.min(len);
            match tables.last_mut() {
                Some((range, bytes)) if range.end == *off => {
                    let before = marks.range(range.start..*off).next_back().map_or(range.start, |it| *it.0);
                    bytes.push(ADVANCE);
                    bytes.extend(((off - before) as u32).to_le_bytes());
                    bytes.extend(frame.instructions());
                    range.end = end;
                }
                _ => tables.push((*off..end, frame.instructions())),
            }
        }
        tables
    }
}

/// Finds where a method makes its frame of some words: `push %rbp; sub $n, %rsp`, or `sub $n, %rsp; mov %rbp, n(%rsp)`.
fn of_method(begin: &[u8], words: u64, complete: Option<u64>) -> Vec<(u64, Option<Frame>)> {
    let before = complete.map_or(begin.len(), |off| begin.len().min(off as usize));
    let begin = &begin[..before];
    let made = |at: usize| {
        let saves_first = begin[at] == PUSH_RBP;
        let mut next = at + usize::from(saves_first);
        if saves_first {
            let is_copied = MOV_RBP_RSP.iter().any(|mov| begin[next..].starts_with(mov));
            next += if is_copied { MOV_RBP_RSP[0].len() } else { 0 };
        }
        let below = 8 * words - if saves_first { 16 } else { 8 };
        let (len, taken) = subtracted(&begin[next..])?;
        next += len;
        (taken == below).then_some(())?;
        let stored = match &begin[next..] {
            _ if saves_first => {
                return Some(
                    [(at as u64 + 1, 16), (next as u64, 8 * words)]
                        .map(|(off, cfa)| (off, Some(Frame::Pushed(cfa)))),
                );
            }
            [0x48, 0x89, 0x6c, 0x24, ..] => 5,
            [0x48, 0x89, 0xac, 0x24, ..] => 8,
            _ => return None,
        };
        let (sub, store) = (next as u64, (next + stored) as u64);
        Some([(sub, Some(Frame::Bare(8 * words))), (store, Some(Frame::Pushed(8 * words)))])
    };
    let first = (0, Some(Frame::Bare(8)));
    if let Some(rows) = (0..begin.len()).find_map(made) {
        return [&[first][..], &rows].concat();
    }
    match (complete, begin.last()) {
        // A frame of two words is what `push` makes.
        (Some(off), Some(&PUSH_RBP)) if words == 2 => vec![first, (off, Some(Frame::Pushed(16)))],
        (Some(off), _) => vec![(0, None), (off, Some(Frame::Pushed(8 * words)))],
        (None, _) => vec![(0, None)],
    }
}

const PUSH_RBP: u8 = 0x55;
const MOV_RBP_RSP: [[u8; 3]; 2] = [[0x48, 0x8b, 0xec], [0x48, 0x89, 0xe5]];
const LEAVE: u8 = 0xc9;

/// Reads `sub $n, %rsp`: its bytes, and n.
fn subtracted(code: &[u8]) -> Option<(usize, u64)> {
    match *code {
        [0x48, 0x81, 0xec, a, b, c, d, ..] => Some((7, u64::from(u32::from_le_bytes([a, b, c, d])))),
        [0x48, 0x83, 0xec, n @ 0..=0x7f, ..] => Some((4, u64::from(n))),
        _ => None,
    }
}

/// Returns true if a method has given its frame back: it returns, or asks before that whether it shall stop, in one of the ways of JDK 8
/// to 25.
fn is_behind_frame(code: &[u8]) -> bool {
    matches!(
        code,
        [0xc3, ..]
            | [0x49, 0x3b, 0xa7, _, _, _, _, 0x0f, 0x87, ..]
            | [0x49, 0x3b, 0x67, _, 0x0f, 0x87, ..]
            | [0x0f, 0x87, _, _, _, _, 0xc3, ..]
            | [0x85, 0x05, _, _, _, _, 0xc3, ..]
            | [0x41, 0x85, 0x02, 0xc3, ..]
            | [0x4d, 0x8b, 0x97, _, _, _, _, 0x41, 0x85, 0x02, 0xc3, ..]
    )
}

/// Returns true if code of the interpreter has its frame: it is not about to make one, is not making one, and has not just given one back.
fn has_frame(hit: &Hit<'_>) -> bool {
    let makes_one = |code: &[u8]| code[0] == PUSH_RBP && MOV_RBP_RSP.iter().any(|mov| code[1..] == mov[..]);
    !hit.before.contains(&LEAVE) && ![hit.before, hit.from].concat().windows(4).any(makes_one)
}
