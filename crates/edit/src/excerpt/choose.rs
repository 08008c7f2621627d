//! Selects the samples of each block that pass the filters, under the numbers of their session.

use std::ops::Range;

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::{Damage, Recording};
use icecore_format::records::{Location, Node, Sample, SamplesV1};
use rayon::prelude::*;

use super::rows::SessionRows;
use icecore_profile::recording::load::parts::Part;
use icecore_profile::recording::load::{Tables, damage};
use icecore_profile::stacks::hits::Selection;
use icecore_profile::stacks::repair::RepairedStacks;

/// How many blocks are decoded at once, which bounds the memory.
const WINDOW: usize = 64;

/// The selected samples of one block.
pub(super) struct Chosen {
    /// The samples, in the order of the block.
    pub(super) samples: Vec<Sample>,
    /// Resolution of their times, ns.
    pub(super) unit_ns: u32,
    /// Expected time between two samples on one CPU, ns.
    pub(super) period_ns: u64,
}

/// A damaged block, and how many samples it had.
pub(super) type Broken = (Damage, u64);

/// Selects the samples of one session.
pub(super) struct Chooser<'a> {
    recording: &'a Recording,
    selection: Selection<'a>,
    part: &'a Part,
    grown: Option<GrownNodes<'a>>,
    blocks: Vec<&'a Entry>,
}

/// Nodes of unwound stacks, which follow all nodes of the session.
#[derive(Debug, Clone)]
pub(super) struct GrownNodes<'a> {
    repaired: &'a RepairedStacks,
    /// Their ids in the tables of the file.
    ids: Range<u32>,
    /// The id of the first among the rows of the session.
    first: u32,
}

impl<'a> GrownNodes<'a> {
    /// Adds the new nodes of a session to its rows.
    pub(super) fn add(
        tables: &Tables,
        repaired: &'a RepairedStacks,
        part: &Part,
        rows: &mut SessionRows,
    ) -> Self {
        let ids = repaired.ids_of_part(part.number());
        // If there is no number for the next node, the report has added none, either.
        let first = rows.nodes.next_id().unwrap_or(u32::MAX).max(1);
        let grown = Self { repaired, ids, first };
        let own = |id: u32| {
            let node = tables.nodes.find(id)?;
            let location = match node.location {
                Location::Image { image, file_off } => {
                    Location::Image { image: tables.parts.of_image(image).1, file_off }
                }
                address => address,
            };
            Some(Node { parent: grown.own_id(node.parent).unwrap_or(0), location })
        };
        rows.nodes.push(first, grown.ids.clone().map_while(own).collect());
        // Nodes of the file may have marks that came from unwind tables, which the new file lacks.
        let marks = tables.marks.iter().filter_map(|(id, mark)| match grown.own_id(*id) {
            Some(id) => Some((id, *mark)),
            None if repaired.is_new(*id) => None,
            None => Some(tables.parts.own_node(*id))
                .filter(|(of, _)| *of == part.number())
                .map(|(_, id)| (id, *mark)),
        });
        rows.marks.extend(marks);
        grown
    }

    /// Returns the id of a stack among the rows of the session; `None` if the stack is not new.
    fn own_id(&self, id: u32) -> Option<u32> {
        self.ids.contains(&id).then(|| self.first.saturating_add(id - self.ids.start))
    }
}

impl<'a> Chooser<'a> {
    /// Creates a chooser. With `grown`, samples get their repaired stacks, and no snapshots.
    pub(super) fn new(
        recording: &'a Recording,
        selection: Selection<'a>,
        part: &'a Part,
        grown: Option<GrownNodes<'a>>,
    ) -> Self {
        let all = selection.tables.sample_blocks.iter();
        let of_part = |entry: &&Entry| selection.tables.parts.of(entry).number() == part.number();
        Self { recording, selection, part, grown, blocks: all.filter(of_part).collect() }
    }

    /// Passes the selected samples of every block to `take`, in the order of the file.
    pub(super) fn each(
        &self,
        mut then: impl FnMut(Result<Chosen, Broken>) -> Result<(), icecore_format::Error>,
    ) -> Result<(), icecore_format::Error> {
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
        samples.retain(|sample| self.selection.key(&self.part.row(*sample)).is_some());
        if let Some(grown) = &self.grown {
            samples.iter_mut().for_each(|sample| *sample = self.unwound(grown, *sample));
        }
        let unit_ns = view.unit_ns.to_native();
        let period_ns = view.period.to_native().saturating_mul(u64::from(unit_ns));
        Ok(Chosen { samples, unit_ns, period_ns })
    }

    /// Returns a sample with its repaired stack.
    fn unwound(&self, grown: &GrownNodes<'_>, sample: Sample) -> Sample {
        let Sample { user_stack, user_end, repair, .. } = grown.repaired.sample(self.part.row(sample));
        let user_stack = grown.own_id(user_stack).unwrap_or(sample.user_stack);
        Sample { user_stack, user_end, repair, snapshot: 0, ..sample }
    }

    /// Counts all samples of the session.
    pub(super) fn items(&self) -> u64 {
        self.blocks.iter().map(|entry| u64::from(entry.header.items)).sum()
    }

    /// Counts the samples of blocks that were not found whole.
    pub(super) fn lost(&self) -> u64 {
        let parts = &self.selection.tables.parts;
        let lost = self.recording.lost().iter().filter(|entry| entry.header.kind == Kind::SAMPLES);
        let lost = lost.filter(|entry| parts.of(entry).number() == self.part.number());
        lost.map(|entry| u64::from(entry.header.items)).sum()
    }

    /// Returns the latest time of a sample.
    pub(super) fn last_ns(&self) -> u64 {
        self.blocks.iter().map(|entry| entry.header.last_ns).max().unwrap_or(0)
    }
}
