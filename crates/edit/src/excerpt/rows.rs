//! Loads everything of a session except its samples, unchanged: under its own numbers, text as bytes.

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{
    Cgroup, CgroupsV1, CounterValue, CountersV1, CpuTime, CpuTimesV1, IdTable, Image, ImagesV1, JitCode,
    JitV1, KernelSymbol, KernelSymbolsV1, Layout, LeftOut, LeftOutV1, Lifecycle, LifecycleV1, Loss, LossesV1,
    Mapping, MappingsV1, Mark, NameTable, NamesV1, Node, ReceiptV1, Reference, References, SessionV1,
    SnapshotsV1, StackCodeV1, StackMarksV1, StackNodesV1, StackPiecesV1, StacksV1, StringsV1, Symbol,
    SymbolsV1, Task, TasksV1, UnwindRule, UnwindRulesV1, Wait, WaitsV1,
};

use icecore_profile::map::Map;
use icecore_profile::recording::load::Tables;
use icecore_profile::recording::load::by_id::ById;
use icecore_profile::recording::load::held::{Held, HeldBlocks};
use icecore_profile::recording::load::parts::Part;

/// Rows of one session.
#[derive(Debug, Default)]
pub(super) struct SessionRows {
    pub(super) session: Option<SessionV1>,
    pub(super) strings: ById<Vec<u8>>,
    pub(super) tasks: ById<Task>,
    pub(super) images: ById<Image>,
    pub(super) nodes: ById<Node>,
    pub(super) marks: Map<u32, Mark>,
    pub(super) held: Held,
    pub(super) unwind_rules: Vec<UnwindRule>,
    /// Ordered by time.
    pub(super) lifecycle: Vec<Lifecycle>,
    /// Ordered by time.
    pub(super) cgroups: Vec<Cgroup>,
    /// Ordered by time.
    pub(super) mappings: Vec<Mapping>,
    pub(super) kernel_symbols: Vec<KernelSymbol>,
    pub(super) symbols: Vec<Symbol>,
    /// Blocks with pieces of files, not opened: they may be most of the recording.
    pub(super) image_parts: Vec<Entry>,
    /// Blocks with source files, not opened.
    pub(super) sources: Vec<Entry>,
    pub(super) jit: Vec<JitCode>,
    pub(super) names: Vec<NameTable>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) cpu_times: Vec<CpuTime>,
    /// Ordered by time.
    pub(super) waits: Vec<Wait>,
    /// Ordered by time.
    pub(super) counters: Vec<CounterValue>,
    pub(super) losses: Vec<Loss>,
    pub(super) receipt: Option<ReceiptV1>,
}

/// Blocks of numbered rows, with the id of their first.
#[derive(Default)]
struct Blocks {
    strings: Vec<(u32, Vec<Vec<u8>>)>,
    tasks: Vec<(u32, Vec<Task>)>,
    images: Vec<(u32, Vec<Image>)>,
    nodes: Vec<(u32, Vec<Node>)>,
    held: HeldBlocks,
}

impl SessionRows {
    /// Decodes the blocks of a session. Those that cannot be used were counted by [`icecore_profile::recording::load::load`].
    pub(super) fn load(recording: &Recording, tables: &Tables, part: &Part) -> Self {
        let parts = &tables.parts;
        let of_part = |entry: &&Entry| parts.holds(entry) && parts.of(entry).number() == part.number();
        let (mut rows, mut blocks) = (Self::default(), Blocks::default());
        for entry in recording.entries().iter().filter(of_part) {
            // On an error, nothing of the block was taken.
            drop(rows.take(recording, entry, &mut blocks));
        }
        // Keeps the written order of equal times, as the replay does.
        rows.lifecycle.sort_by_key(|row| row.time_ns);
        rows.cgroups.sort_by_key(|row| row.time_ns);
        rows.mappings.sort_by_key(|row| row.time_ns);
        rows.cpu_times.sort_by_key(|row| row.time_ns);
        rows.waits.sort_by_key(|row| row.time_ns);
        rows.counters.sort_by_key(|row| row.time_ns);
        rows.strings = ById::from_blocks(blocks.strings);
        rows.tasks = ById::from_blocks(blocks.tasks);
        rows.images = ById::from_blocks(blocks.images);
        rows.nodes = ById::from_blocks(blocks.nodes);
        rows.held = blocks.held.join();
        rows
    }

    /// Shows what a row refers to; returns false if there is no such row.
    pub(super) fn visit(&self, table: IdTable, id: u32, see: &mut impl FnMut(Reference<'_>)) -> bool {
        fn shown<R: References + Clone>(row: Option<&R>, see: &mut impl FnMut(Reference<'_>)) -> bool {
            row.cloned().map(|mut row| row.visit(see)).is_some()
        }
        match table {
            IdTable::Strings => self.strings.find(id).is_some(),
            IdTable::Stacks => shown(self.nodes.find(id), see),
            IdTable::Tasks => shown(self.tasks.find(id), see),
            IdTable::Images => shown(self.images.find(id), see),
            IdTable::StackCode => shown(self.held.code.find(id), see),
            IdTable::StackNodes => shown(self.held.nodes.find(id), see),
            IdTable::StackPieces => shown(self.held.pieces.find(id), see),
            IdTable::Snapshots => shown(self.held.snapshots.find(id), see),
        }
    }

    fn take(
        &mut self,
        recording: &Recording,
        entry: &Entry,
        blocks: &mut Blocks,
    ) -> Result<(), icecore_format::Error> {
        let Some(layout) = Layout::of(&entry.header) else { return Ok(()) };
        let payload = || recording.payload(entry);
        match layout {
            Layout::SessionV1 => self.session = Some(payload()?.view::<SessionV1>()?.to_owned_record()?),
            Layout::StringsV1 => {
                let payload = payload()?;
                let view = payload.view::<StringsV1>()?;
                let rows = view.rows()?.into_iter().map(|(_, text)| text.to_vec()).collect();
                blocks.strings.push((view.first_id.to_native(), rows));
            }
            Layout::TasksV1 => {
                let payload = payload()?;
                let view = payload.view::<TasksV1>()?;
                blocks.tasks.push((view.first_id.to_native(), view.rows().collect()));
            }
            Layout::ImagesV1 => {
                let payload = payload()?;
                let view = payload.view::<ImagesV1>()?;
                blocks.images.push((view.first_id.to_native(), view.rows()?));
            }
            Layout::StacksV1 => {
                let payload = payload()?;
                let view = payload.view::<StacksV1>()?;
                blocks.nodes.push((view.first_id.to_native(), view.rows()?));
            }
            Layout::StackMarksV1 => self.marks.extend(payload()?.view::<StackMarksV1>()?.rows()),
            Layout::StackCodeV1 => {
                let payload = payload()?;
                let view = payload.view::<StackCodeV1>()?;
                blocks.held.code.push((view.first_id.to_native(), view.rows().collect()));
            }
            Layout::StackPiecesV1 => {
                let payload = payload()?;
                let view = payload.view::<StackPiecesV1>()?;
                blocks.held.pieces.push((view.first_id.to_native(), view.rows()?));
            }
            Layout::StackNodesV1 => {
                let payload = payload()?;
                let view = payload.view::<StackNodesV1>()?;
                blocks.held.nodes.push((view.first_id.to_native(), view.rows()?));
            }
            Layout::SnapshotsV1 => {
                let payload = payload()?;
                let view = payload.view::<SnapshotsV1>()?;
                blocks.held.snapshots.push((view.first_id.to_native(), view.rows()?));
            }
            Layout::UnwindRulesV1 => {
                let payload = payload()?;
                let view = payload.view::<UnwindRulesV1>()?;
                self.unwind_rules.extend(view.rows()?.into_iter().map(UnwindRule::to_owned));
            }
            Layout::LifecycleV1 => self.lifecycle.extend(payload()?.view::<LifecycleV1>()?.rows()),
            Layout::CpuTimesV1 => self.cpu_times.extend(payload()?.view::<CpuTimesV1>()?.rows()),
            Layout::WaitsV1 => self.waits.extend(payload()?.view::<WaitsV1>()?.rows()),
            Layout::CountersV1 => self.counters.extend(payload()?.view::<CountersV1>()?.rows()),
            Layout::CgroupsV1 => self.cgroups.extend(payload()?.view::<CgroupsV1>()?.rows()),
            Layout::MappingsV1 => self.mappings.extend(payload()?.view::<MappingsV1>()?.rows()),
            Layout::KernelSymbolsV1 => {
                self.kernel_symbols.extend(payload()?.view::<KernelSymbolsV1>()?.rows())
            }
            Layout::SymbolsV1 => {
                let payload = payload()?;
                let view = payload.view::<SymbolsV1>()?;
                self.symbols.extend(view.rows()?.into_iter().map(Symbol::to_owned));
            }
            Layout::JitV1 => {
                let payload = payload()?;
                let view = payload.view::<JitV1>()?;
                self.jit.extend(view.rows()?.into_iter().map(JitCode::to_owned));
            }
            Layout::NamesV1 => {
                let payload = payload()?;
                let NameTable { places, frames, texts } = payload.view::<NamesV1>()?.table()?;
                self.names.push(NameTable {
                    places,
                    frames,
                    texts: texts.into_iter().map(Box::from).collect(),
                });
            }
            Layout::LeftOutV1 => self.left_out.extend(payload()?.view::<LeftOutV1>()?.rows()),
            Layout::LossesV1 => self.losses.extend(payload()?.view::<LossesV1>()?.rows()),
            Layout::ReceiptV1 => self.receipt = Some(payload()?.view::<ReceiptV1>()?.to_owned_record()?),
            // Not opened: see `choose`.
            Layout::SamplesV1 => {}
            Layout::ImagePartsV1 => self.image_parts.push(*entry),
            Layout::SourcesV1 => self.sources.push(*entry),
        }
        Ok(())
    }
}
