//! Mends stacks: where a sample has a snapshot of registers and stack, its user stack is unwound, and what comes of that
//! replaces the walk along frame pointers wherever it shows more.
//!
//! ```text
//! snapshot ─► Memory ─────┐
//! mappings ─► SpaceCode ──┴► unwind ─► choose: walk, unwound, or unwound and then walk ─► Grown ─► new nodes of the trie
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | `memory` | the words of a snapshot, by address |
//! | `code` | what lies at an address of a process |
//! | `rules` | the unwind rules of images |
//! | `window` | samples of a few seconds, one after the other |
//! | `choose` | which of two stacks is believed |
//! | `grown` | mended stacks as nodes of the trie |
//! | `suspect` | stacks of walks that cannot be whole |

mod choose;
mod code;
mod grown;
mod memory;
mod rules;
mod suspect;
mod window;

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{Node, Sample, WalkEnd};
use rayon::prelude::*;

use crate::hits::Selection;
use crate::image::Finder;
use crate::load::samples;
use crate::locate::Locator;
use crate::map::Map;
use crate::unwind::{Limits, Unwinder};
use grown::Trie;
use rules::Rules;
pub(crate) use suspect::{Suspects, suspects};
use window::Window;

/// Stacks that are better than the walk's.
#[derive(Debug, Default)]
pub struct Mended {
    /// Stack and how it ended, by the snapshot of the sample.
    by_snapshot: Map<u32, (u32, WalkEnd)>,
    /// What came of unwinding.
    pub counts: Counts,
    /// Stacks that rest on walks, and cannot be whole.
    pub(crate) suspects: Suspects,
}

/// What came of unwinding, in samples that are wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// They have a snapshot.
    pub unwound: u64,
    /// Their stack is another one than the walk's.
    pub mended: u64,
    /// The outer part of it, which was not copied, is from another sample.
    pub completed: u64,
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.unwound += other.unwound;
        self.mended += other.mended;
        self.completed += other.completed;
    }
}

impl Mended {
    /// The sample with the stack that is believed.
    pub fn sample(&self, sample: Sample) -> Sample {
        match self.by_snapshot.get(&sample.snapshot) {
            Some((user_stack, user_end)) => Sample { user_stack: *user_stack, user_end: *user_end, ..sample },
            None => sample,
        }
    }
}

/// Blocks of samples that are unwound together: a stack that was not copied whole is completed from another sample of the
/// same thread, which must not be far away.
const WINDOW: usize = 4;

/// Unwinds the stacks of all samples that are wanted. Nodes that are new have ids from `first_id` on.
///
/// # Cost   windows of blocks in parallel; the new nodes are put together one after the other
pub fn mend(
    recording: &Recording,
    selection: Selection<'_>,
    locator: &Locator<'_>,
    finder: &Finder<'_>,
    first_id: u32,
) -> (Mended, Vec<Node>) {
    let tables = selection.tables;
    if tables.held.snapshots.is_empty() {
        return Default::default();
    }
    let blocks: Vec<&Entry> =
        tables.sample_blocks.iter().filter(|entry| selection.may_be_in(entry)).collect();
    let files = Rules::find(locator, finder);
    let rules = files.tables();
    let limits =
        Limits { frames: icecore_format::limits::MAX_FRAMES as usize, ..Limits::new(rules.machine()) };
    let windows = blocks.par_chunks(WINDOW).map_init(
        || Unwinder::new(limits),
        |unwinder, blocks| {
            let mut window = Window::new(selection, locator, &rules, unwinder);
            for entry in blocks {
                // A block that is damaged is counted where its samples are.
                let samples = samples(recording, tables, entry).unwrap_or_default();
                samples.iter().filter(|sample| sample.snapshot != 0).for_each(|sample| {
                    window.sample(sample);
                });
            }
            window.done()
        },
    );
    let windows: Vec<window::Done> = windows.collect();
    let (mut all, mut trie) = (Mended::default(), Trie::new(first_id));
    for window in windows {
        all.counts.add(&window.counts);
        all.suspects.add(&window.suspects);
        let ids = trie.add(&window.grown);
        let stacks = window.stacks.into_iter();
        all.by_snapshot
            .extend(stacks.map(|stack| (stack.snapshot, (ids[stack.node as usize - 1], stack.end))));
    }
    (all, trie.into_nodes())
}

#[cfg(test)]
mod tests;
