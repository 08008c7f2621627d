//! Hostile input for everything that reads what others wrote: recordings, the kernel's records, `/proc`, ELF files.
//!
//! | room | what lives there |
//! |---|---|
//! | [`targets`] | one file per parser: what it is given, what it promises, what to begin with |
//! | [`draft`] | recordings without checksums, so that a mutation arrives behind them |
//! | [`drive`], [`mutate`](mod@mutate) | the short run on any compiler |
//! | [`memory`] | what an execution may hold |
//! | `recorder` | what the recorder's parsers promise |
//! | `scratch` | inputs as files |
//!
//! `make fuzz` runs the same targets under libFuzzer, `src/libfuzzer.rs`. A target panics if a promise is broken:
//! nothing that is read may make a parser panic, hang, or hold memory out of proportion.

pub mod draft;
pub mod drive;
#[cfg(test)]
mod findings;
pub mod memory;
pub mod mutate;
mod recorder;
mod scratch;
pub mod targets;
