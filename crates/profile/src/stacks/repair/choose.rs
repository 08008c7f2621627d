//! Chooses between two stacks: the walk along frame pointers, and the unwound one.

use icecore_format::records::{Location, Mark, WalkEnd};

use icecore_elf::Avma;
use icecore_unwind::{By, End, Frame};

/// A frame of the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Walked {
    /// Its address in the process.
    pub(super) address: Avma,
    /// Its code, as the recording stores it.
    pub(super) location: Location,
    pub(super) mark: Mark,
}

impl Walked {
    /// Returns the frame as unwinding by tables would have found it. Where it lies on the stack is not known.
    pub(super) fn frame(&self, is_leaf: bool) -> Frame {
        let by = match self.mark.has(Mark::INTERRUPTED) {
            _ if is_leaf => By::Registers,
            true => By::Signal,
            false => By::Tables,
        };
        Frame { address: self.address, sp: Avma(0), by }
    }
}

/// The chosen stack.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice<'a> {
    /// The walk.
    Walk,
    /// The given number of unwound frames, followed by the rest of the walk.
    Other { unwound: usize, walked: &'a [Walked], end: WalkEnd },
}

/// Chooses. Both are leaf first.
///
/// The unwind tables belong to the code itself, so unwound frames are right; the walk may have skipped frames anywhere. But
/// unwinding may have to stop (the copy of the stack ends, tables are missing) where the walk continues. So the rest of the walk
/// follows where it holds the last unwound return address.
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
    // Only unwinding says how a single leaf ends. perf walks no stack that it copies, and a frame pointer of 0 proves no root
    // where the register may hold anything, as in code that switches stacks.
    let is_leaf_alone = walked.len() == 1 && [WalkEnd::UNSAID, WalkEnd::ROOT].contains(&walk_end);
    match joined(unwound, walked) {
        Some(0) if is_leaf_alone => Choice::Other { unwound: all, walked: &[], end: ended(end) },
        Some(at) if at + 1 == all && is_prefix(unwound, walked) => Choice::Walk,
        Some(at) => Choice::Other { unwound: all, walked: &walked[at + 1..], end: walk_end },
        None if all > 1 => Choice::Other { unwound: all, walked: &[], end: ended(end) },
        None => Choice::Walk,
    }
}

/// Finds the last unwound frame in the walk.
pub(super) fn joined(unwound: &[Frame], walked: &[Walked]) -> Option<usize> {
    let last = unwound.last().map(|frame| frame.address);
    let is_last = |walked: &Walked| Some(walked.address) == last;
    // Recursion repeats addresses. If the walk only skipped frames, the shared frame is the one that both reach. If the walk has
    // other frames, too, the shared frame lies among as many frames as were unwound.
    let followed = unwound.iter().fold(0, |at, frame| {
        at + usize::from(walked.get(at).is_some_and(|walked| walked.address == frame.address))
    });
    let joined = followed.checked_sub(1).filter(|at| is_last(&walked[*at]));
    joined.or_else(|| walked.iter().take(unwound.len()).rposition(is_last))
}

fn is_prefix(unwound: &[Frame], walked: &[Walked]) -> bool {
    unwound.iter().zip(walked).all(|(frame, walked)| frame.address == walked.address)
}

/// Converts the end of an unwound stack.
pub(super) fn ended(end: End) -> WalkEnd {
    match end {
        End::Root => WalkEnd::UNWOUND,
        End::Depth => WalkEnd::DEPTH,
        End::LeftSnapshot => WalkEnd::NOT_COPIED,
        End::Unreadable | End::Unmapped => WalkEnd::NO_RETURN_ADDRESS,
        End::NoTables(_) => WalkEnd::NO_RULES,
        End::BadTables(_) | End::NotGrowing => WalkEnd::BAD_RULES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unwound(addresses: &[u64]) -> Vec<Frame> {
        let frame =
            |(sp, address): (u64, &u64)| Frame { address: Avma(*address), sp: Avma(sp), by: By::Tables };
        (0..).zip(addresses).map(frame).collect()
    }

    fn walked(addresses: &[u64]) -> Vec<Walked> {
        let walked = |address: &u64| Walked {
            address: Avma(*address),
            location: Location::Address(*address),
            mark: Mark::NONE,
        };
        addresses.iter().map(walked).collect()
    }

    /// Returns the chosen addresses and their end; `None` for the walk.
    fn chosen(own: &[u64], end: End, walk: &[u64], walk_end: WalkEnd) -> Option<(Vec<u64>, WalkEnd)> {
        let walk = walked(walk);
        match choose(&unwound(own), end, &walk, walk_end) {
            Choice::Walk => None,
            Choice::Other { unwound, walked, end } => {
                let outer = walked.iter().map(|frame| frame.address.0);
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
        // Both have the same frames by chance, but now the root is known.
        let told = Some((vec![1, 2, 3], WalkEnd::UNWOUND));
        assert_eq!(chosen(&[1, 2, 3], End::Root, &[1, 2, 3], WalkEnd::NOT_MONOTONIC), told);
        assert_eq!(chosen(&[1, 2], End::LeftSnapshot, &[1, 2, 3], WalkEnd::ROOT), None);
    }

    #[test]
    fn the_walk_goes_on_where_unwinding_stops() {
        for end in [End::LeftSnapshot, End::NoTables(None), End::BadTables(None), End::Unreadable] {
            let joined = Some((vec![1, 2, 3, 4], WalkEnd::ROOT));
            assert_eq!(chosen(&[1, 2, 3], end, &[1, 3, 4], WalkEnd::ROOT), joined, "{end:?}");
        }
    }

    #[test]
    fn a_walk_that_does_not_hold_the_last_frame_is_left() {
        for (end, told) in [
            (End::LeftSnapshot, WalkEnd::NOT_COPIED),
            (End::NoTables(Some(1)), WalkEnd::NO_RULES),
            (End::BadTables(None), WalkEnd::BAD_RULES),
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
        assert_eq!(chosen(&[1], End::NoTables(None), &[1, 2, 3], WalkEnd::ROOT), None);
        assert_eq!(chosen(&[1], End::LeftSnapshot, &[], WalkEnd::NONE), None);
    }

    #[test]
    fn of_a_leaf_alone_unwinding_says_how_it_ends() {
        for walk_end in [WalkEnd::UNSAID, WalkEnd::ROOT] {
            let told = |end, told| assert_eq!(chosen(&[1], end, &[1], walk_end), Some((vec![1], told)));
            told(End::NoTables(Some(1)), WalkEnd::NO_RULES);
            told(End::LeftSnapshot, WalkEnd::NOT_COPIED);
            told(End::BadTables(None), WalkEnd::BAD_RULES);
        }
        assert_eq!(chosen(&[1], End::Root, &[1], WalkEnd::ROOT), None);
        assert_eq!(chosen(&[1], End::NoTables(None), &[1, 2], WalkEnd::UNSAID), None);
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
        assert_eq!(chosen(&[1, 2, 5], End::NoTables(None), &[1, 5, 2, 5, 9], WalkEnd::ROOT), joined);
        // A frame that was none stands before it.
        let joined = Some((vec![1, 2, 5, 9], WalkEnd::ROOT));
        assert_eq!(chosen(&[1, 2, 5], End::NoTables(None), &[1, 7, 5, 9], WalkEnd::ROOT), joined);
    }
}
