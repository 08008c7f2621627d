//! Puts snapshots together from the records of one buffer of the sampler: registers first, then the stack pages that changed, then the hashes of all
//! its pages, then the sample.

use icecore_elf::Avma;
use rustc_hash::FxHashMap;

use super::pages::{Page, Pages};
use crate::kernel::wire::{
    self, PAGE_BYTES, PageKey, REGISTER_COUNT, Registers, STACK_POINTER, Stack, StackPage,
};
use crate::track::tally::{Held, Tally};

/// The most memory of all stack pages that anything holds, bytes. On a machine that is too busy to report its mappings in time,
/// samples wait long.
const MAX_PAGE_BYTES: usize = 160 << 20;

/// Snapshots whose sample has not come yet, by the buffer of the sampler.
#[derive(Debug)]
pub(crate) struct Arriving {
    by_buffer: FxHashMap<u32, Begun>,
    pages: Pages,
    /// Counts the memory of all pages that are alive, and of the lists that hold them.
    alive: Tally,
    max_bytes: usize,
    /// The number of snapshots with a page for which there was no memory.
    refused: u64,
}

/// A snapshot whose sample has not come yet.
#[derive(Debug)]
struct Begun {
    number: u64,
    taken: Taken,
    /// The pages that were sent, with their addresses.
    sent: Vec<(Avma, Page)>,
    is_refused: bool,
    /// The outer stacks: the code that a signal interrupted, or the C code that called Go.
    outer: Vec<Begun>,
}

/// A complete snapshot: registers and stack memory.
#[derive(Debug, Clone)]
pub(crate) struct Taken {
    pub(crate) registers: [u64; REGISTER_COUNT],
    /// Address after the stack; 0 if it is not known.
    pub(super) stack_end: Avma,
    pub(super) copied: Copied,
    /// The outer stacks, the innermost first: the one that was interrupted by the signal whose handler runs on this stack; or, if this is
    /// a stack of Go, the stacks of C that called Go.
    pub(super) outer: Vec<Taken>,
}

/// Stack memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Copied {
    /// Address of the first byte.
    pub(super) low: Avma,
    /// The address after the last known byte.
    pub(super) high: Avma,
    /// Hash and bytes of the pages from the one of `low` on; `None` for a page that was not in memory, which reads as zero.
    pub(super) pages: Vec<(u64, Option<Page>)>,
    /// The bytes, if there are no pages.
    pub(super) top: Vec<u8>,
    /// Counts the memory of the list of pages.
    _held: Held,
}

impl Default for Arriving {
    fn default() -> Self {
        Self::with_room(MAX_PAGE_BYTES)
    }
}

impl Arriving {
    /// Bounds the memory of pages to `max_bytes`, or to the pages that were used last if these are more.
    pub(crate) fn with_room(max_bytes: usize) -> Self {
        let (by_buffer, pages, alive, refused) = Default::default();
        Self { by_buffer, pages, alive, max_bytes, refused }
    }

    /// Begins a snapshot. Drops the last one of its buffer if its sample did not come.
    pub(crate) fn registers(&mut self, registers: &Registers<'_>) {
        let low = Avma(registers.values[STACK_POINTER]);
        let high = Avma(low.0.saturating_add(registers.top.len() as u64));
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
        let buffer = wire::buffer_of(registers.snapshot);
        match self.by_buffer.get_mut(&buffer).filter(|_| registers.is_outer) {
            Some(inner) => inner.outer.push(begun),
            None if registers.is_outer => {}
            None => {
                self.by_buffer.insert(buffer, begun);
            }
        }
    }

    /// Adds a page to its snapshot. If there is no memory for it, the known part of the stack ends before it. A sample that
    /// interrupted this one may refer to the page before the rest of this one has come.
    pub(crate) fn page(&mut self, page: &StackPage<'_>) {
        let begun = begun(&mut self.by_buffer, page.snapshot);
        let (Some(begun), Some(bytes)) = (begun, page.bytes.first_chunk()) else { return };
        if self.alive.total() < self.max_bytes {
            let held = Page::new(bytes, &self.alive);
            self.pages.put(PageKey::new(page.tid, page.address), page.hash, held.clone());
            begun.sent.push((page.address, held));
        } else if !begun.is_refused {
            begun.is_refused = true;
            self.refused += 1;
        }
    }

    /// Puts the stack of a snapshot together from the pages that came with it, and from earlier pages with the same hashes. A stack that
    /// does not begin at the stack pointer is not the snapshot's, whatever the record says.
    pub(crate) fn stack(&mut self, stack: &Stack<'_>) {
        let Some(begun) = begun(&mut self.by_buffer, stack.snapshot) else { return };
        let mut sent = begun.sent.drain(..).peekable();
        let mut copied = Copied { low: stack.low, high: stack.low, ..Copied::default() };
        let mut is_known = true;
        for (address, hash) in stack.pages() {
            let key = PageKey::new(stack.tid, address);
            let page = match sent.next_if(|(of, _)| *of == address) {
                Some((_, page)) => Some(page),
                None if hash != 0 => self.pages.find(key, hash),
                None => None,
            };
            // Unwinding goes upwards, so the memory after a missing page is of no use.
            is_known &= hash == 0 || page.is_some();
            if let (true, Some(end)) = (is_known, address.0.checked_add(PAGE_BYTES)) {
                copied.pages.push((hash, page));
                copied.high = stack.high.min(Avma(end));
            }
        }
        if copied.low == begun.taken.stack_pointer() && copied.high > copied.low {
            copied._held = self.alive.hold(size_of_val(&copied.pages[..]));
            begun.taken.copied = copied;
        }
    }

    /// Removes and returns the snapshot of a sample; `number` is 0 if it has none.
    pub(crate) fn take(&mut self, number: u64) -> Option<Taken> {
        if number == 0 {
            return None;
        }
        let begun = self.by_buffer.remove(&wire::buffer_of(number)).filter(|begun| begun.number == number)?;
        let outer = begun.outer.into_iter().map(|outer| outer.taken).collect();
        Some(Taken { outer, ..begun.taken })
    }

    /// Takes the number of stacks that were shortened because there was no memory.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// Takes the pages that the sampler must send again.
    pub(crate) fn take_missing(&mut self) -> Vec<PageKey> {
        self.pages.take_missing()
    }
}

/// Finds the snapshot with a number.
fn begun(by_buffer: &mut FxHashMap<u32, Begun>, number: u64) -> Option<&mut Begun> {
    let begun = by_buffer.get_mut(&wire::buffer_of(number))?;
    if begun.number == number {
        return Some(begun);
    }
    begun.outer.iter_mut().find(|outer| outer.number == number)
}

impl Taken {
    pub(crate) fn stack_pointer(&self) -> Avma {
        Avma(self.registers[STACK_POINTER])
    }

    /// Returns the address from which parts of the stack are counted: the end of the stack, or else of the copy.
    pub(crate) fn anchor(&self) -> Avma {
        let depth = self.stack_end.0.wrapping_sub(self.stack_pointer().0);
        if depth > u64::from(u32::MAX) { self.copied.high } else { self.stack_end.max(self.copied.high) }
    }
}

impl Copied {
    /// Returns the hash of the page at an address; `None` if not all of the page is known.
    pub(super) fn hash(&self, address: Avma) -> Option<u64> {
        let number = (address.0 / PAGE_BYTES).checked_sub(self.low.0 / PAGE_BYTES)?;
        self.pages.get(usize::try_from(number).ok()?).map(|(hash, _)| *hash)
    }

    /// Appends the bytes of a range, which must lie between `low` and `high`, to `bytes`.
    pub(super) fn read(&self, from: Avma, to: Avma, bytes: &mut Vec<u8>) {
        let (Avma(mut from), Avma(to), Avma(low)) = (from, to, self.low);
        if self.pages.is_empty() {
            let range = (from - low) as usize..(to - low) as usize;
            bytes.extend_from_slice(&self.top[range]);
            return;
        }
        while from < to {
            let page_end = from - from % PAGE_BYTES + PAGE_BYTES;
            let range = (from % PAGE_BYTES) as usize..(to.min(page_end) - (page_end - PAGE_BYTES)) as usize;
            match &self.pages[(from / PAGE_BYTES - low / PAGE_BYTES) as usize].1 {
                Some(page) => bytes.extend_from_slice(&page.bytes()[range]),
                None => bytes.resize(bytes.len() + range.len(), 0),
            }
            from = to.min(page_end);
        }
    }
}

#[cfg(test)]
mod tests;
