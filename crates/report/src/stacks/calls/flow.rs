//! What control reaches from an address by going on and by jumps, without another call.

use std::ops::Range;

use super::code::Code;
use super::{Goes, Step, aarch64, x86_64};
use icecore_unwind::Machine;

/// The most instructions that are followed: the longest functions have more, and then it cannot be told.
const MAX_STEPS: usize = 8192;

/// Code that is reached.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Addresses, ascending; from the first instruction of each to the end of the last.
    ranges: Vec<Range<u64>>,
    /// Stubs of the linker that are jumped to.
    pub(super) stubs: Vec<u64>,
    /// There is a jump to where a register or memory says, or too much, or what is no code.
    pub(super) is_open: bool,
}

impl Reach {
    /// Follows all ways from an address.
    ///
    /// # Cost   30 ns for each of [`MAX_STEPS`] instructions at most
    pub(super) fn from(code: &Code<'_>, start: u64) -> Self {
        let mut reach = Self::default();
        let (mut open, mut left) = (vec![start], code.take_steps(MAX_STEPS));
        while let Some(begin) = open.pop() {
            if reach.has(begin) {
                continue;
            }
            if code.is_stub(begin) {
                reach.stubs.push(begin);
                continue;
            }
            let mut at = begin;
            let mut last = None;
            loop {
                let Some((step, instruction)) = step(code, at, last.as_ref()).filter(|_| left > 0) else {
                    reach.is_open = true;
                    break;
                };
                left -= 1;
                if let Some(target) = instruction.as_ref().and_then(|call| never_returns(code, call)) {
                    open.push(target);
                }
                // Behind a call that does not return there is another function.
                let leaves = instruction.as_ref().is_some_and(is_call) && code.parts(at, step.next);
                at = step.next;
                last = instruction;
                match step.goes {
                    Goes::On => {}
                    Goes::OnOrTo(target) => open.push(target),
                    Goes::To(target) => open.push(target),
                    Goes::Anywhere => reach.is_open = true,
                    Goes::Nowhere => {}
                }
                let goes_on = matches!(step.goes, Goes::On | Goes::OnOrTo(_)) && !leaves;
                if !goes_on || reach.has(at) {
                    break;
                }
            }
            reach.add(begin..at.max(begin.saturating_add(1)));
            if reach.is_open {
                // Nothing more can be excluded.
                break;
            }
        }
        code.return_steps(left);
        reach
    }

    /// Tells whether an address is reached.
    pub(super) fn has(&self, at: u64) -> bool {
        let before = self.ranges.partition_point(|range| range.start <= at);
        // Ranges may overlap where jumps lead into the middle of what was followed already; the lists are short.
        self.ranges[..before].iter().rev().any(|range| range.contains(&at))
    }

    /// Tells whether any part of a function is reached.
    pub(super) fn meets(&self, function: &Range<u64>) -> bool {
        self.ranges.iter().any(|range| range.start < function.end && function.start < range.end)
    }

    fn add(&mut self, range: Range<u64>) {
        let at = self.ranges.partition_point(|known| known.start < range.start);
        self.ranges.insert(at, range);
    }
}

/// The instruction at an address; on x86-64 decoded, too.
pub(super) fn step(
    code: &Code<'_>,
    at: u64,
    last: Option<&iced_x86::Instruction>,
) -> Option<(Step, Option<iced_x86::Instruction>)> {
    let bytes = code.bytes_from(at)?;
    match code.machine() {
        Machine::X86_64 => {
            let instruction = x86_64::decode(bytes, at)?;
            Some((x86_64::step(&instruction, last), Some(instruction)))
        }
        Machine::Aarch64 => Some((aarch64::step(bytes, at)?, None)),
    }
}

/// The target of a call that only puts an address on the stack: the code there replaces or drops it. Retpolines reach functions so.
fn never_returns(code: &Code<'_>, call: &iced_x86::Instruction) -> Option<u64> {
    let target = call.is_call_near().then(|| call.near_branch_target())?;
    x86_64::takes_return_address(code.bytes_from(target)?).then_some(target)
}

fn is_call(instruction: &iced_x86::Instruction) -> bool {
    instruction.is_call_near() || instruction.is_call_near_indirect()
}
