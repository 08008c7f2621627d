//! Writes rows as blocks, under new ids.

use icecore_format::block::Processes;
use icecore_format::limits::MAX_BLOCK_SPAN_NS;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{
    Basis, CgroupsV1, CountersV1, CpuTimesV1, FieldsV1, IdTable, ImagesV1, JitCode, JitV1, KernelSymbolsV1,
    LeftOutV1, LifecycleV1, LossesV1, MappingsV1, Payload, RatesV1, References, Sample, SamplesV1, SessionV1,
    SnapshotsV1, StackCodeV1, StackMarksV1, StackNodesV1, StackPiecesV1, StacksV1, StringsV1, SymbolsV1,
    TasksV1, UnwindRulesV1, WaitsV1,
};
use icecore_format::write::Writer;

use super::choose::Chosen;
use super::need::Needed;
use super::rows::SessionRows;
use super::{code, pieces, sources};
use crate::blocks::append_names;
use icecore_profile::named::found::Draft;

/// The rows of one block: a few hundred KiB before compression.
const ROWS: usize = 32 << 10;
/// The bytes of text of one block.
const TEXT_BYTES: usize = 1 << 20;

/// Writes the blocks of one session.
pub(super) struct Packer<'a> {
    writer: &'a mut Writer,
    needed: Needed,
    /// Samples that are not written yet, and the base of their encoding.
    waiting: Vec<Sample>,
    basis: Basis,
    /// Their earliest and latest time.
    span_ns: (u64, u64),
    newest_stack: u32,
}

impl<'a> Packer<'a> {
    pub(super) fn new(writer: &'a mut Writer, needed: Needed) -> Self {
        let (waiting, basis, span_ns) = (Vec::new(), Basis::default(), (u64::MAX, 0));
        Self { writer, needed, waiting, basis, span_ns, newest_stack: 0 }
    }

    pub(super) fn session(&mut self, session: &SessionV1) -> Result<(), icecore_format::Error> {
        self.append(session)
    }

    /// Writes everything that samples refer to.
    pub(super) fn rows(&mut self, rows: &SessionRows) -> Result<(), icecore_format::Error> {
        self.strings(rows)?;
        // All fields are listed, so that nobody adds one without deciding where it is written.
        let SessionRows {
            session: _,
            strings: _,
            tasks,
            images,
            nodes,
            marks,
            held: _,
            unwind_rules: _,
            lifecycle,
            cgroups,
            mappings,
            kernel_symbols: of_kernel,
            symbols: of_images,
            image_parts: _,
            sources: _,
            code: _,
            jit: made,
            names: tables,
            left_out: _,
            cpu_times: _,
            waits: _,
            fields: _,
            counters: _,
            losses: _,
            rates: _,
            trigger: _,
            receipt: _,
        } = rows;
        let (needed, w) = (&self.needed, &mut *self.writer);
        let Needed { processes, kernel_symbols, symbols, jit, names, .. } = needed;
        let block = |first, rows: &[_]| Ok(TasksV1::from_rows(first, rows));
        counted(w, needed, IdTable::Tasks, |id| tasks.find(id), block)?;
        let block = |first, rows: &[_]| Ok(ImagesV1::from_rows(first, rows));
        counted(w, needed, IdTable::Images, |id| images.find(id), block)?;
        let changes = lifecycle.iter().filter(|row| processes.contains(&row.tgid));
        listed(w, needed, changes.copied(), LifecycleV1::from_rows)?;
        let cgroups = cgroups.iter().filter(|row| processes.contains(&row.tgid));
        listed(w, needed, cgroups.copied(), CgroupsV1::from_rows)?;
        let mappings = mappings.iter().filter(|row| processes.contains(&row.tgid));
        listed(w, needed, mappings.copied(), MappingsV1::from_rows)?;
        let found = kernel_symbols.iter().map(|position| of_kernel[*position]);
        listed(w, needed, found, KernelSymbolsV1::from_rows)?;
        let found = symbols.iter().map(|position| of_images[*position].clone());
        listed(w, needed, found, SymbolsV1::from_rows)?;
        // Without snapshots nothing is unwound.
        let is_unwound = needed.ids(IdTable::Snapshots).old.is_empty();
        let made = jit.iter().map(|position| match made[*position].clone() {
            code if is_unwound => JitCode { rules: Vec::new(), ..code },
            code => code,
        });
        listed(w, needed, made, JitV1::from_rows)?;
        let mut draft = Draft::default();
        for (table, place) in names {
            let table = &tables[*table];
            let place = &table.places[*place];
            draft.copy(needed.row(place.clone()).image, place, table);
            append_names(w, &mut draft, false)?;
        }
        append_names(w, &mut draft, true)?;
        counted(w, needed, IdTable::Stacks, |id| nodes.find(id), StacksV1::from_rows)?;
        let mark = |id: &u32| Some((*id, *marks.get(id)?));
        listed(w, needed, needed.ids(IdTable::Stacks).old.iter().filter_map(mark), StackMarksV1::from_rows)?;
        self.held(rows)
    }

    /// Writes the contents of registers and stacks.
    fn held(&mut self, rows: &SessionRows) -> Result<(), icecore_format::Error> {
        let (needed, held, w) = (&self.needed, &rows.held, &mut *self.writer);
        let code = |first, rows: &[_]| Ok(StackCodeV1::from_rows(first, rows));
        counted(w, needed, IdTable::StackCode, |id| held.code.find(id), code)?;
        counted(w, needed, IdTable::StackPieces, |id| held.pieces.find(id), StackPiecesV1::from_rows)?;
        counted(w, needed, IdTable::StackNodes, |id| held.nodes.find(id), StackNodesV1::from_rows)?;
        counted(w, needed, IdTable::Snapshots, |id| held.snapshots.find(id), SnapshotsV1::from_rows)?;
        // Unwind tables tell of walks, too, what may be believed; of stacks that were unwound before, they tell nothing.
        if needed.ids(IdTable::Snapshots).old.is_empty() && !held.snapshots.is_empty() {
            return Ok(());
        }
        let rules = rows.unwind_rules.iter().filter(|rule| needed.ids(IdTable::Images).has(rule.image));
        listed(w, needed, rules.cloned(), UnwindRulesV1::from_rows)
    }

    /// Copies pieces of images' files; returns what of them is damaged.
    pub(super) fn pieces(
        &mut self,
        recording: &Recording,
        rows: &SessionRows,
    ) -> Result<Vec<Damage>, icecore_format::Error> {
        pieces::copy(recording, rows, self.needed.ids(IdTable::Images), self.writer)
    }

    /// Copies the source files of the places that are kept; returns what of them is damaged.
    pub(super) fn sources(
        &mut self,
        recording: &Recording,
        rows: &SessionRows,
    ) -> Result<Vec<Damage>, icecore_format::Error> {
        sources::copy(recording, rows, &self.needed, self.writer)
    }

    /// Copies the code of the functions that are kept; returns what of it is damaged.
    pub(super) fn code(
        &mut self,
        recording: &Recording,
        rows: &SessionRows,
    ) -> Result<Vec<Damage>, icecore_format::Error> {
        code::copy(recording, rows, &self.needed, self.writer)
    }

    fn strings(&mut self, rows: &SessionRows) -> Result<(), icecore_format::Error> {
        let ids = self.needed.ids(IdTable::Strings);
        let mut first = ids.first();
        let (mut texts, mut len): (Vec<&[u8]>, usize) = (Vec::new(), 0);
        let mut put = |first: &mut u32, texts: &mut Vec<&[u8]>| -> Result<(), icecore_format::Error> {
            if !texts.is_empty() {
                self.writer.append(&StringsV1::from_rows(*first, texts))?;
                *first += texts.len() as u32;
                texts.clear();
            }
            Ok(())
        };
        for text in ids.old.iter().filter_map(|id| rows.strings.find(*id)) {
            if texts.len() == ROWS || len + text.len() > TEXT_BYTES {
                put(&mut first, &mut texts)?;
                len = 0;
            }
            len += text.len();
            texts.push(text);
        }
        put(&mut first, &mut texts)
    }

    /// Takes the selected samples of a block.
    pub(super) fn samples(
        &mut self,
        chosen: Chosen,
        rows: &SessionRows,
    ) -> Result<(), icecore_format::Error> {
        let Chosen { samples, unit_ns, period_ns } = chosen;
        if (self.basis.unit_ns, self.basis.period_ns) != (unit_ns, period_ns) {
            self.flush(rows)?;
            (self.basis.unit_ns, self.basis.period_ns) = (unit_ns, period_ns);
        }
        for sample in samples {
            let span_ns = (self.span_ns.0.min(sample.time_ns), self.span_ns.1.max(sample.time_ns));
            if self.waiting.len() == ROWS || span_ns.1 - span_ns.0 > MAX_BLOCK_SPAN_NS {
                self.flush(rows)?;
                self.span_ns = (sample.time_ns, sample.time_ns);
            } else {
                self.span_ns = span_ns;
            }
            self.waiting.push(sample);
        }
        Ok(())
    }

    fn flush(&mut self, rows: &SessionRows) -> Result<(), icecore_format::Error> {
        let mut samples = std::mem::take(&mut self.waiting);
        self.span_ns = (u64::MAX, 0);
        if samples.is_empty() {
            return Ok(());
        }
        samples.sort_by_key(|sample| sample.time_ns);
        self.basis.newest_stack = self.newest_stack;
        self.basis.processes = Processes::NONE;
        for sample in &mut samples {
            self.basis.processes = match rows.tasks.find(sample.task) {
                Some(task) => self.basis.processes.with(task.tgid),
                None => Processes::ANY,
            };
            *sample = self.needed.row(*sample);
            self.newest_stack = self.newest_stack.max(sample.user_stack).max(sample.kernel_stack);
        }
        let payload = SamplesV1::from_rows(&samples, &self.basis)?;
        self.append(&payload)
    }

    /// Writes the last samples, losses, the trigger and the receipt.
    pub(super) fn end(&mut self, rows: &SessionRows) -> Result<(), icecore_format::Error> {
        self.flush(rows)?;
        let (needed, w) = (&self.needed, &mut *self.writer);
        let left_out = rows.left_out.iter().filter(|row| needed.ids(IdTable::Images).has(row.image));
        listed(w, needed, left_out.copied(), LeftOutV1::from_rows)?;
        listed(w, needed, rows.cpu_times.iter().copied(), CpuTimesV1::from_rows)?;
        listed(w, needed, rows.waits.iter().copied(), WaitsV1::from_rows)?;
        listed(w, needed, rows.fields.iter().copied(), FieldsV1::from_rows)?;
        listed(w, needed, rows.counters.iter().copied(), CountersV1::from_rows)?;
        listed(w, needed, rows.losses.iter().copied(), LossesV1::from_rows)?;
        listed(w, needed, rows.rates.iter().copied(), RatesV1::from_rows)?;
        rows.trigger.as_ref().map_or(Ok(()), |trigger| self.append(trigger))?;
        rows.receipt.as_ref().map_or(Ok(()), |receipt| self.append(receipt))
    }

    fn append(&mut self, payload: &impl Payload) -> Result<(), icecore_format::Error> {
        self.writer.append(payload).map(drop)
    }
}

/// Writes rows that have ids.
fn counted<'r, R: References + Clone + 'r, P: Payload>(
    writer: &mut Writer,
    needed: &Needed,
    table: IdTable,
    row: impl Fn(u32) -> Option<&'r R>,
    block: impl Fn(u32, &[R]) -> Result<P, icecore_format::Error>,
) -> Result<(), icecore_format::Error> {
    let ids = needed.ids(table);
    let mut first = ids.first();
    for ids in ids.old.chunks(ROWS) {
        let rows: Vec<R> = ids.iter().filter_map(|id| Some(needed.row(row(*id)?.clone()))).collect();
        writer.append(&block(first, &rows)?)?;
        first += ids.len() as u32;
    }
    Ok(())
}

/// Writes rows that have none.
fn listed<R: References, P: Payload>(
    writer: &mut Writer,
    needed: &Needed,
    rows: impl Iterator<Item = R>,
    block: impl Fn(&[R]) -> P,
) -> Result<(), icecore_format::Error> {
    let mut rows = rows.map(|row| needed.row(row)).peekable();
    while rows.peek().is_some() {
        let of_block: Vec<R> = rows.by_ref().take(ROWS).collect();
        writer.append(&block(&of_block))?;
    }
    Ok(())
}
