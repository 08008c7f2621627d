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
//! | room | what lives there |
//! |---|---|
//! | `cli`, `options` | what was typed; what it means |
//! | `sampler`, `events`, `wire` | the BPF programs; the perf events that run them; the bytes of their records |
//! | `pump`, `digest`, `store` | what the three threads do |
//! | `stop` | signals that ask for an end |
//! | `sys` | system calls: perf events, the paused child, clocks, resource use. The only `unsafe` |
//! | `proc` | text of `/proc` and `/sys`: mappings, kernel symbols, CPUs |
//! | `cgroups`, `mounts` | in which cgroup every task is; in which mount namespace every process |
//! | `identity` | which file a mapping belongs to |
//! | `evidence` | what a report needs of these files where they are not |
//! | `trust` | which processes keep frame pointers, by the unwind rules of their code |
//! | `intern`, `spaces`, `stacks`, `snapshots`, `track`, `batch` | events to rows: pure, tested from bytes |
//! | `tally` | counts what is alive, so that memory can be bounded |
//! | `output`, `session`, `summary` | the file's name, its first block, what is told at the end |
//! | `simulate` | many rings in place of one, for `tests/bench/trackers.rs` |
//! | `fuzz` | the parsers, for the fuzz targets in `tests/fuzz` |

mod account;
mod batch;
mod cgroups;
pub mod cli;
mod digest;
mod events;
mod evidence;
mod floods;
#[doc(hidden)]
pub mod fuzz;
mod identity;
mod intern;
mod jitter;
mod mounts;
pub mod options;
mod output;
mod proc;
mod pump;
pub mod run;
mod sampler;
mod session;
#[doc(hidden)]
pub mod simulate;
mod snapshots;
mod spaces;
mod stacks;
mod stop;
mod store;
pub mod summary;
mod sweep;
mod sys;
mod tally;
mod track;
mod trust;
mod wire;
