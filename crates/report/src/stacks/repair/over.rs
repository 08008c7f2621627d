//! Walks that go over from one stack to another: Go runs its runtime, and C, on a stack of the thread.
//!
//! ```text
//! leaf … systemstack │ the mark │ the function that has called it, and its callers
//!      inner         │          │ outer
//! ```
//!
//! The sampler puts a mark where Go itself notes that it has left a stack; without the mark a caller is missing there, and the walk
//! is cut. It is cut as well behind a function that begins a stack: what a frame pointer leads to from there is none.
//!
//! An address that stands there twice has no frame, or is where C has called Go: what follows was read where it must lie, and no
//! frame pointer has led there. C itself is on no walk; its stacks are snapshots of their own.

use icecore_format::records::WalkEnd;

use super::choose::Walked;
use icecore_unwind::{GoingOn, Modules, Unwinder};

/// The most frames of a walk whose places in the stack are looked for.
const MAX_STEPS: usize = 4;

/// A walk, without marks.
#[derive(Debug)]
pub(super) struct Walk {
    /// The frames from the leaf on, as far as they are proven to call each other.
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// What lies behind each mark.
    parts: Vec<Part>,
    /// The first part that is not among `frames`.
    pub(super) next_part: usize,
    /// Return addresses that the sampler has read first, each above where a frame pointer leads: those before the mark.
    pub(super) steps: Vec<u64>,
    /// Return addresses where no frame pointer is needed.
    proven: Vec<u64>,
    /// It is not what the sampler has sent.
    pub(super) is_other: bool,
    /// Some of it is code of Go.
    pub(super) is_of_go: bool,
}

/// A part of a walk on one stack.
#[derive(Debug)]
struct Part {
    frames: Vec<Walked>,
    end: WalkEnd,
    /// What follows is not known to have called its last frame.
    is_cut: bool,
    before: Before,
}

/// Frames that are proven to call each other.
pub(super) struct Taken {
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// The first part that is not among them.
    pub(super) next_part: usize,
}

/// What lies between a part of a walk and the one inside of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// Nothing: a function that goes over to another stack.
    Nothing,
    /// A stack of C from which Go was called.
    Callback,
    /// Code of C, of the sample's own stack.
    Unknown,
}

impl Walk {
    /// Looks at a walk, leaf first.
    pub(super) fn new(
        walked: Vec<Walked>,
        end: WalkEnd,
        code: &impl Modules,
        unwinder: &mut Unwinder,
    ) -> Self {
        // A mark is the address of a function, where nobody has called anything.
        let mut going_on = |position: usize, walked: &Walked| {
            let own = code.find(walked.address).and_then(|place| unwinder.going_on(&place));
            if position == 0 || own == Some(GoingOn::Mark) {
                return own;
            }
            unwinder.going_on(&code.find(walked.address.checked_sub(1)?)?)
        };
        let ways: Vec<_> = walked.iter().enumerate().map(|(at, walked)| going_on(at, walked)).collect();
        // Behind a function that goes over, frame pointers lead elsewhere.
        let goes_over = |way: &Option<GoingOn>| *way == Some(GoingOn::Elsewhere);
        let chained = ways.iter().position(goes_over).map_or(walked.len(), |at| at + usize::from(at > 0));
        let chained = chained.min(ways.iter().position(|way| *way == Some(GoingOn::Mark)).unwrap_or(chained));
        // What stands behind an address that is there twice lies where no frame pointer leads.
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
        // Whether the frame before goes on elsewhere, where no frame pointer leads, or to C.
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
            // `morestack` was called, and what it calls has no frame yet: the walk goes over from the leaf.
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
            // `morestack` is called where there is no frame yet.
            let is_bare = is_left && *way == Some(GoingOn::Bare);
            if (is_left && !is_bare) || skips {
                (part.is_cut, walk.is_other) = (true, true);
                continue;
            }
            // What has called from where there is no frame has its own caller where no frame pointer leads.
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

    /// Takes the frames of a part of the walk and of those that follow it, as far as each is known to have called the one before.
    /// Part 0 is in front of the first mark, part 1 behind it.
    pub(super) fn part(&self, first: usize) -> Option<Taken> {
        let mut last = self.parts.get(first)?;
        let (mut frames, mut next_part) = (last.frames.clone(), first + 1);
        while let Some(part) = self.parts.get(next_part).filter(|_| !last.is_cut) {
            frames.extend(&part.frames);
            (last, next_part) = (part, next_part + 1);
        }
        Some(Taken { frames, end: if last.is_cut { WalkEnd::NOT_MONOTONIC } else { last.end }, next_part })
    }

    /// The number of the stack of C that a part has called and that has called what is inside of it, counted from the innermost.
    pub(super) fn callback(&self, part: usize) -> Option<usize> {
        let is_callback = |part: &&Part| part.before == Before::Callback;
        self.parts.get(part).filter(is_callback)?;
        Some(self.parts[..part].iter().filter(is_callback).count())
    }

    /// Tells whether a return address needs a frame pointer in its function.
    pub(super) fn is_proven(&self, address: u64) -> bool {
        self.proven.contains(&address)
    }
}
