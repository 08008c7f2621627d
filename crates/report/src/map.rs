//! Hash tables of this crate. Recordings may be hostile, so their keys are hashed with a seed of this run; nothing
//! depends on the order inside a table.

/// A hash table.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::quality::RandomState>;
