//! Samples of threads in a few seconds, unwound one after the other.

use icecore_format::records::{Location, Mending, Sample, WalkEnd};

use super::choose::{Choice, Walked, choose};
use super::code::SpaceCode;
use super::grown::Grown;
use super::memory::Memory;
use super::rules;
use super::suspect::Known;
use crate::hits::Selection;
use crate::locate::{Locator, steps};
use crate::map::Map;
use crate::unwind::{End, Frame, Modules as _, Unwinder};

/// Unwinds the samples of a window.
pub(super) struct Window<'a> {
    selection: Selection<'a>,
    locator: &'a Locator<'a>,
    rules: &'a rules::Tables<'a>,
    unwinder: &'a mut Unwinder,
    done: Done,
    /// The node of a frame that leads to a root.
    known: Map<Seat, u32>,
    /// Stacks of which the outer part was not copied.
    open: Vec<Open>,
    /// Which calls keep frame pointers.
    kept: Known,
    frames: Vec<Frame>,
    path: Vec<u32>,
}

/// What came of a window.
#[derive(Default)]
pub(super) struct Done {
    pub(super) grown: Grown,
    pub(super) stacks: Vec<Stack>,
}

/// The stack of one snapshot.
pub(super) struct Stack {
    pub(super) snapshot: u32,
    /// Its leaf in [`Done::grown`] and how it ended, if it is not the walk's.
    pub(super) other: Option<(u32, WalkEnd)>,
    pub(super) mending: Mending,
}

/// A frame of a thread: while it is there, what called it does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Seat {
    tid: u32,
    address: u64,
    sp: u64,
}

/// A stack of which the outer part was not copied.
struct Open {
    snapshot: u32,
    /// Its outermost frame.
    seat: Seat,
    /// The frames inside of that, outermost first.
    inner: Vec<Location>,
}

impl<'a> Window<'a> {
    pub(super) fn new(
        selection: Selection<'a>,
        locator: &'a Locator<'a>,
        rules: &'a rules::Tables<'a>,
        unwinder: &'a mut Unwinder,
    ) -> Self {
        let (done, known, open, kept, frames, path) = Default::default();
        Self { selection, locator, rules, unwinder, done, known, open, kept, frames, path }
    }

    /// Unwinds the stack of a sample, if everything is there.
    pub(super) fn sample(&mut self, sample: &Sample) -> Option<()> {
        let tables = self.selection.tables;
        let task = tables.task(sample.task);
        let space = self.selection.spaces.space(task.tgid, sample.time_ns)?;
        let snapshot = tables.held.snapshots.find(sample.snapshot)?;
        let code = SpaceCode::new(self.locator, space, self.rules);
        let walked: Vec<Walked> =
            steps(tables, sample.user_stack).map_while(|step| code.walked(step)).collect();
        let mut memory = Memory::new(&tables.held, snapshot, &code)?;
        let registers = memory.registers(self.rules.machine(), walked.first()?.address);
        memory.add_step(&registers, &walked);
        let mut frames = std::mem::take(&mut self.frames);
        frames.clear();
        let end = self.unwinder.unwind(registers, &memory, &code, &mut frames);
        let seat = |frame: &Frame| Seat { tid: task.tid, address: frame.address, sp: frame.sp };
        if let (End::LeftSnapshot, [inner @ .., last]) = (end, &frames[..]) {
            let inner: Vec<Location> = inner.iter().rev().map(|frame| code.location(frame)).collect();
            self.open.push(Open { snapshot: sample.snapshot, seat: seat(last), inner });
        }
        let choice = choose(&frames, end, &walked, sample.user_end);
        let rests_on = match &choice {
            Choice::Walk if end != End::Root && sample.user_end == WalkEnd::ROOT => &walked[1..],
            Choice::Other { walked, end: WalkEnd::ROOT, .. } => walked,
            _ => &[],
        };
        let calls = rests_on.iter().filter_map(|walked| code.find(walked.address.checked_sub(1)?));
        let is_suspect = self.kept.judge(calls, self.unwinder).is_suspect();
        if let Choice::Other { unwound, walked, end } = choice {
            let outer = walked.iter().rev().map(|frame| frame.location);
            let inner = frames[..unwound].iter().rev().map(|frame| code.location(frame));
            self.done.grown.add(0, outer.chain(inner), &mut self.path);
            let other = self.path.last().map(|node| (*node, end));
            self.done.stacks.push(Stack {
                snapshot: sample.snapshot,
                other,
                mending: Mending::REPLACED.judged(is_suspect),
            });
            if end == WalkEnd::UNWOUND {
                // Where a frame is known, all outside of it are.
                let known = frames.iter().zip(self.path.iter().rev()).skip(1);
                for (frame, node) in known {
                    if self.known.insert(seat(frame), *node) == Some(*node) {
                        break;
                    }
                }
            }
        } else {
            let kept =
                Stack { snapshot: sample.snapshot, other: None, mending: Mending::KEPT.judged(is_suspect) };
            self.done.stacks.push(kept);
        }
        self.frames = frames;
        Some(())
    }

    /// Completes open stacks.
    pub(super) fn done(mut self) -> Done {
        let mut stacks: Map<u32, usize> = Map::default();
        for Open { snapshot, seat, inner } in std::mem::take(&mut self.open) {
            let Some(node) = self.known.get(&seat).copied() else { continue };
            if stacks.is_empty() {
                stacks.extend(self.done.stacks.iter().enumerate().map(|(at, stack)| (stack.snapshot, at)));
            }
            let Some(stack) = stacks.get(&snapshot).map(|at| &mut self.done.stacks[*at]) else { continue };
            // A walk to a root that unwind rules bear out is this sample's own.
            if stack.mending.is_judged() && !stack.mending.is_suspect() {
                continue;
            }
            self.done.grown.add(node, inner.into_iter(), &mut self.path);
            let node = self.path.last().copied().unwrap_or(node);
            *stack = Stack { snapshot, other: Some((node, WalkEnd::UNWOUND)), mending: Mending::COMPLETED };
        }
        self.done
    }
}
