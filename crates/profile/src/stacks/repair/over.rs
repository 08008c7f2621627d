//! Follows walks that switch from one stack to another: Go runs its runtime, and C, on a stack of the thread.
//!
//! ```text
//! leaf … systemstack │ mark │ the function that called systemstack, and its callers
//!      inner         │      │ outer
//! ```
//!
//! The sampler puts a mark where Go itself notes that it has left a stack. If the mark is missing, so is a caller, and the walk is
//! cut there. The walk is also cut after a function that begins a stack: a frame pointer leads from there to no caller.
//!
//! An address that occurs twice in a row belongs to a function without a frame, or to one where C called Go. The sampler read the
//! next address from its fixed slot; no frame pointer led there. No walk shows frames of C: their stacks are snapshots of their
//! own. `parts` follows a walk through these cases.

mod parts;

use icecore_format::records::WalkEnd;

use super::choose::Walked;
use icecore_elf::Avma;
use icecore_unwind::{GoingOn, Modules, Unwinder};
use parts::{Part, Parts, Ways};

/// The most frames of a walk whose slots on the stack are searched.
const MAX_STEPS: usize = 4;

/// A walk, without its marks.
#[derive(Debug)]
pub(super) struct Walk {
    /// The frames from the leaf on that are proven to call each other.
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// The first part whose frames are not in `frames`.
    pub(super) next_part: usize,
    /// Return addresses that the sampler read first, each above the word to which a frame pointer leads: those before the mark.
    pub(super) steps: Vec<Avma>,
    parts: Parts,
    /// Some of the code is Go's.
    pub(super) is_of_go: bool,
}

/// Frames that are proven to call each other.
pub(super) struct Taken {
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// The first part that is not among these frames.
    pub(super) next_part: usize,
}

impl Walk {
    /// Prepares a walk, leaf first.
    pub(super) fn new(
        walked: Vec<Walked>,
        end: WalkEnd,
        code: &impl Modules,
        unwinder: &mut Unwinder,
    ) -> Self {
        // A mark is the address of a function that called nothing.
        let mut going_on = |position: usize, walked: &Walked| {
            let own = code.find(walked.address).and_then(|place| unwinder.going_on(&place));
            if position == 0 || own == Some(GoingOn::Mark) {
                return own;
            }
            unwinder.going_on(&code.find(walked.address.wrapping_sub(1))?)
        };
        let ways: Vec<_> = walked.iter().enumerate().map(|(at, walked)| going_on(at, walked)).collect();
        // After a function that switches stacks, frame pointers lead elsewhere.
        let goes_over = |way: &Option<GoingOn>| *way == Some(GoingOn::Elsewhere);
        let chained = ways.iter().position(goes_over).map_or(walked.len(), |at| at + usize::from(at > 0));
        let chained = chained.min(ways.iter().position(|way| *way == Some(GoingOn::Mark)).unwrap_or(chained));
        let followed = Ways { walked: &walked, ways: &ways };
        let is_step = |at: &usize| !followed.is_twice(*at) && !followed.is_twice(at - 1);
        let steps = (1..chained).filter(is_step).take(MAX_STEPS).map(|at| walked[at].address).collect();
        let is_of_go = ways.iter().any(Option::is_some);
        if ways.iter().all(|way| matches!(way, None | Some(GoingOn::Frame))) {
            let parts = Parts { list: Vec::new(), proven: Vec::new(), is_other: false };
            return Self { frames: walked, end, next_part: 0, steps, parts, is_of_go };
        }
        let parts = Parts::new(followed, end);
        let Taken { frames, end, next_part } = joined(&parts.list, 0).expect("bug: there is a first part");
        Self { frames, end, next_part, steps, parts, is_of_go }
    }

    /// Returns true if the walk differs from the one that the sampler sent.
    pub(super) fn is_other(&self) -> bool {
        self.parts.is_other
    }

    /// Returns the frames of a part of the walk and of the parts after it, as long as each is known to have called the one before.
    /// Part 0 lies before the first mark, part 1 after it.
    pub(super) fn part(&self, first: usize) -> Option<Taken> {
        joined(&self.parts.list, first)
    }

    /// Returns the number, counted from the innermost, of the C stack that a part called and that called the part inside.
    pub(super) fn callback(&self, part: usize) -> Option<usize> {
        let parts = &self.parts.list;
        parts.get(part).filter(|part| part.is_callback)?;
        Some(parts[..part].iter().filter(|part| part.is_callback).count())
    }

    /// Returns true if a return address is right whether or not its function keeps a frame pointer.
    pub(super) fn is_proven(&self, address: Avma) -> bool {
        self.parts.proven.contains(&address)
    }
}

/// Joins a part and the parts after it, as long as each is known to have called the one before.
fn joined(parts: &[Part], first: usize) -> Option<Taken> {
    let mut last = parts.get(first)?;
    let (mut frames, mut next_part) = (last.frames.clone(), first + 1);
    while let Some(part) = parts.get(next_part).filter(|_| !last.is_cut) {
        frames.extend(&part.frames);
        (last, next_part) = (part, next_part + 1);
    }
    Some(Taken { frames, end: if last.is_cut { WalkEnd::NOT_MONOTONIC } else { last.end }, next_part })
}
