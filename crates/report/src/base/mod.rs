//! What every room stands on, and what knows none of them.
//!
//! | module | what lives there |
//! |---|---|
//! | `map` | hash tables, and items with numbers |
//! | `output` | files that are written: whole or not at all |
//! | `shorten` | texts that are too long to be shown |
//! | [`term`] | text for people: pages, tables, quantities, progress |
//! | `meant` | words of other profilers |

pub(crate) mod map;
pub(crate) mod meant;
pub(crate) mod output;
pub(crate) mod shorten;
pub mod term;

/// A random identity for a recording; from the kernel itself, because `/dev` may be empty.
pub(crate) fn random_uuid() -> std::io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())?;
    Ok(uuid)
}

/// A quotient; 0 of nothing.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
