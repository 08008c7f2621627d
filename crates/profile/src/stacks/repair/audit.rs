//! Compares walks that the sampler made by unwind tables with the same stacks, unwound from a copy.
//!
//! ```text
//! walked    leaf ─► a ─► b ─► start
//! unwound   leaf ─► a ─► x ─► b ─► start      differs: the step from a, the last common frame
//!           leaf ─► a                         unchecked, if unwinding stopped there
//! ```
//!
//! The sampler's tables are a short form of those of the files; unwinding uses the whole ones. So the unwound stack is evidence of
//! the walk. Nothing of the walk may become a part of it: the only frame that both share from the start is the leaf.

use icecore_format::records::{Mark, Sample};

use super::choose::Walked;
use super::grown::Framed;
use icecore_unwind::{By, Frame};

/// What a comparison shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    /// Both have the same frames, up to a root.
    Agrees,
    /// After this many common frames the walk goes on in another way, or only one of them goes on.
    Differs { common: usize },
    /// Unwinding stopped before a root. Both have the same frames up to there.
    Unchecked,
}

/// A walk by unwind tables that differs from the unwound stack.
#[derive(Debug, Clone, Copy)]
pub struct Disagreement {
    /// The sample as the sampler took it: its user stack is the walk.
    pub sample: Sample,
    /// The unwound stack, a stack id.
    pub unwound: u32,
    /// The number of frames that both have, from the leaf on; at least 1.
    pub common: u32,
}

/// Compares a walk with unwound frames, leaf first. `framed` are the same frames as stacks store them; `is_root` is true if
/// unwinding came to a root.
pub(super) fn compare(walked: &[Walked], unwound: &[Frame], framed: &[Framed], is_root: bool) -> Compared {
    let pairs = walked.iter().zip(unwound.iter().zip(framed));
    let is_common = |(walked, (frame, framed)): &(&Walked, (&Frame, &Framed))| is_same(walked, frame, framed);
    let common = pairs.take_while(is_common).count();
    match (common == walked.len(), common == unwound.len()) {
        (true, true) if is_root => Compared::Agrees,
        (_, true) if !is_root => Compared::Unchecked,
        _ => Compared::Differs { common },
    }
}

/// Returns true if both are the same frame, and the same role of it.
fn is_same(walked: &Walked, frame: &Frame, (_, mark): &Framed) -> bool {
    let is_interrupted = matches!(frame.by, By::Signal | By::Begun);
    // The sampler marks no signal trampolines: the report does, if it has their code or their unwind tables.
    let is_unmarked = mark.has(Mark::INTERRUPTED) && !is_interrupted || frame.by == By::Registers;
    walked.address == frame.address && (is_unmarked || walked.mark.has(Mark::INTERRUPTED) == is_interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_elf::Avma;
    use icecore_format::records::Location;

    const TRAMPOLINE: u64 = 7;

    /// Returns a frame; a negative number is one that a signal interrupted.
    fn frame((position, address): (usize, &i64)) -> (Frame, Framed) {
        let by = match address {
            _ if position == 0 => By::Registers,
            ..0 => By::Signal,
            _ => By::Tables,
        };
        let address = address.unsigned_abs();
        let is_marked = by == By::Signal || address == TRAMPOLINE;
        let mark = if is_marked { Mark::INTERRUPTED } else { Mark::NONE };
        (Frame { address: Avma(address), sp: Avma(0), by }, (Location::Address(address), mark))
    }

    fn walked(address: &i64) -> Walked {
        let mark = if *address < 0 { Mark::INTERRUPTED } else { Mark::NONE };
        let address = address.unsigned_abs();
        Walked { address: Avma(address), location: Location::Address(address), mark }
    }

    fn compared(walk: &[i64], unwound: &[i64], is_root: bool) -> Compared {
        let walk: Vec<Walked> = walk.iter().map(walked).collect();
        let (frames, framed): (Vec<Frame>, Vec<Framed>) = unwound.iter().enumerate().map(frame).unzip();
        compare(&walk, &frames, &framed, is_root)
    }

    #[test]
    fn equal_stacks_agree_only_if_unwinding_came_to_a_root() {
        assert_eq!(compared(&[1, 2, 3], &[1, 2, 3], true), Compared::Agrees);
        assert_eq!(compared(&[1, 2, 3], &[1, 2, 3], false), Compared::Unchecked);
        assert_eq!(compared(&[1], &[1], true), Compared::Agrees);
    }

    #[test]
    fn another_frame_differs_however_unwinding_ended() {
        for is_root in [true, false] {
            assert_eq!(compared(&[1, 2, 3], &[1, 9, 3], is_root), Compared::Differs { common: 1 });
            assert_eq!(compared(&[1, 2, 3], &[1, 2, 9], is_root), Compared::Differs { common: 2 });
        }
    }

    #[test]
    fn a_walk_that_is_too_short_or_too_long_differs() {
        assert_eq!(compared(&[1, 2], &[1, 2, 3], true), Compared::Differs { common: 2 });
        assert_eq!(
            compared(&[1, 2], &[1, 2, 3], false),
            Compared::Differs { common: 2 },
            "it ended too early"
        );
        assert_eq!(compared(&[1, 2, 3], &[1, 2], true), Compared::Differs { common: 2 });
    }

    #[test]
    fn unwinding_that_stops_checks_nothing_after_it() {
        assert_eq!(compared(&[1, 2, 3], &[1, 2], false), Compared::Unchecked);
        assert_eq!(compared(&[1, 2, 3], &[1], false), Compared::Unchecked);
    }

    #[test]
    fn an_interrupted_function_is_no_caller() {
        assert_eq!(
            compared(&[1, 7, -3, 4], &[1, 7, -3, 4], true),
            Compared::Agrees,
            "an unmarked trampoline"
        );
        assert_eq!(compared(&[1, -7, -3, 4], &[1, 7, -3, 4], true), Compared::Agrees, "a marked one");
        assert_eq!(compared(&[1, 7, 3, 4], &[1, 7, -3, 4], true), Compared::Differs { common: 2 });
        assert_eq!(compared(&[1, 2, -3, 4], &[1, 2, 3, 4], true), Compared::Differs { common: 2 });
        assert_eq!(
            compared(&[-7, -3, 4], &[7, -3, 4], true),
            Compared::Agrees,
            "the leaf is exact in any case"
        );
    }
}
