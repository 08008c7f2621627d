//! Groups the rows of two recordings that are one function.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashSet};

use super::dialect::{self, Dialects, dialect};
use super::moved;
use super::names::is_address;
use super::numbers::unnumbered;
use super::open::{Clue, Group, Item, Open, Single};
use super::parameters::without_parameters;
use super::twins::marked;
use super::{ImageKeys, function};
use icecore_profile::map::Map;

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
        let key = item.twin.map_or_else(|| key.clone(), |twin| marked(&key, twin).into());
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

#[cfg(test)]
mod tests;
