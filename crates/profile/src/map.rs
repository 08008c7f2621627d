//! Hash tables of this crate. Recordings may be hostile, so a seed of this run hashes their keys; nothing depends on the order
//! inside a table.

use std::hash::Hash;

use foldhash::quality::RandomState;
use indexmap::IndexSet;

/// A hash table.
pub type Map<K, V> = std::collections::HashMap<K, V, RandomState>;

/// Stores each distinct value once, and identifies it by its position.
#[derive(Debug)]
pub struct Interned<T> {
    items: IndexSet<T, RandomState>,
}

impl<T: Eq + Hash> Default for Interned<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Eq + Hash> Interned<T> {
    /// Stores nothing yet.
    pub fn new() -> Self {
        Self::for_items(0)
    }

    /// Reserves memory for many values.
    pub(crate) fn for_items(expected: usize) -> Self {
        Self { items: IndexSet::with_capacity_and_hasher(expected, RandomState::default()) }
    }

    /// Returns the position of a value, and adds the value if it is new.
    pub fn intern(&mut self, item: T) -> u32 {
        self.items.insert_full(item).0 as u32
    }

    /// Returns the position of a value; `None` if it is not stored.
    pub fn find(&self, item: &T) -> Option<u32> {
        self.items.get_index_of(item).map(|position| position as u32)
    }

    /// Returns the value at a position.
    pub fn get(&self, position: u32) -> Option<&T> {
        self.items.get_index(position as usize)
    }

    /// Lists the values in the order of their positions.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &T> {
        self.items.iter()
    }

    /// Returns true if no value is stored.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the values in the order of their positions.
    pub fn into_items(self) -> Vec<T> {
        self.items.into_iter().collect()
    }
}
