//! The hash table of this crate. Files and recordings may be hostile, so keys are hashed with a seed of this run; nothing depends on
//! the order inside a table.

/// A hash table.
pub(crate) type Map<K, V> = std::collections::HashMap<K, V, foldhash::quality::RandomState>;
