//! Where the frames of a piece of code are, as unwind tables.
//!
//! HotSpot says how large the frame of a compiled method is, and `flow` where it is. The interpreter has its frame at rbp. Where nothing is
//! certain there is no table: then the unwinder guesses, and says so.
//!
//! # Source
//! OpenJDK `src/hotspot/cpu/x86/templateInterpreterGenerator_x86.cpp`, `generate_fixed_frame`

use std::collections::BTreeMap;
use std::ops::Range;

use super::cache::{Kind, Piece};
use super::flow::{Flow, follow};
use super::frame::{ADVANCE, Frame};

/// The bytes before an address that are looked at, and those from it on: up to the frame of the interpreter.
pub(super) const BEFORE: u64 = 96;
pub(super) const FROM: u64 = 192;

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
    /// At single addresses that were hit.
    single: BTreeMap<u64, Option<Frame>>,
    /// Where in a compiled method something else holds; it counts at the addresses that are hit.
    exceptions: Vec<(Range<u64>, Option<Frame>)>,
}

impl Frames {
    /// Finds the frames of a piece, given the code of a compiled method.
    pub(super) fn new(kind: Kind, piece: &Piece, code: &[u8]) -> Self {
        let words = u64::try_from(piece.frame_words).unwrap_or(0);
        let whole = Some(Frame::Pushed(8 * words));
        let all = |frame| Self { regular: vec![(0, frame)], ..Self::default() };
        match kind {
            // What calls a method by its handle jumps there.
            Kind::Method if words == 0 => all(Some(Frame::Bare(8))),
            Kind::Method if words >= 2 => {
                let (made_at, exceptions) = match follow(code, words) {
                    Some(Flow { made_at, exceptions }) => (Some(made_at), exceptions),
                    None => (u64::try_from(piece.frame_complete).ok(), Vec::new()),
                };
                let regular = [(0, None)].into_iter().chain(made_at.map(|off| (off, whole))).collect();
                Self { regular, exceptions, ..Self::default() }
            }
            Kind::Other if words >= 2 => all(whole),
            Kind::Interpreter => all(Some(Frame::Interpreted)),
            Kind::Frameless => all(Some(Frame::Bare(8))),
            _ => all(None),
        }
    }

    /// Looks at an address that was hit, and at the call before it.
    pub(super) fn hit(&mut self, kind: Kind, hit: &Hit<'_>) {
        match kind {
            Kind::Method => {
                for off in [hit.off.saturating_sub(1), hit.off] {
                    let behind = self.exceptions.partition_point(|(range, _)| range.end <= off);
                    let found = self.exceptions.get(behind).filter(|(range, _)| range.contains(&off));
                    self.single.extend(found.map(|(_, frame)| (off, *frame)));
                }
            }
            Kind::Interpreter if has_frame(hit) => {}
            // It may have called without its frame.
            Kind::Interpreter => {
                self.single.extend([hit.off.saturating_sub(1), hit.off].map(|off| (off, None)))
            }
            // A caller has its frame; here it may be making it. A call is looked up one byte earlier.
            Kind::Other => drop(self.single.insert(hit.off, None)),
            Kind::Stubs | Kind::Frameless => {}
        }
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

/// Returns true if code of the interpreter has its frame: it is not about to make one, is not making one, and has not given one back. After an
/// exception it does so before it calls, to find the handler in its caller.
fn has_frame(hit: &Hit<'_>) -> bool {
    let near = &hit.before[hit.before.len().saturating_sub(NEAR)..];
    let makes_one = |code: &[u8]| code[0] == PUSH_RBP && MOV_RBP_RSP.iter().any(|mov| code[1..] == mov[..]);
    // `leave`, the return address, and the stack pointer of the caller, from rbx.
    let gives_one_back = |code: &[u8]| code[0] == LEAVE && code[1..].windows(3).any(|mov| mov == MOV_RSP_RBX);
    let back = hit.before.windows(8).rposition(gives_one_back);
    let has_returned = |code: &[u8]| code.windows(2).any(|jump| jump[0] == 0xff && jump[1] & 0xf8 == 0xe0);
    let has_given_back = back.is_some_and(|at| !has_returned(&hit.before[at..]));
    !has_given_back && !near.contains(&LEAVE) && ![near, hit.from].concat().windows(4).any(makes_one)
}

const PUSH_RBP: u8 = 0x55;
const MOV_RBP_RSP: [[u8; 3]; 2] = [[0x48, 0x8b, 0xec], [0x48, 0x89, 0xe5]];
const MOV_RSP_RBX: [u8; 3] = [0x48, 0x8b, 0xe3];
const LEAVE: u8 = 0xc9;
/// How close an instruction is that makes or gives back a frame, bytes.
const NEAR: usize = 8;
