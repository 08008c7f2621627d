//! Loads everything of a session except its samples, unchanged: under its own numbers, text as bytes.

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{
    Block, Cgroup, CounterValue, CpuTime, Field, IdTable, Image, JitCode, KernelSymbol, LeftOut, Lifecycle,
    Loss, Mapping, Mark, NameTable, Node, RateChange, ReceiptV1, Reference, References, SessionV1, Symbol,
    Task, TriggerV1, UnwindRule, Wait,
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
    /// Blocks with code of functions, not opened.
    pub(super) code: Vec<Entry>,
    pub(super) jit: Vec<JitCode>,
    pub(super) names: Vec<NameTable>,
    pub(super) left_out: Vec<LeftOut>,
    pub(super) cpu_times: Vec<CpuTime>,
    /// Ordered by time.
    pub(super) waits: Vec<Wait>,
    /// Ordered by time.
    pub(super) fields: Vec<Field>,
    /// Ordered by time.
    pub(super) counters: Vec<CounterValue>,
    pub(super) losses: Vec<Loss>,
    pub(super) rates: Vec<RateChange>,
    pub(super) trigger: Option<TriggerV1>,
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
        rows.fields.sort_by_key(|row| row.time_ns);
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
        let Some(block) = recording.block(entry, <[u8]>::to_vec)? else { return Ok(()) };
        match block {
            Block::Session(session) => self.session = Some(*session),
            Block::Strings(block) => blocks.strings.push((block.first, block.rows)),
            Block::Tasks(block) => blocks.tasks.push((block.first, block.rows)),
            Block::Images(block) => blocks.images.push((block.first, block.rows)),
            Block::Stacks(block) => blocks.nodes.push((block.first, block.rows)),
            Block::StackMarks(rows) => self.marks.extend(rows),
            Block::StackCode(block) => blocks.held.code.push((block.first, block.rows)),
            Block::StackPieces(block) => blocks.held.pieces.push((block.first, block.rows)),
            Block::StackNodes(block) => blocks.held.nodes.push((block.first, block.rows)),
            Block::Snapshots(block) => blocks.held.snapshots.push((block.first, block.rows)),
            Block::UnwindRules(rows) => self.unwind_rules.extend(rows),
            Block::Lifecycle(rows) => self.lifecycle.extend(rows),
            Block::CpuTimes(rows) => self.cpu_times.extend(rows),
            Block::Waits(rows) => self.waits.extend(rows),
            Block::Fields(rows) => self.fields.extend(rows),
            Block::Counters(rows) => self.counters.extend(rows),
            Block::Cgroups(rows) => self.cgroups.extend(rows),
            Block::Mappings(rows) => self.mappings.extend(rows),
            Block::KernelSymbols(rows) => self.kernel_symbols.extend(rows),
            Block::Symbols(rows) => self.symbols.extend(rows),
            Block::Jit(rows) => self.jit.extend(rows),
            Block::Names(table) => self.names.push(table.map(Vec::into_boxed_slice)),
            Block::LeftOut(rows) => self.left_out.extend(rows),
            Block::Losses(rows) => self.losses.extend(rows),
            Block::Rates(rows) => self.rates.extend(rows),
            Block::Trigger(trigger) => self.trigger = Some(*trigger),
            Block::Receipt(receipt) => self.receipt = Some(*receipt),
            // Opened apart: see `choose`.
            Block::Samples => {}
            Block::ImageParts => self.image_parts.push(*entry),
            Block::Sources => self.sources.push(*entry),
            Block::Code => self.code.push(*entry),
        }
        Ok(())
    }
}
