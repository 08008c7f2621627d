//! Puts the stacks of wakers on top of the stacks that they woke.
//!
//! ```text
//! main          the thread that waited, root first
//! read
//! schedule
//! [woken by]
//! wake_up       the thread that ended the wait, leaf first, so that both leaves meet
//! write
//! main
//! [writer]      its name
//! ```

use super::Stack;
use super::names::{Frame, Function, Names};
use super::waits::{RowWait, Waker};
use crate::map::Map;
use crate::stacks::waits::WaitGroups;
use crate::stacks::waits::wakers::WakerStack;

/// Comes between the two stacks.
const WOKEN_BY: &str = "[woken by]";

/// Composes stacks of waiters and wakers.
pub(super) struct Composer<'a> {
    groups: &'a WaitGroups,
    /// The innermost stack of each waker, a position in `stacks`.
    wakers: Vec<u32>,
    names: &'a mut Names,
    stacks: Vec<Stack>,
    /// The composed stacks, all of which are above the marker.
    composed: Map<Stack, u32>,
    /// Frames that stand for no code, by their text.
    markers: Map<Box<str>, u32>,
    /// Inlined frames as frames of their own.
    apart: Map<u32, u32>,
    known: Map<(u32, u32), u32>,
}

impl<'a> Composer<'a> {
    pub(super) fn new(
        groups: &'a WaitGroups,
        wakers: Vec<u32>,
        names: &'a mut Names,
        stacks: Vec<Stack>,
    ) -> Self {
        let (composed, markers, apart, known) = Default::default();
        Self { groups, wakers, names, stacks, composed, markers, apart, known }
    }

    /// Returns the stack of a wait with that of its waker on top; the stack alone if nothing had to end the wait.
    pub(super) fn of(&mut self, stack: u32, group: u32, wait: &RowWait) -> u32 {
        if let Some(known) = self.known.get(&(stack, group)) {
            return *known;
        }
        let made = self.compose(stack, group, wait);
        self.known.insert((stack, group), made);
        made
    }

    fn compose(&mut self, stack: u32, group: u32, wait: &RowWait) -> u32 {
        let Some(facts) = self.groups.facts(group).filter(|_| wait.waker != Waker::Nobody) else {
            return stack;
        };
        let mut top = self.marker(stack, WOKEN_BY);
        if wait.waker == Waker::NotEnded {
            return self.marker(top, "[nobody yet]");
        }
        top = match facts.waker_stack {
            WakerStack::Missing => self.marker(top, "[waker not recorded]"),
            WakerStack::Several => self.marker(top, "[one of several stacks of the waker]"),
            WakerStack::At(position) => self.reversed(top, self.wakers[position as usize]),
        };
        match &wait.waker {
            Waker::Thread(thread) => self.marker(top, &format!("[{}]", thread.comm)),
            other => self.marker(top, &format!("[{}]", other.words().unwrap_or_default())),
        }
    }

    /// Puts a stack onto another one, its innermost frame first.
    fn reversed(&mut self, mut top: u32, waker: u32) -> u32 {
        let mut next = waker;
        while next != 0 {
            let Stack { caller, frame } = self.stacks[next as usize];
            // An inlined function comes before the one around it here, so that its samples would count for the frame below it.
            let frame = match self.names.frames[frame as usize] {
                inlined if inlined.inlined => {
                    let new = || self.names.add(Frame { inlined: false, ..inlined });
                    *self.apart.entry(frame).or_insert_with(new)
                }
                _ => frame,
            };
            top = self.push(top, frame);
            next = caller;
        }
        top
    }

    fn marker(&mut self, top: u32, text: &str) -> u32 {
        let frame = match self.markers.get(text) {
            Some(known) => *known,
            None => {
                let new = self.names.marker(text);
                self.markers.insert(text.into(), new);
                new
            }
        };
        self.push(top, frame)
    }

    fn push(&mut self, caller: u32, frame: u32) -> u32 {
        let stack = Stack { caller, frame };
        let next = self.stacks.len() as u32;
        let position = *self.composed.entry(stack).or_insert(next);
        if position == next {
            self.stacks.push(stack);
        }
        position
    }

    pub(super) fn into_stacks(self) -> Vec<Stack> {
        self.stacks
    }
}

impl Names {
    /// Adds a frame that stands for no code.
    fn marker(&mut self, text: &str) -> u32 {
        self.functions.push(Function::new(text));
        let function = (self.functions.len() - 1) as u32;
        self.add(Frame { function, file: None, line: None, inlined: false })
    }

    fn add(&mut self, frame: Frame) -> u32 {
        self.frames.push(frame);
        (self.frames.len() - 1) as u32
    }
}
