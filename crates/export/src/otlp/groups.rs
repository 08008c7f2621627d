//! Samples in groups: those with the same stack and attributes are one message, which has their times and weights.

use icecore_format::records::WalkEnd;
use icecore_profile::map::Interned;

use crate::exported::{Exported, ExportedSample};

/// What tells samples apart. Samples with different keys may have one identity, if the keys differ by what is not exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) part: u32,
    /// A position in the events that are exported.
    pub(super) event: usize,
    pub(super) site: u32,
    pub(super) thread: u32,
    pub(super) cpu: u16,
    pub(super) wait: Option<u32>,
    /// How the walk of the user stack ended, if the stack is incomplete.
    pub(super) incomplete: Option<WalkEnd>,
}

/// What samples of one group have in common.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    pub(super) part: u32,
    pub(super) event: usize,
    /// Positions in the dictionary.
    pub(super) stack: i32,
    pub(super) attributes: Vec<i32>,
}

/// The samples of an event of a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Profile {
    pub(super) part: u32,
    pub(super) event: usize,
    /// Numbers of groups.
    pub(super) groups: Vec<u32>,
}

/// The groups of all samples, in the order of their first samples.
pub(super) struct Groups {
    pub(super) identities: Vec<Identity>,
    /// Positions of samples, group by group, and the end of each group.
    positions: Vec<u32>,
    ends: Vec<usize>,
}

impl Groups {
    /// Groups all samples.
    pub(super) fn new(of: &Exported<'_>, identify: impl FnMut(&Key) -> Identity) -> Self {
        let key = |sample: ExportedSample<'_>| {
            let thread = of.thread(sample.row);
            let taken = sample.row.taken;
            Some(Key {
                part: thread.part,
                event: of.event(sample.row)?,
                site: sample.site,
                thread: sample.row.thread,
                cpu: sample.moment.cpu,
                wait: sample.row.wait,
                incomplete: (taken.is_walked() && !taken.rooted).then_some(taken.end),
            })
        };
        Self::of(of.samples().map(key), identify)
    }

    /// Groups samples by their keys; skips samples that have no key.
    fn of(samples: impl Iterator<Item = Option<Key>>, identify: impl FnMut(&Key) -> Identity) -> Self {
        let mut keys: Interned<Key> = Interned::new();
        let of_samples: Vec<Option<u32>> = samples.map(|key| Some(keys.intern(key?))).collect();
        let mut identities: Interned<Identity> = Interned::new();
        let keys = keys.into_items();
        let of_keys: Vec<u32> =
            keys.iter().map(identify).map(|identity| identities.intern(identity)).collect();
        let of_samples = || of_samples.iter().map(|key| Some(of_keys[(*key)? as usize]));
        let mut ends = vec![0usize; identities.len()];
        of_samples().flatten().for_each(|group| ends[group as usize] += 1);
        let mut begin = 0;
        for end in &mut ends {
            (begin, *end) = (begin + *end, begin);
        }
        let mut positions = vec![0u32; begin];
        for (position, group) in (0u32..).zip(of_samples()) {
            let Some(group) = group else { continue };
            let end = &mut ends[group as usize];
            positions[*end] = position;
            *end += 1;
        }
        Self { identities: identities.into_items(), positions, ends }
    }

    /// Lists the samples of a group, in the order of time.
    pub(super) fn samples(&self, group: u32) -> &[u32] {
        let begin = group.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.positions[begin..self.ends[group as usize]]
    }

    /// Lists the profiles, those of a session one after the other; of these first those for which `is_first` holds.
    pub(super) fn profiles(&self, is_first: impl Fn(usize) -> bool) -> Vec<Profile> {
        let order = |event: usize| (!is_first(event), event);
        let mut groups: Vec<u32> = (0..self.identities.len() as u32).collect();
        groups.sort_by_key(|group| {
            let identity = &self.identities[*group as usize];
            (identity.part, order(identity.event))
        });
        let mut profiles: Vec<Profile> = Vec::new();
        for group in groups {
            let Identity { part, event, .. } = self.identities[group as usize];
            match profiles.last_mut().filter(|last| (last.part, last.event) == (part, event)) {
                Some(last) => last.groups.push(group),
                None => profiles.push(Profile { part, event, groups: vec![group] }),
            }
        }
        profiles
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(part: u32, event: usize, site: u32) -> Key {
        Key { part, event, site, thread: 0, cpu: 0, wait: None, incomplete: None }
    }

    /// The stack of a site is what is left of it by 10.
    fn groups(keys: &[Option<Key>]) -> Groups {
        let identify = |key: &Key| Identity {
            part: key.part,
            event: key.event,
            stack: (key.site % 10).cast_signed(),
            attributes: Vec::new(),
        };
        Groups::of(keys.iter().copied(), identify)
    }

    #[test]
    fn a_group_has_all_its_samples_in_their_order() {
        let keys = [key(0, 0, 5), key(0, 0, 6), key(0, 0, 5), key(0, 1, 5)].map(Some);
        let groups = groups(&[&keys[..], &[None, keys[1]]].concat());
        assert_eq!([0, 1, 2].map(|group| groups.samples(group)), [&[0, 2][..], &[1, 5], &[3]]);
    }

    #[test]
    fn keys_with_one_identity_are_one_group() {
        let groups = groups(&[key(0, 0, 5), key(0, 0, 6), key(0, 0, 15), key(0, 0, 5)].map(Some));
        assert_eq!([0, 1].map(|group| groups.samples(group)), [&[0, 2, 3][..], &[1]]);
        assert_eq!(groups.identities.len(), 2);
    }

    #[test]
    fn a_profile_has_one_event_of_one_session() {
        let keys = [key(1, 0, 1), key(0, 0, 1), key(0, 1, 1), key(1, 0, 2), key(0, 0, 3)].map(Some);
        let profiles = groups(&keys).profiles(|event| event == 1);
        let profile = |part, event, groups: &[u32]| Profile { part, event, groups: groups.to_vec() };
        let expected = [profile(0, 1, &[2]), profile(0, 0, &[1, 4]), profile(1, 0, &[0, 3])];
        assert_eq!(profiles, expected, "the event that comes first, comes first in each session");
    }

    #[test]
    fn no_samples_make_no_profiles() {
        assert_eq!(groups(&[]).profiles(|_| true), []);
    }
}
