//! What the three threads of a recording do: pump chunks out of the kernel, digest them into batches, store these.

pub(crate) mod chunk;
pub(crate) mod digest;
mod jitter;
pub(crate) mod pump;
pub(crate) mod stop;
pub(crate) mod store;
