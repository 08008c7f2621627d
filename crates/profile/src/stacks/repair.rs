//! Repairs stacks: if a sample has a snapshot of registers and stack, this module unwinds its user stack, and replaces the walk
//! along frame pointers by the result wherever that shows more.
//!
//! ```text
//! snapshot ─► Memory ─────┐
//! mappings ─► SpaceCode ──┴► unwind ─► choose: walk, unwound, or unwound and then walk ─► Grown ─► new nodes of the trie
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `memory` | the words of a snapshot, by address |
//! | `code` | the code at an address of a process |
//! | `tables` | the unwind tables of images |
//! | `batch` | unwinds one sample after the other |
//! | `audit` | compares walks by unwind tables with unwound stacks |
//! | `choose` | chooses between the walk and the unwound stack |
//! | `carried` | how far a walk continues after the unwound frames |
//! | `grown` | repaired stacks as nodes of the trie |
//! | `over` | walks that switch from one stack to another |
//! | `looks` | for which files of images unwinding searched |
//! | `stored` | repaired stacks as rows, for the cache |
//! | `suspect` | stacks of walks that cannot be whole |
//! | `trampolines` | signal trampolines on walks |
//! | `work` | how much of it a recording is worth |

mod audit;
mod batch;
mod carried;
mod choose;
mod code;
mod grown;
mod interpreted;
mod looks;
mod memory;
mod over;
mod stored;
mod suspect;
mod tables;
mod trampolines;
mod work;

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{Mark, Node, Sample, StackRepair, WalkEnd};
use rayon::prelude::*;

use crate::map::Map;
use crate::recording::load::{Tables, samples};
use crate::stacks::calls;
use crate::stacks::hits::Selection;
use crate::stacks::locate::Locator;
use crate::stacks::waits;
pub use audit::Disagreement;
use batch::Batch;
use grown::Trie;
use icecore_symbolize::image::Finder;
use icecore_unwind::{Limits, Unwinder};
pub(crate) use looks::{Look, Looks, Watched, are_valid};
pub use suspect::{Suspects, skips_interrupted, suspects};
use tables::TableSources;
pub(crate) use trampolines::trampolines;
use work::Work;

/// Samples that are unwound together and share what was learned of calls.
const BATCH: usize = 512;

/// In place of a repaired stack: the one that the sample has.
const OWN: u32 = 0;

/// The result of repairing stacks.
#[derive(Debug, Default)]
pub struct RepairedStacks {
    /// By the snapshot of the sample.
    by_snapshot: Map<u32, Outcome>,
    /// Walks by unwind tables that cannot be right as a whole, or that nobody has checked, by stack id: what is left of them, and how
    /// that ended.
    cut: Map<u32, (u32, WalkEnd)>,
    /// In the order of the file.
    disagreements: Vec<Disagreement>,
    /// Ids of the new nodes, by part.
    ids_of_parts: Vec<Range<u32>>,
}

/// Nodes that repaired stacks add to the trie.
#[derive(Debug, Default)]
pub struct New {
    /// The id of the first.
    pub first_id: u32,
    /// In the order of their ids.
    pub nodes: Vec<Node>,
    /// Marks of the nodes that have any, by node id.
    pub marks: Vec<(u32, Mark)>,
}

/// The result of unwinding one sample.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    /// The repaired stack, or [`OWN`], and how it ended; `None` if the walk is kept.
    other: Option<(u32, WalkEnd)>,
    repair: StackRepair,
}

impl RepairedStacks {
    /// Decodes a block of samples and puts the repaired stacks in.
    ///
    /// # Errors
    /// If it is damaged.
    pub fn samples(
        &self,
        recording: &Recording,
        tables: &Tables,
        entry: &Entry,
    ) -> Result<Vec<Sample>, icecore_format::Error> {
        let mut rows = samples(recording, tables, entry)?;
        rows.iter_mut().for_each(|sample| *sample = self.sample(*sample));
        Ok(rows)
    }

    /// Returns the sample with its repaired stack, if it has one.
    pub fn sample(&self, sample: Sample) -> Sample {
        match self.by_snapshot.get(&sample.snapshot) {
            Some(Outcome { other: Some((OWN, user_end)), repair }) => {
                Sample { user_end: *user_end, repair: *repair, ..sample }
            }
            Some(Outcome { other: Some((user_stack, user_end)), repair }) => {
                Sample { user_stack: *user_stack, user_end: *user_end, repair: *repair, ..sample }
            }
            Some(Outcome { other: None, repair }) => Sample { repair: *repair, ..sample },
            None if sample.user_end == WalkEnd::BY_TABLES => self.cut_walk(sample),
            None => sample,
        }
    }

    fn cut_walk(&self, sample: Sample) -> Sample {
        match self.cut.get(&sample.user_stack) {
            None => sample,
            Some((OWN, user_end)) => Sample { user_end: *user_end, ..sample },
            Some((user_stack, user_end)) => Sample {
                user_stack: *user_stack,
                user_end: *user_end,
                repair: StackRepair::REPLACED,
                ..sample
            },
        }
    }

    /// Lists the walks by unwind tables that differ from the unwound stack, in the order of the file.
    pub fn disagreements(&self) -> &[Disagreement] {
        &self.disagreements
    }

    /// Returns true if repairing added this node.
    pub fn is_new(&self, id: u32) -> bool {
        self.ids_of_parts.iter().any(|ids| ids.contains(&id))
    }

    /// Returns the ids of the new nodes of a part.
    pub fn ids_of_part(&self, part: u32) -> Range<u32> {
        self.ids_of_parts.get(part as usize).cloned().unwrap_or_default()
    }
}

/// Unwinds the stacks of all samples of requested threads, and checks their walks by unwind tables, in blocks that may hold a requested sample; with `wakers` also all stacks
/// that ended waits. The result for a sample does not depend on the other filters. New nodes have ids from `first_id` on.
///
/// # Cost   works on blocks and batches in parallel; merges the new nodes sequentially
pub fn repair_stacks(
    recording: &Recording,
    selection: Selection<'_>,
    locator: &Locator<'_>,
    finder: &Finder<'_>,
    wakers: bool,
    first_id: u32,
) -> (RepairedStacks, New) {
    let tables = selection.tables;
    let may_be_in = tables.sample_blocks.iter().filter(|entry| wakers || selection.may_be_in(entry));
    let mut blocks: Vec<(u32, &Entry)> =
        may_be_in.map(|entry| (tables.parts.of(entry).number(), entry)).collect();
    blocks.sort_by_key(|(part, _)| *part);
    let is_waker = waits::wakers::wakers(tables);
    let wanted = |entry: &Entry| -> Vec<Sample> {
        // The stage that counts samples reports damaged blocks.
        let mut samples = samples(recording, tables, entry).unwrap_or_default();
        let is_waker = |sample: &Sample| wakers && is_waker[usize::from(sample.event)];
        samples.retain(|sample| selection.wants_thread(sample.task) || is_waker(sample));
        samples
    };
    let is_walked = |(_, entry): &(u32, &Entry)| !walks(wanted(entry)).is_empty();
    if tables.held.snapshots.is_empty() && !blocks.par_iter().any(is_walked) {
        return Default::default();
    }
    let Some(files) = TableSources::find(locator, finder) else { return Default::default() };
    let code = calls::Files::new(&locator.images, finder);
    let calls = code.calls();
    let lookup = files.tables().with_calls(&calls);
    let limits =
        Limits { frames: icecore_format::limits::MAX_FRAMES as usize, ..Limits::new(lookup.machine()) };
    let unwinders = Unwinders::new(limits);
    let unwind = |samples: &[Sample], all: u64| {
        let work = Work::of(recording.len_bytes(), samples.len() as u64, all);
        unwinders.with(|unwinder| {
            let mut batch = Batch::new(selection, locator, &lookup, (unwinder, &work));
            samples.iter().for_each(|sample| batch.sample(sample));
            batch.done()
        })
    };
    let of_blocks: u64 = blocks.iter().map(|(_, entry)| u64::from(entry.header.items)).sum();
    let of_block = |entry: &Entry| -> (Vec<batch::Done>, Vec<Sample>) {
        let (unwound, walked): (Vec<Sample>, Vec<Sample>) =
            wanted(entry).into_iter().partition(|sample| sample.snapshot != 0);
        let done = unwound.par_chunks(BATCH).map(|batch| unwind(batch, of_blocks)).collect();
        (done, walks(walked))
    };
    let done: Vec<(Vec<batch::Done>, Vec<Sample>)> =
        blocks.par_iter().map(|(_, entry)| of_block(entry)).collect();
    let distinct: u64 = done.iter().map(|(_, walked)| walked.len() as u64).sum();
    let mut repaired = RepairedStacks::default();
    let (mut new, mut next_id) = (New { first_id, ..New::default() }, first_id);
    let mut done = blocks.iter().zip(done).peekable();
    for part in 0..tables.parts.len() as u32 {
        // Image ids differ between parts, addresses do not: each part has a trie of its own.
        let (mut trie, mut walked) = (Trie::new(next_id), Vec::new());
        while let Some((_, (batches, of_block))) = done.next_if(|((of, _), _)| *of == part) {
            batches.into_iter().for_each(|done| repaired.add(done, &mut trie));
            walked.extend(of_block);
        }
        let walked = walks(walked);
        let checked: Vec<batch::Done> =
            walked.par_chunks(BATCH).map(|batch| unwind(batch, distinct)).collect();
        checked.into_iter().for_each(|done| repaired.add(done, &mut trie));
        let begin = next_id;
        next_id = trie.next_id();
        let (nodes, marks) = trie.into_nodes();
        new.nodes.extend(nodes);
        new.marks.extend(marks);
        repaired.ids_of_parts.push(begin..next_id);
    }
    (repaired, new)
}

/// Returns one sample for each stack that the sampler walked by unwind tables.
fn walks(mut samples: Vec<Sample>) -> Vec<Sample> {
    samples.retain(|sample| sample.user_end == WalkEnd::BY_TABLES);
    samples.sort_by_key(|sample| sample.user_stack);
    samples.dedup_by_key(|sample| sample.user_stack);
    samples
}

impl RepairedStacks {
    fn add(&mut self, done: batch::Done, trie: &mut Trie) {
        let ids = trie.add(&done.grown);
        let id = |node: u32| if node == OWN { OWN } else { ids[node as usize - 1] };
        let outcome = |stack: &batch::Stack| Outcome {
            other: stack.other.map(|(node, end)| (id(node), end)),
            repair: stack.repair,
        };
        let differs = done.stacks.iter().filter_map(|stack| stack.differs.as_ref());
        self.disagreements.extend(differs.map(|differs| Disagreement {
            sample: differs.sample,
            unwound: id(differs.unwound),
            common: differs.common as u32,
        }));
        self.cut.extend(done.cut.iter().map(|cut| (cut.of, (id(cut.left.0), cut.left.1))));
        self.by_snapshot.extend(done.stacks.iter().map(|stack| (stack.snapshot, outcome(stack))));
    }
}

/// Idle unwinders, kept for the unwind tables that they have cached.
struct Unwinders {
    limits: Limits,
    free: Mutex<Vec<Unwinder>>,
}

impl Unwinders {
    fn new(limits: Limits) -> Self {
        Self { limits, free: Mutex::default() }
    }

    fn with<T>(&self, work: impl FnOnce(&mut Unwinder) -> T) -> T {
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = free().pop();
        let mut unwinder = waiting.unwrap_or_else(|| Unwinder::new(self.limits));
        let result = work(&mut unwinder);
        free().push(unwinder);
        result
    }
}

#[cfg(test)]
mod tests;
