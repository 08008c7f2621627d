//! The recorder: collects raw samples and evidence, attaches no meaning to either.
//!
//! ```text
//!  kernel                              main thread      tracker thread        writer thread
//!  perf events ─► sampler ─┐
//!  task tracepoints ───────┴► ring ──► chunk ─[bounded]► decode, intern ─[bounded]► compress, append
//!  mapping events ──► queue per CPU ──►
//! ```
//!
//! [`run`] draws this pipeline. Nothing calls back up; a slow disk fills both channels, then the ring,
//! and there becomes counted loss.
//!
//! A room uses the rooms above it in this table, and no others:
//!
//! | room | what lives there | may use |
//! |---|---|---|
//! | `sys` | system calls: perf events, the paused child, clocks, resource use. The only `unsafe` | |
//! | `proc` | text of `/proc` and `/sys`: mappings, kernel symbols, CPUs, cgroups | `sys` |
//! | `settings` | what a recording is asked to be: plain types | `sys`, `proc` |
//! | `kernel` | the BPF programs, the perf events that run them, the bytes of their records | `sys`, `proc`, `settings` |
//! | `machine` | which file a mapping belongs to; in which cgroup and mount namespace a task is | `sys`, `proc`, `kernel` |
//! | `track` | events to rows: pure, tested from bytes | `settings`, `kernel` (types of `wire`) |
//! | `evidence` | what a report needs of the files that were hit, where they are not | `sys`, `proc`, `machine`, `track` |
//! | `trust` | which processes keep frame pointers, by the unwind rules of their code | all above but `settings` |
//! | `threads` | what the three threads do: pump, digest, store | all above |
//! | [`face`] | what the user sees: command line, output file, first block, summary | all above but `kernel`, `track`, `trust` |
//! | [`run`] | one recording from start to end | all above |
//! | `lab` | what benches and fuzz targets in `tests` may reach | all above |

mod evidence;
pub mod face;
mod kernel;
#[doc(hidden)]
pub mod lab;
mod machine;
mod proc;
pub mod run;
mod settings;
mod sys;
mod threads;
mod track;
mod trust;
