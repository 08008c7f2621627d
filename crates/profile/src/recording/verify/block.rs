//! One block by itself: checksum, archive, rows, times; and what it defines and refers to.

use icecore_format::Error;
use icecore_format::index::Entry;
use icecore_format::read::{PayloadBytes, Recording};
use icecore_format::records::{
    Block, CodeV1, IdTable, ImagePartsV1, Layout, Reference, References, SamplesV1, SourcesV1,
};

use super::runs::{Runs, runs};

/// What is kept of a block.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// What is wrong with it.
    pub(super) problems: Vec<String>,
    /// A repaired copy would lack the block, or have it right.
    pub(super) is_repairable: bool,
    /// Ids that it defines, first to last.
    pub(super) defines: Option<(IdTable, u32, u32)>,
    /// Ids that it refers to, without those that it defines.
    pub(super) uses: Vec<(IdTable, Runs)>,
    /// Events of a session.
    pub(super) events: Option<u32>,
    /// The largest event that samples refer to.
    pub(super) last_event: Option<u8>,
}

/// The message about a block for which [`is_unclean`] is true.
pub(super) const UNCLEAN: &str = "the bytes behind its payload, up to a multiple of 8, are not zero";

/// Returns true if the bytes between a block and the next multiple of 8 are not zero. No checksum covers them.
pub fn is_unclean(recording: &Recording, entry: &Entry) -> bool {
    recording.padding(entry).iter().any(|byte| *byte != 0)
}

/// Checks a block.
pub(super) fn check(recording: &Recording, entry: &Entry) -> Checked {
    let mut checked = Checked::default();
    if is_unclean(recording, entry) {
        checked.wrong(UNCLEAN);
        checked.is_repairable = true;
    }
    let done = recording.payload(entry).and_then(|payload| match Layout::of(&entry.header) {
        Some(layout) => checked.payload(layout, entry, &payload),
        None => Ok(()),
    });
    if let Err(error) = done {
        checked.is_repairable |= matches!(error, Error::Checksum { .. });
        checked.wrong(&error.to_string());
    }
    checked
}

impl Checked {
    fn wrong(&mut self, cause: &str) {
        self.problems.push(cause.to_owned());
    }

    fn payload(&mut self, layout: Layout, entry: &Entry, payload: &PayloadBytes<'_>) -> Result<(), Error> {
        let mut block = decode(layout, payload)?;
        let items = match &mut block {
            Block::Samples => {
                let view = payload.view::<SamplesV1>()?;
                if view.processes.to_native() != entry.header.processes.0 {
                    self.wrong("the processes in its header are not those in its payload");
                }
                let mut rows = view.rows()?;
                self.times(entry, &rows, |row| row.time_ns);
                self.refers(&mut rows, None);
                rows.len()
            }
            Block::ImageParts => {
                let view = payload.view::<ImagePartsV1>()?;
                let image = view.image.to_native();
                if entry.header.processes != ImagePartsV1::label(image) {
                    self.wrong("the image in its header is not that in its payload");
                }
                self.uses.push((IdTable::Images, runs(vec![image])));
                view.rows()?.len()
            }
            Block::Sources => {
                let mut files = payload.view::<SourcesV1>()?.table()?.files;
                self.refers(&mut files, None);
                files.len()
            }
            Block::Code => {
                let mut stretches = payload.view::<CodeV1>()?.table()?.stretches;
                self.refers(&mut stretches, None);
                stretches.len()
            }
            decoded => self.decoded(entry, decoded),
        };
        if items as u64 != u64::from(entry.header.items) {
            self.wrong(&format!("holds {items} items, and its header says {}", entry.header.items));
        }
        Ok(())
    }

    /// Checks a block that is not opened apart; returns how many items it has.
    fn decoded(&mut self, entry: &Entry, block: &mut Borrowed<'_>) -> usize {
        match block {
            Block::Session(session) => self.events = Some(session.events.len() as u32),
            Block::Lifecycle(rows) => self.times(entry, rows, |row| row.time_ns),
            Block::Cgroups(rows) => self.times(entry, rows, |row| row.time_ns),
            Block::Mappings(rows) => self.times(entry, rows, |row| row.time_ns),
            Block::CpuTimes(rows) => self.times(entry, rows, |row| row.time_ns),
            Block::Counters(rows) => self.times(entry, rows, |row| row.time_ns),
            Block::Waits(rows) => self.times(entry, rows, |row| row.time_ns),
            Block::Fields(rows) => self.times(entry, rows, |row| row.time_ns),
            // These are in no order of time.
            Block::Strings(_) | Block::Tasks(_) | Block::Images(_) | Block::Stacks(_) => {}
            Block::StackCode(_) | Block::StackPieces(_) | Block::StackNodes(_) | Block::Snapshots(_) => {}
            Block::KernelSymbols(_) | Block::Symbols(_) | Block::Jit(_) | Block::Names(_) => {}
            Block::LeftOut(_) | Block::UnwindRules(_) | Block::StackMarks(_) | Block::Losses(_) => {}
            Block::Receipt(_) | Block::Trigger(_) | Block::Rates(_) => {}
            Block::Samples | Block::ImageParts | Block::Sources | Block::Code => {}
        }
        let (own, items) = (block.defines(), block.items().unwrap_or_default());
        self.refers(block, own);
        if let Some((table, first)) = own {
            self.defines(table, first, items);
        }
        items
    }

    /// Takes note of what rows refer to.
    fn refers(&mut self, rows: &mut impl References, own: Option<(IdTable, u32)>) {
        let mut seen = Used::default();
        rows.visit(&mut |reference| seen.see(reference));
        self.uses(seen, own);
    }

    /// Keeps the ids that rows refer to; of their own table only those below `first`, because a row can refer only to rows of its own
    /// block that stand before it.
    fn uses(&mut self, seen: Used, own: Option<(IdTable, u32)>) {
        self.last_event = seen.last_event;
        for (table, mut ids) in IdTable::ALL.into_iter().zip(seen.ids) {
            if let Some((_, first)) = own.filter(|(own, _)| *own == table) {
                ids.retain(|id| *id < first);
            }
            if !ids.is_empty() {
                self.uses.push((table, runs(ids)));
            }
        }
    }

    /// Takes note of ids.
    fn defines(&mut self, table: IdTable, first: u32, rows: usize) {
        let least = table.first_id();
        let last = u32::try_from(rows).ok().and_then(|rows| first.checked_add(rows.saturating_sub(1)));
        match last {
            _ if rows == 0 => {}
            Some(last) if first >= least => self.defines = Some((table, first, last)),
            Some(_) => self.wrong(&format!("ids begin at {first}, and the first there can be is {least}")),
            None => self.wrong(&format!("{rows} ids from {first} on run over")),
        }
    }

    /// Checks the times of rows, which are ordered by them.
    fn times<R>(&mut self, entry: &Entry, rows: &[R], time_ns: impl Fn(&R) -> u64) {
        let span = entry.header.first_ns..=entry.header.last_ns;
        let mut before = 0;
        let (mut outside, mut disorder) = (None, None);
        for (row, ns) in rows.iter().map(time_ns).enumerate() {
            outside = outside.or((!span.contains(&ns)).then_some((row, ns)));
            disorder = disorder.or((ns < before).then_some((row, ns, before)));
            before = ns;
        }
        if let Some((row, ns)) = outside {
            let (first, last) = (span.start(), span.end());
            self.wrong(&format!("row {row} is of {ns} ns, and its header says {first} to {last} ns"));
        }
        if let Some((row, ns, before)) = disorder {
            self.wrong(&format!("row {row} is of {ns} ns, and the one in front of it of {before} ns"));
        }
    }
}

/// What rows refer to.
#[derive(Default)]
struct Used {
    /// Ids by table.
    ids: [Vec<u32>; IdTable::ALL.len()],
    last_event: Option<u8>,
}

impl Used {
    #[inline]
    fn see(&mut self, reference: Reference<'_>) {
        match reference {
            Reference::Id(table, id) => self.ids[table as usize].push(*id),
            Reference::Event(event) => self.last_event = self.last_event.max(Some(*event)),
            Reference::Time(_) | Reference::Process(_) => {}
        }
    }
}

/// A block that borrows its bytes from the payload.
type Borrowed<'a> = Block<&'a [u8], &'a [u8]>;

fn decode<'a>(layout: Layout, payload: &'a PayloadBytes<'_>) -> Result<Borrowed<'a>, Error> {
    Block::decode(layout, payload.as_bytes(), |text| text)
}

/// Hashes the rows of a block that defines ids, so that two of them can be compared.
pub(super) fn row_hashes(recording: &Recording, entry: &Entry) -> Option<Vec<u64>> {
    let payload = recording.payload(entry).ok()?;
    Some(decode(Layout::of(&entry.header)?, &payload).ok()?.hashes())
}
