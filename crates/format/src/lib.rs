//! The recording file: this crate knows every byte on disk and decides nothing.
//!
//! docs/FORMAT.md is the normative text; this crate is its implementation.
//!
//! | room | what lives there |
//! |---|---|
//! | [`limits`] | the largest values that a reader accepts |
//! | [`events`] | the events that the kernel counts: names, numbers, units |
//! | `numbers` | numbers on disk whose known values have names |
//! | `kind`, `error` | what blocks hold; what can be wrong |
//! | [`header`], [`block`], [`index`] | the envelope: hand-encoded, fixed, checked |
//! | [`records`] | the payloads: one frozen module per (kind, version) |
//! | [`write`](mod@write) | the streaming writer |
//! | [`read`] | the reader over a memory map |
//!
//! The writer and the reader never see each other; both stand on the envelope and the records.

pub mod block;
mod bytes;
mod codec;
mod error;
pub mod events;
pub mod header;
pub mod index;
mod kind;
pub mod limits;
mod numbers;
#[cfg(feature = "read")]
pub mod read;
pub mod records;
#[cfg(feature = "write")]
pub mod write;

pub use error::Error;
