//! Several sessions in one file: the arithmetic that keeps them apart. A *part* is one session and its blocks.
//!
//! Every session counts its ids anew, numbers its own processes and has a clock of its own. At load its rows get
//! numbers that are unique in the file, so that no stage behind this one needs to know of parts:
//!
//! ```text
//!            part 0            part 1                    part 2
//! ids        0 … end₀          base₁ … base₁ + end₁      base₂ …         base₁ = end₀ + 1
//! a hole          end₀                base₁ + end₁                       for ids that no block of the part has
//! processes  100               1 << 22 | 100             2 << 22 | 100   the kernel numbers them below 2²²
//! times      on one clock (`series`): a time is as long after `zero_ns` as it was after the earliest start of all sessions
//! ```
//!
//! A file with one session keeps all its numbers.

mod clocks;
mod placed;
mod shift;
#[cfg(test)]
mod tests;

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::records::{
    Block, EventV1, IdTable, Maker, ReceiptV1, Reference, References, SessionV1, TriggerV1,
};

/// A block whose texts are clean.
pub(super) type CleanBlock = Block<Vec<u8>, Box<str>>;

/// The most sessions of a file: as many as fit into the bits above the number of a process.
pub const MAX_PARTS: usize = 1 << (32 - PID_BITS);

/// Bits of the number of a process or thread: the kernel's `PID_MAX_LIMIT` is 2²².
const PID_BITS: u32 = 22;

/// All sessions of a file, in its order.
#[derive(Debug)]
pub struct Parts {
    /// Never empty.
    parts: Vec<Part>,
    /// The zero of relative times: the earliest start, on the common clock.
    zero_ns: u64,
    start_unix_ns: u64,
    /// Events of all sessions; those of equal name and unit are one.
    events: Vec<EventV1>,
    /// Distinct names of hosts, in the order of the file.
    hosts: Vec<String>,
    /// The sequence number of the first block that belongs to a session too many.
    end_sequence: Option<u64>,
}

/// One session.
#[derive(Debug, Default)]
pub struct Part {
    /// Host, clock, events, options; empty if its block is missing.
    pub session: SessionV1,
    /// What it cost; absent if the recorder was killed.
    pub receipt: Option<ReceiptV1>,
    /// What asked for it, if it was a history that the recorder held in memory; in the last session of such a file.
    pub trigger: Option<TriggerV1>,
    /// Position of its host in [`Parts::hosts`].
    pub host: usize,
    number: u32,
    first_sequence: u64,
    next_sequence: u64,
    has_end: bool,
    ids: [Ids; TABLES],
    shift_ns: u64,
    /// Earliest time of a sample, on its own clock.
    first_sample_ns: Option<u64>,
    /// Latest time of a sample, on its own clock.
    last_sample_ns: Option<u64>,
    /// The number of the first session of the same boot.
    boot: u32,
    /// The number of the first of the sessions that follow each other without a gap up to this one.
    chain: u32,
    /// Position in [`Parts::events`] by own position; empty in a file with one session.
    event_of: Vec<u8>,
    is_alone: bool,
}

/// Returns the program that recorded, with its version: our own recorder stores only that, others their names, too (`perf 6.1`).
pub fn recorder(maker: Maker, version: &str) -> String {
    match (maker, version) {
        (Maker::RECORDER, version) => format!("icecore-record {version}"),
        (_, "") => "unknown".to_owned(),
        (_, version) => version.to_owned(),
    }
}

/// How many tables there are.
const TABLES: usize = IdTable::ALL.len();

/// Ids of one table in one part.
#[derive(Debug, Clone, Copy, Default)]
struct Ids {
    base: u32,
    /// The id after the last own one; the largest number in the last part.
    end: u32,
}

impl Ids {
    fn shift(self, own: u32) -> u32 {
        self.base.saturating_add(own.min(self.end))
    }
}

impl Default for Parts {
    fn default() -> Self {
        let mut parts = Self::of_none();
        parts.parts.push(Part::new(0, 0));
        parts.settle();
        parts
    }
}

impl Parts {
    /// Finds out which block belongs to which session: the number of each block's part, and what is beyond
    /// [`MAX_PARTS`] is not listed. A block is `None` if it was not decoded.
    pub(super) fn divide<'b>(
        entries: &[Entry],
        blocks: impl Iterator<Item = Option<&'b CleanBlock>>,
    ) -> (Self, Vec<u32>) {
        let mut parts = Self::of_none();
        let mut part_of = Vec::with_capacity(entries.len());
        for (entry, block) in entries.iter().zip(blocks) {
            if parts.parts.last().is_none_or(|part| part.ends_before(entry, block)) {
                if parts.parts.len() == MAX_PARTS {
                    parts.end_sequence = Some(entry.header.sequence);
                    break;
                }
                parts.parts.push(Part::new(parts.parts.len() as u32, entry.header.sequence));
            }
            let part = parts.parts.last_mut().expect("bug: just pushed");
            part.learn(entry, block);
            part_of.push(part.number);
        }
        if parts.parts.is_empty() {
            parts.parts.push(Part::new(0, 0));
        }
        parts.settle();
        (parts, part_of)
    }

    /// One session that knows its mount namespace.
    #[cfg(test)]
    pub(crate) fn of_one(mount_ns: u64) -> Self {
        let mut parts = Self::default();
        parts.parts[0].session.mount_ns = mount_ns;
        parts
    }

    fn of_none() -> Self {
        let (parts, events, hosts, end_sequence) = Default::default();
        Self { parts, zero_ns: 0, start_unix_ns: 0, events, hosts, end_sequence }
    }

    /// Gives every part its numbers, once all are known.
    fn settle(&mut self) {
        let last = self.parts.len() - 1;
        let mut bases = [0u32; TABLES];
        for (number, part) in self.parts.iter_mut().enumerate() {
            part.is_alone = last == 0;
            for (ids, base) in part.ids.iter_mut().zip(&mut bases) {
                ids.base = *base;
                ids.end = if number == last { u32::MAX } else { ids.end };
                *base = base.saturating_add(ids.end).saturating_add(1);
            }
            part.host = position(&mut self.hosts, &part.session.host, |a, b| a == b);
        }
        self.settle_events();
        self.settle_clock();
    }

    fn settle_events(&mut self) {
        self.events.clone_from(&self.parts[0].session.events);
        if self.parts.len() == 1 {
            return;
        }
        for part in &mut self.parts {
            let same =
                |a: &EventV1, b: &EventV1| (&a.name, &a.unit, a.meaning) == (&b.name, &b.unit, b.meaning);
            let events = part.session.events.iter().map(|event| position(&mut self.events, event, same));
            part.event_of = events.map(|event| u8::try_from(event).unwrap_or(u8::MAX)).collect();
        }
    }

    /// Tells whether a block belongs to a part: not if there are more sessions than [`MAX_PARTS`].
    pub fn holds(&self, entry: &Entry) -> bool {
        self.end_sequence.is_none_or(|end| entry.header.sequence < end)
    }

    /// The part of a block.
    pub fn of(&self, entry: &Entry) -> &Part {
        let after = self.parts.partition_point(|part| part.first_sequence <= entry.header.sequence);
        &self.parts[after.saturating_sub(1)]
    }

    /// The part that a number names.
    pub fn part(&self, number: u32) -> &Part {
        &self.parts[(number as usize).min(self.parts.len() - 1)]
    }

    /// The part to which a node of the trie belongs.
    pub fn of_node(&self, id: u32) -> u32 {
        self.of_id(IdTable::Stacks, id)
    }

    /// The part to which a node of the trie belongs, and the id of the node there.
    pub fn own_node(&self, id: u32) -> (u32, u32) {
        let part = self.of_node(id);
        (part, id - self.part(part).ids[IdTable::Stacks as usize].base)
    }

    /// The part to which an image belongs, and the id of the image there.
    pub fn of_image(&self, id: u32) -> (u32, u32) {
        let part = self.of_id(IdTable::Images, id);
        (part, id - self.part(part).ids[IdTable::Images as usize].base)
    }

    /// The part to which a task belongs.
    pub fn of_task(&self, id: u32) -> u32 {
        self.of_id(IdTable::Tasks, id)
    }

    fn of_id(&self, table: IdTable, id: u32) -> u32 {
        if self.parts.len() == 1 {
            return 0;
        }
        let after = self.parts.partition_point(|part| part.ids[table as usize].base <= id);
        after.saturating_sub(1) as u32
    }

    /// The number by which the kernel knew a process or thread.
    pub fn pid(&self, number: u32) -> u32 {
        match self.parts.len() {
            1 => number,
            _ => number & ((1 << PID_BITS) - 1),
        }
    }

    /// The zero of relative times, on the common clock.
    pub fn zero_ns(&self) -> u64 {
        self.zero_ns
    }

    /// The same moment, ns since 1970-01-01 UTC.
    pub fn start_unix_ns(&self) -> u64 {
        self.start_unix_ns
    }

    /// Events; samples name them by position.
    pub fn events(&self) -> &[EventV1] {
        &self.events
    }

    /// Distinct names of hosts, in the order of the file.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// All sessions, in the order of the file.
    pub fn iter(&self) -> std::slice::Iter<'_, Part> {
        self.parts.iter()
    }

    /// Counts the sessions; at least one.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.parts.len()
    }
}

impl<'a> IntoIterator for &'a Parts {
    type Item = &'a Part;
    type IntoIter = std::slice::Iter<'a, Part>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// The position of an equal item; adds the item if there is none.
fn position<T: Clone>(list: &mut Vec<T>, item: &T, same: impl Fn(&T, &T) -> bool) -> usize {
    list.iter().position(|known| same(known, item)).unwrap_or_else(|| {
        list.push(item.clone());
        list.len() - 1
    })
}

impl Part {
    fn new(number: u32, first_sequence: u64) -> Self {
        Self {
            number,
            first_sequence,
            next_sequence: first_sequence,
            boot: number,
            chain: number,
            ..Self::default()
        }
    }

    /// Tells whether a block begins another session. A session whose first block is missing is told by what
    /// cannot be in one session: blocks behind a receipt, or, where blocks are missing, ids that begin anew.
    fn ends_before(&self, entry: &Entry, block: Option<&CleanBlock>) -> bool {
        let misses = entry.header.sequence != self.next_sequence;
        let defines = || block?.defines();
        let again = || defines().is_some_and(|(table, first)| first < self.ids[table as usize].end);
        entry.header.kind == Kind::SESSION || self.has_end || misses && again()
    }

    fn learn(&mut self, entry: &Entry, block: Option<&CleanBlock>) {
        self.next_sequence = entry.header.sequence.saturating_add(1);
        self.has_end |= entry.header.kind == Kind::RECEIPT;
        let Some(block) = block else { return };
        match block {
            Block::Session(session) => self.session = (**session).clone(),
            Block::Receipt(receipt) => self.receipt = Some((**receipt).clone()),
            Block::Trigger(trigger) => self.trigger = Some((**trigger).clone()),
            Block::Samples => {
                let first = entry.header.first_ns;
                self.first_sample_ns = Some(self.first_sample_ns.map_or(first, |ns| ns.min(first)));
                self.last_sample_ns = self.last_sample_ns.max(Some(entry.header.last_ns));
            }
            _ => {}
        }
        if let Some((table, first)) = block.defines() {
            let len = block.items().and_then(|len| u32::try_from(len).ok());
            let ids = &mut self.ids[table as usize];
            ids.end = ids.end.max(first.saturating_add(len.unwrap_or(u32::MAX)));
        }
    }

    /// Its position among the sessions of the file.
    pub fn number(&self) -> u32 {
        self.number
    }

    fn is_told(&self) -> bool {
        self.session.start_ns > 0 || self.session.start_unix_ns > 0
    }

    fn is_dated(&self) -> bool {
        self.session.start_unix_ns > 0
    }

    /// Its start, on its own clock: the time of the first sample if the session does not say it.
    pub fn start_ns(&self) -> u64 {
        match self.first_sample_ns {
            Some(first_ns) if !self.is_told() && !self.is_alone => first_ns,
            _ => self.session.start_ns,
        }
    }

    /// The range that `cut` kept, ns after its start; all of it if it was not cut.
    pub fn kept_ns(&self) -> (u64, u64) {
        let receipt = self.receipt.as_ref();
        let from_ns = receipt.and_then(|receipt| receipt.cut_from_ns);
        (from_ns.unwrap_or(0), receipt.and_then(|receipt| receipt.cut_to_ns).unwrap_or(u64::MAX))
    }

    /// A time of its own clock on the common one.
    pub fn time_ns(&self, own_ns: u64) -> u64 {
        own_ns.saturating_add(self.shift_ns)
    }

    /// A number that no process or thread of another part has.
    pub fn pid(&self, own: u32) -> u32 {
        if self.is_alone { own } else { own & ((1 << PID_BITS) - 1) | self.number << PID_BITS }
    }

    /// A row of its blocks, with numbers that are unique in the file.
    pub fn row<R: References>(&self, mut own: R) -> R {
        if !self.is_alone {
            own.visit(&mut |reference| self.renumber(reference));
        }
        own
    }

    #[inline]
    fn renumber(&self, reference: Reference<'_>) {
        match reference {
            Reference::Id(table, id) => *id = self.id(table, *id),
            Reference::Time(ns) => *ns = self.time_ns(*ns),
            Reference::Process(number) => *number = self.pid(*number),
            Reference::Event(event) => *event = self.event(*event),
        }
    }

    /// The position in [`Parts::events`] of an event of the session.
    fn event(&self, own: u8) -> u8 {
        if self.is_alone { own } else { self.event_of.get(usize::from(own)).copied().unwrap_or(u8::MAX) }
    }

    /// An id that is unique in the file. An id that stands for no row, as that of the empty stack, is the same everywhere.
    fn id(&self, table: IdTable, own: u32) -> u32 {
        if own < table.first_id() { own } else { self.ids[table as usize].shift(own) }
    }
}
