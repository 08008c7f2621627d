//! One block by itself: checksum, archive, rows, times; and what it defines and refers to.

use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher, Hash};

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{PayloadBytes, Recording};
use icecore_format::records::{
    CallSitesV1, CgroupsV1, CpuTimesV1, ImagePartsV1, ImagesV1, JitV1, KernelSymbolsV1, LeftOutV1,
    LifecycleV1, Location, LossesV1, MappingsV1, NamesV1, ReceiptV1, SamplesV1, SessionV1, SnapshotsV1,
    StackCodeV1, StackMarksV1, StackNodesV1, StackPiecesV1, StacksV1, StringsV1, SymbolsV1, TasksV1,
    UnwindRulesV1, Word, is_known,
};

use super::ids::{Runs, Table, runs};

/// What is kept of a block.
#[derive(Debug, Default)]
pub(super) struct Checked {
    /// What is wrong with it.
    pub(super) problems: Vec<String>,
    /// A repaired copy would not have it, or have it right.
    pub(super) is_repairable: bool,
    /// Ids that it defines, first to last.
    pub(super) defines: Option<(Table, u32, u32)>,
    /// Ids that it refers to, its own left out.
    pub(super) uses: Vec<(Table, Runs)>,
    /// Events of a session.
    pub(super) events: Option<u32>,
    /// The largest event that samples refer to.
    pub(super) last_event: Option<u8>,
}

/// What is wrong with a block that is unclean.
pub(super) const UNCLEAN: &str = "the bytes behind its payload, up to a multiple of 8, are not zero";

/// Tells whether the bytes behind a block are not what they must be. No checksum covers them.
pub(crate) fn is_unclean(recording: &Recording, entry: &Entry) -> bool {
    recording.padding(entry).iter().any(|byte| *byte != 0)
}

/// Checks a block.
pub(super) fn check(recording: &Recording, entry: &Entry) -> Checked {
    let mut checked = Checked::default();
    if is_unclean(recording, entry) {
        checked.wrong(UNCLEAN);
        checked.is_repairable = true;
    }
    let done = recording.payload(entry).and_then(|payload| {
        if is_known(entry.header.kind, entry.header.version) {
            checked.payload(entry, &payload)
        } else {
            Ok(())
        }
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

    fn payload(&mut self, entry: &Entry, payload: &PayloadBytes<'_>) -> Result<(), Error> {
        let items = match entry.header.kind {
            Kind::SESSION => {
                let session = payload.view::<SessionV1>()?.to_owned_record()?;
                self.events = Some(session.events.len() as u32);
                session.events.len()
            }
            Kind::STRINGS => {
                let view = payload.view::<StringsV1>()?;
                self.defines(Table::Strings, view.first_id.to_native(), view.rows()?.len(), 1)
            }
            Kind::TASKS => {
                let view = payload.view::<TasksV1>()?;
                self.names(view.rows().map(|task| task.comm));
                self.defines(Table::Tasks, view.first_id.to_native(), view.rows().count(), 0)
            }
            Kind::IMAGES => {
                let view = payload.view::<ImagesV1>()?;
                let rows = view.rows()?;
                self.names(rows.iter().map(|image| image.path));
                self.defines(Table::Images, view.first_id.to_native(), rows.len(), 0)
            }
            Kind::LIFECYCLE => {
                let view = payload.view::<LifecycleV1>()?;
                self.names(view.rows().map(|row| row.comm));
                self.times(entry, view.rows().map(|row| row.time_ns))
            }
            Kind::CGROUPS => {
                let view = payload.view::<CgroupsV1>()?;
                self.names(view.rows().map(|row| row.path));
                self.times(entry, view.rows().map(|row| row.time_ns))
            }
            Kind::MAPPINGS => {
                let view = payload.view::<MappingsV1>()?;
                self.uses(Table::Images, view.rows().map(|row| row.image).collect());
                self.times(entry, view.rows().map(|row| row.time_ns))
            }
            Kind::STACKS => self.stacks(payload)?,
            Kind::SAMPLES => self.samples(entry, payload)?,
            Kind::KERNEL_SYMBOLS => {
                let view = payload.view::<KernelSymbolsV1>()?;
                self.names(view.rows().flat_map(|symbol| [symbol.name, symbol.module]));
                view.rows().count()
            }
            Kind::SYMBOLS => {
                let view = payload.view::<SymbolsV1>()?;
                let rows = view.rows()?;
                self.uses(Table::Images, rows.iter().map(|symbol| symbol.image).collect());
                rows.len()
            }
            Kind::IMAGE_PARTS => {
                let view = payload.view::<ImagePartsV1>()?;
                let image = view.image.to_native();
                if entry.header.processes != ImagePartsV1::label(image) {
                    self.wrong("the image in its header is not that in its payload");
                }
                self.uses(Table::Images, vec![image]);
                view.rows()?.len()
            }
            Kind::JIT => {
                let rows = payload.view::<JitV1>()?.rows()?;
                self.names(rows.iter().flat_map(|code| &code.lines).map(|line| line.file));
                rows.len()
            }
            Kind::CALL_SITES => payload.view::<CallSitesV1>()?.rows()?.len(),
            Kind::LEFT_OUT => {
                let view = payload.view::<LeftOutV1>()?;
                self.uses(Table::Images, view.rows().map(|row| row.image).collect());
                view.rows().count()
            }
            Kind::NAMES => {
                let view = payload.view::<NamesV1>()?;
                let places = view.table()?.places;
                self.uses(Table::Images, places.iter().map(|place| place.image).collect());
                places.len()
            }
            Kind::STACK_CODE => {
                let view = payload.view::<StackCodeV1>()?;
                self.uses(Table::Images, view.rows().filter_map(image).collect());
                self.defines(Table::StackCode, view.first_id.to_native(), view.rows().count(), 0)
            }
            Kind::STACK_PIECES => {
                let view = payload.view::<StackPiecesV1>()?;
                let rows = view.rows()?;
                self.words(rows.iter().flat_map(|piece| &piece.words));
                self.defines(Table::StackPieces, view.first_id.to_native(), rows.len(), 0)
            }
            Kind::STACK_NODES => {
                let view = payload.view::<StackNodesV1>()?;
                let (first, rows) = (view.first_id.to_native(), view.rows()?);
                let outer = rows.iter().map(|node| node.outer).filter(|outer| *outer != 0 && *outer < first);
                self.uses(Table::StackNodes, outer.collect());
                self.uses(Table::StackPieces, rows.iter().map(|node| node.piece).collect());
                self.defines(Table::StackNodes, first, rows.len(), 1)
            }
            Kind::SNAPSHOTS => {
                let view = payload.view::<SnapshotsV1>()?;
                let rows = view.rows()?;
                self.words(rows.iter().flat_map(|snapshot| &snapshot.registers));
                let memory = rows.iter().map(|snapshot| snapshot.memory).filter(|node| *node != 0);
                self.uses(Table::StackNodes, memory.collect());
                self.defines(Table::Snapshots, view.first_id.to_native(), rows.len(), 1)
            }
            Kind::UNWIND_RULES => {
                let view = payload.view::<UnwindRulesV1>()?;
                let rows = view.rows()?;
                self.uses(Table::Images, rows.iter().map(|rule| rule.image).collect());
                rows.len()
            }
            Kind::CPU_TIMES => {
                let view = payload.view::<CpuTimesV1>()?;
                self.times(entry, view.rows().map(|row| row.time_ns))
            }
            Kind::STACK_MARKS => {
                let view = payload.view::<StackMarksV1>()?;
                self.uses(Table::Stacks, view.rows().map(|(node, _)| node).collect());
                view.rows().count()
            }
            Kind::LOSSES => payload.view::<LossesV1>()?.rows().count(),
            Kind::RECEIPT => payload.view::<ReceiptV1>()?.to_owned_record()?.ended_by.len(),
            _ => return Ok(()),
        };
        if items as u64 != u64::from(entry.header.items) {
            self.wrong(&format!("holds {items} items, and its header says {}", entry.header.items));
        }
        Ok(())
    }

    fn stacks(&mut self, payload: &PayloadBytes<'_>) -> Result<usize, Error> {
        let view = payload.view::<StacksV1>()?;
        let first = view.first_id.to_native();
        let rows = view.rows()?;
        // Parents in the block itself lie in front of their children, as the format has no other way to say it.
        let parents = rows.iter().map(|node| node.parent).filter(|parent| *parent != 0 && *parent < first);
        self.uses(Table::Stacks, parents.collect());
        self.uses(Table::Images, rows.iter().filter_map(|node| image(node.location)).collect());
        Ok(self.defines(Table::Stacks, first, rows.len(), 1))
    }

    fn samples(&mut self, entry: &Entry, payload: &PayloadBytes<'_>) -> Result<usize, Error> {
        let view = payload.view::<SamplesV1>()?;
        if view.processes.to_native() != entry.header.processes.0 {
            self.wrong("the processes in its header are not those in its payload");
        }
        let rows = view.rows()?;
        let stacks = rows.iter().flat_map(|row| [row.user_stack, row.kernel_stack]).filter(|id| *id != 0);
        self.uses(Table::Stacks, stacks.collect());
        self.uses(Table::Tasks, rows.iter().map(|row| row.task).collect());
        let snapshots = rows.iter().map(|row| row.snapshot).filter(|id| *id != 0);
        self.uses(Table::Snapshots, snapshots.collect());
        self.last_event = rows.iter().map(|row| row.event).max();
        Ok(self.times(entry, rows.iter().map(|row| row.time_ns)))
    }

    fn words<'w>(&mut self, words: impl Iterator<Item = &'w Word>) {
        let code = words.filter_map(|word| match word {
            Word::Code(code) => Some(*code),
            Word::Stack(_) => None,
        });
        self.uses(Table::StackCode, code.collect());
    }

    fn names(&mut self, strings: impl Iterator<Item = u32>) {
        self.uses(Table::Strings, strings.filter(|id| *id != 0).collect());
    }

    fn uses(&mut self, table: Table, ids: Vec<u32>) {
        self.uses.push((table, runs(ids)));
    }

    /// Takes note of ids; returns how many rows there are.
    fn defines(&mut self, table: Table, first: u32, rows: usize, least: u32) -> usize {
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

/// The image of a location.
fn image(location: Location) -> Option<u32> {
    match location {
        Location::Image { image, .. } => Some(image),
        Location::Address(_) => None,
    }
}

/// Hashes the rows of a block that defines ids, so that two of them can be compared.
pub(super) fn row_hashes(recording: &Recording, entry: &Entry) -> Option<Vec<u64>> {
    fn hash(row: impl Hash) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(row)
    }
    let payload = recording.payload(entry).ok()?;
    Some(match entry.header.kind {
        Kind::STRINGS => {
            payload.view::<StringsV1>().ok()?.rows().ok()?.into_iter().map(|(_, text)| hash(text)).collect()
        }
        Kind::TASKS => payload.view::<TasksV1>().ok()?.rows().map(hash).collect(),
        Kind::IMAGES => payload.view::<ImagesV1>().ok()?.rows().ok()?.into_iter().map(hash).collect(),
        Kind::STACKS => payload.view::<StacksV1>().ok()?.rows().ok()?.into_iter().map(hash).collect(),
        Kind::STACK_CODE => payload.view::<StackCodeV1>().ok()?.rows().map(hash).collect(),
        Kind::STACK_PIECES => {
            payload.view::<StackPiecesV1>().ok()?.rows().ok()?.into_iter().map(hash).collect()
        }
        Kind::STACK_NODES => {
            payload.view::<StackNodesV1>().ok()?.rows().ok()?.into_iter().map(hash).collect()
        }
        Kind::SNAPSHOTS => payload.view::<SnapshotsV1>().ok()?.rows().ok()?.into_iter().map(hash).collect(),
        _ => return None,
    })
}
