//! Parses the text of `/proc` and `/sys`. Programs choose parts of that text, so no parser trusts it.

pub(crate) mod cgroup;
pub(crate) mod counters;
pub(crate) mod cpus;
pub(crate) mod kallsyms;
pub(crate) mod maps;
pub(crate) mod namespace;
pub(crate) mod scan;
