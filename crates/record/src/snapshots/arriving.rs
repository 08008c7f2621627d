//! Snapshots on their way: registers first, then pages of the stack, then the sample, all of one CPU.

use rustc_hash::FxHashMap;

use crate::wire::{REGISTER_COUNT, Registers, STACK_POINTER, StackPage};

/// Snapshots whose sample has not come yet, by CPU.
#[derive(Debug, Default)]
pub(crate) struct Arriving {
    by_cpu: FxHashMap<u32, (u64, Taken)>,
    /// Memory to be used again: stacks are large, and come a thousand times a second.
    spare: Vec<Vec<u8>>,
}

/// Spare stacks that are kept.
const MAX_SPARE: usize = 64;

/// What registers and stack held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) registers: [u64; REGISTER_COUNT],
    /// The stack from the stack pointer on; a page that could not be read is zero.
    pub(crate) bytes: Vec<u8>,
    /// Address behind the stack; 0 if it is not known.
    stack_end: u64,
    /// Bytes that were to come.
    wanted: usize,
}

impl Arriving {
    /// Begins a snapshot. One whose sample did not come is dropped.
    pub(crate) fn registers(&mut self, registers: &Registers<'_>) {
        let wanted = registers.wanted as usize;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.reserve(wanted.max(registers.top.len()));
        bytes.extend_from_slice(registers.top);
        let taken = Taken { registers: registers.values, bytes, stack_end: registers.stack_end, wanted };
        self.by_cpu.insert(registers.cpu, (registers.snapshot, taken));
    }

    /// Adds a page to the snapshot that it belongs to. Pages come in the order of their addresses.
    pub(crate) fn page(&mut self, page: &StackPage<'_>) {
        match self.by_cpu.get_mut(&page.cpu) {
            Some((number, taken)) if *number == page.snapshot => taken.add(page),
            _ => {}
        }
    }

    /// Takes memory to be used again.
    pub(crate) fn reuse(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < MAX_SPARE && bytes.capacity() > 0 {
            self.spare.push(bytes);
        }
    }

    /// Takes the snapshot of a sample.
    pub(crate) fn take(&mut self, cpu: u32, number: u64) -> Option<Taken> {
        self.by_cpu.remove(&cpu).filter(|(arrived, _)| *arrived == number).map(|(_, taken)| taken)
    }
}

impl Taken {
    fn add(&mut self, page: &StackPage<'_>) {
        let sp = self.stack_pointer();
        // The first page begins below the stack pointer.
        let (below, at) =
            (sp.saturating_sub(page.address) as usize, page.address.saturating_sub(sp) as usize);
        let len = page.bytes.len().saturating_sub(below).min(self.wanted.saturating_sub(at));
        if len > 0 {
            // The first page holds the top once more; pages that could not be read are zero.
            self.bytes.resize(at, 0);
            self.bytes.extend_from_slice(&page.bytes[below..below + len]);
        }
    }

    pub(crate) fn stack_pointer(&self) -> u64 {
        self.registers[STACK_POINTER]
    }

    /// The address from which parts of the stack are counted: its end, or that of what was copied.
    pub(crate) fn anchor(&self) -> u64 {
        let copied_end = self.stack_pointer().saturating_add(self.bytes.len() as u64);
        let depth = self.stack_end.wrapping_sub(self.stack_pointer());
        if depth > u64::from(u32::MAX) { copied_end } else { self.stack_end.max(copied_end) }
    }
}

#[cfg(test)]
mod tests;
