//! Chooses samples: what the filters want of each block, under the numbers of its session.

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Sample, SamplesV1};
use rayon::prelude::*;

use crate::hits::Selection;
use crate::load::damage;
use crate::load::parts::Part;

/// Blocks that are decoded at once: bounds the memory.
const WINDOW: usize = 64;

/// The wanted samples of one block.
pub(super) struct Chosen {
    /// In the order of the block.
    pub(super) samples: Vec<Sample>,
    /// Resolution of their times, ns.
    pub(super) unit_ns: u32,
    /// Expected distance of two samples on one CPU, ns.
    pub(super) period_ns: u64,
}

/// A block that cannot be used, and the samples that it had.
pub(super) type Broken = (Damage, u64);

/// Chooses among the samples of one session.
pub(super) struct Chooser<'a> {
    recording: &'a Recording,
    selection: Selection<'a>,
    part: &'a Part,
    blocks: Vec<&'a Entry>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(recording: &'a Recording, selection: Selection<'a>, part: &'a Part) -> Self {
        let all = selection.tables.sample_blocks.iter();
        let of_part = |entry: &&Entry| selection.tables.parts.of(entry).number() == part.number();
        Self { recording, selection, part, blocks: all.filter(of_part).collect() }
    }

    /// Hands over the wanted samples of every block, in the order of the file.
    pub(super) fn each(
        &self,
        mut then: impl FnMut(Result<Chosen, Broken>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let may_hold: Vec<&Entry> =
            self.blocks.iter().copied().filter(|entry| self.selection.may_be_in(entry)).collect();
        for window in may_hold.chunks(WINDOW) {
            let chosen: Vec<_> = window.par_iter().map(|entry| self.choose(entry)).collect();
            chosen.into_iter().try_for_each(&mut then)?;
        }
        Ok(())
    }

    fn choose(&self, entry: &Entry) -> Result<Chosen, Broken> {
        let broken = |error| (damage(entry, &error), u64::from(entry.header.items));
        let payload = self.recording.payload(entry).map_err(broken)?;
        let view = payload.view::<SamplesV1>().map_err(broken)?;
        let mut samples = view.rows().map_err(broken)?;
        samples.retain(|sample| self.selection.key(&self.part.sample(*sample)).is_some());
        let unit_ns = view.unit_ns.to_native();
        let period_ns = view.period.to_native().saturating_mul(u64::from(unit_ns));
        Ok(Chosen { samples, unit_ns, period_ns })
    }

    /// Counts all samples of the session.
    pub(super) fn items(&self) -> u64 {
        self.blocks.iter().map(|entry| u64::from(entry.header.items)).sum()
    }

    /// Counts the samples of blocks that were not even found whole.
    pub(super) fn lost(&self) -> u64 {
        let parts = &self.selection.tables.parts;
        let lost = self.recording.lost().iter().filter(|entry| entry.header.kind == Kind::SAMPLES);
        let lost = lost.filter(|entry| parts.of(entry).number() == self.part.number());
        lost.map(|entry| u64::from(entry.header.items)).sum()
    }

    /// The latest time of a sample.
    pub(super) fn last_ns(&self) -> u64 {
        self.blocks.iter().map(|entry| entry.header.last_ns).max().unwrap_or(0)
    }
}
