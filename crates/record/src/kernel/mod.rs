//! The kernel side: the BPF programs, the perf events that run them, and the decoding of their records.

pub(crate) mod census;
pub mod events;
pub(crate) mod names;
pub mod sampler;
pub(crate) mod sweep;
pub mod wire;
