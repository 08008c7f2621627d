//! Rows as blocks, under new ids.

use icecore_format::block::Processes;
use icecore_format::limits::MAX_BLOCK_SPAN_NS;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{
    Basis, CallSite, CallSitesV1, Cgroup, CgroupsV1, CpuTimesV1, Image, ImagesV1, JitCode, JitLine, JitV1,
    KernelSymbol, KernelSymbolsV1, LeftOut, LeftOutV1, Lifecycle, LifecycleV1, Location, LossesV1, Mapping,
    MappingsV1, Node, Payload, Sample, SamplesV1, SessionV1, Snapshot, SnapshotsV1, StackCodeV1,
    StackMarksV1, StackNode, StackNodesV1, StackPiece, StackPiecesV1, StacksV1, StringsV1, Symbol, SymbolsV1,
    Task, TasksV1, UnwindRule, UnwindRulesV1, Word,
};
use icecore_format::write::Writer;

use super::choose::Chosen;
use super::need::{Ids, Needed};
use super::pieces;
use super::rows::Rows;
use crate::edit::append_names;
use crate::profile::found::Draft;

/// Rows of one block: a few hundred KiB before compression, whatever they are.
const ROWS: usize = 32 << 10;
/// Bytes of text of one block.
const TEXT_BYTES: usize = 1 << 20;

/// Writes the blocks of one session.
pub(super) struct Packer<'a> {
    writer: &'a mut Writer,
    needed: Needed,
    /// Samples that wait, and what they are measured from.
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

    pub(super) fn session(&mut self, session: &SessionV1) -> anyhow::Result<()> {
        self.append(session)
    }

    /// Writes everything that samples refer to.
    pub(super) fn rows(&mut self, rows: &Rows) -> anyhow::Result<()> {
        self.strings(rows)?;
        let Needed {
            strings,
            tasks,
            images,
            nodes,
            held: _,
            processes,
            kernel_symbols,
            symbols,
            jit,
            call_sites,
            names,
        } = &self.needed;
        let (text, w) = (|id| strings.new_id(id), &mut *self.writer);
        let row = |task: &Task| Task { comm: text(task.comm), ..*task };
        counted(
            w,
            tasks,
            |id| rows.tasks.find(id).map(row),
            |first, rows| Ok(TasksV1::from_rows(first, rows)),
        )?;
        let row = |image: &Image| Image { path: text(image.path), ..image.clone() };
        counted(
            w,
            images,
            |id| rows.images.find(id).map(row),
            |first, rows| Ok(ImagesV1::from_rows(first, rows)),
        )?;
        let change = |row: &Lifecycle| Lifecycle { comm: text(row.comm), ..*row };
        let changes = rows.lifecycle.iter().filter(|row| processes.contains(&row.tgid)).map(change);
        listed(w, changes, LifecycleV1::from_rows)?;
        let cgroup = |row: &Cgroup| Cgroup { path: text(row.path), ..*row };
        let cgroups = rows.cgroups.iter().filter(|row| processes.contains(&row.tgid)).map(cgroup);
        listed(w, cgroups, CgroupsV1::from_rows)?;
        let mapping = |row: &Mapping| Mapping { image: images.new_id(row.image), ..*row };
        let mappings = rows.mappings.iter().filter(|row| processes.contains(&row.tgid)).map(mapping);
        listed(w, mappings, MappingsV1::from_rows)?;
        let symbol = |position: &usize| {
            let row = rows.kernel_symbols[*position];
            KernelSymbol { name: text(row.name), module: text(row.module), ..row }
        };
        listed(w, kernel_symbols.iter().map(symbol), KernelSymbolsV1::from_rows)?;
        let symbol = |position: &usize| {
            let row = &rows.symbols[*position];
            Symbol { image: images.new_id(row.image), ..row.clone() }
        };
        listed(w, symbols.iter().map(symbol), SymbolsV1::from_rows)?;
        let code = |position: &usize| {
            let row = rows.jit[*position].clone();
            let line = |line: &JitLine| JitLine { file: text(line.file), ..*line };
            JitCode { lines: row.lines.iter().map(line).collect(), ..row }
        };
        listed(w, jit.iter().map(code), JitV1::from_rows)?;
        let site = |position: &usize| -> CallSite { rows.call_sites[*position].clone() };
        listed(w, call_sites.iter().map(site), CallSitesV1::from_rows)?;
        let mut draft = Draft::default();
        for (table, place) in names {
            let table = &rows.names[*table];
            let place = &table.places[*place];
            draft.copy(images.new_id(place.image), place, table);
            append_names(w, &mut draft, false)?;
        }
        append_names(w, &mut draft, true)?;
        let row = |node: &Node| Node {
            parent: nodes.new_id(node.parent),
            location: match node.location {
                Location::Image { image, file_off } => {
                    Location::Image { image: images.new_id(image), file_off }
                }
                address => address,
            },
        };
        counted(w, nodes, |id| rows.nodes.find(id).map(row), StacksV1::from_rows)?;
        let mark = |id: &u32| Some((nodes.new_id(*id), *rows.marks.get(id)?));
        listed(w, nodes.old.iter().filter_map(mark), StackMarksV1::from_rows)?;
        self.held(rows)
    }

    /// Writes what registers and stacks held.
    fn held(&mut self, rows: &Rows) -> anyhow::Result<()> {
        let (Needed { images, held, .. }, held_rows, w) = (&self.needed, &rows.held, &mut *self.writer);
        let word = |word: &Word| match word {
            Word::Code(code) => Word::Code(held.code.new_id(*code)),
            Word::Stack(distance) => Word::Stack(*distance),
        };
        let code = |id| match held_rows.code.find(id)? {
            Location::Image { image, file_off } => {
                Some(Location::Image { image: images.new_id(*image), file_off: *file_off })
            }
            address => Some(*address),
        };
        counted(w, &held.code, code, |first, rows| Ok(StackCodeV1::from_rows(first, rows)))?;
        let piece = |piece: &StackPiece| StackPiece {
            mask: piece.mask,
            words: piece.words.iter().map(word).collect(),
        };
        counted(w, &held.pieces, |id| held_rows.pieces.find(id).map(piece), StackPiecesV1::from_rows)?;
        let node = |node: &StackNode| StackNode {
            outer: held.nodes.new_id(node.outer),
            piece: held.pieces.new_id(node.piece),
            ..*node
        };
        counted(w, &held.nodes, |id| held_rows.nodes.find(id).map(node), StackNodesV1::from_rows)?;
        let snapshot = |row: &Snapshot| Snapshot {
            memory: held.nodes.new_id(row.memory),
            registers: row.registers.iter().map(word).collect(),
            ..*row
        };
        counted(w, &held.snapshots, |id| held_rows.snapshots.find(id).map(snapshot), SnapshotsV1::from_rows)?;
        // Walks are judged by rules, too; what was unwound is.
        if held.snapshots.old.is_empty() && !held_rows.snapshots.is_empty() {
            return Ok(());
        }
        let are_kept = |rule: &&UnwindRule| images.old.binary_search(&rule.image).is_ok();
        let rule = |rule: &UnwindRule| UnwindRule { image: images.new_id(rule.image), ..rule.clone() };
        listed(w, rows.unwind_rules.iter().filter(are_kept).map(rule), UnwindRulesV1::from_rows)
    }

    /// Copies what the recording has of the files of images; returns what of it is damaged.
    pub(super) fn pieces(&mut self, recording: &Recording, rows: &Rows) -> anyhow::Result<Vec<Damage>> {
        pieces::copy(recording, rows, &self.needed.images, self.writer)
    }

    fn strings(&mut self, rows: &Rows) -> anyhow::Result<()> {
        let ids = &self.needed.strings;
        let mut first = ids.first();
        let (mut texts, mut len): (Vec<&[u8]>, usize) = (Vec::new(), 0);
        let mut put = |first: &mut u32, texts: &mut Vec<&[u8]>| -> anyhow::Result<()> {
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

    /// Takes the wanted samples of a block.
    pub(super) fn samples(&mut self, chosen: Chosen, rows: &Rows) -> anyhow::Result<()> {
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

    fn flush(&mut self, rows: &Rows) -> anyhow::Result<()> {
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
            sample.task = self.needed.tasks.new_id(sample.task);
            sample.user_stack = self.needed.nodes.new_id(sample.user_stack);
            sample.kernel_stack = self.needed.nodes.new_id(sample.kernel_stack);
            sample.snapshot = self.needed.held.snapshots.new_id(sample.snapshot);
            self.newest_stack = self.newest_stack.max(sample.user_stack).max(sample.kernel_stack);
        }
        let payload = SamplesV1::from_rows(&samples, &self.basis)?;
        self.append(&payload)
    }

    /// Writes the last samples, losses and the receipt.
    pub(super) fn end(&mut self, rows: &Rows) -> anyhow::Result<()> {
        self.flush(rows)?;
        let images = &self.needed.images;
        let is_kept = |row: &&LeftOut| images.old.binary_search(&row.image).is_ok();
        let left_out = rows.left_out.iter().filter(is_kept);
        let left_out = left_out.map(|row| LeftOut { image: images.new_id(row.image), ..*row });
        listed(self.writer, left_out, LeftOutV1::from_rows)?;
        listed(self.writer, rows.cpu_times.iter().copied(), CpuTimesV1::from_rows)?;
        listed(self.writer, rows.losses.iter().copied(), LossesV1::from_rows)?;
        rows.receipt.as_ref().map_or(Ok(()), |receipt| self.append(receipt))
    }

    fn append(&mut self, payload: &impl Payload) -> anyhow::Result<()> {
        Ok(self.writer.append(payload).map(drop)?)
    }
}

/// Writes rows that have ids.
fn counted<T, P: Payload>(
    writer: &mut Writer,
    ids: &Ids,
    row: impl Fn(u32) -> Option<T>,
    block: impl Fn(u32, &[T]) -> Result<P, icecore_format::Error>,
) -> anyhow::Result<()> {
    let mut first = ids.first();
    for ids in ids.old.chunks(ROWS) {
        let rows: Vec<T> = ids.iter().filter_map(|id| row(*id)).collect();
        writer.append(&block(first, &rows)?)?;
        first += ids.len() as u32;
    }
    Ok(())
}

/// Writes rows that have none.
fn listed<T, P: Payload>(
    writer: &mut Writer,
    rows: impl Iterator<Item = T>,
    block: impl Fn(&[T]) -> P,
) -> anyhow::Result<()> {
    let mut rows = rows.peekable();
    while rows.peek().is_some() {
        let of_block: Vec<T> = rows.by_ref().take(ROWS).collect();
        writer.append(&block(&of_block))?;
    }
    Ok(())
}
