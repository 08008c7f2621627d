//! What blocks refer to: ids of strings, tasks, images, stacks and so on that blocks in front of them define.

use std::collections::{BTreeMap, HashMap};

use icecore_format::index::Entry;
use icecore_format::read::Recording;
use icecore_format::records::IdTable;

use super::block::{Checked, row_hashes};
use super::runs::Runs;

/// How often two definitions of one id are compared: a hostile file may consist of such definitions only.
const MAX_COMPARED: u32 = 1_000;

/// The ids of one session so far.
#[derive(Debug, Default)]
pub(super) struct SessionIds {
    tables: HashMap<IdTable, Defined>,
    /// Events of the session; unknown without one.
    events: Option<u32>,
    compared: u32,
}

/// Ids that are defined.
#[derive(Debug, Default)]
struct Defined {
    /// First to last; runs neither touch nor overlap.
    runs: BTreeMap<u32, u32>,
    /// What each block defines, in the order of the file.
    blocks: Vec<(u32, u32, Entry)>,
}

impl SessionIds {
    /// Says what a block refers to that is not there, unless that is forgiven, and takes note of what it defines.
    pub(super) fn follow(
        &mut self,
        recording: &Recording,
        entry: &Entry,
        checked: &Checked,
        is_forgiven: bool,
    ) -> Vec<String> {
        let mut causes = Vec::new();
        if checked.events.is_some() {
            self.events = checked.events;
        }
        if let (Some(events), Some(event)) = (self.events, checked.last_event)
            && u32::from(event) >= events
        {
            causes.push(format!("refers to event {event}, and the session has {events}"));
        }
        for (table, used) in checked.uses.iter().filter(|_| !is_forgiven) {
            let missing =
                self.tables.get(table).map_or_else(|| used.clone(), |defined| defined.missing(used));
            let count: u64 = missing.iter().map(|(first, last)| u64::from(last - first) + 1).sum();
            if let Some((first, _)) = missing.first() {
                let name = table.name();
                causes.push(format!(
                    "refers to {count} {name} that no block in front of it has, the first is {first}"
                ));
            }
        }
        if let Some((table, first, last)) = checked.defines {
            causes.extend(self.define(recording, entry, table, first, last));
        }
        causes
    }

    fn define(
        &mut self,
        recording: &Recording,
        entry: &Entry,
        table: IdTable,
        first: u32,
        last: u32,
    ) -> Option<String> {
        let defined = self.tables.entry(table).or_default();
        let overlaps = |(a, b, _): &&(u32, u32, Entry)| *a <= last && first <= *b;
        let is_new = defined.is_free(first, last);
        let before = if is_new || self.compared >= MAX_COMPARED {
            None
        } else {
            defined.blocks.iter().rfind(overlaps)
        };
        let wrong = before.and_then(|(start, end, earlier)| {
            self.compared += 1;
            let (from, to) = (first.max(*start), last.min(*end));
            let meaning = |entry: &Entry, at: u32| {
                let hashes = row_hashes(recording, entry)?;
                hashes.get((from - at) as usize..=(to - at) as usize).map(<[u64]>::to_vec)
            };
            let is_same = meaning(earlier, *start) == meaning(entry, first);
            let (name, number) = (table.name(), earlier.header.sequence);
            (!is_same).then(|| format!("{name} {from} to {to} are something else in block {number}"))
        });
        defined.blocks.push((first, last, *entry));
        defined.insert(first, last);
        wrong
    }
}

impl Defined {
    fn is_free(&self, first: u32, last: u32) -> bool {
        self.runs.range(..=last).next_back().is_none_or(|(_, end)| *end < first)
    }

    fn insert(&mut self, mut first: u32, mut last: u32) {
        while let Some((start, end)) = self.runs.range(..=last.saturating_add(1)).next_back() {
            let (start, end) = (*start, *end);
            if end < first.saturating_sub(1) {
                break;
            }
            self.runs.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.runs.insert(first, last);
    }

    /// The part of some runs that is not defined.
    fn missing(&self, used: &[(u32, u32)]) -> Runs {
        let mut missing = Runs::new();
        for (first, last) in used {
            let mut from = u64::from(*first);
            let to = u64::from(*last);
            let before = self.runs.range(..=first).next_back().map(|(start, _)| *start).unwrap_or(*first);
            for (start, end) in self.runs.range(before..=*last) {
                if u64::from(*start) > from {
                    missing.push((from as u32, start - 1));
                }
                from = from.max(u64::from(*end) + 1);
            }
            if from <= to {
                missing.push((from as u32, *last));
            }
        }
        missing
    }
}

#[cfg(test)]
mod tests {
    use super::super::runs::runs;
    use super::*;

    fn defined(runs: &[(u32, u32)]) -> Defined {
        let mut defined = Defined::default();
        runs.iter().for_each(|(first, last)| defined.insert(*first, *last));
        defined
    }

    #[test]
    fn neighbours_become_one_run() {
        assert_eq!(runs(vec![7, 1, 2, 2, 3, u32::MAX]), [(1, 3), (7, 7), (u32::MAX, u32::MAX)]);
        assert_eq!(runs(vec![u32::MAX, 90, 70, 71, u32::MAX - 1, 90][1..].to_vec()).len(), 3);
        assert_eq!(runs(vec![70, 7, 6, 70, 69, 131]), [(6, 7), (69, 70), (131, 131)]);
        assert_eq!((runs(vec![]), runs(vec![u32::MAX])), (vec![], vec![(u32::MAX, u32::MAX)]));
        let joined = defined(&[(5, 9), (0, 4), (20, 30), (8, 21), (u32::MAX, u32::MAX)]);
        assert_eq!(joined.runs.into_iter().collect::<Runs>(), [(0, 30), (u32::MAX, u32::MAX)]);
    }

    #[test]
    fn what_is_missing_is_what_no_run_has() {
        let defined = defined(&[(5, 9), (20, 30)]);
        assert_eq!(defined.missing(&[(5, 9), (22, 23)]), []);
        assert_eq!(defined.missing(&[(0, 40)]), [(0, 4), (10, 19), (31, 40)]);
        assert_eq!(defined.missing(&[(9, 10), (u32::MAX, u32::MAX)]), [(10, 10), (u32::MAX, u32::MAX)]);
        assert!(defined.is_free(10, 19) && !defined.is_free(9, 19) && !defined.is_free(0, 100));
    }

    proptest::proptest! {
        #[test]
        fn runs_know_what_a_set_knows(runs in proptest::collection::vec((0u32..60, 0u32..9), 0..9), from in 0u32..60, len in 0u32..30) {
            let runs: Runs = runs.into_iter().map(|(first, len)| (first, first + len)).collect();
            let has = |id: u32| runs.iter().any(|(first, last)| (*first..=*last).contains(&id));
            let missing = defined(&runs).missing(&[(from, from + len)]);
            let missing: Vec<u32> = missing.into_iter().flat_map(|(first, last)| first..=last).collect();
            let expected: Vec<u32> = (from..=from + len).filter(|id| !has(*id)).collect();
            proptest::prop_assert_eq!(missing, expected);
        }
    }
}
