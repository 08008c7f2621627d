//! System calls. The only room with `unsafe`; every block says why it is sound.

pub(crate) mod child;
pub mod clock;
pub(crate) mod control;
pub(crate) mod fork;
pub(crate) mod leftover;
pub(crate) mod memory;
pub(crate) mod perf;
pub(crate) mod place;
pub(crate) mod poll;
pub(crate) mod probes;
pub(crate) mod pty;
pub(crate) mod queue;
pub(crate) mod random;
pub(crate) mod rest;
pub(crate) mod rights;
pub(crate) mod sender;
pub(crate) mod terminal;
pub(crate) mod tracefs;
pub(crate) mod usage;
pub(crate) mod user;
