//! What the user sees: the command line, the file and its first block, and every line on stderr.

pub mod args;
mod budget;
pub mod cache;
pub mod check;
mod conditions;
pub mod ctl;
pub mod doctor;
mod event;
pub(crate) mod live;
pub(crate) mod named;
pub(crate) mod output;
pub(crate) mod pidfile;
mod probes;
mod rotation;
mod seconds;
pub(crate) mod session;
pub mod summary;
