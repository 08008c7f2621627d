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
//! own.

use icecore_format::records::WalkEnd;

use super::choose::Walked;
use icecore_elf::Avma;
use icecore_unwind::{GoingOn, Modules, Unwinder};

/// The most frames of a walk whose slots on the stack are searched.
const MAX_STEPS: usize = 4;

/// A walk, without its marks.
#[derive(Debug)]
pub(super) struct Walk {
    /// The frames from the leaf on that are proven to call each other.
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// The part of the walk after each mark.
    parts: Vec<Part>,
    /// The first part whose frames are not in `frames`.
    pub(super) next_part: usize,
    /// Return addresses that the sampler read first, each above the word to which a frame pointer leads: those before the mark.
    pub(super) steps: Vec<Avma>,
    /// Return addresses that are right whether or not their function keeps a frame pointer.
    proven: Vec<Avma>,
    /// The walk differs from the one that the sampler sent.
    pub(super) is_other: bool,
    /// Some of the code is Go's.
    pub(super) is_of_go: bool,
}

/// The part of a walk that lies on one stack.
#[derive(Debug)]
struct Part {
    frames: Vec<Walked>,
    end: WalkEnd,
    /// The next part is not known to have called the last frame of this one.
    is_cut: bool,
    before: Before,
}

/// Frames that are proven to call each other.
pub(super) struct Taken {
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// The first part that is not among these frames.
    pub(super) next_part: usize,
}

/// The stack between a part of a walk and the part inside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// None: the function switches stacks.
    Nothing,
    /// A stack of C code that called Go.
    Callback,
    /// C code on the sample's own stack.
    Unknown,
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
        // The frame after an address that occurs twice lies where no frame pointer leads.
        let is_twice = |at: usize| {
            at > 1 && walked[at - 1].address == walked[at].address && ways[at] == Some(GoingOn::Bare)
        };
        let is_step = |at: &usize| !is_twice(*at) && !is_twice(at - 1);
        let steps = (1..chained).filter(is_step).take(MAX_STEPS).map(|at| walked[at].address).collect();
        let mut walk = Self {
            frames: Vec::new(),
            end,
            parts: Vec::new(),
            next_part: 0,
            steps,
            proven: Vec::new(),
            is_other: false,
            is_of_go: ways.iter().any(Option::is_some),
        };
        if ways.iter().all(|way| matches!(way, None | Some(GoingOn::Frame))) {
            walk.frames = walked;
            return walk;
        }
        let mut part =
            Part { frames: Vec::with_capacity(walked.len()), end, is_cut: false, before: Before::Nothing };
        // Whether the frame before continues on another stack, where no frame pointer leads, or in C.
        let (mut is_left, mut skips, mut is_back) = (false, false, false);
        for (at, (frame, way)) in walked.iter().zip(&ways).enumerate() {
            if at > 0 && *way == Some(GoingOn::Mark) {
                let before = match (is_left, is_back) {
                    (true, _) => Before::Nothing,
                    (_, true) => Before::Callback,
                    _ => Before::Unknown,
                };
                part.is_cut |= before != Before::Nothing;
                let next = Part { frames: Vec::new(), end, is_cut: false, before };
                walk.parts.push(std::mem::replace(&mut part, next));
                (is_left, skips, is_back) = (false, false, false);
                continue;
            }
            if part.is_cut {
                continue;
            }
            // `morestack` was called before the caller had made its frame: the walk switches stacks at the leaf.
            if at == 1 && !is_left && *way == Some(GoingOn::Bare) && !(walked.len() > 2 && is_twice(2)) {
                part.is_cut = true;
                let next = Part { frames: vec![*frame], end, is_cut: false, before: Before::Unknown };
                walk.parts.push(std::mem::replace(&mut part, next));
                walk.proven.push(frame.address);
                continue;
            }
            if is_twice(at) {
                walk.proven.push(frame.address);
                (skips, walk.is_other) = (false, true);
                continue;
            }
            let is_before_mark = ways.get(at + 1) == Some(&Some(GoingOn::Mark));
            if at > 1 && is_before_mark && walked[at - 1].address == frame.address {
                (is_back, walk.is_other) = (true, true);
                continue;
            }
            // `morestack` is called by functions that have not made their frames yet.
            let is_bare = is_left && *way == Some(GoingOn::Bare);
            if (is_left && !is_bare) || skips {
                (part.is_cut, walk.is_other) = (true, true);
                continue;
            }
            // If a function calls without a frame, no frame pointer leads to its caller.
            skips = at > 0 && *way == Some(GoingOn::Bare) && !is_bare;
            is_left = *way == Some(GoingOn::Elsewhere);
            if is_left || is_bare {
                walk.proven.push(frame.address);
            }
            part.frames.push(*frame);
            if *way == Some(GoingOn::Ends) {
                walk.is_other |= at + 1 < walked.len() || end != WalkEnd::ROOT;
                part.end = WalkEnd::ROOT;
                break;
            }
        }
        walk.parts.push(part);
        walk.is_other |= walk.parts.len() > 1;
        if let Some(taken) = walk.part(0) {
            (walk.frames, walk.end, walk.next_part) = (taken.frames, taken.end, taken.next_part);
        }
        walk
    }

    /// Returns the frames of a part of the walk and of the parts after it, as long as each is known to have called the one before.
    /// Part 0 lies before the first mark, part 1 after it.
    pub(super) fn part(&self, first: usize) -> Option<Taken> {
        let mut last = self.parts.get(first)?;
        let (mut frames, mut next_part) = (last.frames.clone(), first + 1);
        while let Some(part) = self.parts.get(next_part).filter(|_| !last.is_cut) {
            frames.extend(&part.frames);
            (last, next_part) = (part, next_part + 1);
        }
        Some(Taken { frames, end: if last.is_cut { WalkEnd::NOT_MONOTONIC } else { last.end }, next_part })
    }

    /// Returns the number, counted from the innermost, of the C stack that a part called and that called the part inside.
    pub(super) fn callback(&self, part: usize) -> Option<usize> {
        let is_callback = |part: &&Part| part.before == Before::Callback;
        self.parts.get(part).filter(is_callback)?;
        Some(self.parts[..part].iter().filter(is_callback).count())
    }

    /// Returns true if a return address is right whether or not its function keeps a frame pointer.
    pub(super) fn is_proven(&self, address: Avma) -> bool {
        self.proven.contains(&address)
    }
}
