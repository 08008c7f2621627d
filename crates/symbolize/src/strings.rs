//! Names and paths, each once: most functions of a program are in many of its units.

use std::sync::{Arc, Mutex, PoisonError};

use icecore_elf::demangled;

use crate::map::Map;

/// Tables that are locked apart, so that threads hardly ever wait for each other.
const SHARDS: usize = 16;

/// The longest name or path that is kept, bytes.
const MAX_LEN: usize = 64 << 10;

/// Strings by what they were read from.
#[derive(Debug, Default)]
pub(super) struct Strings {
    names: [Shard; SHARDS],
    paths: [Shard; SHARDS],
}

type Shard = Mutex<Map<Box<[u8]>, Arc<str>>>;

impl Strings {
    /// A name, demangled once.
    pub(super) fn name(&self, raw: &[u8]) -> Arc<str> {
        once(&self.names, raw, |text| demangled(&text))
    }

    /// A path.
    pub(super) fn path(&self, raw: &[u8]) -> Arc<str> {
        once(&self.paths, raw, |text| text)
    }
}

fn once(shards: &[Shard; SHARDS], raw: &[u8], make: impl FnOnce(String) -> String) -> Arc<str> {
    let raw = &raw[..raw.len().min(MAX_LEN)];
    let sum = raw.iter().rev().take(8).fold(raw.len(), |sum, byte| sum.wrapping_mul(31) + usize::from(*byte));
    let shard = || shards[sum % SHARDS].lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = shard().get(raw) {
        return known.clone();
    }
    let made: Arc<str> = make(String::from_utf8_lossy(raw).into_owned()).into();
    shard().entry(raw.into()).or_insert(made).clone()
}
