//! Parses the text of `/proc` and `/sys`. Programs choose parts of that text, so no parser trusts it.

pub mod cgroup;
pub(crate) mod counters;
pub mod cpus;
pub mod kallsyms;
pub mod maps;
pub(crate) mod named;
pub(crate) mod namespace;
pub mod scan;
