//! Groups the rows of two recordings that are one function.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};
use std::hash::Hash;

use super::dialect::{self, Dialects, dialect};
use super::moved;
use super::names::is_address;
use super::numbers::unnumbered;
use super::parameters::without_parameters;
use super::{ImageKeys, function};
use icecore_profile::map::Map;

/// A function of one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// The name, as it is shown to people.
    pub name: &'a str,
    /// Path of its image, or a substitute; `None` if the image is unknown.
    pub image: Option<&'a str>,
    /// Build-id of its image; empty if unknown.
    pub build_id: &'a [u8],
    /// Its source file, if known.
    pub file: Option<&'a str>,
}

/// The evidence that the items of a group are one function, in order of decreasing certainty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clue {
    /// Equal names in images with one key. Groups with items of one side only have this value, too.
    Name,
    /// Equal [`function`] keys in images of one key.
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

/// Groups the functions of two sides; every item is in exactly one group.
///
/// Items with one key are one group, on one side or both. Groups with one side only are joined if a less strict key matches:
/// without numbers, then without types that manglings encode differently, then without parameters, then in another image. In builds
/// that both sides have, decorations do not differ: their functions, and their addresses, match by name or not at all.
///
/// # Shape   by the first position before, then after; exchanging the sides exchanges them in every group
/// # Cost    O(n log n), some regular expressions per item
pub fn matched(before: &[Item<'_>], after: &[Item<'_>]) -> Vec<Group> {
    grouped(
        before,
        after,
        &ImageKeys::of(before.iter().chain(after).filter_map(|item| Some((item.image?, item.build_id)))),
    )
}

fn grouped<'k>(before: &[Item<'k>], after: &[Item<'k>], images: &'k ImageKeys<'_>) -> Vec<Group> {
    let mut open = Open {
        before: singles(before, after, images),
        after: singles(after, before, images),
        pairs: Vec::new(),
    };
    open.join(Clue::Decoration, |it| Some((it.key.clone(), it.image)), |_, _| true);
    for pair in &mut open.pairs {
        let [a, b] = [(before, 0), (after, 1)].map(|(items, side)| -> BTreeSet<&str> {
            let positions = pair.sides[side].iter().flat_map(|single| &single.positions);
            positions.map(|position| items[*position].name).collect()
        });
        if a == b {
            pair.by = Clue::Name;
        }
    }
    let loose = |it: &Single<'_>| (!it.is_final).then(|| unnumbered(&it.key).into_owned());
    open.join(Clue::Number, |it| Some((loose(it)?, it.image)), |_, _| true);

    let dialects = [before, after].map(|items| Dialects::of(items, images));
    // Translation applies to no other images, and to no names that are equal in both manglings.
    let is_translated = |before: &[&Single<'_>], after: &[&Single<'_>]| {
        let image = before.first().and_then(|it| it.image);
        let written = |side: &[&Single<'_>]| side.iter().map(|it| dialect(&it.key)).collect::<BTreeSet<_>>();
        let is_one = written(before) == written(after) && !written(before).contains(&None);
        dialects[0].in_image(image) != dialects[1].in_image(image) && !is_one
    };
    for key in dialect::KEYS {
        let key = |it: &Single<'k>| Some((key(&loose(it)?), it.image));
        open.join(Clue::Mangling, key, is_translated);
        open.attach(Clue::Mangling, key, is_translated);
    }
    let without_parameters = |it: &Single<'k>| Some((without_parameters(&loose(it)?)?, it.image));
    open.join(Clue::Signature, without_parameters, |before, after| before.len() == 1 && after.len() == 1);
    let keys = |items: &[Item<'_>]| items.iter().filter_map(|item| images.key(item.image?)).collect();
    moved::join(&mut open, [keys(before), keys(after)]);
    open.into_groups()
}

/// The prefix of an offset in an image.
const OFFSET: &str = "+0x";

/// Items of one side that have one key.
#[derive(Debug)]
pub(super) struct Single<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) image: Option<&'a str>,
    pub(super) file: Option<&'a str>,
    positions: Vec<usize>,
    /// Only an equal key in the same image matches.
    pub(super) is_final: bool,
}

/// Joined items.
#[derive(Debug)]
struct Pair<'a> {
    sides: [Vec<Single<'a>>; 2],
    by: Clue,
}

/// The state of matching: what is matched, and what remains.
#[derive(Debug)]
pub(super) struct Open<'a> {
    pub(super) before: Vec<Single<'a>>,
    pub(super) after: Vec<Single<'a>>,
    pairs: Vec<Pair<'a>>,
}

fn singles<'a>(items: &[Item<'a>], others: &[Item<'_>], images: &'a ImageKeys<'_>) -> Vec<Single<'a>> {
    let other_builds: HashSet<&[u8]> = others.iter().map(|item| item.build_id).collect();
    let mut by_key: Map<(Cow<'a, str>, Option<&str>), usize> = Map::default();
    let mut singles: Vec<Single<'a>> = Vec::new();
    for (position, item) in items.iter().enumerate() {
        let is_final = !item.build_id.is_empty() && other_builds.contains(item.build_id);
        let key = match item.name.rfind(OFFSET).filter(|_| is_final && is_address(item.name)) {
            Some(at) => item.name[at..].into(),
            None => function(item.name),
        };
        let image = item.image.and_then(|path| images.key(path));
        let single = *by_key.entry((key.clone(), image)).or_insert_with(|| {
            singles.push(Single { key, image, file: None, positions: Vec::new(), is_final });
            singles.len() - 1
        });
        let single = &mut singles[single];
        single.file = single.file.or(item.file);
        single.is_final &= is_final;
        single.positions.push(position);
    }
    singles
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
    fn attach<K: Hash + Eq>(
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

    fn into_groups(self) -> Vec<Group> {
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

#[cfg(test)]
mod tests;
