//! Gives ids to values that repeat.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxHashMap;

/// Gives every distinct key an id, and hands over each new key once, to be written.
///
/// Memory is bounded: when the keys weigh as much as `room` allows, all are forgotten. Ids go on counting, so a forgotten key gets a
/// second id, which costs bytes and nothing else.
#[derive(Debug)]
pub(crate) struct Interner<K> {
    ids: FxHashMap<K, u32>,
    /// The weight of the keys in `ids`.
    held: usize,
    pending: Vec<K>,
    pending_weight: usize,
    next: u32,
    room: usize,
    weigh: fn(&K) -> usize,
}

impl<K: Hash + Eq + Clone> Interner<K> {
    /// Makes an interner that remembers `room` keys.
    pub(crate) fn new(first_id: u32, room: usize) -> Self {
        Self::weighing(first_id, room, |_| 1)
    }

    /// Makes an interner that remembers keys of the total weight `room`.
    pub(crate) fn weighing(first_id: u32, room: usize, weigh: fn(&K) -> usize) -> Self {
        let (ids, held, pending, pending_weight) = Default::default();
        Self { ids, held, pending, pending_weight, next: first_id, room, weigh }
    }

    /// Returns the id of a key; a new key gets the next one.
    pub(crate) fn id<Q>(&mut self, key: &Q) -> u32
    where
        K: Borrow<Q> + From<Q::Owned>,
        Q: Hash + Eq + ToOwned + ?Sized,
    {
        if let Some(id) = self.ids.get(key) {
            return *id;
        }
        if self.held >= self.room {
            self.ids.clear();
            self.held = 0;
        }
        let id = self.next;
        self.next = id.checked_add(1).expect("bug: more than 2³² distinct keys in one recording");
        let key = K::from(key.to_owned());
        let weight = (self.weigh)(&key);
        self.held += weight;
        self.pending_weight += weight;
        self.ids.insert(key.clone(), id);
        self.pending.push(key);
        id
    }

    /// Returns the id of a key; `None` if it has none.
    pub(crate) fn find<Q>(&self, key: &Q) -> Option<u32>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.ids.get(key).copied()
    }

    /// Forgets all keys, to give back their memory.
    pub(crate) fn forget(&mut self) {
        (self.ids, self.held) = Default::default();
    }

    /// Returns the weight of the keys that were not handed over yet.
    pub(crate) fn waiting(&self) -> usize {
        self.pending_weight
    }

    /// Hands over the keys that are new since the last call, and the id of the first.
    pub(crate) fn take_new(&mut self) -> (u32, Vec<K>) {
        let new = std::mem::take(&mut self.pending);
        self.pending_weight = 0;
        (self.next - new.len() as u32, new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_keeps_its_id_and_is_handed_over_once() {
        let mut names = Interner::<Vec<u8>>::new(1, 10);
        assert_eq!((names.id(&b"a"[..]), names.id(&b"b"[..]), names.id(&b"a"[..])), (1, 2, 1));
        assert_eq!(names.take_new(), (1, vec![b"a".to_vec(), b"b".to_vec()]));
        assert_eq!(names.id(&b"c"[..]), 3);
        assert_eq!(names.take_new(), (3, vec![b"c".to_vec()]));
        assert_eq!(names.take_new(), (4, vec![]));
    }

    #[test]
    fn memory_is_bounded_and_ids_never_mean_two_things() {
        let mut names = Interner::<u64>::new(0, 2);
        let first: Vec<u32> = [10, 11, 12, 10].iter().map(|key| names.id(key)).collect();
        assert_eq!(first, [0, 1, 2, 3]);
        assert!(names.ids.len() <= 2);
        let mut long = Interner::<Vec<u8>>::weighing(0, 10, Vec::len);
        let ids = [&b"1234567"[..], b"1234567", b"abcdefg", b"1234567"].map(|key| long.id(key));
        assert_eq!((ids, long.waiting()), ([0, 0, 1, 0], 14));
        assert_eq!((long.id(&b"x"[..]), long.ids.len(), long.waiting()), (2, 1, 15));
        assert_eq!((long.take_new().1.len(), long.waiting()), (3, 0));
    }
}
