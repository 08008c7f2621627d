//! Finds the code that control reaches from an address by running on and by jumps, without another call.

use std::collections::BTreeSet;
use std::ops::Range;

use super::code::Code;
use super::{Goes, Step, aarch64, x86_64};
use icecore_elf::Svma;
use icecore_unwind::Machine;

/// The most instructions that are followed. The longest functions have more, and remain undecided.
const MAX_STEPS: usize = 8192;

/// Reachable code.
#[derive(Debug, Default)]
pub(super) struct Reach {
    /// Ascending addresses: from the first instruction of each range to the end of its last.
    ranges: Vec<Range<Svma>>,
    /// PLT stubs that the code jumps to.
    pub(super) stubs: Vec<Svma>,
    /// The reachable code is not all known: it jumps to an address in a register or in memory, is too long, or leaves known code.
    pub(super) is_open: bool,
}

impl Reach {
    /// Follows all paths from an address.
    ///
    /// # Cost   30 ns for each of [`MAX_STEPS`] instructions at most
    pub(super) fn from(code: &Code<'_>, start: Svma) -> Self {
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
                // After a call that never returns, another function begins.
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
            reach.add(begin..at.max(Svma(begin.0.saturating_add(1))));
            if reach.is_open {
                // The search cannot exclude anything any more.
                break;
            }
        }
        code.return_steps(left);
        reach
    }

    /// Returns true if control reaches an address.
    pub(super) fn has(&self, at: Svma) -> bool {
        let before = self.ranges.partition_point(|range| range.start <= at);
        // Ranges may overlap where jumps lead into code that was already followed; the lists are short.
        self.ranges[..before].iter().rev().any(|range| range.contains(&at))
    }

    /// Returns true if control reaches any part of a function.
    pub(super) fn meets(&self, function: &Range<Svma>) -> bool {
        self.ranges.iter().any(|range| range.start < function.end && function.start < range.end)
    }

    fn add(&mut self, range: Range<Svma>) {
        let at = self.ranges.partition_point(|known| known.start < range.start);
        self.ranges.insert(at, range);
    }
}

/// The most instructions that are followed to count calls: functions that return by themselves what they like have hundreds.
const MAX_STEPS_TO_CALLS: usize = 1024;

/// Counts the calls that control may come to from an address, in the function itself; `None` if they are not all known.
pub(super) fn calls_from(code: &Code<'_>, start: Svma) -> Option<usize> {
    let (mut open, mut seen, mut calls) = (vec![start], BTreeSet::new(), 0);
    while let Some(mut at) = open.pop() {
        let mut last = None;
        while seen.insert(at) {
            let (step, instruction) =
                step(code, at, last.as_ref()).filter(|_| seen.len() < MAX_STEPS_TO_CALLS)?;
            calls += usize::from(instruction.as_ref().is_some_and(is_call));
            (at, last) = (step.next, instruction);
            match step.goes {
                Goes::On => {}
                Goes::OnOrTo(target) => open.push(target),
                Goes::To(target) => at = target,
                Goes::Anywhere | Goes::Nowhere => break,
            }
        }
    }
    Some(calls)
}

/// Reads the instruction at an address; on x86-64 it returns the decoded instruction, too.
pub(super) fn step(
    code: &Code<'_>,
    at: Svma,
    last: Option<&iced_x86::Instruction>,
) -> Option<(Step, Option<iced_x86::Instruction>)> {
    let bytes = code.bytes_from(at)?;
    match code.machine() {
        Machine::X86_64 => {
            let instruction = x86_64::decode(bytes, at.0)?;
            Some((x86_64::step(&instruction, last), Some(instruction)))
        }
        Machine::Aarch64 => Some((aarch64::step(bytes, at)?, None)),
    }
}

/// Returns the target of a call that only pushes an address: the code there replaces or drops it. Retpolines reach functions in
/// this way.
fn never_returns(code: &Code<'_>, call: &iced_x86::Instruction) -> Option<Svma> {
    let target = call.is_call_near().then(|| Svma(call.near_branch_target()))?;
    x86_64::takes_return_address(code.bytes_from(target)?).then_some(target)
}

fn is_call(instruction: &iced_x86::Instruction) -> bool {
    instruction.is_call_near() || instruction.is_call_near_indirect()
}
