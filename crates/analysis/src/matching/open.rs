//! Functions of both sides while they are being matched: those that are still open, and pairs.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::Hash;

use icecore_profile::map::Map;

/// A function of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// Its own name, demangled.
    pub name: &'a str,
    /// Path of its image, or a substitute; `None` if the image is unknown.
    pub image: Option<&'a str>,
    /// Build-id of its image; empty if unknown.
    pub build_id: &'a [u8],
    /// Its source file, if known.
    pub file: Option<&'a str>,
    /// What tells it apart from other functions of its name, in every build; `None` if nothing needs to.
    pub twin: Option<&'a str>,
}

/// The evidence that the items of a group are one function, in order of decreasing certainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clue {
    /// Equal names in images with one key. Groups with items of one side only have this value, too.
    Name,
    /// Equal [`function`](super::function) keys in images of one key.
    Decoration,
    /// Equal except for numbers of closures, and nothing else matches.
    Number,
    /// Equal in everything that two manglings of Rust have in common.
    Mangling,
    /// Equal except for the types of parameters and of the result; the only such function on either side.
    Signature,
    /// Equal in another image; the only such function on either side.
    Image,
}

/// One function: positions of its items, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Empty if the function is new.
    pub before: Vec<usize>,
    /// Empty if the function is gone.
    pub after: Vec<usize>,
    /// The evidence.
    pub by: Clue,
}

impl Group {
    /// Returns true if the group has items of both sides.
    pub fn is_pair(&self) -> bool {
        !self.before.is_empty() && !self.after.is_empty()
    }
}

/// Items of one side that have one key.
#[derive(Debug)]
pub(super) struct Single<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) image: Option<&'a str>,
    pub(super) file: Option<&'a str>,
    pub(super) positions: Vec<usize>,
    /// Only an equal key in the same image matches.
    pub(super) is_final: bool,
}

/// Joined items.
#[derive(Debug)]
pub(super) struct Pair<'a> {
    pub(super) sides: [Vec<Single<'a>>; 2],
    pub(super) by: Clue,
}

/// The state of matching: what is matched, and what remains.
#[derive(Debug)]
pub(super) struct Open<'a> {
    pub(super) before: Vec<Single<'a>>,
    pub(super) after: Vec<Single<'a>>,
    pub(super) pairs: Vec<Pair<'a>>,
}

impl Pair<'_> {
    fn positions(&self) -> [Vec<usize>; 2] {
        self.sides.each_ref().map(|singles| {
            let mut positions: Vec<usize> =
                singles.iter().flat_map(|single| &single.positions).copied().collect();
            positions.sort_unstable();
            positions
        })
    }
}

impl<'a> Open<'a> {
    /// Joins remaining items that have one key on both sides, if `accept` agrees.
    pub(super) fn join<K: Hash + Eq>(
        &mut self,
        by: Clue,
        key: impl Fn(&Single<'a>) -> Option<K>,
        is_accepted: impl Fn(&[&Single<'_>], &[&Single<'_>]) -> bool,
    ) {
        let mut families: Map<K, [Vec<usize>; 2]> = Map::default();
        for (side, singles) in [&self.before, &self.after].into_iter().enumerate() {
            for (position, single) in singles.iter().enumerate() {
                if let Some(key) = key(single) {
                    families.entry(key).or_default()[side].push(position);
                }
            }
        }
        // For each remaining item, the pair that it joins.
        let mut pair_of = [vec![None; self.before.len()], vec![None; self.after.len()]];
        for family in families.into_values() {
            let before: Vec<_> = family[0].iter().map(|position| &self.before[*position]).collect();
            let after: Vec<_> = family[1].iter().map(|position| &self.after[*position]).collect();
            if before.is_empty() || after.is_empty() || !is_accepted(&before, &after) {
                continue;
            }
            for (side, positions) in family.iter().enumerate() {
                positions.iter().for_each(|position| pair_of[side][*position] = Some(self.pairs.len()));
            }
            self.pairs.push(Pair { sides: [Vec::new(), Vec::new()], by });
        }
        self.take(pair_of);
    }

    /// Adds remaining items to the only pair that has their key, if `accept` agrees.
    pub(super) fn attach<K: Hash + Eq>(
        &mut self,
        by: Clue,
        key: impl Fn(&Single<'a>) -> Option<K>,
        is_accepted: impl Fn(&[&Single<'_>], &[&Single<'_>]) -> bool,
    ) {
        let mut pairs_of: Map<K, BTreeSet<usize>> = Map::default();
        for (position, pair) in self.pairs.iter().enumerate() {
            for key in pair.sides.iter().flatten().filter_map(&key) {
                pairs_of.entry(key).or_default().insert(position);
            }
        }
        let pair_of = [(0, &self.before), (1, &self.after)].map(|(own, singles)| {
            let pair_of = |single: &Single<'a>| {
                let pairs = pairs_of.get(&key(single)?)?;
                let pair = *pairs.first().filter(|_| pairs.len() == 1)?;
                let [before, after] = [0, 1].map(|side| {
                    let with = (side == own).then_some(single);
                    self.pairs[pair].sides[side].iter().chain(with).collect::<Vec<_>>()
                });
                is_accepted(&before, &after).then_some(pair)
            };
            singles.iter().map(pair_of).collect::<Vec<Option<usize>>>()
        });
        for pair in pair_of.iter().flatten().flatten() {
            self.pairs[*pair].by = by;
        }
        self.take(pair_of);
    }

    /// Moves remaining items into pairs.
    fn take(&mut self, pair_of: [Vec<Option<usize>>; 2]) {
        for (side, pair_of) in pair_of.into_iter().enumerate() {
            let left = if side == 0 { &mut self.before } else { &mut self.after };
            for (single, pair) in std::mem::take(left).into_iter().zip(pair_of) {
                match pair {
                    Some(pair) => self.pairs[pair].sides[side].push(single),
                    None => left.push(single),
                }
            }
        }
    }

    pub(super) fn into_groups(self) -> Vec<Group> {
        let gone = self.before.into_iter().map(|it| Group {
            before: it.positions,
            after: Vec::new(),
            by: Clue::Name,
        });
        let new = self.after.into_iter().map(|it| Group {
            before: Vec::new(),
            after: it.positions,
            by: Clue::Name,
        });
        let pairs = self.pairs.into_iter().map(|pair| {
            let [before, after] = pair.positions();
            Group { before, after, by: pair.by }
        });
        let mut groups: Vec<Group> = pairs.chain(gone).chain(new).collect();
        let first = |side: &[usize]| side.first().copied().unwrap_or(usize::MAX);
        groups.sort_by_key(|group| (first(&group.before), first(&group.after)));
        groups
    }
}
