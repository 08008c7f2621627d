//! Text of `/proc` and `/sys`: untrusted, parsed without trust.

pub(crate) mod cgroup;
pub(crate) mod cpus;
pub(crate) mod kallsyms;
pub(crate) mod maps;
pub(crate) mod namespace;
pub(crate) mod scan;
