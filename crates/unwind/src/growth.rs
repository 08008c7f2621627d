//! Checks that a stack grows from frame to frame, so that no unwind tables lead in circles.

use icecore_elf::Avma;

/// How often a stack may continue elsewhere: signals on a stack of their own, programs that switch stacks themselves.
const MAX_SWITCHES: u8 = 8;

/// How many consecutive frames may have their return address in a register: a function that was interrupted before it saved the
/// address, and its caller if that keeps its own in another register.
const MAX_UNREAD: u8 = 2;

/// What a frame may do to the stack pointer other than let it grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Leave it unchanged: an interrupted function that has not used the stack, on a machine whose calls do not use it either.
    pub(super) may_stay: bool,
    /// Move it elsewhere: the caller's stack pointer comes from a frame pointer, from memory, or from a signal frame.
    pub(super) may_leave: bool,
}

/// Where a return address was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Return {
    /// In memory, at this address.
    At(Avma),
    /// In a register. With `again` it equals the program counter of the frame itself.
    InRegister { again: bool },
}

/// The stack that is being unwound.
#[derive(Debug)]
pub(super) struct Growth {
    /// Where unwinding began on this stack.
    begin: Avma,
    switches: u8,
    /// The frame before has left the stack pointer unchanged.
    has_stayed: bool,
    /// The address of the last return address on this stack.
    slot: Avma,
    /// Consecutive return addresses that were in registers since then.
    unread: u8,
}

impl Growth {
    pub(super) fn new(sp: Avma) -> Self {
        Self { begin: sp, switches: 0, has_stayed: false, slot: Avma(0), unread: 0 }
    }

    /// Returns true if a stack may continue from `sp` to `next`.
    ///
    /// ```text
    ///   next > sp             it grows             always
    ///   next = sp             it stays             if it may, and has not just stayed
    ///   next < begin          another stack        if it may, MAX_SWITCHES times
    ///   begin ≤ next < sp     already unwound      never
    /// ```
    #[inline]
    pub(super) fn admits(&mut self, sp: Avma, next: Avma, step: Step) -> bool {
        let stays = next == sp && step.may_stay && !self.has_stayed;
        self.has_stayed = stays;
        if next > sp || stays {
            return true;
        }
        if !step.may_leave || next >= self.begin || self.switches >= MAX_SWITCHES {
            return false;
        }
        self.switches += 1;
        (self.begin, self.slot) = (next, Avma(0));
        true
    }

    /// Returns true if the next return address may lie there. Each call of a recursion has one of its own. So if a frame has the
    /// same return address as the frame before it, broken unwind tables made it up, whatever they do to the stack pointer.
    ///
    /// ```text
    ///   further up            the next call        always
    ///   the same place        the same frame       never
    ///   further down          another stack        MAX_SWITCHES times
    ///   a register            nothing was called   MAX_UNREAD times, and never back to the frame itself
    /// ```
    #[inline]
    pub(super) fn returns(&mut self, from: Return) -> bool {
        match from {
            Return::At(slot) if slot == self.slot => false,
            Return::At(slot) => {
                let is_below = slot < self.slot;
                self.switches += u8::from(is_below);
                (self.slot, self.unread) = (slot, 0);
                self.switches <= MAX_SWITCHES
            }
            Return::InRegister { again } => {
                self.unread += 1;
                !again && self.unread <= MAX_UNREAD
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Step = Step { may_stay: false, may_leave: false };
    const STAY: Step = Step { may_stay: true, may_leave: false };
    const LEAVE: Step = Step { may_stay: false, may_leave: true };

    impl Growth {
        fn goes(&mut self, sp: u64, next: u64, step: Step) -> bool {
            self.admits(Avma(sp), Avma(next), step)
        }
    }

    #[test]
    fn a_stack_goes_on_above_or_elsewhere_and_never_where_it_was() {
        let mut growth = Growth::new(Avma(100));
        assert!(growth.goes(100, 108, UP) && growth.goes(108, 108, STAY));
        assert!(!growth.goes(108, 108, UP) && !growth.goes(108, 108, LEAVE));
        assert!(!growth.goes(108, 100, LEAVE) && !growth.goes(108, 50, UP));
        assert!(growth.goes(108, 50, LEAVE));
        assert!(!growth.goes(60, 50, LEAVE) && growth.goes(60, 49, LEAVE));
    }

    #[test]
    fn a_stack_stays_once_at_a_time() {
        let mut growth = Growth::new(Avma(100));
        assert!(growth.goes(100, 100, STAY) && !growth.goes(100, 100, STAY));
        assert!(growth.goes(100, 108, UP) && growth.goes(108, 108, STAY));
    }

    #[test]
    fn every_call_has_a_return_address_of_its_own() {
        let mut growth = Growth::new(Avma(100));
        assert!((0..5000).all(|call| growth.returns(Return::At(Avma(100 + 8 * call)))));
        assert!(!growth.returns(Return::At(Avma(100 + 8 * 4999))));
        let mut growth = Growth::new(Avma(100));
        let to_and_fro =
            (0..5000).take_while(|call| growth.returns(Return::At(Avma(200 + 8 * (call % 2))))).count();
        assert_eq!(to_and_fro, 2 * (usize::from(MAX_SWITCHES) + 1));
        let in_register = |again| Return::InRegister { again };
        let mut growth = Growth::new(Avma(100));
        assert!(growth.returns(in_register(false)) && growth.returns(in_register(false)));
        assert!(!growth.returns(in_register(false)) && growth.returns(Return::At(Avma(8))));
        assert!(!growth.returns(in_register(true)));
    }

    #[test]
    fn switches_are_counted() {
        let mut growth = Growth::new(Avma(100));
        let switches = (1..=20).filter(|i| growth.goes(200, 100 - i, LEAVE)).count();
        assert_eq!(switches, usize::from(MAX_SWITCHES));
    }
}
