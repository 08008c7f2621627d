//! Follows a walk along frame pointers after a frame that unwinding has proven.
//!
//! ```text
//! unwound, by tables │ walked, by frame pointers
//! leaf … last ──────┼─► f ──► g ──► start
//!          keeps?   │   keeps?  keeps?
//! ```
//!
//! A frame pointer leads from a frame to its caller only if the function keeps one at the call. If unwind tables say that it does
//! not, its caller was skipped: the stack ends there. If no tables cover it, the next frame is a guess.

use icecore_format::records::{Mark, WalkEnd};

use super::choose::Walked;
use super::code::SpaceCode;
use super::over::Walk;
use super::suspect::Known;
use icecore_elf::Avma;
use icecore_unwind::{Edge, Frame, Modules as _, Unwinder, lookup};

/// The part of a walk that is known to be right.
pub(super) struct Carried<'c> {
    code: &'c SpaceCode<'c>,
    /// The last frame: its address, and the address by which its function is looked up.
    last: (Avma, Avma),
    /// Something other than a frame pointer leads to the next frame.
    is_led: bool,
    /// The number of frames that are callers, or may be.
    pub(super) count: usize,
    /// Positions of those frames that are guesses.
    pub(super) guesses: Vec<usize>,
    /// Unwind tables or code prove for each of these frames that the next one called it.
    pub(super) is_linked: bool,
    /// A signal interrupted one of the functions, which is missing.
    pub(super) passes_signal: bool,
    /// The walk reached a frame pointer of 0: a stack may begin there.
    pub(super) has_begun: bool,
}

impl<'c> Carried<'c> {
    /// Begins after a frame. `is_led`: Go has noted where the next one is.
    pub(super) fn from(last: &Frame, is_led: bool, code: &'c SpaceCode<'c>) -> Self {
        let passes_signal = code.is_trampoline(last);
        let last = (last.address, last.lookup());
        let (count, guesses) = Default::default();
        // The function that the signal interrupted is missing; its callers may be right.
        let is_led = is_led || passes_signal;
        Self { code, last, is_led, count, guesses, is_linked: true, passes_signal, has_begun: true }
    }

    /// Follows the rest of a walk.
    pub(super) fn follow(
        &mut self,
        rest: &[Walked],
        end: WalkEnd,
        walk: &Walk,
        known: &mut Known,
        unwinder: &mut Unwinder,
    ) {
        for next in rest {
            match self.keeps(walk, known, unwinder) {
                Some(true) => {}
                Some(false) => return,
                None => match self.code.edge(next.address, self.last.1, false) {
                    Edge::Calls => {}
                    Edge::Impossible => return,
                    Edge::MayCall | Edge::Unknown => {
                        self.guesses.push(self.count);
                        self.is_linked = false;
                    }
                },
            }
            self.count += 1;
            let is_interrupted = next.mark.has(Mark::INTERRUPTED);
            self.passes_signal |= is_interrupted;
            self.is_led = is_interrupted;
            self.last = (next.address, lookup(next.address, is_interrupted));
        }
        if end == WalkEnd::ROOT {
            match self.keeps(walk, known, unwinder) {
                Some(keeps) => self.has_begun = keeps,
                None => self.is_linked &= self.code.is_start(self.last.0),
            }
        }
    }

    /// Returns whether the function of the last frame keeps a frame pointer at its call, or begins a stack; `None` if unknown.
    fn keeps(&self, walk: &Walk, known: &mut Known, unwinder: &mut Unwinder) -> Option<bool> {
        if self.is_led || walk.is_proven(self.last.0) {
            return Some(true);
        }
        known.keeps(&self.code.find(self.last.1)?, unwinder)
    }
}
