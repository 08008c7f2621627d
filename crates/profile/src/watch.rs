//! The interface that follows the progress of long work.

/// Watches long work. Its steps are reported from any thread.
pub trait Watch: Sync {
    /// Some work begins, in so many steps.
    fn begin(&self, work: &str, steps: u64);
    /// So many more steps are done.
    fn tick(&self, steps: u64);
    /// The work is done.
    fn end(&self);
}

/// Nobody watches.
#[derive(Debug, Clone, Copy)]
pub struct Unwatched;

impl Watch for Unwatched {
    fn begin(&self, _: &str, _: u64) {}
    fn tick(&self, _: u64) {}
    fn end(&self) {}
}
