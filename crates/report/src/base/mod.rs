//! Tools that every room uses, and that use no room.
//!
//! | module | what lives there |
//! |---|---|
//! | `map` | hash tables, and items with numbers |
//! | `output` | writes files whole or not at all |
//! | `shorten` | shortens texts that are too long to be shown |
//! | [`term`] | text for people: pages, tables, quantities, progress |
//! | `meant` | words of other profilers |
//! | `near` | what misspelt words may be meant for |

pub(crate) mod map;
pub(crate) mod meant;
pub(crate) mod near;
pub(crate) mod output;
pub(crate) mod shorten;
pub mod term;

/// Draws a random identity for a recording; from the kernel itself, because `/dev` may be empty.
pub(crate) fn random_uuid() -> std::io::Result<[u8; 16]> {
    let mut uuid = [0; 16];
    rustix::rand::getrandom(&mut uuid, rustix::rand::GetRandomFlags::empty())?;
    Ok(uuid)
}

/// Divides; returns 0 if the divisor is 0.
pub(crate) fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
