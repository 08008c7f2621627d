//! Follows a program step by step, and tracks its true stack: every call adds a return address, every return removes one. That
//! needs no unwind tables, and holds in every instruction, including prologues and epilogues.

use std::ops::Range;

use icecore_unwind::Frame;

use crate::images::Images;
use crate::stopped::Memory;

/// `int3`, by which a program marks where to begin and to end.
pub(crate) const BREAKPOINT: u8 = 0xcc;

/// The true stacks of a thread: it may switch between several.
pub(crate) struct Truth {
    stacks: Vec<Stack>,
    current: usize,
}

struct Stack {
    memory: Range<u64>,
    /// Outermost first.
    entries: Vec<Entry>,
}

#[derive(Clone, Copy)]
enum Entry {
    /// A return address, and where it lies.
    Return { address: u64, slot: u64 },
    /// A signal has interrupted that instruction, on that stack.
    Interrupted { address: u64, sp: u64, stack: usize },
}

impl Truth {
    /// Begins with frames that were found otherwise.
    pub(crate) fn new(frames: &[Frame], images: &Images) -> Self {
        let memory = images.writable(frames[0].sp.0).expect("a stack can be written");
        let entries = frames.iter().skip(1).rev();
        let entries = entries.map(|frame| Entry::Return { address: frame.address.0, slot: frame.sp.0 - 8 });
        Self { stacks: vec![Stack { memory, entries: entries.collect() }], current: 0 }
    }

    /// Records a step; `called` if it was a call.
    pub(crate) fn stepped(
        &mut self,
        sp: u64,
        called: bool,
        memory: &Memory,
        images: &mut dyn FnMut(u64) -> Range<u64>,
    ) {
        self.go_to(sp, memory, images);
        let entries = &mut self.stacks[self.current].entries;
        // A return leaves the stack pointer above the return address; so do longjmp and the end of a signal.
        let is_over = |entry: &Entry| match entry {
            Entry::Return { slot, .. } => *slot < sp,
            Entry::Interrupted { sp: interrupted, stack, .. } => *stack == self.current && *interrupted <= sp,
        };
        while entries.pop_if(|entry| is_over(entry)).is_some() {}
        if called {
            let address = memory.word(sp).expect("just written");
            entries.push(Entry::Return { address, slot: sp });
        }
    }

    /// A signal handler begins.
    pub(crate) fn interrupted(
        &mut self,
        at: (u64, u64),
        sp: u64,
        memory: &Memory,
        images: &mut dyn FnMut(u64) -> Range<u64>,
    ) {
        let stack = self.current;
        self.go_to(sp, memory, images);
        let entries = &mut self.stacks[self.current].entries;
        if stack != self.current {
            entries.clear();
        }
        entries.push(Entry::Interrupted { address: at.0, sp: at.1, stack });
        entries.push(Entry::Return { address: memory.word(sp).expect("just written"), slot: sp });
    }

    /// Finds the stack of a stack pointer. A new one begins with the address that its first function returns to.
    fn go_to(&mut self, sp: u64, memory: &Memory, find: &mut dyn FnMut(u64) -> Range<u64>) {
        if self.stacks[self.current].memory.contains(&sp) {
            return;
        }
        let known = self.stacks.iter().position(|stack| stack.memory.contains(&sp));
        self.current = known.unwrap_or_else(|| {
            let first = Entry::Return { address: memory.word(sp).expect("a stack"), slot: sp };
            self.stacks.push(Stack { memory: find(sp), entries: vec![first] });
            self.stacks.len() - 1
        });
    }

    /// Returns how much of the current stack is in use.
    pub(crate) fn bytes(&self, sp: u64) -> u64 {
        self.stacks[self.current].memory.end - sp
    }

    /// Addresses of the stack, leaf first.
    pub(crate) fn chain(&self, pc: u64) -> Vec<u64> {
        let mut chain = vec![pc];
        let (mut stack, mut end) = (self.current, self.stacks[self.current].entries.len());
        while end > 0 {
            end -= 1;
            match self.stacks[stack].entries[end] {
                Entry::Return { address, .. } => chain.push(address),
                Entry::Interrupted { address, stack: other, .. } => {
                    chain.push(address);
                    if other != stack {
                        (stack, end) = (other, self.stacks[other].entries.len());
                    }
                }
            }
        }
        chain
    }
}

/// Returns true if an instruction is a call.
pub(crate) fn is_call(code: [u8; 8]) -> bool {
    let prefixes =
        code.iter().take_while(|byte| matches!(byte, 0x66 | 0x67 | 0xf2 | 0xf3 | 0x2e | 0x3e | 0x40..=0x4f));
    match code[prefixes.count().min(6)..] {
        [0xe8, ..] => true,
        [0xff, modrm, ..] => modrm >> 3 & 7 == 2,
        _ => false,
    }
}
