//! Loads a recording into tables. Samples stay in their blocks until [`crate::stacks::hits`] counts them.

pub mod by_id;
pub mod growing;
pub mod held;
pub mod needed;
pub mod outline;
pub mod parts;

use std::sync::Arc;

use icecore_elf::Machine;
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{
    Block, Cause, Cgroup, CounterValue, CpuTime, Field, Image, JitCode, KernelSymbol, LeftOut, Lifecycle,
    Loss, Mapping, Mark, NameTable, Node, RateChange, ReceiptV1, Sample, SamplesV1, SessionV1, Symbol, Task,
    UnwindRule, Wait,
};
pub use icecore_text::clean::clean;
use rayon::prelude::*;

use by_id::ById;
use held::{Held, HeldBlocks};
use parts::{CleanBlock, Parts};

use crate::map::Map;
use crate::recording::counted;
use icecore_text::shorten::{MAX_NAME_BYTES, shorten};

/// Everything of a recording except its samples.
#[derive(Debug, Default)]
pub struct Tables {
    /// Host, clock, events, options of the first session; empty if its block is missing.
    pub session: SessionV1,
    /// All sessions. What the other tables hold has numbers that are unique in the file, and one clock.
    pub parts: Parts,
    /// Text; control characters replaced, so that no name can steer a terminal or break a line.
    pub strings: ById<Box<str>>,
    /// Threads under one name.
    pub tasks: ById<Task>,
    /// Identities of executable files.
    pub images: ById<Image>,
    /// The trie of stacks.
    pub nodes: ById<Node>,
    /// Marks of nodes; most nodes have none.
    pub marks: Map<u32, Mark>,
    /// Changes of tasks, in the order of the file.
    pub lifecycle: Vec<Lifecycle>,
    /// Cgroups of tasks, in the order of the file.
    pub cgroups: Vec<Cgroup>,
    /// Executable mappings, in the order of the file.
    pub mappings: Vec<Mapping>,
    /// Kernel symbols and the number of the part to whose kernel they belong, in the order of the file.
    pub kernel_symbols: Vec<(u32, KernelSymbol)>,
    /// Symbols of images, mangled, in the order of the file.
    pub symbols: Vec<Symbol>,
    /// Blocks with pieces of the files of images and the number of the part to which they belong, not opened yet.
    pub image_parts: Vec<(u32, Entry)>,
    /// Blocks with source files and the number of the part to which they belong, not opened yet.
    pub source_blocks: Vec<(u32, Entry)>,
    /// Blocks with code of functions and the number of the part to which they belong, not opened yet.
    pub code_blocks: Vec<(u32, Entry)>,
    /// JIT code, in the order of the file.
    pub jit: Vec<JitCode>,
    /// The machine frames that run functions of an interpreter are shown as well as these.
    pub shows_evaluators: bool,
    /// Which frames are left out, so that their samples count to their callers, by position of the node; empty if no frame is.
    pub folded: Vec<bool>,
    /// What a report has found out about places in images, a table for each block, in the order of the file.
    pub names: Vec<NameTable<Arc<str>>>,
    /// Requested files that the recording lacks or has in part, in the order of the file.
    pub left_out: Vec<LeftOut>,
    /// What registers and stacks held at samples.
    pub held: Held,
    /// Unwind tables of images, in the order of the file.
    pub unwind_rules: Vec<UnwindRule>,
    /// CPU time by the kernel's own account, in the order of the file.
    pub cpu_times: Vec<CpuTime>,
    /// Waits that are samples, in the order of the file.
    pub waits: Vec<Wait>,
    /// Fields of tracepoints, in the order of the file.
    pub fields: Vec<Field>,
    /// Values of counters and the numbers of the parts to which they belong, in the order of the file.
    pub counters: Vec<(u32, CounterValue)>,
    /// Losses, in the order of the file.
    pub losses: Vec<Loss>,
    /// Changes of the sampling rate, and the numbers of their sessions.
    pub rates: Vec<(u32, RateChange)>,
    /// Samples that the receipts count and that are not in the file; they are among the losses.
    pub samples_missing: u64,
    /// What the first session cost; absent if its recorder was killed.
    pub receipt: Option<ReceiptV1>,
    /// Blocks of samples, not opened yet.
    pub sample_blocks: Vec<Entry>,
    /// What could not be used.
    pub damage: Vec<Damage>,
    /// Blocks that this build does not know: newer kinds, newer versions.
    pub skipped: Vec<Skipped>,
}

/// Blocks of one kind and version that this build cannot interpret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// The kind.
    pub kind: Kind,
    /// The version of the payload.
    pub version: u16,
    /// How many blocks.
    pub blocks: u64,
    /// Their bytes in the file.
    pub stored_bytes: u64,
}

impl Tables {
    /// Finds a string; `?` if its block is missing.
    pub fn text(&self, id: u32) -> &str {
        match id {
            0 => "",
            id => self.strings.find(id).map_or("?", |text| text),
        }
    }

    /// The machine of the first session; `None` if that session is lost, or says a machine whose stacks cannot be unwound.
    pub fn machine(&self) -> Option<Machine> {
        Machine::of_uname(&self.session.arch)
    }

    /// The mark of a node.
    pub fn mark(&self, node: u32) -> Mark {
        self.marks.get(&node).copied().unwrap_or_default()
    }

    /// Adds marks to those of nodes.
    pub fn mark_nodes(&mut self, marks: &[(u32, Mark)]) {
        for (node, mark) in marks {
            let known = self.marks.entry(*node).or_default();
            *known = known.with(*mark);
        }
    }

    /// Finds a task; if its block is missing, one without numbers and name.
    pub fn task(&self, id: u32) -> Task {
        self.tasks.find(id).copied().unwrap_or_else(|| {
            let nobody = self.parts.part(self.parts.of_task(id)).pid(0);
            Task { tgid: nobody, tid: nobody, comm: u32::MAX }
        })
    }
}

/// What became of one block.
enum Decoded {
    Block(CleanBlock),
    Unknown,
    Unwanted,
    Damaged(Damage),
}

impl Decoded {
    fn block(&self) -> Option<&CleanBlock> {
        match self {
            Self::Block(block) => Some(block),
            Self::Unknown | Self::Unwanted | Self::Damaged(_) => None,
        }
    }
}

/// Decodes all blocks but those of samples and of pieces of files, in parallel. Nothing in a file makes this fail: what is
/// damaged or unknown is counted.
pub fn load(recording: &Recording) -> Tables {
    load_if(recording, |_| true)
}

/// As [`load`], without the nodes of stacks: see [`needed`].
pub fn load_without_nodes(recording: &Recording) -> Tables {
    load_if(recording, |kind| kind != Kind::STACKS)
}

/// As [`load`], without copies of registers and stacks: for a recording whose repaired stacks are known. Sessions after the first get
/// other ids than [`load`] gives them.
pub fn load_without_snapshots(recording: &Recording) -> Tables {
    let is_copy = |kind| [Kind::SNAPSHOTS, Kind::STACK_NODES, Kind::STACK_PIECES].contains(&kind);
    load_if(recording, move |kind| !is_copy(kind))
}

/// Adds all nodes of stacks to tables that were loaded without them.
pub fn load_nodes(recording: &Recording, tables: &mut Tables) {
    let whole = load(recording);
    (tables.nodes, tables.damage) = (whole.nodes, whole.damage);
}

fn load_if(recording: &Recording, is_wanted: impl Fn(Kind) -> bool + Sync) -> Tables {
    let entries = recording.entries();
    let decoded = |entry: &Entry| {
        if is_wanted(entry.header.kind) { decode(recording, entry) } else { Decoded::Unwanted }
    };
    let mut blocks: Vec<Decoded> = entries.par_iter().map(decoded).collect();
    let (parts, part_of) = Parts::divide(entries, blocks.iter().map(Decoded::block));
    blocks.par_iter_mut().zip(&part_of).zip(entries).for_each(|((block, part), entry)| {
        if let Decoded::Block(rows) = block
            && let Err(cause) = parts.part(*part).shift(rows)
        {
            *block = Decoded::Damaged(damaged(entry, &cause));
        }
    });
    let found = entries.iter().zip(blocks).zip(&part_of).map(|((entry, block), part)| (entry, block, *part));
    let mut tables = gather(recording, found, parts);
    if let Some(entry) = entries.get(part_of.len()) {
        let cause = format!("more than {} sessions: what follows is left out", parts::MAX_PARTS);
        let len = recording.len_bytes().saturating_sub(entry.off);
        tables.damage.push(Damage { off: entry.off, len, cause });
    }
    tables
}

/// Makes tables of blocks, each with its entry and the number of its part.
fn gather<'e>(
    recording: &Recording,
    blocks: impl Iterator<Item = (&'e Entry, Decoded, u32)>,
    parts: Parts,
) -> Tables {
    let mut tables = Tables { damage: recording.damage().to_vec(), ..Tables::default() };
    let mut held = HeldBlocks::default();
    let (mut strings, mut tasks, mut images, mut nodes) = (vec![], vec![], vec![], vec![]);
    for (entry, block, part) in blocks {
        let block = match block {
            Decoded::Block(block) => block,
            Decoded::Unwanted => continue,
            Decoded::Unknown => {
                skip(&mut tables.skipped, entry);
                continue;
            }
            Decoded::Damaged(damage) => {
                tables.damage.push(damage);
                continue;
            }
        };
        match block {
            Block::Session(_) | Block::Receipt(_) | Block::Trigger(_) => {}
            Block::Strings(block) => strings.push((block.first, block.rows)),
            Block::Tasks(block) => tasks.push((block.first, block.rows)),
            Block::Images(block) => images.push((block.first, block.rows)),
            Block::Stacks(block) => nodes.push((block.first, block.rows)),
            Block::StackMarks(rows) => tables.marks.extend(rows),
            Block::Lifecycle(rows) => tables.lifecycle.extend(rows),
            Block::Cgroups(rows) => tables.cgroups.extend(rows),
            Block::Mappings(rows) => tables.mappings.extend(rows),
            Block::KernelSymbols(rows) => {
                tables.kernel_symbols.extend(rows.into_iter().map(|row| (part, row)));
            }
            Block::Symbols(rows) => tables.symbols.extend(rows),
            Block::Jit(rows) => tables.jit.extend(rows),
            Block::Names(table) => tables.names.push(table.map(Arc::from)),
            Block::LeftOut(rows) => tables.left_out.extend(rows),
            Block::StackCode(block) => held.code.push((block.first, block.rows)),
            Block::StackPieces(block) => held.pieces.push((block.first, block.rows)),
            Block::StackNodes(block) => held.nodes.push((block.first, block.rows)),
            Block::Snapshots(block) => held.snapshots.push((block.first, block.rows)),
            Block::UnwindRules(rows) => tables.unwind_rules.extend(rows),
            Block::CpuTimes(rows) => tables.cpu_times.extend(rows),
            Block::Waits(rows) => tables.waits.extend(rows),
            Block::Fields(rows) => tables.fields.extend(rows),
            Block::Counters(rows) => tables.counters.extend(rows.into_iter().map(|row| (part, row))),
            Block::Losses(rows) => tables.losses.extend(rows),
            Block::Rates(rows) => tables.rates.extend(rows.into_iter().map(|row| (part, row))),
            Block::Samples => tables.sample_blocks.push(*entry),
            Block::ImageParts => tables.image_parts.push((part, *entry)),
            Block::Sources => tables.source_blocks.push((part, *entry)),
            Block::Code => tables.code_blocks.push((part, *entry)),
        }
    }
    tables.strings = ById::from_blocks(strings);
    tables.tasks = ById::from_blocks(tasks);
    tables.images = ById::from_blocks(images);
    tables.nodes = ById::from_blocks(nodes);
    tables.held = held.join();
    let first = parts.part(0);
    (tables.session, tables.receipt) = (first.session.clone(), first.receipt.clone());
    tables.parts = parts;
    tables.add_missing(recording);
    tables
}

impl Tables {
    /// Adds to the losses what only the receipts know of.
    fn add_missing(&mut self, recording: &Recording) {
        self.samples_missing = counted::missing(recording);
        if self.samples_missing > 0 {
            let time_ns = self.parts.zero_ns();
            self.losses.push(Loss { time_ns, ..Loss::of(Cause::DAMAGED, self.samples_missing) });
        }
    }
}

/// Decodes a block of samples.
///
/// # Errors
/// If it is damaged.
pub fn samples(
    recording: &Recording,
    tables: &Tables,
    entry: &Entry,
) -> Result<Vec<Sample>, icecore_format::Error> {
    let rows = recording.payload(entry)?.view::<SamplesV1>()?.rows()?;
    let part = tables.parts.of(entry);
    Ok(rows.into_iter().map(|sample| part.row(sample)).collect())
}

fn clean_session(session: &mut SessionV1) {
    let SessionV1 { recorder, host, kernel_release, kernel_version, arch, .. } = session;
    let events = session.events.iter_mut().flat_map(|event| [&mut event.name, &mut event.unit]);
    let labels = session.labels.iter_mut().flat_map(|label| [&mut label.key, &mut label.value]);
    let texts = [recorder, host, kernel_release, kernel_version, arch];
    // The command line stays as it is, so that it can be shown as a shell would read it.
    let lists = session.notes.iter_mut().chain(&mut session.target_cgroups);
    for text in texts.into_iter().chain(events).chain(labels).chain(lists) {
        *text = clean(text.as_bytes()).into();
    }
    // Some views show these texts in every row.
    let events = session.events.iter_mut().flat_map(|event| [&mut event.name, &mut event.unit]);
    for text in events.chain([&mut session.host]).filter(|text| text.len() > MAX_NAME_BYTES) {
        *text = shorten(text, MAX_NAME_BYTES).into_owned();
    }
}

/// Describes a block that could not be used.
pub fn damage(entry: &Entry, error: &icecore_format::Error) -> Damage {
    damaged(entry, &error.to_string())
}

fn damaged(entry: &Entry, cause: &str) -> Damage {
    let cause = format!("{} block: {cause}", entry.header.kind.name());
    Damage { off: entry.off, len: entry.header.next(entry.off) - entry.off, cause }
}

fn decode(recording: &Recording, entry: &Entry) -> Decoded {
    match recording.block(entry, clean) {
        Ok(Some(mut block)) => {
            if let Block::Session(session) = &mut block {
                clean_session(session);
            }
            Decoded::Block(block)
        }
        Ok(None) => Decoded::Unknown,
        Err(error) => Decoded::Damaged(damage(entry, &error)),
    }
}

fn skip(skipped: &mut Vec<Skipped>, entry: &Entry) {
    let (kind, version) = (entry.header.kind, entry.header.version);
    let stored_bytes = u64::from(entry.header.stored_len);
    match skipped.iter_mut().find(|s| s.kind == kind && s.version == version) {
        Some(row) => {
            row.blocks += 1;
            row.stored_bytes += stored_bytes;
        }
        None => skipped.push(Skipped { kind, version, blocks: 1, stored_bytes }),
    }
}
