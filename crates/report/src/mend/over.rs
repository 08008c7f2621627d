//! Walks that go over from one stack to another: Go runs its runtime, and C, on a stack of the thread.
//!
//! ```text
//! leaf … systemstack │ the mark │ the function that has called it, and its callers
//!      inner         │          │ outer
//! ```
//!
//! The sampler puts a mark where Go itself notes that it has left a stack; without the mark a caller is missing there, and the walk
//! is cut. It is cut as well behind a function that begins a stack: what a frame pointer leads to from there is none.

use icecore_format::records::WalkEnd;

use super::choose::Walked;
use crate::unwind::{GoingOn, Modules, Unwinder};

/// The most frames of a walk whose places in the stack are looked for.
const MAX_STEPS: usize = 4;

/// A walk, without marks.
#[derive(Debug)]
pub(super) struct Walk {
    /// All frames, as far as they are proven to call each other.
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// How the walk of the sampler ended.
    outer_end: WalkEnd,
    /// The frames behind the mark, if there is one.
    outer: Option<Vec<Walked>>,
    /// Return addresses that the sampler has read first, each above where a frame pointer leads: those before the mark.
    pub(super) steps: Vec<u64>,
    /// Return addresses where no frame pointer is needed.
    proven: Vec<u64>,
    /// It is not what the sampler has sent.
    pub(super) is_other: bool,
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
        let mut walk = Self {
            frames: Vec::with_capacity(walked.len()),
            end,
            outer_end: end,
            outer: None,
            steps: Vec::new(),
            proven: Vec::new(),
            is_other: false,
        };
        // Behind a function that goes over, frame pointers lead elsewhere.
        let goes_over = |way: &Option<GoingOn>| *way == Some(GoingOn::Elsewhere);
        let chained = ways.iter().position(goes_over).map_or(walked.len(), |at| at + usize::from(at > 0));
        let chained = chained.min(ways.iter().position(|way| *way == Some(GoingOn::Mark)).unwrap_or(chained));
        walk.steps = walked[..chained].iter().skip(1).take(MAX_STEPS).map(|frame| frame.address).collect();
        if ways.iter().all(|way| matches!(way, None | Some(GoingOn::Frame))) {
            walk.frames = walked;
            return walk;
        }
        // Whether the frame before goes on elsewhere, or where no frame pointer leads, and whether the walk was cut.
        let (mut is_left, mut skips, mut is_cut, mut is_outer_cut) = (false, false, false, false);
        for (at, (frame, way)) in walked.iter().zip(&ways).enumerate() {
            if at > 0 && *way == Some(GoingOn::Mark) {
                walk.is_other = true;
                walk.outer = Some(Vec::new());
                is_cut |= !is_left;
                (is_left, is_outer_cut) = (false, false);
                continue;
            }
            // `morestack` is called where there is no frame yet.
            let is_bare = is_left && *way == Some(GoingOn::Bare);
            is_outer_cut |= (is_left && !is_bare) || skips;
            is_cut |= is_outer_cut;
            // What has called from where there is no frame has its own caller where no frame pointer leads.
            skips = at > 0 && *way == Some(GoingOn::Bare) && !is_bare;
            is_left = *way == Some(GoingOn::Elsewhere);
            if is_left || is_bare {
                walk.proven.push(frame.address);
            }
            if is_outer_cut {
                walk.outer_end = WalkEnd::NOT_MONOTONIC;
                break;
            }
            if let Some(outer) = &mut walk.outer {
                outer.push(*frame);
            }
            if !is_cut {
                walk.frames.push(*frame);
            }
            if *way == Some(GoingOn::Ends) {
                let is_last = at + 1 == walked.len();
                walk.is_other |= !is_last || end != WalkEnd::ROOT;
                walk.outer_end = WalkEnd::ROOT;
                break;
            }
        }
        (walk.is_other, walk.end) = match is_cut {
            true => (true, WalkEnd::NOT_MONOTONIC),
            false => (walk.is_other, walk.outer_end),
        };
        walk
    }

    /// The frames behind the mark and how they end, if there was one.
    pub(super) fn behind_mark(&self) -> Option<(&[Walked], WalkEnd)> {
        self.outer.as_ref().map(|outer| (&outer[..], self.outer_end))
    }

    /// Tells whether a return address needs a frame pointer in its function.
    pub(super) fn is_proven(&self, address: u64) -> bool {
        self.proven.contains(&address)
    }
}
