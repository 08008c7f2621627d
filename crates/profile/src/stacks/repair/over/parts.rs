//! Cuts a walk where it leaves a stack, and where a caller is missing.
//!
//! | state \ next | mark | again | callback | at the leaf's caller | frame |
//! |---|---|---|---|---|---|
//! | `Chained` | cut here | `Chained` | `CalledBack` | cut here, `Chained` | by its function |
//! | `Left` | `Chained` | – | `Left` | `Chained` | `Chained` if it has no frame, else `Cut` |
//! | `Frameless` | cut here | `Chained` | – | – | `Cut` |
//! | `CalledBack` | cut here: called by C | – | – | – | – |
//! | `Cut` | `Chained` | `Cut` | `Cut` | – | `Cut` |
//!
//! *By its function*: after one that switches stacks `Left`, after one without a frame `Frameless`, after one that begins a stack
//! `Ended`, else `Chained`. A dash stands for what cannot follow.

use icecore_format::records::WalkEnd;

use super::super::choose::Walked;
use icecore_elf::Avma;
use icecore_unwind::GoingOn;

/// The parts of a walk.
#[derive(Debug)]
pub(super) struct Parts {
    /// One more than there are marks, the innermost first, unless a stack begins before a mark.
    pub(super) list: Vec<Part>,
    /// Return addresses that are right whether or not their function keeps a frame pointer.
    pub(super) proven: Vec<Avma>,
    /// They differ from the walk that the sampler sent.
    pub(super) is_other: bool,
}

/// The part of a walk that lies on one stack.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) frames: Vec<Walked>,
    pub(super) end: WalkEnd,
    /// The next part is not known to have called the last frame of this one.
    pub(super) is_cut: bool,
    /// C code on a stack of its own called the part before, and was called by this one.
    pub(super) is_callback: bool,
}

/// What the last frame says about the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// A frame pointer leads to it.
    Chained,
    /// The function switched stacks: a mark follows, or a function that had not made its frame yet.
    Left,
    /// The function had no frame, so no frame pointer leads to its caller: its own return address must follow again.
    Frameless,
    /// C code, which called Go back, follows: a mark is next.
    CalledBack,
    /// The caller is missing: nothing counts up to the next mark.
    Cut,
    /// There is none: a stack begins with the function.
    Ended,
}

/// The next address of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Go has noted that it left a stack.
    Mark,
    /// The address of a function without a frame once more: the sampler read it from its fixed slot.
    Again,
    /// An address once more, before a mark: it was left when Go called C.
    Callback,
    /// The caller of the leaf had not made its frame when the leaf, `morestack`, switched stacks.
    LeafsCaller,
    /// A function, and how the stack continues after it.
    Frame(Option<GoingOn>),
}

/// The frames of a walk, and how the stack continues after each.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ways<'a> {
    pub(super) walked: &'a [Walked],
    pub(super) ways: &'a [Option<GoingOn>],
}

impl Ways<'_> {
    /// Returns true if an address of a function without a frame occurs twice in a row: the frame after it lies where no frame
    /// pointer leads.
    pub(super) fn is_twice(&self, at: usize) -> bool {
        self.is_repeated(at) && self.ways[at] == Some(GoingOn::Bare)
    }

    fn is_repeated(&self, at: usize) -> bool {
        at > 1 && self.walked.get(at).is_some_and(|walked| walked.address == self.walked[at - 1].address)
    }

    fn step(&self, at: usize) -> Step {
        let way = self.ways[at];
        match (at, way) {
            // What the sampler interrupted is neither a mark nor a caller.
            (0, Some(GoingOn::Mark | GoingOn::Bare)) => Step::Frame(None),
            (_, Some(GoingOn::Mark)) => Step::Mark,
            (1, Some(GoingOn::Bare)) if !self.is_twice(2) => Step::LeafsCaller,
            _ if self.is_twice(at) => Step::Again,
            _ if self.is_repeated(at) && self.ways.get(at + 1) == Some(&Some(GoingOn::Mark)) => {
                Step::Callback
            }
            _ => Step::Frame(way),
        }
    }
}

impl Parts {
    /// Follows a walk.
    pub(super) fn new(walk: Ways<'_>, end: WalkEnd) -> Self {
        let first = Part { frames: Vec::with_capacity(walk.walked.len()), ..Part::new(end) };
        let mut parts = Self { list: vec![first], proven: Vec::new(), is_other: false };
        let mut state = State::Chained;
        for (at, frame) in walk.walked.iter().enumerate() {
            state = parts.next(state, walk.step(at), *frame);
            if state == State::Ended {
                parts.is_other |= at + 1 < walk.walked.len() || end != WalkEnd::ROOT;
                parts.last().end = WalkEnd::ROOT;
                break;
            }
        }
        parts.is_other |= parts.list.len() > 1;
        parts
    }

    /// Takes a frame, and returns what it says about the next one.
    fn next(&mut self, state: State, step: Step, frame: Walked) -> State {
        match (state, step) {
            (State::Ended, _) => State::Ended,
            (_, Step::Mark) => {
                self.last().is_cut |= state != State::Left;
                self.begin(state == State::CalledBack);
                State::Chained
            }
            (State::Cut, _) => State::Cut,
            (State::Chained, Step::LeafsCaller) => {
                self.last().is_cut = true;
                self.begin(false);
                self.prove(frame);
                State::Chained
            }
            (State::Left, Step::LeafsCaller | Step::Frame(Some(GoingOn::Bare))) => {
                self.prove(frame);
                State::Chained
            }
            (_, Step::Again) => {
                self.proven.push(frame.address);
                self.is_other = true;
                State::Chained
            }
            (_, Step::Callback) => {
                self.is_other = true;
                if state == State::Left { State::Left } else { State::CalledBack }
            }
            (State::Chained, Step::Frame(Some(GoingOn::Elsewhere))) => {
                self.prove(frame);
                State::Left
            }
            (State::Chained, Step::Frame(way)) => {
                self.last().frames.push(frame);
                match way {
                    Some(GoingOn::Bare) => State::Frameless,
                    Some(GoingOn::Ends) => State::Ended,
                    _ => State::Chained,
                }
            }
            (State::Left | State::Frameless | State::CalledBack, Step::Frame(_) | Step::LeafsCaller) => {
                self.last().is_cut = true;
                self.is_other = true;
                State::Cut
            }
        }
    }

    fn prove(&mut self, frame: Walked) {
        self.proven.push(frame.address);
        self.last().frames.push(frame);
    }

    fn begin(&mut self, is_callback: bool) {
        let end = self.last().end;
        self.list.push(Part { is_callback, ..Part::new(end) });
    }

    fn last(&mut self) -> &mut Part {
        self.list.last_mut().expect("bug: there is a first part")
    }
}

impl Part {
    fn new(end: WalkEnd) -> Self {
        Self { frames: Vec::new(), end, is_cut: false, is_callback: false }
    }
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{Location, Mark};

    use super::*;

    const FRAME: Option<GoingOn> = Some(GoingOn::Frame);
    const BARE: Option<GoingOn> = Some(GoingOn::Bare);
    const ELSEWHERE: Option<GoingOn> = Some(GoingOn::Elsewhere);
    const MARK: Option<GoingOn> = Some(GoingOn::Mark);
    const ENDS: Option<GoingOn> = Some(GoingOn::Ends);

    /// Follows a walk of addresses and what follows them, and returns the addresses of each part, with `!` if the next part is not
    /// known to have called it and `C` if C called the part before.
    fn parts(walk: &[(u64, Option<GoingOn>)]) -> (Vec<String>, Parts) {
        let walked = |(address, _): &(u64, _)| Walked {
            address: Avma(*address),
            location: Location::Address(*address),
            mark: Mark::NONE,
        };
        let walked: Vec<Walked> = walk.iter().map(walked).collect();
        let ways: Vec<_> = walk.iter().map(|(_, way)| *way).collect();
        let parts = Parts::new(Ways { walked: &walked, ways: &ways }, WalkEnd::NOT_CODE);
        let part = |part: &Part| {
            let frames: String = part.frames.iter().map(|frame| frame.address.0.to_string()).collect();
            let from_c = if part.is_callback { "C" } else { "" };
            format!("{from_c}{frames}{}", if part.is_cut { "!" } else { "" })
        };
        (parts.list.iter().map(part).collect(), parts)
    }

    /// Follows a walk, and returns its parts, the proven addresses, and whether it differs from what was walked.
    fn followed(walk: &[(u64, Option<GoingOn>)]) -> (Vec<String>, Vec<u64>, bool) {
        let (texts, parts) = parts(walk);
        (texts, parts.proven.iter().map(|address| address.0).collect(), parts.is_other)
    }

    fn expected(parts: &[&str], proven: &[u64], is_other: bool) -> (Vec<String>, Vec<u64>, bool) {
        (parts.iter().map(|&part| part.to_owned()).collect(), proven.to_vec(), is_other)
    }

    #[test]
    fn frame_pointers_lead_through_functions_with_frames() {
        assert_eq!(followed(&[(1, FRAME), (2, None), (3, FRAME)]), expected(&["123"], &[], false));
    }

    #[test]
    fn the_leaf_is_neither_a_mark_nor_a_caller_without_a_frame() {
        assert_eq!(followed(&[(1, MARK), (2, FRAME)]), expected(&["12"], &[], false));
        assert_eq!(followed(&[(1, BARE), (2, FRAME)]), expected(&["12"], &[], false));
    }

    #[test]
    fn a_mark_behind_a_switch_of_stacks_joins_two_parts() {
        let walk = [(1, FRAME), (2, ELSEWHERE), (9, MARK), (3, FRAME)];
        assert_eq!(followed(&walk), expected(&["12", "3"], &[2], true));
        // The switch is the leaf.
        let walk = [(2, ELSEWHERE), (9, MARK), (3, FRAME)];
        assert_eq!(followed(&walk), expected(&["2", "3"], &[2], true));
    }

    #[test]
    fn a_mark_behind_any_other_frame_cuts_the_walk() {
        assert_eq!(followed(&[(1, FRAME), (9, MARK), (3, FRAME)]), expected(&["1!", "3"], &[], true));
        let frameless = [(1, FRAME), (2, FRAME), (3, BARE), (9, MARK), (4, FRAME)];
        assert_eq!(followed(&frameless), expected(&["123!", "4"], &[], true));
    }

    #[test]
    fn a_switch_of_stacks_without_a_mark_cuts_the_walk_up_to_the_next_mark() {
        let walk = [(1, FRAME), (2, ELSEWHERE), (3, FRAME), (4, BARE), (4, BARE), (9, MARK), (5, FRAME)];
        assert_eq!(followed(&walk), expected(&["12!", "5"], &[2], true));
        let walk = [(1, FRAME), (2, ELSEWHERE), (3, ENDS), (4, FRAME)];
        let (texts, found) = parts(&walk);
        assert_eq!((texts, found.list[0].end), (vec!["12!".to_owned()], WalkEnd::NOT_CODE));
    }

    #[test]
    fn a_function_without_a_frame_may_follow_a_switch_of_stacks() {
        let walk = [(1, FRAME), (2, ELSEWHERE), (3, BARE), (4, FRAME)];
        assert_eq!(followed(&walk), expected(&["1234"], &[2, 3], false));
        let of_leaf = [(2, ELSEWHERE), (3, BARE), (4, FRAME)];
        assert_eq!(followed(&of_leaf), expected(&["234"], &[2, 3], false));
    }

    #[test]
    fn a_caller_of_the_leaf_without_a_frame_begins_a_part() {
        assert_eq!(followed(&[(1, FRAME), (2, BARE), (3, FRAME)]), expected(&["1!", "23"], &[2], true));
    }

    #[test]
    fn an_address_that_occurs_twice_leads_to_the_caller_of_a_function_without_a_frame() {
        let walk = [(1, FRAME), (2, BARE), (2, BARE), (3, FRAME)];
        assert_eq!(followed(&walk), expected(&["123"], &[2], true));
        let thrice = [(1, FRAME), (2, FRAME), (3, BARE), (3, BARE), (3, BARE), (4, FRAME)];
        assert_eq!(followed(&thrice), expected(&["1234"], &[3, 3], true));
    }

    #[test]
    fn a_function_without_a_frame_that_occurs_once_cuts_the_walk() {
        let walk = [(1, FRAME), (2, FRAME), (3, BARE), (4, FRAME)];
        assert_eq!(followed(&walk), expected(&["123!"], &[], true));
    }

    #[test]
    fn an_address_that_occurs_twice_before_a_mark_was_called_back_by_c() {
        let walk = [(1, FRAME), (2, FRAME), (2, FRAME), (9, MARK), (3, FRAME)];
        assert_eq!(followed(&walk), expected(&["12!", "C3"], &[], true));
        // Where the function switched stacks, Go was not called by C.
        let switch = [(1, FRAME), (2, ELSEWHERE), (2, ELSEWHERE), (9, MARK), (3, FRAME)];
        assert_eq!(followed(&switch), expected(&["12", "3"], &[2], true));
        let elsewhere = [(1, FRAME), (2, FRAME), (2, FRAME), (3, FRAME)];
        assert_eq!(followed(&elsewhere), expected(&["1223"], &[], false));
    }

    #[test]
    fn a_function_that_begins_a_stack_ends_the_walk() {
        let (texts, found) = parts(&[(1, FRAME), (2, ENDS), (3, FRAME), (9, MARK), (4, FRAME)]);
        assert_eq!((texts, found.list[0].end, found.is_other), (vec!["12".to_owned()], WalkEnd::ROOT, true));
    }
}
