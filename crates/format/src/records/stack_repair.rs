//! What became of walks.

/// What a report made of the walk of a user stack, where it had registers and stack to unwind; the numbers are on disk. A
/// recorder writes none but [`StackRepair::NONE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackRepair(pub u8);

impl StackRepair {
    /// There was nothing to unwind.
    pub const NONE: Self = Self(0);
    /// Unwinding has shown nothing else.
    pub const KEPT: Self = Self(1);
    /// The stack is the one that was unwound.
    pub const REPLACED: Self = Self(2);
    /// Likewise, and the outer part of it, which was not copied, is from another sample.
    pub const COMPLETED: Self = Self(3);

    /// The same with what is known of the walk that the stack rests on: nothing, or whether it has skipped a caller.
    #[must_use]
    pub fn judged(self, is_suspect: Option<bool>) -> Self {
        match is_suspect {
            None => self,
            Some(false) => Self(self.0 | JUDGED),
            Some(true) => Self(self.0 | JUDGED | SUSPECT),
        }
    }

    /// One of the four.
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
}

const JUDGED: u8 = 4;
const SUSPECT: u8 = 8;
