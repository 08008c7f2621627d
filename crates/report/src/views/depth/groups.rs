//! Groups of samples that are measured together.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::views::owners::Owners;
use icecore_analysis::depths::{Depths, Distribution, Entries, Outermost, Recursing, recursing};
use icecore_profile::map::Map;
use icecore_profile::named::names::Side;
use icecore_profile::named::{Profile, ProfileRow};

/// Samples of one owner, event and side.
pub(super) struct DepthGroup {
    pub(super) owner: u32,
    pub(super) event: u8,
    pub(super) side: Side,
    pub(super) depths: Distribution,
    /// Samples whose walk says how it ended.
    pub(super) told: u64,
    /// Those of them that end with the copy of the stack.
    pub(super) not_copied: u64,
    /// Those of them that end neither at a root nor at a cut.
    pub(super) broken: u64,
    /// The deepest stack: its frames, samples and position.
    pub(super) deepest: (u32, u64, u32),
}

/// Measures all samples that have a frame on a side; the group with the most samples comes first.
pub(super) fn groups(profile: &Profile, depths: &Depths, owners: &Owners) -> Vec<DepthGroup> {
    let mut known: Map<(u32, u8, Side), DepthGroup> = Map::default();
    for row in &profile.rows {
        for side in [Side::User, Side::Kernel] {
            let depth = depths.of(row.stack, side);
            if depth == 0 {
                continue;
            }
            let key = (owners.of_thread[row.thread as usize], row.event, side);
            let outermost = depths.outermost(row, side);
            known.entry(key).or_insert_with(|| DepthGroup::new(key)).add(row, depth, outermost);
        }
    }
    let mut groups: Vec<DepthGroup> = known.into_values().collect();
    groups.sort_by_key(|group| {
        let owner = &owners.keys[group.owner as usize];
        (Reverse(group.depths.count()), owner, group.event, group.side)
    });
    groups
}

impl DepthGroup {
    fn new((owner, event, side): (u32, u8, Side)) -> Self {
        Self {
            owner,
            event,
            side,
            depths: Distribution::default(),
            told: 0,
            not_copied: 0,
            broken: 0,
            deepest: (0, 0, 0),
        }
    }

    fn add(&mut self, row: &ProfileRow, depth: u32, outermost: Outermost) {
        self.depths.add(depth, row.samples, outermost.is_cut());
        self.told += if outermost.is_told() { row.samples } else { 0 };
        self.not_copied += if outermost == Outermost::NotCopied { row.samples } else { 0 };
        self.broken += if outermost == Outermost::Broken { row.samples } else { 0 };
        let (most, samples, _) = self.deepest;
        if (depth, row.samples) > (most, samples) {
            self.deepest = (depth, row.samples, row.stack);
        }
    }
}

/// Recursion in the samples of one event.
pub(super) struct EventRecursion {
    pub(super) event: u8,
    /// All samples of the event.
    pub(super) samples: u64,
    pub(super) found: Recursing,
}

/// Finds recursion in the samples of each event; what most samples have comes first.
pub(super) fn recursion(profile: &Profile, depths: &Depths) -> Vec<EventRecursion> {
    let mut events: BTreeMap<u8, u64> = BTreeMap::new();
    profile.rows.iter().for_each(|row| *events.entry(row.event).or_default() += row.samples);
    let of_event = |(event, samples): (u8, u64)| {
        let found = recursing(profile, depths, event).into_iter();
        found.map(move |found| EventRecursion { event, samples, found })
    };
    let mut rows: Vec<EventRecursion> = events.into_iter().flat_map(of_event).collect();
    rows.sort_by_key(|row| Reverse(row.found.repeats.count()));
    rows
}

/// The samples of one owner in interpreters of one language.
pub(super) struct Interpreted {
    pub(super) owner: u32,
    pub(super) language: &'static str,
    /// How often interpreters were entered again.
    pub(super) again: Distribution,
}

/// Counts how often interpreters were entered again; the owners with the most such samples come first.
pub(super) fn interpreters(
    profile: &Profile,
    depths: &Depths,
    owners: &Owners,
    entries: &[Entries],
) -> Vec<Interpreted> {
    let mut known: Map<(u32, &'static str), Distribution> = Map::default();
    for row in &profile.rows {
        let Some(Entries { language: Some(language), again, .. }) = entries.get(row.stack as usize) else {
            continue;
        };
        let is_cut = depths.outermost(row, Side::User).is_cut();
        known.entry((owners.of_thread[row.thread as usize], language)).or_default().add(
            *again,
            row.samples,
            is_cut,
        );
    }
    let row = |((owner, language), again)| Interpreted { owner, language, again };
    let mut rows: Vec<Interpreted> = known.into_iter().map(row).collect();
    rows.sort_by_key(|row| {
        let rank = Reverse((row.again.count_from(1), row.again.count()));
        (rank, &owners.keys[row.owner as usize], row.language)
    });
    rows
}
