//! Which of two stacks is believed: the one that was walked along frame pointers, or the one that was unwound.

use icecore_format::records::{Location, Mark, WalkEnd};

use icecore_unwind::{End, Frame};

/// A frame of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walked {
    /// In the process (AVMA).
    pub(super) address: u64,
    /// As the stack has it.
    pub(super) location: Location,
    pub(super) mark: Mark,
}

/// What is believed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    /// The walk.
    Walk,
    /// So many unwound frames, and behind them the rest of the walk.
    Other { unwound: usize, walked: &'a [Walked], end: WalkEnd },
}

/// Chooses. Both are leaf first.
///
/// Unwinding follows the rules of the code itself, so what it has found is right; the walk may have skipped frames at any
/// place. But unwinding may have to stop (the copy of the stack ends, rules are missing), and the walk may go on: it is
/// taken up where it holds the return address that was found last.
pub(super) fn choose<'a>(unwound: &[Frame], end: End, walked: &'a [Walked], walk_end: WalkEnd) -> Choice<'a> {
    let is_walk = |count: usize| {
        count == walked.len()
            && unwound.iter().zip(walked).all(|(frame, walked)| frame.address == walked.address)
    };
    let all = unwound.len();
    if end == End::Root || end == End::Depth {
        return if is_walk(all) && walk_end == WalkEnd::ROOT {
            Choice::Walk
        } else {
            Choice::Other { unwound: all, walked: &[], end: ended(end) }
        };
    }
    // Of a leaf alone only unwinding says how it ends: nobody walked from it, as perf has it of stacks that it copies, or there was a
    // frame pointer of 0 where it may hold anything, as in code that goes over to another stack.
    let is_leaf_alone = walked.len() == 1 && [WalkEnd::UNSAID, WalkEnd::ROOT].contains(&walk_end);
    match joined(unwound, walked) {
        Some(0) if is_leaf_alone => Choice::Other { unwound: all, walked: &[], end: ended(end) },
        Some(at) if at + 1 == all && is_prefix(unwound, walked) => Choice::Walk,
        Some(at) => Choice::Other { unwound: all, walked: &walked[at + 1..], end: walk_end },
        None if all > 1 => Choice::Other { unwound: all, walked: &[], end: ended(end) },
        None => Choice::Walk,
    }
}

/// Finds the frame of the walk that was unwound last.
pub(super) fn joined(unwound: &[Frame], walked: &[Walked]) -> Option<usize> {
    let last = unwound.last().map(|frame| frame.address);
    let is_last = |walked: &Walked| Some(walked.address) == last;
    // Recursion repeats addresses: the frame that is meant is the one that both come to, where the walk has only skipped
    // some. If it has others, too, it has that frame among as many as were unwound.
    let followed = unwound.iter().fold(0, |at, frame| {
        at + usize::from(walked.get(at).is_some_and(|walked| walked.address == frame.address))
    });
    let joined = followed.checked_sub(1).filter(|at| is_last(&walked[*at]));
    joined.or_else(|| walked.iter().take(unwound.len()).rposition(is_last))
}

fn is_prefix(unwound: &[Frame], walked: &[Walked]) -> bool {
    unwound.iter().zip(walked).all(|(frame, walked)| frame.address == walked.address)
}

/// How a stack that was unwound ended.
pub(super) fn ended(end: End) -> WalkEnd {
    match end {
        End::Root => WalkEnd::UNWOUND,
        End::Depth => WalkEnd::DEPTH,
        End::LeftSnapshot => WalkEnd::NOT_COPIED,
        End::Unreadable | End::Unmapped => WalkEnd::NO_RETURN_ADDRESS,
        End::NoRules(_) => WalkEnd::NO_RULES,
        End::BadRules(_) | End::NotGrowing => WalkEnd::BAD_RULES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_unwind::By;

    fn unwound(addresses: &[u64]) -> Vec<Frame> {
        let frame = |(sp, address): (u64, &u64)| Frame { address: *address, sp, by: By::Rules };
        (0..).zip(addresses).map(frame).collect()
    }

    fn walked(addresses: &[u64]) -> Vec<Walked> {
        let walked = |address: &u64| Walked {
            address: *address,
            location: Location::Address(*address),
            mark: Mark::NONE,
        };
        addresses.iter().map(walked).collect()
    }

    /// What is believed: addresses, and how they end; nothing for the walk.
    fn chosen(own: &[u64], end: End, walk: &[u64], walk_end: WalkEnd) -> Option<(Vec<u64>, WalkEnd)> {
        let walk = walked(walk);
        match choose(&unwound(own), end, &walk, walk_end) {
            Choice::Walk => None,
            Choice::Other { unwound, walked, end } => {
                let outer = walked.iter().map(|frame| frame.address);
                Some((own[..unwound].iter().copied().chain(outer).collect(), end))
            }
        }
    }

    #[test]
    fn what_is_unwound_to_the_root_is_believed() {
        let whole = Some((vec![1, 2, 3], WalkEnd::UNWOUND));
        assert_eq!(chosen(&[1, 2, 3], End::Root, &[1, 3], WalkEnd::ROOT), whole);
        assert_eq!(chosen(&[1, 2, 3], End::Root, &[1, 2, 3, 4], WalkEnd::ROOT), whole);
        assert_eq!(chosen(&[1, 2, 3], End::Root, &[1], WalkEnd::UNREADABLE), whole);
    }

    #[test]
    fn a_walk_that_shows_the_same_stays() {
        assert_eq!(chosen(&[1, 2, 3], End::Root, &[1, 2, 3], WalkEnd::ROOT), None);
        // It was the same by accident: that it ended at the root is known now.
        let told = Some((vec![1, 2, 3], WalkEnd::UNWOUND));
        assert_eq!(chosen(&[1, 2, 3], End::Root, &[1, 2, 3], WalkEnd::NOT_MONOTONIC), told);
        assert_eq!(chosen(&[1, 2], End::LeftSnapshot, &[1, 2, 3], WalkEnd::ROOT), None);
    }

    #[test]
    fn the_walk_goes_on_where_unwinding_stops() {
        for end in [End::LeftSnapshot, End::NoRules(None), End::BadRules(None), End::Unreadable] {
            let joined = Some((vec![1, 2, 3, 4], WalkEnd::ROOT));
            assert_eq!(chosen(&[1, 2, 3], end, &[1, 3, 4], WalkEnd::ROOT), joined, "{end:?}");
        }
    }

    #[test]
    fn a_walk_that_does_not_hold_the_last_frame_is_left() {
        for (end, told) in [
            (End::LeftSnapshot, WalkEnd::NOT_COPIED),
            (End::NoRules(Some(1)), WalkEnd::NO_RULES),
            (End::BadRules(None), WalkEnd::BAD_RULES),
            (End::NotGrowing, WalkEnd::BAD_RULES),
            (End::Unreadable, WalkEnd::NO_RETURN_ADDRESS),
            (End::Unmapped, WalkEnd::NO_RETURN_ADDRESS),
        ] {
            let found = chosen(&[1, 2, 3], end, &[1, 7, 8], WalkEnd::ROOT);
            assert_eq!(found, Some((vec![1, 2, 3], told)), "{end:?}");
        }
        let cut = Some((vec![1, 2, 3], WalkEnd::DEPTH));
        assert_eq!(chosen(&[1, 2, 3], End::Depth, &[1, 7], WalkEnd::ROOT), cut);
    }

    #[test]
    fn a_leaf_alone_does_not_replace_the_walk() {
        assert_eq!(chosen(&[1], End::NoRules(None), &[1, 2, 3], WalkEnd::ROOT), None);
        assert_eq!(chosen(&[1], End::LeftSnapshot, &[], WalkEnd::NONE), None);
    }

    #[test]
    fn of_a_leaf_alone_unwinding_says_how_it_ends() {
        for walk_end in [WalkEnd::UNSAID, WalkEnd::ROOT] {
            let told = |end, told| assert_eq!(chosen(&[1], end, &[1], walk_end), Some((vec![1], told)));
            told(End::NoRules(Some(1)), WalkEnd::NO_RULES);
            told(End::LeftSnapshot, WalkEnd::NOT_COPIED);
            told(End::BadRules(None), WalkEnd::BAD_RULES);
        }
        assert_eq!(chosen(&[1], End::Root, &[1], WalkEnd::ROOT), None);
        assert_eq!(chosen(&[1], End::NoRules(None), &[1, 2], WalkEnd::UNSAID), None);
    }

    #[test]
    fn a_walk_through_recursion_is_joined_where_unwinding_stopped() {
        // Six frames of recursion, of which two were copied.
        let walk = [1, 5, 5, 5, 5, 5, 5, 9];
        assert_eq!(chosen(&[1, 5, 5], End::LeftSnapshot, &walk, WalkEnd::ROOT), None);
        // The walk has skipped the caller of the leaf.
        let joined = Some((vec![1, 2, 5, 5, 5, 5, 9], WalkEnd::ROOT));
        assert_eq!(chosen(&[1, 2, 5], End::LeftSnapshot, &[1, 5, 5, 5, 5, 9], WalkEnd::ROOT), joined);
        let joined = Some((vec![1, 2, 5, 2, 5, 9], WalkEnd::ROOT));
        assert_eq!(chosen(&[1, 2, 5], End::NoRules(None), &[1, 5, 2, 5, 9], WalkEnd::ROOT), joined);
        // A frame that was none stands before it.
        let joined = Some((vec![1, 2, 5, 9], WalkEnd::ROOT));
        assert_eq!(chosen(&[1, 2, 5], End::NoRules(None), &[1, 7, 5, 9], WalkEnd::ROOT), joined);
    }
}
