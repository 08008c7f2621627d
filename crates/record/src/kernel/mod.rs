//! The kernel side: the BPF programs, the perf events that run them or sample without them, and the decoding of their records.

pub(crate) mod census;
pub mod events;
pub mod feed;
pub(crate) mod names;
pub mod sampler;
pub(crate) mod sweep;
pub mod unprivileged;
pub mod wire;
