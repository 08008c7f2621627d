//! The small tables of a file: sessions, receipts, losses and files that were left out.

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{Block, Layout};

use super::parts::Parts;
use super::{Decoded, Skipped, Tables, decode, gather, skip};

/// Reads the outline of a recording; every other table stays empty, and payloads of other kinds are not looked at.
pub fn outline(recording: &Recording) -> Tables {
    let entries = recording.entries();
    let kinds = [Kind::SESSION, Kind::RECEIPT, Kind::TRIGGER, Kind::RATES, Kind::LOSSES, Kind::LEFT_OUT];
    let small: Vec<Entry> =
        entries.iter().filter(|entry| kinds.contains(&entry.header.kind)).copied().collect();
    let mut blocks: Vec<Decoded> = small.iter().map(|entry| decode(recording, entry)).collect();
    let (parts, part_of) = Parts::divide(&small, blocks.iter().map(Decoded::block));
    // Rows keep the numbers of their sessions, but for times: nothing of the outline is looked up by them.
    for (block, part) in blocks.iter_mut().zip(&part_of) {
        if let Decoded::Block(rows) = block
            && matches!(rows, Block::Rates(_))
        {
            parts.part(*part).shift(rows).expect("bug: changes of the rate have no ids");
        }
    }
    let part_of = part_of.into_iter().chain(std::iter::repeat(u32::MAX));
    let found = small.iter().zip(blocks).zip(part_of).map(|((entry, block), part)| (entry, block, part));
    let mut tables = gather(recording, found, parts);
    tables.skipped = skipped(entries);
    tables.sample_blocks = entries
        .iter()
        .filter(|entry| entry.header.kind == Kind::SAMPLES && is_readable(entry))
        .copied()
        .collect();
    tables
}

/// Lists the blocks that this build cannot interpret.
pub fn skipped(entries: &[Entry]) -> Vec<Skipped> {
    let mut skipped = Vec::new();
    entries.iter().filter(|entry| !is_readable(entry)).for_each(|entry| skip(&mut skipped, entry));
    skipped
}

fn is_readable(entry: &Entry) -> bool {
    Layout::of(&entry.header).is_some()
}
