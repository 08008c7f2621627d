//! What stack repair made of a walk.

/// What a report made of the walk of a user stack, where it had registers and stack to unwind; the numbers are on disk. A
/// recorder writes none but [`StackRepair::NONE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackRepair(pub u8);

impl StackRepair {
    /// The sample had no registers and stack to unwind.
    pub const NONE: Self = Self(0);
    /// The walk was kept: unwinding has shown no more than it.
    pub const KEPT: Self = Self(1);
    /// The unwound stack replaces the walk.
    pub const REPLACED: Self = Self(2);

    /// The same with what is known of the walk that the stack rests on: nothing, or whether it has skipped a caller.
    #[must_use]
    pub fn judged(self, is_suspect: Option<bool>) -> Self {
        match is_suspect {
            None => self,
            Some(false) => Self(self.0 | JUDGED),
            Some(true) => Self(self.0 | JUDGED | SUSPECT),
        }
    }

    /// The same for a walk by unwind tables that was compared with the unwound stack: [`Self::KEPT`] if both have the same frames, up
    /// to a root, [`Self::REPLACED`] if they differ.
    #[must_use]
    pub fn audited(self) -> Self {
        Self(self.0 | AUDITED)
    }

    /// Returns which of the constants above this is, without what is known of the walk.
    #[must_use]
    pub fn kind(self) -> Self {
        Self(self.0 & 3)
    }

    /// The stack rests on the walk, and unwind tables tell of some of its calls whether they keep frame pointers.
    pub fn is_judged(self) -> bool {
        self.0 & JUDGED != 0
    }

    /// One of these does not: the walk has skipped a caller.
    pub fn is_suspect(self) -> bool {
        self.0 & SUSPECT != 0
    }

    /// The stack was compared with a walk by unwind tables.
    pub fn is_audited(self) -> bool {
        self.0 & AUDITED != 0
    }
}

const JUDGED: u8 = 4;
const SUSPECT: u8 = 8;
const AUDITED: u8 = 16;
