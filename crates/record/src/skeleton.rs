//! The BPF programs as libbpf needs them, the types of their records, and the numbers that both sides know (`types::limits`).
//! build.rs generates all of it from `bpf/icecore.bpf.c`.
#![allow(clippy::all, clippy::unwrap_used, clippy::cast_lossless)]
#![allow(missing_docs, unreachable_pub, unsafe_code, unused_imports)]

include!(concat!(env!("OUT_DIR"), "/icecore.skel.rs"));
