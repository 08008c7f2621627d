//! Snapshots on their way: registers first, then the pages of the stack that changed, then the hashes of all its pages, then the
//! sample, all of one CPU.

use rustc_hash::FxHashMap;

use super::pages::{Page, Pages};
use crate::kernel::wire::{PAGE_BYTES, PageKey, REGISTER_COUNT, Registers, STACK_POINTER, Stack, StackPage};
use crate::track::tally::{Held, Tally};

/// Pages of stacks take so much memory at most, wherever they are: on a machine that is too busy to tell of its mappings,
/// samples wait for long.
const MAX_PAGE_BYTES: usize = 160 << 20;

/// Snapshots whose sample has not come yet, by CPU.
#[derive(Debug)]
pub(crate) struct Arriving {
    by_cpu: FxHashMap<u32, Begun>,
    pages: Pages,
    /// Memory of all pages that are alive, and of the lists of them.
    alive: Tally,
    max_bytes: usize,
    /// Snapshots with a page for which no room was.
    refused: u64,
}

/// A snapshot whose sample has not come yet.
#[derive(Debug)]
struct Begun {
    number: u64,
    taken: Taken,
    /// Address and page.
    sent: Vec<(u64, Page)>,
    is_refused: bool,
    /// What a signal interrupted, or what Go was called from, on other stacks.
    outer: Vec<Begun>,
}

/// What registers and stack held.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) registers: [u64; REGISTER_COUNT],
    /// Address behind the stack; 0 if it is not known.
    pub(super) stack_end: u64,
    pub(super) copied: Copied,
    /// What was interrupted by the signal whose handler runs on this stack; the stacks of C that have called what runs on this
    /// one, which is Go's, the innermost first.
    pub(super) outer: Vec<Taken>,
}

/// Stack memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Copied {
    /// Address of the first byte.
    pub(super) low: u64,
    /// Behind the last byte that is known.
    pub(super) high: u64,
    /// Hash and bytes of the pages from the one of `low` on; `None` for a page that was not in memory, which reads as zero.
    pub(super) pages: Vec<(u64, Option<Page>)>,
    /// The bytes, where there are no pages.
    pub(super) top: Vec<u8>,
    /// Counts the list.
    _held: Held,
}

impl Default for Arriving {
    fn default() -> Self {
        Self::with_room(MAX_PAGE_BYTES)
    }
}

impl Arriving {
    /// Keeps so many bytes of pages at most, or those that were used last if they are more.
    pub(crate) fn with_room(max_bytes: usize) -> Self {
        let (by_cpu, pages, alive, refused) = Default::default();
        Self { by_cpu, pages, alive, max_bytes, refused }
    }

    /// Begins a snapshot. One whose sample did not come is dropped.
    pub(crate) fn registers(&mut self, registers: &Registers<'_>) {
        let low = registers.values[STACK_POINTER];
        let high = low.saturating_add(registers.top.len() as u64);
        let copied = Copied { low, high, top: registers.top.to_vec(), ..Copied::default() };
        let stack_end = registers.stack_end;
        let taken = Taken { registers: registers.values, stack_end, copied, outer: Vec::new() };
        let begun = Begun {
            number: registers.snapshot,
            taken,
            sent: Vec::new(),
            is_refused: false,
            outer: Vec::new(),
        };
        match self.by_cpu.get_mut(&registers.cpu).filter(|_| registers.is_outer) {
            Some(inner) => inner.outer.push(begun),
            None if registers.is_outer => {}
            None => {
                self.by_cpu.insert(registers.cpu, begun);
            }
        }
    }

    /// Adds a page to the snapshot that it belongs to. Without room for it, the snapshot ends there.
    pub(crate) fn page(&mut self, page: &StackPage<'_>) {
        let begun = begun(&mut self.by_cpu, page.cpu, page.snapshot);
        let (Some(begun), Some(bytes)) = (begun, page.bytes.first_chunk()) else { return };
        if self.alive.total() < self.max_bytes {
            begun.sent.push((page.address, Page::new(bytes, &self.alive)));
        } else if !begun.is_refused {
            begun.is_refused = true;
            self.refused += 1;
        }
    }

    /// Puts the stack of a snapshot together, of pages that came with it and of those that hold what they held.
    pub(crate) fn stack(&mut self, stack: &Stack<'_>) {
        let Some(begun) = begun(&mut self.by_cpu, stack.cpu, stack.snapshot) else { return };
        let mut sent = begun.sent.drain(..).peekable();
        let mut copied = Copied { low: stack.low, high: stack.low, ..Copied::default() };
        let mut is_known = true;
        for (address, hash) in stack.pages() {
            let key = PageKey::new(stack.tid, address);
            let page = match sent.next_if(|(of, _)| *of == address) {
                Some((_, page)) => {
                    self.pages.put(key, hash, page.clone());
                    Some(page)
                }
                None if hash != 0 => self.pages.find(key, hash),
                None => None,
            };
            // What lies behind a page that did not come is of no use.
            is_known &= hash == 0 || page.is_some();
            if is_known {
                copied.pages.push((hash, page));
                copied.high = address.saturating_add(PAGE_BYTES).min(stack.high);
            }
        }
        if copied.high > copied.low {
            copied._held = self.alive.hold(size_of_val(&copied.pages[..]));
            begun.taken.copied = copied;
        }
    }

    /// Takes the snapshot of a sample.
    pub(crate) fn take(&mut self, cpu: u32, number: u64) -> Option<Taken> {
        let begun = self.by_cpu.remove(&cpu).filter(|begun| begun.number == number)?;
        let outer = begun.outer.into_iter().map(|outer| outer.taken).collect();
        Some(Taken { outer, ..begun.taken })
    }

    /// Takes the number of stacks for parts of which no room was.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// Takes the pages that the sampler must send again.
    pub(crate) fn take_missing(&mut self) -> Vec<PageKey> {
        self.pages.take_missing()
    }
}

/// Finds the snapshot of a number on a CPU.
fn begun(by_cpu: &mut FxHashMap<u32, Begun>, cpu: u32, number: u64) -> Option<&mut Begun> {
    let begun = by_cpu.get_mut(&cpu)?;
    if begun.number == number {
        return Some(begun);
    }
    begun.outer.iter_mut().find(|outer| outer.number == number)
}

impl Taken {
    pub(crate) fn stack_pointer(&self) -> u64 {
        self.registers[STACK_POINTER]
    }

    /// The address from which parts of the stack are counted: its end, or that of what was copied.
    pub(crate) fn anchor(&self) -> u64 {
        let depth = self.stack_end.wrapping_sub(self.stack_pointer());
        if depth > u64::from(u32::MAX) { self.copied.high } else { self.stack_end.max(self.copied.high) }
    }
}

impl Copied {
    /// Hash of the page of an address, if all of it is known.
    pub(super) fn hash(&self, address: u64) -> Option<u64> {
        let number = (address / PAGE_BYTES).checked_sub(self.low / PAGE_BYTES)?;
        self.pages.get(usize::try_from(number).ok()?).map(|(hash, _)| *hash)
    }

    /// Adds the bytes of a range to others; it must lie between `low` and `high`.
    pub(super) fn read(&self, mut from: u64, to: u64, bytes: &mut Vec<u8>) {
        if self.pages.is_empty() {
            let range = (from - self.low) as usize..(to - self.low) as usize;
            bytes.extend_from_slice(&self.top[range]);
            return;
        }
        while from < to {
            let page_end = from - from % PAGE_BYTES + PAGE_BYTES;
            let range = (from % PAGE_BYTES) as usize..(to.min(page_end) - (page_end - PAGE_BYTES)) as usize;
            match &self.pages[(from / PAGE_BYTES - self.low / PAGE_BYTES) as usize].1 {
                Some(page) => bytes.extend_from_slice(&page.bytes()[range]),
                None => bytes.resize(bytes.len() + range.len(), 0),
            }
            from = to.min(page_end);
        }
    }
}

#[cfg(test)]
mod tests;
