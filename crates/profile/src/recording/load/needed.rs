//! Loads only the part of the trie that some stacks need: for a report on a second of hours, or on one process.

use std::collections::BTreeMap;

use icecore_format::block::Kind;
use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::{Block, Node};

use super::by_id::ById;
use super::{Decoded, decode};

/// Tells whether the blocks of the trie can be told apart without opening them: ids count up over one session, of
/// which nothing is missing.
pub fn is_possible(recording: &Recording) -> bool {
    let mut sessions = recording.entries().iter().filter(|entry| entry.header.kind == Kind::SESSION);
    let is_one = sessions.next().is_some_and(|entry| entry.header.sequence == 0) && sessions.next().is_none();
    // The leaf of a stack tells where to unwind from.
    let has_snapshots = recording.entries().iter().any(|entry| entry.header.kind == Kind::SNAPSHOTS);
    is_one && !has_snapshots && recording.damage().is_empty()
}

/// Finds the nodes of these stacks for tables that were loaded without any; `None` if the blocks of the trie do not
/// count on from each other, so that all of them must be opened.
///
/// # Cost
/// One block of the trie is opened at a time, the last first, and only if it holds a node that is needed.
pub fn nodes(recording: &Recording, stacks: impl Iterator<Item = u32>) -> Option<ById<Node>> {
    let blocks = blocks(recording)?;
    let block_of = |id: u32| blocks.partition_point(|(first, _)| *first <= id).checked_sub(1);
    let mut wanted: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    for id in stacks.filter(|id| *id != 0) {
        if let Some(block) = block_of(id) {
            wanted.entry(block).or_default().push(id);
        }
    }
    let mut loaded = Vec::new();
    while let Some((number, ids)) = wanted.pop_last() {
        let (first, entry) = &blocks[number];
        let (own, rows) = rows(recording, entry)?;
        if own != *first || rows.len() != entry.header.items as usize {
            return None;
        }
        for id in callers(&rows, *first, ids) {
            if let Some(block) = block_of(id) {
                wanted.entry(block).or_default().push(id);
            }
        }
        loaded.push((*first, rows));
    }
    Some(ById::from_blocks(loaded))
}

/// The blocks of the trie, each with the id that its first node should have.
fn blocks(recording: &Recording) -> Option<Vec<(u32, &Entry)>> {
    let stacks = || recording.entries().iter().filter(|entry| entry.header.kind == Kind::STACKS);
    let mut first = match stacks().next() {
        Some(entry) => rows(recording, entry)?.0,
        None => 1,
    };
    let number = |entry| {
        let entry: &Entry = entry;
        let own = first;
        first = first.saturating_add(entry.header.items);
        (own, entry)
    };
    Some(stacks().map(number).collect())
}

/// The first id and the nodes of a block; `None` if it is damaged or of a newer version.
fn rows(recording: &Recording, entry: &Entry) -> Option<(u32, Vec<Node>)> {
    match decode(recording, entry) {
        Decoded::Block(Block::Stacks(block)) => Some((block.first, block.rows)),
        _ => None,
    }
}

/// Lists the ids before a block to which some of its nodes lead.
fn callers(rows: &[Node], first: u32, ids: Vec<u32>) -> Vec<u32> {
    let mut seen = vec![false; rows.len()];
    let mut before = Vec::new();
    for id in ids {
        let mut next = id;
        // A parent has a smaller id than its child, so this ends.
        while let Some(at) = next.checked_sub(first).map(|at| at as usize).filter(|at| *at < rows.len()) {
            if std::mem::replace(&mut seen[at], true) {
                break;
            }
            next = rows[at].parent;
            if next != 0 && next < first {
                before.push(next);
            }
        }
    }
    before
}

#[cfg(test)]
mod tests {
    use icecore_format::records::{Location, SessionV1, StacksV1};
    use icecore_format::write::Writer;

    use super::*;
    use crate::recording::load::{Tables, load, load_without_nodes};
    use crate::stacks::locate::steps;

    /// Four blocks of ten nodes: node 2 calls node 12, that calls node 22, and so on; 35 is called by 3 alone.
    fn recording() -> Recording {
        recording_of([1, 11, 21, 31])
    }

    fn recording_of(firsts: [u32; 4]) -> Recording {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let mut writer = Writer::create(file.reopen().expect("ours"), [1; 16]).expect("writable");
        writer.append(&SessionV1::default()).expect("fits");
        for first in firsts {
            let parent = |id: u32| if id == 35 { 3 } else { id.saturating_sub(10) };
            let node = |id| Node { parent: parent(id), location: Location::Address(u64::from(id)) };
            let rows: Vec<Node> = (first..first + 10).map(node).collect();
            writer.append(&StacksV1::from_rows(first, &rows).expect("in order")).expect("fits");
        }
        writer.finish().expect("writable");
        Recording::open(file.path()).expect("own file")
    }

    #[test]
    fn ids_may_begin_anywhere_and_holes_are_noticed() {
        let mut part = load_without_nodes(&recording_of([2, 12, 22, 32]));
        part.nodes = nodes(&recording_of([2, 12, 22, 32]), [33].into_iter()).expect("ids count on");
        assert_eq!(addresses(&part, 33).len(), 4);
        assert!(nodes(&recording_of([1, 11, 41, 51]), [52].into_iter()).is_none());
    }

    fn addresses(tables: &Tables, stack: u32) -> Vec<Option<Location>> {
        steps(tables, stack).map(|step| step.location).collect()
    }

    #[test]
    fn the_nodes_that_a_stack_needs_are_loaded_and_no_other_block_is_opened() {
        let recording = recording();
        assert!(is_possible(&recording));
        let whole = load(&recording);
        for (stacks, blocks) in
            [(&[32][..], 4), (&[35], 2), (&[12, 5], 2), (&[3, 0], 1), (&[], 0), (&[99], 1)]
        {
            let mut part = load_without_nodes(&recording);
            assert!(part.nodes.is_empty());
            part.nodes = nodes(&recording, stacks.iter().copied()).expect("ids count on");
            assert_eq!(part.nodes.len(), blocks * 10, "{stacks:?}");
            for stack in stacks {
                assert_eq!(addresses(&part, *stack), addresses(&whole, *stack), "{stack}");
            }
        }
    }
}
