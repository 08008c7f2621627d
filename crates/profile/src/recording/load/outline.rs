//! The small tables of a file: sessions, receipts, losses and files that were left out.

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::Layout;

use super::parts::Parts;
use super::{Decoded, Skipped, Tables, decode, gather, skip};

/// Reads the outline of a recording; every other table stays empty, and payloads of other kinds are not looked at.
pub fn outline(recording: &Recording) -> Tables {
    let entries = recording.entries();
    let kinds = [Kind::SESSION, Kind::RECEIPT, Kind::TRIGGER, Kind::LOSSES, Kind::LEFT_OUT];
    let small: Vec<Entry> =
        entries.iter().filter(|entry| kinds.contains(&entry.header.kind)).copied().collect();
    let blocks: Vec<Decoded> = small.iter().map(|entry| decode(recording, entry)).collect();
    let (parts, _) = Parts::divide(&small, blocks.iter().map(Decoded::block));
    // Rows keep the numbers of their sessions: nothing of the outline is looked up by them.
    let found = small.iter().zip(blocks).map(|(entry, block)| (entry, block, 0));
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
