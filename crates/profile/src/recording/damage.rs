//! Damage of files as documents list it.

use icecore_format::read::Damage;
use serde::Serialize;

/// A stretch of the file that could not be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DamageRow {
    /// Where it begins, bytes from the start of the file.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// What is wrong with it.
    pub cause: String,
}

impl DamageRow {
    /// Lists damage in its order.
    pub fn list(damage: &[Damage]) -> Vec<Self> {
        damage.iter().map(|d| Self { offset: d.off, len: d.len, cause: d.cause.clone() }).collect()
    }
}
