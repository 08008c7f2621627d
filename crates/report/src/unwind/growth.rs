//! Watches that a stack grows from frame to frame, so that no rules lead in circles.

/// How often a stack may go on elsewhere: signals on a stack of their own, stacks that a program switches itself.
const MAX_SWITCHES: u8 = 8;

/// What a frame may do to the stack pointer, other than let it grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Leave it as it is: a function that was interrupted and has not used the stack, where calls do not use it either.
    pub(super) may_stay: bool,
    /// Go on elsewhere: the caller's stack pointer comes from a frame pointer, from memory, from a signal frame.
    pub(super) may_leave: bool,
}

/// The stack that is being unwound.
#[derive(Debug)]
pub(super) struct Growth {
    /// Where unwinding began, on this stack.
    begin: u64,
    switches: u8,
}

impl Growth {
    pub(super) fn new(sp: u64) -> Self {
        Self { begin: sp, switches: 0 }
    }

    /// Tells whether a stack may go on from `sp` to `next`.
    ///
    /// ```text
    ///   next > sp             it grows             always
    ///   next = sp             it stays             if it may
    ///   next < begin          another stack        if it may, MAX_SWITCHES times
    ///   begin ≤ next < sp     already unwound      never
    /// ```
    #[inline]
    pub(super) fn admits(&mut self, sp: u64, next: u64, step: Step) -> bool {
        if next > sp || (next == sp && step.may_stay) {
            return true;
        }
        if !step.may_leave || next >= self.begin || self.switches == MAX_SWITCHES {
            return false;
        }
        self.switches += 1;
        self.begin = next;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Step = Step { may_stay: false, may_leave: false };
    const STAY: Step = Step { may_stay: true, may_leave: false };
    const LEAVE: Step = Step { may_stay: false, may_leave: true };

    #[test]
    fn a_stack_goes_on_above_or_elsewhere_and_never_where_it_was() {
        let mut growth = Growth::new(100);
        assert!(growth.admits(100, 108, UP) && growth.admits(108, 108, STAY));
        assert!(!growth.admits(108, 108, UP) && !growth.admits(108, 108, LEAVE));
        assert!(!growth.admits(108, 100, LEAVE) && !growth.admits(108, 50, UP));
        assert!(growth.admits(108, 50, LEAVE));
        assert!(!growth.admits(60, 50, LEAVE) && growth.admits(60, 49, LEAVE));
    }

    #[test]
    fn switches_are_counted() {
        let mut growth = Growth::new(100);
        let switches = (1..=20).filter(|i| growth.admits(200, 100 - i, LEAVE)).count();
        assert_eq!(switches, usize::from(MAX_SWITCHES));
    }
}
