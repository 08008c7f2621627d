//! Which samples are unwound together.
//!
//! A stack that was not copied whole is completed from another sample of the same thread, which must not be far away. Time
//! is divided at multiples of a few seconds of the session's own clock, and samples by thread, so that neither blocks nor
//! filters decide which samples complete each other.

use std::collections::BTreeMap;

use icecore_format::index::Entry;
use icecore_format::limits::MAX_BLOCK_SPAN_NS;
use icecore_format::read::Recording;
use icecore_format::records::Sample;

use crate::hits::Selection;
use crate::load::samples;

/// Length of a window, ns.
const WINDOW_NS: u64 = 4_000_000_000;
/// The threads of a window are divided among so many.
const DIVISIONS: usize = 16;

/// A few seconds of one session.
pub(super) struct TimeWindow<'a> {
    /// Number of the session.
    pub(super) part: u32,
    /// Multiples of [`WINDOW_NS`].
    number: u64,
    /// Those that may hold its samples.
    blocks: Vec<&'a Entry>,
}

/// Lists the windows in which there may be a sample that is wanted, by session and time.
pub(super) fn windows(selection: Selection<'_>) -> Vec<TimeWindow<'_>> {
    let tables = selection.tables;
    let mut windows: BTreeMap<(u32, u64), Vec<&Entry>> = BTreeMap::new();
    for entry in &tables.sample_blocks {
        let part = tables.parts.of(entry).number();
        let first = entry.header.first_ns / WINDOW_NS;
        let last = (entry.header.last_ns / WINDOW_NS).min(first + MAX_BLOCK_SPAN_NS / WINDOW_NS + 1);
        for number in first..=last {
            windows.entry((part, number)).or_default().push(entry);
        }
    }
    windows.retain(|_, blocks| blocks.iter().any(|entry| selection.may_be_in(entry)));
    windows.into_iter().map(|((part, number), blocks)| TimeWindow { part, number, blocks }).collect()
}

impl TimeWindow<'_> {
    /// Samples of this window that can be unwound, those of a thread together, in the order of the file.
    pub(super) fn threads(&self, recording: &Recording, selection: Selection<'_>) -> Vec<Vec<Sample>> {
        let tables = selection.tables;
        let shift_ns = tables.parts.part(self.part).time_ns(0);
        let mut threads = vec![Vec::new(); DIVISIONS];
        for entry in &self.blocks {
            // A block that is damaged is counted where its samples are.
            for sample in samples(recording, tables, entry).unwrap_or_default() {
                let is_here = (sample.time_ns - shift_ns.min(sample.time_ns)) / WINDOW_NS == self.number;
                if sample.snapshot != 0 && is_here && selection.wants_thread(sample.task) {
                    threads[tables.task(sample.task).tid as usize % DIVISIONS].push(sample);
                }
            }
        }
        threads.retain(|samples| !samples.is_empty());
        threads
    }
}
