//! The kernel side: the BPF programs, the perf events that run them, and the decoding of their records.

pub(crate) mod census;
pub(crate) mod events;
pub(crate) mod names;
pub(crate) mod sampler;
pub(crate) mod sweep;
pub(crate) mod wire;
