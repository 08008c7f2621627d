//! One block by itself: checksum, archive, rows, times; and what it defines and refers to.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use icecore_format::Error;
use icecore_format::index::Entry;
use icecore_format::read::{PayloadBytes, Recording};
use icecore_format::records::{
    CgroupsV1, CountersV1, CpuTimesV1, IdTable, ImagePartsV1, ImagesV1, JitV1, KernelSymbolsV1, Layout,
    LeftOutV1, LifecycleV1, LossesV1, MappingsV1, NamesV1, ReceiptV1, Reference, References, SamplesV1,
    SessionV1, SnapshotsV1, SourcesV1, StackCodeV1, StackMarksV1, StackNodesV1, StackPiecesV1, StacksV1,
    StringsV1, SymbolsV1, TasksV1, UnwindRulesV1, WaitsV1,
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
        let items = match layout {
            Layout::SessionV1 => {
                let session = payload.view::<SessionV1>()?.to_owned_record()?;
                self.events = Some(session.events.len() as u32);
                session.events.len()
            }
            Layout::StringsV1 => {
                let view = payload.view::<StringsV1>()?;
                self.defines(IdTable::Strings, view.first_id.to_native(), view.rows()?.len())
            }
            Layout::TasksV1 => {
                let view = payload.view::<TasksV1>()?;
                self.numbered(IdTable::Tasks, view.first_id.to_native(), view.rows())
            }
            Layout::ImagesV1 => {
                let view = payload.view::<ImagesV1>()?;
                self.numbered(IdTable::Images, view.first_id.to_native(), view.rows()?)
            }
            Layout::StacksV1 => {
                let view = payload.view::<StacksV1>()?;
                self.numbered(IdTable::Stacks, view.first_id.to_native(), view.rows()?)
            }
            Layout::StackCodeV1 => {
                let view = payload.view::<StackCodeV1>()?;
                self.numbered(IdTable::StackCode, view.first_id.to_native(), view.rows())
            }
            Layout::StackPiecesV1 => {
                let view = payload.view::<StackPiecesV1>()?;
                self.numbered(IdTable::StackPieces, view.first_id.to_native(), view.rows()?)
            }
            Layout::StackNodesV1 => {
                let view = payload.view::<StackNodesV1>()?;
                self.numbered(IdTable::StackNodes, view.first_id.to_native(), view.rows()?)
            }
            Layout::SnapshotsV1 => {
                let view = payload.view::<SnapshotsV1>()?;
                self.numbered(IdTable::Snapshots, view.first_id.to_native(), view.rows()?)
            }
            Layout::SamplesV1 => {
                let view = payload.view::<SamplesV1>()?;
                if view.processes.to_native() != entry.header.processes.0 {
                    self.wrong("the processes in its header are not those in its payload");
                }
                self.timed(entry, view.rows()?, |row| row.time_ns)
            }
            Layout::LifecycleV1 => {
                self.timed(entry, payload.view::<LifecycleV1>()?.rows(), |row| row.time_ns)
            }
            Layout::CgroupsV1 => self.timed(entry, payload.view::<CgroupsV1>()?.rows(), |row| row.time_ns),
            Layout::MappingsV1 => self.timed(entry, payload.view::<MappingsV1>()?.rows(), |row| row.time_ns),
            Layout::CpuTimesV1 => self.timed(entry, payload.view::<CpuTimesV1>()?.rows(), |row| row.time_ns),
            Layout::CountersV1 => self.timed(entry, payload.view::<CountersV1>()?.rows(), |row| row.time_ns),
            Layout::WaitsV1 => self.timed(entry, payload.view::<WaitsV1>()?.rows(), |row| row.time_ns),
            Layout::KernelSymbolsV1 => self.listed(payload.view::<KernelSymbolsV1>()?.rows()),
            Layout::SymbolsV1 => self.listed(payload.view::<SymbolsV1>()?.rows()?),
            Layout::JitV1 => self.listed(payload.view::<JitV1>()?.rows()?),
            Layout::NamesV1 => self.listed(payload.view::<NamesV1>()?.table()?.places),
            Layout::SourcesV1 => self.listed(payload.view::<SourcesV1>()?.table()?.files),
            Layout::LeftOutV1 => self.listed(payload.view::<LeftOutV1>()?.rows()),
            Layout::UnwindRulesV1 => self.listed(payload.view::<UnwindRulesV1>()?.rows()?),
            Layout::StackMarksV1 => self.listed(payload.view::<StackMarksV1>()?.rows()),
            Layout::LossesV1 => self.listed(payload.view::<LossesV1>()?.rows()),
            Layout::ImagePartsV1 => {
                let view = payload.view::<ImagePartsV1>()?;
                let image = view.image.to_native();
                if entry.header.processes != ImagePartsV1::label(image) {
                    self.wrong("the image in its header is not that in its payload");
                }
                self.uses.push((IdTable::Images, runs(vec![image])));
                view.rows()?.len()
            }
            Layout::ReceiptV1 => payload.view::<ReceiptV1>()?.to_owned_record().map(|_| 1)?,
        };
        if items as u64 != u64::from(entry.header.items) {
            self.wrong(&format!("holds {items} items, and its header says {}", entry.header.items));
        }
        Ok(())
    }

    /// Checks rows without ids that are in no order; returns how many there are.
    fn listed<R: References>(&mut self, rows: impl IntoIterator<Item = R>) -> usize {
        let mut seen = Used::default();
        let count = rows.into_iter().map(|row| seen.row(row)).count();
        self.uses(seen, None);
        count
    }

    /// Checks rows that are ordered by time; returns how many there are.
    fn timed<R: References>(
        &mut self,
        entry: &Entry,
        rows: impl IntoIterator<Item = R>,
        time_ns: impl Fn(&R) -> u64,
    ) -> usize {
        let mut seen = Used::default();
        let times = rows.into_iter().map(|row| {
            let ns = time_ns(&row);
            seen.row(row);
            ns
        });
        let count = self.times(entry, times);
        self.uses(seen, None);
        count
    }

    /// Checks rows that have ids; returns how many there are.
    fn numbered<R: References>(
        &mut self,
        table: IdTable,
        first: u32,
        rows: impl IntoIterator<Item = R>,
    ) -> usize {
        let mut seen = Used::default();
        let count = rows.into_iter().map(|row| seen.row(row)).count();
        self.uses(seen, Some((table, first)));
        self.defines(table, first, count)
    }

    /// Takes note of what rows refer to. Of their own table these are ids in front of `first`: what a row refers to in
    /// its own block lies in front of it, as the format has no other way to say it.
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

    /// Takes note of ids; returns how many rows there are.
    fn defines(&mut self, table: IdTable, first: u32, rows: usize) -> usize {
        let least = table.first_id();
        let last = u32::try_from(rows).ok().and_then(|rows| first.checked_add(rows.saturating_sub(1)));
        match last {
            _ if rows == 0 => {}
            Some(last) if first >= least => self.defines = Some((table, first, last)),
            Some(_) => self.wrong(&format!("ids begin at {first}, and the first there can be is {least}")),
            None => self.wrong(&format!("{rows} ids from {first} on run over")),
        }
        rows
    }

    /// Checks the times of rows; returns how many there are.
    fn times(&mut self, entry: &Entry, times: impl Iterator<Item = u64>) -> usize {
        let span = entry.header.first_ns..=entry.header.last_ns;
        let (mut rows, mut before) = (0, 0);
        let (mut outside, mut disorder) = (None, None);
        for ns in times {
            outside = outside.or((!span.contains(&ns)).then_some((rows, ns)));
            disorder = disorder.or((ns < before).then_some((rows, ns, before)));
            before = ns;
            rows += 1;
        }
        if let Some((row, ns)) = outside {
            let (first, last) = (span.start(), span.end());
            self.wrong(&format!("row {row} is of {ns} ns, and its header says {first} to {last} ns"));
        }
        if let Some((row, ns, before)) = disorder {
            self.wrong(&format!("row {row} is of {ns} ns, and the one in front of it of {before} ns"));
        }
        rows
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
    fn row(&mut self, mut row: impl References) {
        row.visit(&mut |reference| match reference {
            Reference::Id(table, id) => self.ids[table as usize].push(*id),
            Reference::Event(event) => self.last_event = self.last_event.max(Some(*event)),
            Reference::Time(_) | Reference::Process(_) => {}
        });
    }
}

/// Hashes the rows of a block that defines ids, so that two of them can be compared.
pub(super) fn row_hashes(recording: &Recording, entry: &Entry, table: IdTable) -> Option<Vec<u64>> {
    fn hash(row: impl Hash) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(row)
    }
    let payload = recording.payload(entry).ok()?;
    Some(match table {
        IdTable::Strings => {
            payload.view::<StringsV1>().ok()?.rows().ok()?.into_iter().map(|(_, text)| hash(text)).collect()
        }
        IdTable::Tasks => payload.view::<TasksV1>().ok()?.rows().map(hash).collect(),
        IdTable::Images => payload.view::<ImagesV1>().ok()?.rows().ok()?.into_iter().map(hash).collect(),
        IdTable::Stacks => payload.view::<StacksV1>().ok()?.rows().ok()?.into_iter().map(hash).collect(),
        IdTable::StackCode => payload.view::<StackCodeV1>().ok()?.rows().map(hash).collect(),
        IdTable::StackPieces => {
            payload.view::<StackPiecesV1>().ok()?.rows().ok()?.into_iter().map(hash).collect()
        }
        IdTable::StackNodes => {
            payload.view::<StackNodesV1>().ok()?.rows().ok()?.into_iter().map(hash).collect()
        }
        IdTable::Snapshots => {
            payload.view::<SnapshotsV1>().ok()?.rows().ok()?.into_iter().map(hash).collect()
        }
    })
}
