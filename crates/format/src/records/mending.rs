//! What became of walks.

/// What a report made of the walk of a user stack, where it had registers and stack to unwind; the numbers are on disk. A
/// recorder writes none but [`Mending::NONE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Mending(pub u8);

impl Mending {
    /// There was nothing to unwind.
    pub const NONE: Self = Self(0);
    /// Unwinding has shown nothing else.
    pub const KEPT: Self = Self(1);
    /// The stack is the one that was unwound.
    pub const REPLACED: Self = Self(2);
    /// Likewise, and the outer part of it, which was not copied, is from another sample.
    pub const COMPLETED: Self = Self(3);
}
