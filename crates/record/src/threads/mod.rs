//! The three threads of a recording: one pumps chunks out of the kernel, one digests them into batches, one stores the batches.

pub(crate) mod chunk;
pub(crate) mod counts;
pub(crate) mod digest;
mod jitter;
pub(crate) mod pump;
pub(crate) mod stop;
pub(crate) mod store;
