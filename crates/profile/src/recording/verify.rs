//! Checks everything in a recording, and says what is wrong with it.
//!
//! | room | what lives there |
//! |---|---|
//! | `block` | one block by itself: checksum, archive, rows, times |
//! | `ids` | what blocks refer to, in blocks in front of them |
//! | `runs` | ids as runs |
//!
//! File header, tail, index and the order of blocks were checked when the file was opened.

pub mod block;
mod ids;
mod runs;

use std::cmp::Ordering;

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::limits::MAX_DAMAGE;
use icecore_format::read::Recording;
use icecore_format::records::{Cause, LossesV1, Payload};
use rayon::prelude::*;

use crate::recording::counted::{self, Counted};
use crate::recording::load::Skipped;
use crate::recording::load::outline::skipped;
use block::Checked;
use icecore_text::quantity::{count, things};
use ids::SessionIds;

/// Number of blocks that are checked together. Only a small result is kept of each, not the payload.
const WINDOW: usize = 256;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Sequence number and kind of the block; `None` if the problem is in no block.
    pub block: Option<(u64, Kind)>,
    /// Where, bytes from the start of the file.
    pub off: u64,
    /// What is wrong, one sentence.
    pub cause: String,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Findings {
    /// What is wrong, in the order of the file; at most [`MAX_DAMAGE`].
    pub problems: Vec<Problem>,
    /// Problems beyond these.
    pub more: u64,
    /// A repaired copy would not have some of these problems.
    pub is_repairable: bool,
    /// Blocks that were lost before the file was repaired or merged, as it says itself. What refers to them is no
    /// problem.
    pub lost_blocks: u64,
    /// Samples that the receipts say there are; `None` without a receipt.
    pub samples_expected: Option<u64>,
    /// Blocks that were not checked beyond their checksum, since this build does not know them.
    pub skipped: Vec<Skipped>,
}

impl Findings {
    /// Tells whether nothing is wrong.
    pub fn is_ok(&self) -> bool {
        self.problems.is_empty()
    }

    fn add(&mut self, block: Option<&Entry>, off: u64, cause: String) {
        if self.problems.len() == MAX_DAMAGE {
            self.more += 1;
            return;
        }
        let block = block.map(|entry| (entry.header.sequence, entry.header.kind));
        self.problems.push(Problem { block, off, cause });
    }
}

/// Checks a recording.
///
/// # Cost
/// Every payload is decompressed and decoded once, in parallel; as many at once as there are threads.
pub fn verify(recording: &Recording) -> Findings {
    let mut found = Findings { skipped: skipped(recording.entries()), ..Findings::default() };
    for damage in recording.damage() {
        let len = if damage.len > 0 { format!("{}: ", things(damage.len, "byte")) } else { String::new() };
        found.add(None, damage.off, format!("{len}{}", damage.cause));
    }
    if !recording.is_closed() {
        let cause = "it is not closed: its recorder was stopped, or still runs";
        found.add(None, recording.len_bytes(), cause.to_owned());
    }
    if let Some(index) = recording.index()
        && block::is_unclean(recording, index)
    {
        found.add(Some(index), index.off, block::UNCLEAN.to_owned());
    }
    found.is_repairable = !found.is_ok();
    let counted = counted::sessions(recording);
    found.samples_expected = counted.iter().map(|session| session.expected).reduce(u64::saturating_add);
    let lost = lost_blocks(recording);
    found.lost_blocks = lost.iter().fold(0, |sum, lost| sum.saturating_add(*lost));
    let mut forgives = lost.iter().map(|lost| *lost > 0);
    let mut is_forgiven = forgives.next().unwrap_or(false);
    let mut order = SessionOrder::default();
    let mut ids = SessionIds::default();
    for window in recording.entries().chunks(WINDOW) {
        let checked: Vec<Checked> = window.par_iter().map(|entry| block::check(recording, entry)).collect();
        for (entry, checked) in window.iter().zip(checked) {
            if entry.header.kind == Kind::SESSION {
                ids = SessionIds::default();
                is_forgiven = forgives.next().unwrap_or(false);
            }
            let order = order.follow(entry).filter(|_| !is_forgiven);
            let ids = ids.follow(recording, entry, &checked, is_forgiven);
            let miscount =
                counted.iter().find(|session| session.receipt_off == entry.off).and_then(miscounted);
            found.is_repairable |=
                checked.is_repairable || miscount.as_ref().is_some_and(|(_, is_repairable)| *is_repairable);
            let miscount = miscount.map(|(cause, _)| cause);
            for cause in order.into_iter().chain(checked.problems).chain(ids).chain(miscount) {
                found.add(Some(entry), entry.off, cause);
            }
        }
    }
    found
}

/// Says that a session has other samples than its receipt counts, and whether a repaired copy would tell where they are.
fn miscounted(session: &Counted) -> Option<(String, bool)> {
    let Counted { in_file, expected, blocks_lost, .. } = *session;
    match in_file.cmp(&expected) {
        Ordering::Less if !blocks_lost => {
            let text = format!("{} of {} samples are in the file", count(in_file), count(expected));
            Some((format!("{text}: the others are lost, and nothing else says so"), true))
        }
        Ordering::Greater => {
            let text =
                format!("it has {}, and its receipt counts {}", things(in_file, "sample"), count(expected));
            Some((text, false))
        }
        _ => None,
    }
}

/// Counts the blocks that a repair or merge has found missing: those in front of the first session, then those of each.
fn lost_blocks(recording: &Recording) -> Vec<u64> {
    let mut lost = vec![0_u64];
    for entry in recording.entries() {
        match (entry.header.kind, entry.header.version) {
            (Kind::SESSION, _) => lost.push(0),
            (LossesV1::KIND, LossesV1::VERSION) => {
                // `block` reports blocks that cannot be read.
                let Ok(payload) = recording.payload(entry) else { continue };
                let Ok(losses) = payload.view::<LossesV1>() else { continue };
                let of_blocks = losses.rows().filter(|loss| loss.cause == Cause::BLOCKS_DAMAGED);
                let last = lost.last_mut().expect("bug: never empty");
                *last = of_blocks.fold(*last, |sum, loss| sum.saturating_add(loss.count));
            }
            _ => {}
        }
    }
    lost
}

/// Where sessions begin and end.
#[derive(Debug, Default)]
struct SessionOrder {
    in_session: bool,
    /// The problem that a session is missing was reported.
    is_said: bool,
}

impl SessionOrder {
    /// Returns what is wrong if a block cannot follow those before it.
    fn follow(&mut self, entry: &Entry) -> Option<String> {
        match entry.header.kind {
            Kind::SESSION => *self = Self { in_session: true, is_said: false },
            Kind::RECEIPT if self.in_session => self.in_session = false,
            _ if self.in_session || self.is_said => {}
            _ => {
                self.is_said = true;
                return Some("no session begins in front of it".to_owned());
            }
        }
        None
    }
}

#[cfg(test)]
mod tests;
