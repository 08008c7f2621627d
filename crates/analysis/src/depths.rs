//! Counts how deep stacks are: machine frames of each side.
//!
//! Inlined functions have no frame of their own and do not count. A truncated stack is deeper than it seems, so every result states
//! whether it is exact or a lower bound.

mod chain;
mod distribution;
mod interpreters;
mod recursion;

pub use chain::{Link, folded};
pub use distribution::{Bucket, Distribution, Figure};
pub use interpreters::{Entries, entries};
pub use recursion::{Recursing, recursing};

use icecore_format::records::WalkEnd;

use icecore_profile::named::names::Side;
use icecore_profile::named::{Profile, ProfileRow};

/// The most frames of the kernel's own walks, which do not report truncation.
///
/// # Source
/// include/uapi/linux/perf_event.h `PERF_MAX_STACK_DEPTH`
const UNSAID_LIMIT: u32 = 127;

/// The frames of every stack of a profile.
#[derive(Debug)]
pub struct Depths {
    /// User and kernel frames, in the order of [`Profile::stacks`].
    frames: Vec<(u32, u32)>,
}

/// Whether the outermost frame of a stack is its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outermost {
    /// It is a root.
    Root,
    /// No: the walk reached its limit of frames.
    Cut,
    /// No: the rest of the stack was not copied.
    NotCopied,
    /// Unknown: the walk reached its limit of frames, and does not report truncation.
    Full,
    /// No, for another reason.
    Broken,
    /// Unknown: the walk does not say.
    Unsaid,
}

impl Outermost {
    /// Returns true if frames are missing because of a limit, or may be.
    pub fn is_cut(self) -> bool {
        matches!(self, Self::Cut | Self::NotCopied | Self::Full)
    }

    /// Returns true if the walk states how it ended.
    pub fn is_told(self) -> bool {
        !matches!(self, Self::Full | Self::Unsaid)
    }
}

impl Depths {
    /// Counts the frames of all stacks of a profile.
    pub fn new(profile: &Profile) -> Self {
        let mut frames = vec![(0, 0); profile.stacks.len()];
        for (position, stack) in profile.stacks.iter().enumerate().skip(1) {
            let (mut user, mut kernel) = frames[stack.caller as usize];
            if !profile.names.frames[stack.frame as usize].inlined {
                match profile.function(*stack).side {
                    Side::User => user += 1,
                    Side::Kernel => kernel += 1,
                }
            }
            frames[position] = (user, kernel);
        }
        Self { frames }
    }

    /// Returns the frames of one side of a stack.
    pub fn of(&self, stack: u32, side: Side) -> u32 {
        let (user, kernel) = self.frames[stack as usize];
        match side {
            Side::User => user,
            Side::Kernel => kernel,
        }
    }

    /// Returns whether the outermost frame of one side of the samples is the root.
    pub fn outermost(&self, row: &ProfileRow, side: Side) -> Outermost {
        let (user, kernel) = self.frames[row.stack as usize];
        let is_told = side == Side::User && row.taken.is_walked();
        // perf has one limit for both sides together.
        let walked = if side == Side::User { user.saturating_add(kernel) } else { kernel };
        match () {
            () if is_told && row.taken.end == WalkEnd::DEPTH => Outermost::Cut,
            () if is_told && row.taken.rooted => Outermost::Root,
            () if is_told && row.taken.end == WalkEnd::NOT_COPIED => Outermost::NotCopied,
            () if is_told => Outermost::Broken,
            () if walked >= UNSAID_LIMIT => Outermost::Full,
            () => Outermost::Unsaid,
        }
    }
}

/// Lists the functions of one side of a stack that have frames, positions in the names' functions, outermost first.
pub fn path(profile: &Profile, stack: u32, side: Side) -> Vec<u32> {
    let own = profile.walk(stack).filter(|stack| !profile.names.frames[stack.frame as usize].inlined);
    let mut functions: Vec<u32> = own
        .filter(|stack| profile.function(*stack).side == side)
        .map(|stack| profile.function_id(stack))
        .collect();
    functions.reverse();
    functions
}

#[cfg(test)]
mod tests {
    use super::*;
    use icecore_profile::named::{Taken, fixture};

    #[test]
    fn each_side_counts_its_own_frames_and_nobody_inlined_ones() {
        let mut profile = fixture::profile(&[("main;inl;f;sys;read", 1), ("main", 1)]);
        profile.names.frames[1].inlined = true;
        profile.names.functions[3].side = Side::Kernel;
        profile.names.functions[4].side = Side::Kernel;
        let depths = Depths::new(&profile);
        let of = |row: usize| [Side::User, Side::Kernel].map(|side| depths.of(profile.rows[row].stack, side));
        assert_eq!([of(0), of(1)], [[2, 2], [1, 0]]);
        assert_eq!(path(&profile, profile.rows[0].stack, Side::User), [0, 2]);
        assert_eq!(path(&profile, profile.rows[0].stack, Side::Kernel), [3, 4]);
    }

    #[test]
    fn a_walk_that_says_nothing_is_taken_for_cut_at_its_limit_only() {
        let deep = vec!["f"; 127].join(";");
        let profile = fixture::profile(&[(deep.as_str(), 1), ("main", 1)]);
        let depths = Depths::new(&profile);
        let outermost = |row: usize, end, rooted| {
            let taken = Taken { end, rooted, ..fixture::TAKEN };
            depths.outermost(&ProfileRow { taken, ..profile.rows[row] }, Side::User)
        };
        assert_eq!(outermost(0, WalkEnd::UNSAID, false), Outermost::Full);
        assert_eq!(outermost(1, WalkEnd::UNSAID, false), Outermost::Unsaid);
        assert_eq!(outermost(0, WalkEnd::ROOT, true), Outermost::Root);
        assert_eq!(outermost(0, WalkEnd::UNREADABLE, false), Outermost::Broken);
        assert_eq!(outermost(1, WalkEnd::DEPTH, false), Outermost::Cut);
        assert_eq!(outermost(1, WalkEnd::NOT_COPIED, false), Outermost::NotCopied);
        assert_eq!(depths.outermost(&profile.rows[1], Side::Kernel), Outermost::Unsaid);
    }
}
