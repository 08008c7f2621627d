//! Who has the room for unwind tables in the sampler.
//!
//! ```text
//! a table that does not fit ─► plan: tables with fewer hits for their size give way ─► take
//!                                └─ there are none: refuse ─► its hits are counted, and it is planned anew from time to time
//! ```
//!
//! What a table saves are copies of stacks, one for each hit; what it costs is its size. Half of the room is the share of each user: who has
//! more gives way to anybody, whatever the hits, and beyond it takes room from nobody but himself, or of tables without hits.

use std::collections::BTreeMap;
use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::kernel::wire::FileKey;

/// How many times more hits for its size a table must have than one that gives way: else two tables would take turns.
const CLEARLY: f64 = 2.0;

/// The room: chunks, and the numbers by which the sampler counts hits.
#[derive(Debug)]
pub(super) struct Room {
    files: FxHashMap<FileKey, Held>,
    /// Chunks that are taken, by the first one of a file.
    taken: BTreeMap<u32, (u32, FileKey)>,
    numbers: Vec<u32>,
    chunks: u32,
}

/// What a file has in the sampler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Held {
    /// By which the sampler counts its hits.
    pub(super) number: u32,
    /// None if it has no tables, or no room for them.
    pub(super) chunks: Range<u32>,
    /// How many it needs; 0 if it has no tables.
    pub(super) needs: u32,
    /// Whose process asked for it first, a user id.
    pub(super) user: u32,
    /// How often walks came to its code lately.
    pub(super) hits: u64,
}

/// A file that wants room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) file: FileKey,
    pub(super) needs: u32,
    pub(super) user: u32,
    pub(super) hits: u64,
}

impl Held {
    fn has_room(&self) -> bool {
        !self.chunks.is_empty()
    }
}

impl Room {
    /// Makes room for so many chunks and files.
    pub(super) fn new(chunks: u32, files: u32) -> Self {
        let (held, taken) = Default::default();
        Self { files: held, taken, numbers: (0..files).rev().collect(), chunks }
    }

    /// Returns the files that must give way so that another one has room, or at least a number; `None` if none must that it may displace.
    pub(super) fn plan(&self, wanted: &Wanted) -> Option<Vec<FileKey>> {
        let (mut hole, mut has_number) = (self.hole(wanted.needs).is_some(), !self.numbers.is_empty());
        let needs_room = !hole;
        // Where only a number is missing, size does not count, and nobody who has room gives it up for that if others have none.
        let worth = |hits: u64, chunks: u32| hits as f64 / f64::from(if needs_room { chunks + 1 } else { 1 });
        let of = |held: &Held| worth(held.hits, held.chunks.len() as u32);
        let mut used = self.used();
        let own = used.get(&wanted.user).copied().unwrap_or(0);
        let is_within = own + wanted.needs <= self.share();
        let is_beyond = |held: &Held, used: &FxHashMap<u32, u32>| {
            let used = used.get(&held.user).copied().unwrap_or(0);
            needs_room && held.user != wanted.user && used > self.share()
        };
        let mut others: Vec<(&FileKey, &Held)> =
            self.files.iter().filter(|(file, _)| **file != wanted.file).collect();
        others.sort_by(|one, other| of(one.1).total_cmp(&of(other.1)).then(one.0.0.cmp(&other.0.0)));
        others.sort_by_key(|(_, held)| if needs_room { !is_beyond(held, &used) } else { held.has_room() });
        let (mut plan, mut free) = (Vec::new(), self.taken.clone());
        for (file, held) in others {
            if hole && has_number {
                break;
            }
            let gives_way = held.hits == 0
                || is_within && is_beyond(held, &used)
                || (is_within || held.user == wanted.user)
                    && of(held) * CLEARLY <= worth(wanted.hits, wanted.needs);
            let helps = !has_number || held.has_room() && !hole;
            if !gives_way || !helps {
                continue;
            }
            *used.entry(held.user).or_default() -= held.chunks.len() as u32;
            if held.has_room() {
                free.remove(&held.chunks.start);
            }
            plan.push(*file);
            has_number = true;
            hole = hole || around(&free, held.chunks.start, self.chunks).len() >= wanted.needs as usize;
        }
        (hole && has_number).then_some(plan)
    }

    /// Takes back what a file has.
    pub(super) fn give_up(&mut self, file: &FileKey) -> Option<Held> {
        let held = self.files.remove(file)?;
        if held.has_room() {
            self.taken.remove(&held.chunks.start);
        }
        self.numbers.push(held.number);
        Some(held)
    }

    /// Gives a file a number, and room if it `has_room`; `None` if there is none.
    pub(super) fn take(&mut self, wanted: &Wanted, has_room: bool) -> Option<Held> {
        let chunks = if has_room { self.hole(wanted.needs)? } else { 0..0 };
        let &Wanted { file, needs, user, hits } = wanted;
        let held = Held { number: self.numbers.pop()?, chunks, needs, user, hits };
        if held.has_room() {
            self.taken.insert(held.chunks.start, (held.chunks.end, file));
        }
        self.files.insert(file, held.clone());
        Some(held)
    }

    /// Files, with what they have.
    pub(super) fn files(&self) -> impl Iterator<Item = (&FileKey, &Held)> {
        self.files.iter()
    }

    /// Adds the hits since the last time, of which `new` tells those of a number, to half of the earlier ones.
    pub(super) fn count(&mut self, mut new: impl FnMut(u32) -> u64) {
        self.files.values_mut().for_each(|held| held.hits = held.hits / 2 + new(held.number));
    }

    /// The most that a file may need, and that is a user's own.
    pub(super) fn share(&self) -> u32 {
        self.chunks / 2
    }

    /// Chunks by user.
    fn used(&self) -> FxHashMap<u32, u32> {
        let mut used = FxHashMap::default();
        self.files.values().for_each(|held| *used.entry(held.user).or_default() += held.chunks.len() as u32);
        used
    }

    /// Finds the first room for so many chunks.
    fn hole(&self, needs: u32) -> Option<Range<u32>> {
        let ends = self.taken.values().map(|(end, _)| *end);
        let starts = self.taken.keys().copied().chain([self.chunks]);
        let (first, _) =
            std::iter::once(0).chain(ends).zip(starts).find(|(end, start)| start - end >= needs)?;
        Some(first..first + needs)
    }
}

/// The room around a chunk that is free.
fn around(taken: &BTreeMap<u32, (u32, FileKey)>, at: u32, chunks: u32) -> Range<u32> {
    let before = taken.range(..at).next_back().map_or(0, |(_, (end, _))| *end);
    before..taken.range(at..).next().map_or(chunks, |(start, _)| *start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: u32 = 0;
    const ANN: u32 = 1000;

    fn wanted(number: u8, needs: u32, user: u32, hits: u64) -> Wanted {
        Wanted { file: FileKey([number; _]), needs, user, hits }
    }

    /// Puts a file into the room; returns what had to give way, or `None` if it was refused.
    fn put(room: &mut Room, wanted: &Wanted) -> Option<Vec<u8>> {
        let plan = room.plan(wanted)?;
        plan.iter().for_each(|file| _ = room.give_up(file).expect("it is there"));
        assert!(room.take(wanted, true).is_some_and(|held| held.chunks.len() == wanted.needs as usize));
        let mut ends: Vec<_> = room.files().map(|(_, held)| held.chunks.clone()).collect();
        ends.sort_by_key(|chunks| chunks.start);
        assert!(
            ends.is_sorted_by(|one, other| one.end <= other.start)
                && ends.iter().all(|chunks| chunks.end <= room.chunks)
        );
        let mut plan: Vec<u8> = plan.iter().map(|file| file.0[0]).collect();
        plan.sort_unstable();
        Some(plan)
    }

    fn filled(files: &[Wanted]) -> Room {
        let mut room = Room::new(100, 8);
        files.iter().for_each(|file| assert_eq!(put(&mut room, file), Some(vec![]), "{file:?}"));
        room
    }

    #[test]
    fn what_is_hit_less_for_its_size_gives_way() {
        let files = [
            wanted(1, 20, ROOT, 400),
            wanted(2, 50, ANN, 100),
            wanted(3, 10, ROOT, 90),
            wanted(5, 20, 2000, 900),
        ];
        assert_eq!(put(&mut filled(&files), &wanted(4, 20, ROOT, 100)), Some(vec![2]));
        assert_eq!(put(&mut filled(&files), &wanted(4, 20, ROOT, 30)), None, "its hits are not clearly more");
        assert_eq!(put(&mut filled(&files), &wanted(4, 30, 3000, 9000)), Some(vec![2]), "no more than that");
    }

    #[test]
    fn who_has_more_than_half_gives_way_to_others_and_takes_room_from_nobody_but_himself() {
        let full = || filled(&[wanted(1, 45, ANN, 9000), wanted(2, 30, ANN, 8000), wanted(3, 25, ROOT, 10)]);
        assert_eq!(put(&mut full(), &wanted(4, 10, ROOT, 1)), Some(vec![1]));
        assert_eq!(put(&mut full(), &wanted(4, 10, ANN, 90_000)), Some(vec![1]), "not that of root");
        assert_eq!(put(&mut full(), &wanted(4, 90, ANN, u64::MAX)), None);
        let mut idle = full();
        idle.count(|number| u64::from(number != 2) * 9000);
        idle.count(|number| u64::from(number != 2) * 9000);
        idle.count(|number| u64::from(number != 2) * 9000);
        idle.count(|number| u64::from(number != 2) * 9000);
        assert_eq!(put(&mut idle, &wanted(4, 25, ANN, 1)), Some(vec![3]), "nobody uses it");
    }

    #[test]
    fn files_without_tables_and_refused_ones_need_a_number_alone() {
        let mut room = filled(&[wanted(1, 100, ROOT, 50)]);
        for number in 2..9 {
            assert_eq!(room.plan(&wanted(number, 0, ANN, 1)), Some(vec![]));
            assert!(room.take(&wanted(number, 7, ANN, 1), false).is_some_and(|held| held.chunks.is_empty()));
        }
        assert_eq!(room.plan(&wanted(10, 0, ANN, 1)), None);
        assert_eq!(room.plan(&wanted(10, 0, ANN, 3)).map(|plan| plan.len()), Some(1));
        room.count(|_| 0);
        assert_eq!(room.plan(&wanted(10, 0, ROOT, 1)).map(|plan| plan.len()), Some(1));
        assert_eq!(room.files().count(), 8);
    }
}
