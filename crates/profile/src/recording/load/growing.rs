//! Tables of a recording that is being written: they grow block by block, and forget what nothing can refer to any more.
//!
//! | what grows | how it stays small |
//! |---|---|
//! | nodes of stacks, and their marks | the last `MAX_NODES`: a recorder never refers to a node further back than the 512 Ki that it remembers |
//! | changes, mappings, cgroups and JIT code of processes | those of processes that have ended go, unless a living process was forked from them |
//! | names, threads, images, kernel symbols, and what is left of the above | together at most `MAX_BYTES`; more is an error |

use std::collections::HashSet;

use icecore_format::Error;
use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::growing::Growing;
use icecore_format::records::{Block, Change, Image, JitCode, JitLine, Lifecycle, Mark, ReceiptV1, Task};

use super::parts::Parts;
use super::{CleanBlock, Tables, clean, clean_session};
use crate::map::Map;

/// The nodes of stacks that are kept, at least.
const MAX_NODES: usize = 1 << 20;
/// Nodes are forgotten when so many more are there, so that it is seldom done.
const MORE_NODES: usize = 256 << 10;
/// The bytes of all other rows.
const MAX_BYTES: usize = 256 << 20;
/// Rows of processes are looked through when there are so many, and then when they have doubled.
const LEAST_ROWS: usize = 4096;

/// Tables that grow.
#[derive(Debug, Default)]
pub struct GrowingTables {
    /// The tables so far: everything that names a sample. What unwinds stacks, measures CPU time or lists files is not kept.
    pub tables: Tables,
    /// The last block of the session.
    pub receipt: Option<ReceiptV1>,
    /// Samples that were lost so far.
    pub lost: u64,
    /// The recorder takes no samples, since the last change of the rate.
    pub is_paused: bool,
    has_session: bool,
    /// The bytes of names.
    text_bytes: usize,
    /// How many rows of processes there may be before those of ended ones are removed.
    room: usize,
}

impl GrowingTables {
    /// Adds what a block tells. Samples stay in their blocks.
    ///
    /// # Errors
    /// If the block is damaged, ids do not count up, a second session begins, or the tables are too large.
    pub fn add(&mut self, growing: &Growing, entry: &Entry) -> Result<(), Error> {
        if !is_wanted(entry.header.kind) {
            return Ok(());
        }
        let Some(mut block): Option<CleanBlock> = growing.block(entry, clean)? else { return Ok(()) };
        let malformed =
            |cause: &str| Error::Malformed { what: "block", off: entry.off, cause: cause.to_owned() };
        if let Block::Session(session) = &mut block {
            clean_session(session);
            if std::mem::replace(&mut self.has_session, true) {
                return Err(malformed("a second session begins: this recording is not being written"));
            }
            self.tables.session = (**session).clone();
            (self.tables.parts, _) = Parts::divide(&[*entry], [Some(&block)].into_iter());
            return Ok(());
        }
        if !self.has_session {
            return Err(malformed("the recording does not begin with a session"));
        }
        let tables = &mut self.tables;
        let next = match &block {
            Block::Strings(_) => tables.strings.next_id(),
            Block::Tasks(_) => tables.tasks.next_id(),
            Block::Images(_) => tables.images.next_id(),
            Block::Stacks(_) => tables.nodes.next_id(),
            _ => Some(0),
        };
        let first = block.defines().map_or(0, |(_, first)| first);
        if next.is_none_or(|next| first < next) {
            return Err(malformed("its ids do not count up"));
        }
        match block {
            Block::Strings(block) => {
                self.text_bytes += block.rows.iter().map(|text| text.len()).sum::<usize>();
                tables.strings.push(block.first, block.rows);
            }
            Block::Tasks(block) => tables.tasks.push(block.first, block.rows),
            Block::Images(block) => tables.images.push(block.first, block.rows),
            Block::Stacks(block) => tables.nodes.push(block.first, block.rows),
            Block::StackMarks(rows) => tables.marks.extend(rows),
            Block::Lifecycle(rows) => tables.lifecycle.extend(rows),
            Block::Cgroups(rows) => tables.cgroups.extend(rows),
            Block::Mappings(rows) => tables.mappings.extend(rows),
            Block::KernelSymbols(rows) => tables.kernel_symbols.extend(rows.into_iter().map(|row| (0, row))),
            Block::Jit(rows) => {
                // Nothing is unwound, so the unwind tables of JIT code are not needed.
                let rows = rows.into_iter().map(|row| JitCode { rules: Vec::new(), ..row });
                let rows: Vec<JitCode> = rows.collect();
                self.text_bytes += rows.iter().map(heap_bytes).sum::<usize>();
                tables.jit.extend(rows);
            }
            Block::Losses(rows) => {
                let samples = rows.iter().filter(|loss| loss.cause.is_sample());
                self.lost = samples.fold(self.lost, |sum, loss| sum.saturating_add(loss.count));
            }
            Block::Rates(rows) => self.is_paused = rows.last().map_or(self.is_paused, |row| row.share == 0),
            Block::Receipt(receipt) => self.receipt = Some(*receipt),
            _ => {}
        }
        Ok(())
    }

    /// Returns true if the recorder has written how the session began.
    pub fn has_session(&self) -> bool {
        self.has_session
    }

    /// Forgets what no later sample can refer to.
    ///
    /// # Errors
    /// If what is left is too large.
    pub fn forget(&mut self) -> Result<(), Error> {
        let nodes = &mut self.tables.nodes;
        if nodes.len() > MAX_NODES + MORE_NODES {
            let kept = nodes.keep_last(MAX_NODES);
            self.tables.marks.retain(|node, _| *node >= kept);
        }
        if self.rows_of_processes() > self.room.max(LEAST_ROWS) {
            self.forget_ended();
            self.room = 2 * self.rows_of_processes();
        }
        if self.bytes() > MAX_BYTES {
            let cause = "names, mappings and processes of one file take more than 256 MiB; shorter files can be followed \
                         (--rotate of the recorder)";
            return Err(std::io::Error::other(cause).into());
        }
        Ok(())
    }

    /// Counts the rows of processes.
    pub fn rows_of_processes(&self) -> usize {
        let Tables { lifecycle, cgroups, mappings, jit, .. } = &self.tables;
        lifecycle.len() + cgroups.len() + mappings.len() + jit.len()
    }

    /// Returns the bytes of all rows but those of nodes.
    fn bytes(&self) -> usize {
        let Tables {
            strings, tasks, images, lifecycle, cgroups, mappings, kernel_symbols, jit, marks, ..
        } = &self.tables;
        self.text_bytes
            + strings.len() * size_of::<Box<str>>()
            + tasks.len() * size_of::<Task>()
            + images.len() * size_of::<Image>()
            + size_of_val(&lifecycle[..])
            + size_of_val(&cgroups[..])
            + size_of_val(&mappings[..])
            + size_of_val(&kernel_symbols[..])
            + size_of_val(&jit[..])
            + marks.len() * size_of::<(u32, Mark)>()
    }

    /// Removes the rows of processes that have ended. A process that was forked, and has not run another program since, has the mappings of
    /// its parent, so these stay.
    fn forget_ended(&mut self) {
        let tables = &mut self.tables;
        let mut parents: Map<u32, Option<u32>> = Map::default();
        for row in &tables.lifecycle {
            match row.change {
                Change::FORK | Change::SHARES if row.parent_tgid != row.tgid => {
                    parents.insert(row.tgid, Some(row.parent_tgid));
                }
                Change::FOUND => drop(parents.entry(row.tgid).or_insert(None)),
                Change::EXEC => drop(parents.insert(row.tgid, None)),
                // Of a process whose first thread has ended, others may run on; then its rows go too early, and new addresses are marked.
                Change::EXIT if row.tid == row.tgid => drop(parents.remove(&row.tgid)),
                _ => {}
            }
        }
        let mut needed: HashSet<u32> = parents.keys().copied().collect();
        let mut open: Vec<u32> = parents.values().flatten().copied().collect();
        let is_fork = |row: &&Lifecycle| row.change == Change::FORK && row.parent_tgid != row.tgid;
        let forks = tables.lifecycle.iter().filter(is_fork);
        let ended: Map<u32, u32> = forks.map(|row| (row.tgid, row.parent_tgid)).collect();
        while let Some(parent) = open.pop() {
            if needed.insert(parent) {
                open.extend(ended.get(&parent));
            }
        }
        tables.lifecycle.retain(|row| needed.contains(&row.tgid));
        tables.cgroups.retain(|row| needed.contains(&row.tgid));
        tables.mappings.retain(|row| needed.contains(&row.tgid));
        let text_bytes = &mut self.text_bytes;
        tables.jit.retain(|row| {
            let stays = needed.contains(&row.tgid);
            *text_bytes -= if stays { 0 } else { heap_bytes(row) };
            stays
        });
    }
}

/// Returns the bytes that JIT code takes besides its row.
fn heap_bytes(code: &JitCode) -> usize {
    code.name.len() + size_of::<JitLine>() * code.lines.len()
}

/// Returns true if blocks of a kind help to name samples.
fn is_wanted(kind: Kind) -> bool {
    const WANTED: [Kind; 14] = [
        Kind::SESSION,
        Kind::STRINGS,
        Kind::TASKS,
        Kind::IMAGES,
        Kind::STACKS,
        Kind::STACK_MARKS,
        Kind::LIFECYCLE,
        Kind::CGROUPS,
        Kind::MAPPINGS,
        Kind::KERNEL_SYMBOLS,
        Kind::JIT,
        Kind::LOSSES,
        Kind::RATES,
        Kind::RECEIPT,
    ];
    WANTED.contains(&kind)
}
