//! The recorder: collects raw samples, and what a report needs to name them; interprets neither.
//!
//! ```text
//!  kernel                              main thread      tracker thread        writer thread
//!  perf events ─► sampler ─┐
//!  task tracepoints ───────┴► ring ──► chunk ─[bounded]► decode, intern ─[bounded]► compress, append
//!  mapping events ──► queue per CPU ──►
//! ```
//!
//! [`run`] builds this pipeline. No stage calls an earlier one. A slow disk fills both channels, then the ring;
//! then the sampler counts losses.
//!
//! | room | what lives there |
//! |---|---|
//! | `skeleton` | the BPF programs, and the types and numbers of bpf/wire.h, as build.rs generates them |
//! | `sys` | system calls: perf events, the paused child, clocks, resource use. The only `unsafe` |
//! | `proc` | text of `/proc` and `/sys`: mappings, kernel symbols, CPUs, cgroups |
//! | `foreign` | files and memory of others, read by processes for which nobody waits |
//! | `settings` | the settings of a recording, as plain types |
//! | `kernel` | loads the BPF programs, opens the perf events that run them, decodes their records |
//! | `machine` | which file a mapping belongs to; in which cgroup and mount namespace a task is |
//! | `track` | events to rows: pure, tested from bytes |
//! | `interpreters` | the functions that interpreters run, in the stacks of samples |
//! | `collect` | what a report on another machine needs of the files that were hit |
//! | `frame_pointers` | which processes keep frame pointers, by the unwind tables of their code |
//! | `threads` | what the three threads do: pump, digest, store |
//! | [`cli`] | what the user sees: command line, output file, first block, summary |
//! | [`doctor`] | what this machine, its kernel and this user offer to a recording, and what is missing |
//! | [`run`] | one recording from start to end; what recorders keep on disk |
//!
//! A room uses rooms above it in this list, and none below: docs/ARCHITECTURE.md, "Rooms". All are public, because fuzz targets and
//! benches in `tests` reach into them; nobody else should.

pub mod cli;
#[doc(hidden)]
pub mod collect;
pub mod doctor;
#[doc(hidden)]
pub mod foreign;
#[doc(hidden)]
pub mod frame_pointers;
#[doc(hidden)]
pub mod interpreters;
#[doc(hidden)]
pub mod kernel;
#[doc(hidden)]
pub mod machine;
#[doc(hidden)]
pub mod proc;
pub mod run;
#[doc(hidden)]
pub mod settings;
#[doc(hidden)]
pub mod skeleton;
#[doc(hidden)]
pub mod sys;
#[doc(hidden)]
pub mod threads;
#[doc(hidden)]
pub mod track;
