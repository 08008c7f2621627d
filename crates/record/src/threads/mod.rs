//! The three threads of a recording: one pumps chunks out of the kernel, one digests them into batches, one stores the batches.

pub mod chunk;
pub mod closing;
pub mod counts;
pub mod digest;
mod jitter;
pub mod pump;
pub(crate) mod stop;
pub mod store;
pub mod tempo;
pub mod triggers;
